"""torch.ops: operators by namespace, name and overload.

torch.ops.aten.add is a packet; called, it chooses the overload by the arguments; torch.ops.aten.add.Tensor is one
overload. Operators of the library come from the extension's registry, those of programs from torch.library.
"""
import ctypes
import functools
import os
import sys
import types

import rushlight as torch
from rushlight import _C, _stable

# (folder, file) of libraries of other packages -> one of the operators in them, which rushlight has
_OWN_LIBRARIES = {("torchvision", "image"): "image::decode_image", ("torchvision", "_C"): "torchvision::nms",
                  ("lib", "_torchaudio"): "torchaudio::_lfilter_core_loop",
                  ("lib", "libtorchaudio"): "torchaudio::_lfilter_core_loop"}
# What such libraries answer about themselves: (namespace, name) -> value
_ANSWERS = {("_torchaudio", "is_align_available"): True, ("_torchaudio", "cuda_version"): None, ("torchvision", "_cuda_version"): -1}

_FUNCTION = type(_C._get_operation_overload("aten::add", "Tensor")[0])     # of the extension; what a __torch_function__ is told was called is its _shown
_python = {}            # (namespace, name, overload) -> PyOp
_pending_fake = {}      # registered before their operator is defined
_pending_kernels = {}   # the same, by dispatch key
_pending_autograd = {}


class OperatorBase:
    """Base of everything callable below torch.ops."""

    def __call__(self, *args, **kwargs):
        raise NotImplementedError


class HigherOrderOperator(OperatorBase):
    """An operator that takes functions; Python implementations per dispatch key."""

    def __init__(self, name, *, cacheable=False):
        self._name = self.__name__ = name
        self._ns = self.namespace = "higher_order"
        self.py_kernels = {}
        if type(self) is HigherOrderOperator:
            raise RuntimeError("Direct instantiation of HigherOrderOperator is not allowed. Please subclass it.")

    def py_impl(self, key):
        def register(fn):
            self.py_kernels[key] = fn
            return fn
        return register

    def name(self):
        return self._name

    def __call__(self, *args, **kwargs):
        for key in ("CompositeExplicitAutograd", "CPU"):
            for known, fn in self.py_kernels.items():
                if str(known).split(".")[-1] == key:
                    return fn(*args, **kwargs)
        raise NotImplementedError("%s has no implementation for eager calls" % self._name)

    def __str__(self):
        return self._name


class OpOverload(OperatorBase):
    """One overload of an operator."""

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, overloadpacket, op, op_dk, schema, tags):
        self._op, self._op_dk, self._schema, self._tags = op, op_dk, schema, tags
        self._overloadpacket = overloadpacket
        self._overloadname = "default" if schema.overload_name == "" else schema.overload_name
        self._name = schema.name if not schema.overload_name else "%s.%s" % (schema.name, schema.overload_name)
        self.__name__ = "%s.%s" % (schema.name.split("::")[1], self._overloadname)
        self.__module__ = overloadpacket.__module__
        self.__qualname__ = self._name
        self.__annotations__ = {}

    @functools.cached_property
    def _out_names(self):
        """What the form with out= writes."""
        return tuple(a.name for a in self._schema.arguments if a.is_out)

    @property
    def namespace(self):
        return self._schema.name.split("::")[0]

    @property
    def _namespace(self):
        return self.namespace

    @property
    def _opname(self):
        return self._schema.name.split("::")[1]

    @property
    def op(self):
        return self._op

    @property
    def overloadpacket(self):
        return self._overloadpacket

    @property
    def tags(self):
        return self._tags

    @property
    def is_view(self):
        return any(a.alias_info is not None and not a.alias_info.is_write for a in self._schema.arguments)

    def name(self):
        return self._name

    def _qualified_name(self):
        return self._name

    def __call__(self, /, *args, **kwargs):
        return self._op(*args, **kwargs)

    def redispatch(self, /, keyset, *args, **kwargs):
        return self._op(*args, **kwargs)

    def decompose(self, *args, **kwargs):
        """What the operators that this one is made of give; NotImplemented where it is made of none."""
        return self._op(*args, **kwargs) if self.has_kernel_for_dispatch_key("CompositeImplicitAutograd") else NotImplemented

    def has_kernel_for_dispatch_key(self, key):
        key = getattr(key, "name", key)
        if hasattr(self._op, "kernels"):
            return key in self._op.kernels
        from rushlight import _decomp
        return (key == "CompositeImplicitAutograd") == _decomp.is_composite(self)

    def __hash__(self):
        return hash(self._name)

    def __eq__(self, other):
        return isinstance(other, OpOverload) and self._name == other._name

    def __deepcopy__(self, memo=None):
        return self

    def __reduce__(self):
        return _find_overload, (self.namespace, self._opname, self._overloadname)

    def __str__(self):
        return "%s.%s.%s" % (self.namespace, self._opname, self._overloadname)

    def __repr__(self):
        return "<OpOverload(op='%s.%s', overload='%s')>" % (self.namespace, self._opname, self._overloadname)


