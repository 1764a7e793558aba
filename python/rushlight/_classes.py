"""torch.classes: classes that C++ extensions registered with torch::class_, by namespace and name.

Their methods are operators named after them (ns::Name::method), so that arguments and results go the way of all operators.
"""
import types

from rushlight import _C, _ops
from rushlight.jit import _loaded

_HEAD = "__torch__.torch.classes."
_known = {}     # path -> its ScriptClass


def find(path):
    """The ScriptClass of "__torch__.torch.classes.ns.Name", or None."""
    if path not in _known:
        name = path[len(_HEAD):].replace(".", "::")
        methods = _C._class_methods(name) if path.startswith(_HEAD) and path.count(".") == 4 else None
        if methods is None:
            return None
        _known[path] = ScriptClass(path, name, methods)
    return _known[path]


class ScriptClass:
    """A registered class: a call makes an object, attributes are its static methods."""

    def __init__(self, path, name, methods):
        self._path, self._name, self._methods = path, name, methods
        self._calls = {m: _C._jit_get_operation("%s::%s" % (name, m))[0] for m in methods}
        self._statics = {m for m in methods if not self._takes_object(m) and m not in ("__init__", "__setstate__")}

    def _takes_object(self, method):
        return _C._schemas("%s::%s" % (self._name, method))[0].partition("(")[2].startswith(self._path + " ")

    def __call__(self, *args, **kwargs):
        if "__init__" not in self._calls:
            raise RuntimeError("Tried to instantiate class '%s', but it has no constructor: its registration has no torch::init" % self._path)
        return self._calls["__init__"](*args, **kwargs)

    def __getattr__(self, name):
        if name.startswith("_") or name not in self._statics:
            raise AttributeError("%s has no static method '%s'" % (self._path, name))
        return self._calls[name]

    __module__ = "torch"


def _restore(path, state):
    """An object from what its __getstate__ gave: for pickle."""
    cls = find(path)
    if cls is None:
        raise RuntimeError("Unknown type %s: the extension that registers it is not loaded" % path)
    return cls._calls["__setstate__"](state)


class ScriptObject(_C._Object, _loaded.ScriptObject):
    """An object of a registered class."""

    def __init__(self, *unused):
        raise TypeError("objects of registered classes are made by these: torch.classes.ns.Name(...)")

    @property
    def _cls(self):
        return find(self._path)

    def _call(self, name, *args, **kwargs):
        call = self._cls._calls.get(name)
        if call is None:
            raise NotImplementedError("'%s' is not implemented for %s" % (name, self._path))
        return call(self, *args, **kwargs)

    def _type(self):
        from rushlight.jit._graph import ClassType
        return ClassType(self._path)

    def _method_names(self):
        return list(self._cls._methods)

    def _has_method(self, name):
        return name in self._cls._methods

    def _get_method(self, name):
        return getattr(self, name)

    def __getattr__(self, name):
        calls = self._cls._calls
        if name + "_getter" in calls:
            return calls[name + "_getter"](self)
        if name not in calls:
            raise AttributeError("%s does not have a field with name '%s'" % (self._path, name))
        return types.MethodType(calls[name], self)

    def __setattr__(self, name, value):
        calls = self._cls._calls
        if name + "_setter" in calls:
            calls[name + "_setter"](self, value)
        elif name + "_getter" in calls:
            raise RuntimeError("can't set attribute")
        else:
            raise RuntimeError("%s does not have an attribute with name '%s'" % (self._path, name))

    def __dir__(self):
        return sorted({*object.__dir__(self), *self._cls._methods})

    def __str__(self):
        return self._call("__str__") if "__str__" in self._cls._calls else repr(self)

    def __getstate__(self):
        return self._state("serialize")

    def _state(self, purpose):
        if "__getstate__" not in self._cls._calls:
            raise RuntimeError("Tried to %s object %s which does not have a __getstate__ method defined!" % (purpose, self._path))
        return self._call("__getstate__"), self._path

    def __reduce__(self):
        state, path = self.__getstate__()
        return _restore, (path, state)

    def __deepcopy__(self, memo):
        state, path = self._state("deepcopy")
        return _restore(path, state)

    __hash__ = object.__hash__
    __module__ = "torch"


def _delegate(name):
    def method(self, *args):
        return self._call(name, *args)
    method.__name__ = name
    return method


for _name in ("abs add and concat contains delitem eq floordiv ge getitem gt iadd iand iconcat ifloordiv ilshift imatmul imod imul index inv invert ior ipow irshift "
              "isub itruediv ixor le len lshift lt matmul mod mul ne neg or pos pow rshift setitem sub truediv xor").split():
    setattr(ScriptObject, "__%s__" % _name, _delegate("__%s__" % _name))


class _ClassNamespace(types.ModuleType):
    def __init__(self, name):
        super().__init__("torch.classes." + name)
        self.name = name

    def __getattr__(self, attr):
        if attr.startswith("__"):
            raise AttributeError(attr)
        name = self.__dict__["name"]
        cls = find("%s%s.%s" % (_HEAD, name, attr))
        if cls is None:
            raise RuntimeError("Tried to instantiate class '%s.%s', but it does not exist! Ensure that it is registered via torch::class_" % (name, attr))
        return cls


class _Classes(types.ModuleType):
    """torch.classes"""

    __file__ = "_classes.py"

    def __init__(self):
        super().__init__("torch.classes")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = _ClassNamespace(name)
        setattr(self, name, namespace)
        return namespace

    @property
    def loaded_libraries(self):
        return _ops.ops.loaded_libraries

    def load_library(self, path):
        """Load a shared object that registers classes (or operators)."""
        _ops.ops.load_library(path)


classes = _Classes()
