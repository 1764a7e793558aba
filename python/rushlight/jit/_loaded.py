"""Modules whose code is a program of the library: what torch.jit.load gives, and torch.jit.script and trace make."""
import ast
import os
import tempfile
import textwrap

import rushlight as torch
from rushlight import _C

_own = object.__setattr__


class ScriptMethod:
    """One method of a module's program."""

    def __init__(self, owner, name):
        self.owner, self.name, self.__name__ = owner, name, name

    def __call__(self, *args, **kwargs):
        return called(self.owner, self.name, args, kwargs)

    @property
    def code(self):
        return textwrap.dedent(self.owner._c.code(self.name))

    @property
    def graph(self):
        return graph_of(self.owner, self.name, self.code)

    @property
    def schema(self):
        return schema_of(self.code, getattr(self.owner._c, "type", None))


def _written(annotation):
    """A type in a program as schemas write it: int[] for List[int]."""
    if annotation is None:
        return "Tensor"
    if not isinstance(annotation, ast.Subscript):
        return {"None": "NoneType", "number": "Scalar"}.get(ast.unparse(annotation), ast.unparse(annotation))
    kind = ast.unparse(annotation.value)
    inner = [_written(x) for x in (annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice])]
    return {"Optional": "%s?", "List": "%s[]", "Tuple": "(%s)"}.get(kind, kind + "(%s)") % ", ".join(inner)


def schema_of(code, owner=None):
    """The FunctionSchema of a program's function, of a method with the type of its owner."""
    from rushlight._library.schema import Argument, FunctionSchema, Type
    head = ast.parse(code).body[0]
    given, arguments = [*head.args.args, *head.args.kwonlyargs], []
    defaults = [None] * (len(head.args.args) - len(head.args.defaults)) + [*head.args.defaults, *head.args.kw_defaults]
    for i, (argument, default) in enumerate(zip(given, defaults)):
        kind = Type(owner if owner and i == 0 else _written(argument.annotation))
        try:
            value = None if default is None else ast.literal_eval(default)
        except ValueError:      # a name, such as inf
            value = ast.unparse(default)
        arguments.append(Argument(argument.arg, kind, value, default is not None, i >= len(head.args.args)))
    gives = head.returns is not None or any(isinstance(x, ast.Return) and x.value for x in ast.walk(head))
    return FunctionSchema(head.name, "", arguments, [Argument("", Type(_written(head.returns) if gives else "NoneType"))])


def graph_of(owner, name, code):
    """The graph of a method that was traced here, the text of all others."""
    return owner.__dict__.get("_graphs", {}).get(name) or Graph(code)


def called(owner, name, args, kwargs):
    """What a program gives: a method of a module or an object, or with a name of None a function. A trace has it as one call."""
    from . import _recorder

    def run(args, kwargs):
        return _back(owner._unit.call(owner._path, args, kwargs) if name is None else owner._c.call(name, args, kwargs))
    if _recorder.running and not isinstance(owner, ScriptObject):
        return _recorder.running[-1].program(owner, name, run, args, kwargs)
    return run(args, kwargs)


class Graph:
    """The text of a program that was scripted or loaded, in the place of PyTorch's graph."""

    def __init__(self, code):
        self.code = code

    def nodes(self):
        raise NotImplementedError("the graph of a scripted or loaded program is its text and has no nodes; that of torch.jit.trace has")

    inputs = outputs = findNode = findAllNodes = param_node = return_node = block = copy = nodes

    def __str__(self):
        return self.code

    __repr__ = __str__


def _back(result):
    """What a program gives: its objects as Python has them."""
    if isinstance(result, _C._ScriptObject):
        cls = next((cls for cls, path in result.unit.classes.items() if path == result.type), None)
        return _object(cls, result) if cls is not None else ScriptObject(result)
    if type(result) in (tuple, list):
        return type(result)(_back(x) for x in result)
    if type(result) is dict:
        return {k: _back(x) for k, x in result.items()}
    return result


def _object(cls, inner):
    """A copy of a program's object, of the class of Python that the program's was made of."""
    made = cls.__new__(cls)
    for name, what in inner.fields():
        if what != "constant":
            _own(made, name, _back(inner.get(name)))
    return made


class ScriptObject:
    """An object of a class of a program."""

    def __init__(self, inner):
        _own(self, "_c", inner)

    def __getattr__(self, name):
        if name == "_c":
            raise AttributeError(name)
        if name in self._c.methods():
            return ScriptMethod(self, name)
        return _back(self._c.get(name))

    def __setattr__(self, name, value):
        self._c.set(name, value)


class _Tensors(dict):
    """A module's parameters or buffers: what is put in their place is put into the program's object too."""

    def __init__(self, inner):
        self._inner = inner

    def __setitem__(self, name, tensor):
        super().__setitem__(name, tensor)
        self._inner.set(name, tensor)


def _module_of(inner, made):
    """The module of an object of a program; one object is one module."""
    if inner.id in made:
        return made[inner.id]
    from . import RecursiveScriptModule
    module = made[inner.id] = RecursiveScriptModule.__new__(RecursiveScriptModule)
    torch.nn.Module.__init__(module)
    _own(module, "_c", inner)
    _own(module, "_fields", dict(inner.fields()))
    _own(module, "_methods", set(inner.methods()))
    _own(module, "_parameters", _Tensors(inner))
    _own(module, "_buffers", _Tensors(inner))
    for name, what in inner.fields():
        if what == "module":
            module._modules[name] = _module_of(inner.get(name), made)
        elif what == "buffer":
            module._buffers[name] = inner.get(name)
        elif what == "parameter":
            module._parameters[name] = inner.get(name, torch.nn.Parameter)
    if module._fields.get("training") == "attribute":
        torch.nn.Module.__setattr__(module, "training", bool(inner.get("training")))
    return module


def programmed(module, sources, constants):
    """The module, which knows, as all below it do, the texts and constants of its program: to save them, or to take them over into another."""
    for m in module.modules():
        _own(m, "_sources", (sources, tuple(constants)))
    return module


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """A module of an archive that torch.jit.save wrote, here or in PyTorch."""
    temporary = None
    if not isinstance(f, (str, os.PathLike)):
        with tempfile.NamedTemporaryFile(delete=False, suffix=".pt") as out:
            out.write(f.read())
        f = temporary = out.name
    elif not os.path.exists(f):
        raise ValueError(f"The provided filename {f} does not exist")
    elif os.path.isdir(f):
        raise ValueError(f"The provided filename {f} is a directory")
    try:
        module = _module_of(_C._script_load(os.fspath(f)), {})
        programmed(module, *_sources(f, module._c))
        if _extra_files:
            _read_extra(f, _extra_files)
    finally:
        if temporary:
            os.unlink(temporary)
    if map_location is not None:
        module.to(torch.device(map_location))
    return module


def _read_extra(f, files):
    import zipfile
    with zipfile.ZipFile(f) as archive:
        root = archive.namelist()[0].split("/")[0]
        for name in files:
            try:
                content = archive.read(f"{root}/extra/{name}")
            except KeyError:
                raise RuntimeError(f"the archive has no extra file {name!r}") from None
            files[name] = content


def _sources(f, root):
    """The code of an archive and its constants, to save it again."""
    import zipfile
    with zipfile.ZipFile(f) as archive:
        names = [n for n in archive.namelist() if n.split("/", 1)[-1].startswith("code/") and n.endswith(".py")]
        texts = [(n.split("/code/", 1)[1][:-3].replace("/", "."), archive.read(n).decode(), n) for n in names]
    return texts, root.unit.constants()