def _overload_of(name, form):
    """The OpOverload of a record of the library; form 1: its in-place form, 2: the one with out=."""
    name, _, overload = name.partition(".")
    namespace, _, base = name.rpartition("::")
    if form:
        from rushlight._library import forms
        schema = _form("%s::%s" % (namespace or "aten", base), overload)[0]
        overload = (forms.in_place if form == 1 else forms.with_out)(schema).overload_name
    return _find_overload(namespace or "aten", base + "_" if form == 1 else base, overload or "default")


def _forms(qualified):
    """(overload of the record, schema) of each overload of an operation of the library, or of its form in place."""
    from rushlight._library import forms
    from rushlight._library.schema import parse_schema
    full = qualified.removeprefix("aten::")
    texts = _C._schemas(full)
    derived = not texts and full.endswith("_")
    for text in _C._schemas(full[:-1]) if derived else texts:
        record = parse_schema(text if "::" in text.partition("(")[0] else "aten::" + text)
        schema = forms.in_place(record) if derived else record
        if schema is not None:
            yield record.overload_name, schema


def _form(qualified, overload):
    """(schema, callable) of an overload of the library's, those with out= included; (None, None): there is none."""
    from rushlight._library import forms
    known = list(_forms(qualified))
    for record, schema in known:
        if schema.overload_name == overload:
            return schema, _C._get_operation_overload(qualified, record)[0]
    found = [(out, record) for record, schema in known if not schema.is_mutable for out in [forms.with_out(schema)] if out is not None and out.overload_name == overload]
    if not found:
        return None, None
    out, record = max(found, key=lambda each: len(each[0].arguments))  # arange.start_out is also that of arange.start, which has no step
    return out, forms.takes_out(_C._get_operation_overload(qualified, record)[0], out)


def _tags(schema):
    """What programs ask of an operator of the library, of PyTorch's tags those that follow from its record."""
    base, overload = schema.name.removeprefix("aten::"), "." + schema.overload_name if schema.overload_name else ""
    in_place = base.endswith("_") and schema.is_mutable
    records = [name for name in (base + overload, base.removesuffix("_") + overload) if _C._schemas(name.partition(".")[0])]
    try:
        effects = _C._op_effects(records[0])
    except (IndexError, RuntimeError):      # of a form whose overload the record has by another name
        effects = 0
    of = {torch.Tag.inplace: in_place, torch.Tag.nondeterministic_seeded: effects & 2, torch.Tag.pointwise: effects & 8, torch.Tag.pt2_compliant_tag: True}
    return [tag for tag, on in of.items() if on]


def _find_overload(namespace, name, overload):
    return getattr(getattr(getattr(ops, namespace), name), overload)


class OpOverloadPacket(OperatorBase):
    """All overloads of one name."""

    def __init__(self, qualified_op_name, op_name, op, overload_names):
        self._qualified_op_name, self._op, self._overload_names = qualified_op_name, op, overload_names
        if isinstance(op, _FUNCTION):
            op._shown = self
        self.__name__ = op_name
        self.__module__ = "torch._ops." + qualified_op_name.split("::")[0]
        self._dir = []

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError("'%s' can't have an overload name beginning with '__' and the underlying op %s has no "
                                 "attribute %s either." % (self, self.__dict__.get("_op"), key))
        namespace, name = self._qualified_op_name.split("::")
        overload = "" if key == "default" else key
        python = _python.get((namespace, name, overload))
        if python is not None:
            made = OpOverload(self, python, python, python.schema, list(python.tags))
        else:
            schema, op = _form(self._qualified_op_name, overload)
            if schema is None:
                raise AttributeError("The underlying op of '%s' has no overload name '%s'" % (self, key))
            made = OpOverload(self, op, op, schema, _tags(schema))
            if isinstance(op, _FUNCTION):
                op._shown = made
        setattr(self, key, made)
        self._dir.append(key)
        return made

    def _learn(self, op, overload):
        """An overload is a PyOp from now on; whoever holds this object, or the overload's, need not ask for them again."""
        self._op = _choose(*self._qualified_op_name.split("::"))
        self._overload_names = [name for name in self._overload_names if name != overload] + [overload]
        made = self.__dict__.get(overload or "default")
        if made is not None:
            made._op = made._op_dk = op
            made._schema, made._tags = op.schema, list(op.tags)

    def overloads(self):
        """The names of the overloads."""
        return [name if name else "default" for name in self._overload_names]

    def __iter__(self):
        return iter(self._dir)

    def __call__(self, /, *args, **kwargs):
        return self._op(*args, **(kwargs or {}))

    @property
    def op(self):
        return self._op

    @property
    def _schemas(self):
        return {name: getattr(self, name or "default")._schema for name in self._overload_names}

    def _qualified_name(self):
        return self._qualified_op_name

    def __hash__(self):
        return hash(self._qualified_op_name)

    def __deepcopy__(self, memo=None):
        return self

    def __str__(self):
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self):
        return "<OpOverloadPacket(op='%s')>" % self._qualified_op_name.replace("::", ".")


def _fitting(namespace, name, args, kwargs):
    """The first of the overloads written in Python whose arguments fit."""
    error = RuntimeError("operator %s::%s does not exist" % (namespace, name))
    for op in [op for (space, base, _), op in _python.items() if (space, base) == (namespace, name)]:
        try:
            op.bind(args, kwargs)
            return op
        except RuntimeError as problem:
            error = problem
    raise error


def _choose(namespace, name):
    """Calls of a packet of Python operators."""
    from rushlight._library.custom_ops import who_answers
    keys = [key for key in _python if key[:2] == (namespace, name)]
    only = keys[0] if len(keys) == 1 else None

    def call(*args, **kwargs):
        asked = who_answers(args, kwargs)
        if asked is not None:
            return torch.overrides.handle_torch_function(getattr(getattr(ops, namespace), name), asked, *args, **kwargs)
        op = _python.get(only)
        return (_fitting(namespace, name, args, kwargs) if op is None else op).call(args, kwargs)
    return call


def written_in_python(func, args, kwargs):
    """The PyOp that a call of torch.ops goes to, or None."""
    if isinstance(func, OpOverloadPacket):
        space, name = func._qualified_op_name.split("::")
        return _fitting(space, name, args, kwargs) if any(key[:2] == (space, name) for key in _python) else None
    return _python.get((func.namespace, func._opname, func._schema.overload_name)) if isinstance(func, OpOverload) else None


class _OpNamespace(types.ModuleType):
    """torch.ops.NAME"""

    def __init__(self, name):
        super().__init__("torch.ops." + name)
        self.name = name
        self._dir = []

    def __iter__(self):
        return iter(self._dir)

    def __getattr__(self, op_name):
        if op_name == "__file__":
            return "torch.ops"
        if op_name in ("__origin__", "__self__", "__wrapped__", "__path__"):
            raise AttributeError("Invalid attribute '%s' for '_OpNamespace' '%s'" % (op_name, self.__dict__.get("name")))
        namespace = self.name
        if (namespace, op_name) in _ANSWERS:
            return lambda: _ANSWERS[namespace, op_name]
        for space, base, overload in {*_pending_fake, *_pending_autograd}:
            if (space, base) == (namespace, op_name):
                ops._adopt(space, base, overload)
        own = [overload for (space, base, overload) in _python if (space, base) == (namespace, op_name)]
        qualified = "%s::%s" % (namespace, op_name)
        if namespace == "quantized" and not op_name.startswith("__"):
            from rushlight import _quantized_ops
            if op_name in _quantized_ops.OPERATORS:
                return _quantized_ops.OPERATORS[op_name]
        if own:
            packet = OpOverloadPacket(qualified, op_name, _choose(namespace, op_name), own)
        else:
            op, overloads = _builtin(qualified)
            if op is None:
                from rushlight._library import aten_names
                if aten_names.find(namespace, op_name):
                    return getattr(self, op_name)
            if op is None:
                raise AttributeError("'_OpNamespace' '%s' object has no attribute '%s'" % (namespace, op_name))
            packet = OpOverloadPacket(qualified, op_name, op, overloads)
        setattr(self, op_name, packet)
        self._dir.append(op_name)
        return packet


def _builtin(qualified):
    """(callable, overload names) of an operator of the extension, or (None, None)."""
    try:
        op, overloads = _C._jit_get_operation(qualified)
    except RuntimeError:
        return None, None
    return op, [schema.overload_name for _, schema in _forms(qualified)] if qualified.endswith("_") else overloads


class _HigherOrderNamespace(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        from rushlight import _higher_order_ops
        op = getattr(_higher_order_ops, name, None)
        if op is None:
            raise AttributeError("'_HigherOrderNamespace' 'torch.ops.higher_order' object has no attribute '%s'" % name)
        return op


class _Ops(types.ModuleType):
    """torch.ops"""

    __file__ = "_ops.py"

    def __init__(self):
        super().__init__("torch.ops")
        self.loaded_libraries = set()
        self._own_namespaces = {name.split("::")[0] for name in _OWN_LIBRARIES.values()}
        self._higher_order_op_namespace = self.higher_order = _HigherOrderNamespace("torch.ops.higher_order")
        self._dir = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._namespace(name)

    def __iter__(self):
        return iter(self._dir)

    def _namespace(self, name):
        space = self.__dict__.get(name)
        if space is None:
            space = _OpNamespace(name)
            setattr(self, name, space)
            self._dir.append(name)
        return space

    def load_library(self, path):
        """Load a shared object that was compiled against rushlight.h: its register_operations() names its operators.

        Of a few libraries of other packages the operators are rushlight's own; then there is nothing to load.
        """
        folder, name = os.path.split(str(path))
        if _builtin(_OWN_LIBRARIES.get((os.path.basename(folder), name.split(".")[0]), "::"))[0] is not None:
            self.loaded_libraries.add(path)
            return
        path = os.path.abspath(str(path))
        _stable.load()
        before = len(_C._op_names())
        try:
            library = ctypes.CDLL(path)
            if path in self.loaded_libraries or len(_C._op_names()) > before:
                self.loaded_libraries.add(path)     # of C++, which registers while it is loaded
                return
            register = library.register_operations
        except (OSError, AttributeError) as error:
            raise OSError("Could not load this library: %s (%s; %s)" % (path, error, _stable.ONLY)) from None
        if register():
            library.rush_error.restype = ctypes.c_char_p
            message = (library.rush_error() or b"register_operations failed").decode()
            library.rush_error_clear()
            raise RuntimeError("%s: %s" % (path, message))
        self.loaded_libraries.add(path)

    def import_module(self, module):
        import importlib
        importlib.import_module(module)

    # --- operators of programs, for torch.library

    def _python_op(self, namespace, name, overload, missing_ok=False):
        op = _python.get((namespace, name, overload))
        if op is None and not missing_ok:
            op = self._adopt(namespace, name, overload)
            if op is None:
                raise RuntimeError("operator %s::%s does not exist" % (namespace, name))
        return op

    def _adopt(self, namespace, name, overload):
        """An operator that a shared object defined, from now on with what Python registers for it; None: there is none."""
        qualified = "%s::%s" % (namespace, name)
        if namespace == "aten" or overload not in (_builtin(qualified)[1] or ()):
            return None
        from rushlight._library.custom_ops import PyOp
        op = PyOp(namespace, _C._get_schema(qualified, overload))
        own = _C._get_operation_overload(qualified, overload)[0]
        op.kernels = {"CompositeExplicitAutograd": own, "Autograd": own}
        self._add_python_op(op)
        return op

    def _has_builtin(self, namespace, name):
        return _builtin("%s::%s" % (namespace, name))[0] is not None

    def _add_python_op(self, op):
        key = (op.namespace, op.schema.name.split("::")[-1], op.schema.overload_name)
        _python[key] = op
        op.kernels.update(_pending_kernels.pop(key, {}))
        if key in _pending_fake:
            op.fake = _pending_fake.pop(key)
        if key in _pending_autograd:
            op.backward, op.setup_context = _pending_autograd.pop(key)
        packet = self._namespace(key[0]).__dict__.get(key[1])
        if packet is not None:
            packet._learn(op, key[2])

    def _remove_python_op(self, namespace, name, overload):
        _python.pop((namespace, name, overload), None)
        self._namespace(namespace).__dict__.pop(name, None)

    def _await_kernel(self, namespace, name, overload, key, fn):
        """A kernel for an operator that is yet to be defined."""
        _pending_kernels.setdefault((namespace, name, overload), {})[key] = fn

    def _set_fake(self, namespace, name, overload, fn):
        op = _python.get((namespace, name, overload)) or self._adopt(namespace, name, overload)
        if op is None:
            _pending_fake[namespace, name, overload] = fn
        else:
            op.fake = fn

    def _set_autograd(self, namespace, name, overload, backward, setup_context):
        op = _python.get((namespace, name, overload)) or self._adopt(namespace, name, overload)
        if op is None:
            _pending_autograd[namespace, name, overload] = (backward, setup_context)
        else:
            op.backward, op.setup_context = backward, setup_context


def dl_open_guard():
    """Context manager: libraries loaded inside see each other's symbols."""
    import contextlib

    @contextlib.contextmanager
    def guard():
        before = sys.getdlopenflags()
        sys.setdlopenflags(before | ctypes.RTLD_GLOBAL)
        try:
            yield
        finally:
            sys.setdlopenflags(before)
    return guard()


def has_key(op, k):
    return True


ops = _Ops()
