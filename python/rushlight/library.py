"""torch.library: operators added by programs."""
import contextlib
import functools
import inspect
import re
import weakref

import rushlight as torch
from rushlight import _C
from rushlight._library.custom_ops import FALLBACKS, OPDEFS, CustomOpDef, Fallback, PyOp, check_differentiable, check_tensors_have_places, custom_op
from rushlight._library.fake_impl import get_ctx
from rushlight._library.infer_schema import infer_schema
from rushlight._library.schema import parse_name, parse_schema

__all__ = ["Library", "impl", "define", "fallthrough_kernel", "impl_abstract", "register_autocast", "register_fake",
           "register_torch_dispatch", "register_vmap", "get_ctx", "get_kernel", "custom_op", "triton_op",
           "wrap_triton", "infer_schema"]

_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "mps": "MPS", "xpu": "XPU", "hpu": "HPU", "mtia": "MTIA",
         "default": "CompositeExplicitAutograd"}


def _device_type_to_key(device_type):
    """The dispatch key of a device type; of a dispatch key itself."""
    if device_type in _KEYS:
        return _KEYS[device_type]
    if hasattr(torch._C.DispatchKey, device_type):
        return device_type
    if torch.device(device_type).index is not None:
        raise RuntimeError("Expected device_type string to not have a device index; got %s" % device_type)
    return "PrivateUse1"


# Keys of device types, and what stands behind "Autograd".
_TYPES = {"CPU": 0, "Meta": 1, "CUDA": 2, "MPS": 3, "XPU": 4, "XLA": 5, "HPU": 6, "MTIA": 7, "PrivateUse1": 8}
_ALL = -1
_sole = {"aten": "the library itself"}      # namespaces with a Library of the kind DEF -> where it was made


def _place_of(key, composite):
    """(device type, 0 below autograd, 1 above it or 2 before both under autocast) of a kernel for this key; None: PyTorch would never reach it."""
    if not hasattr(torch._C.DispatchKey, key):
        raise RuntimeError("could not parse dispatch key: " + key)
    if key in _TYPES:
        return _TYPES[key], 0
    if key.startswith("CompositeExplicitAutograd"):
        return _ALL, 0
    if key == "CompositeImplicitAutograd":
        return (_ALL, 1) if composite else None
    if key == "Autograd" or key.removeprefix("Autograd") in _TYPES and key.startswith("Autograd"):
        return _TYPES.get(key.removeprefix("Autograd"), _ALL), 1
    if key == "Autocast" or key.removeprefix("Autocast") in _TYPES and key.startswith("Autocast"):
        return _TYPES.get(key.removeprefix("Autocast"), _TYPES["CUDA"]), 2
    raise NotImplementedError("a kernel of the library's own operators for the key %s is not supported" % key)


def _record_of(namespace, base, overload):
    """(record, form) of an operator of the library: its name there, and 0, 1 in place, 2 with out=; None: there is none."""
    prefix = "" if namespace == "aten" else namespace + "::"

    def there(base, overload):
        schemas = {s.partition("(")[0].split("::")[-1] for s in _C._schemas(prefix + base)}
        name = base + ("." + overload if overload else "")
        return prefix + name if name in schemas else None
    found = there(base, overload)
    if found:
        return found, 0
    if base.endswith("_") and there(base[:-1], overload):
        return there(base[:-1], overload), 1
    if overload == "out":
        found = there(base, "") or there(base, "Tensor")
    elif overload.endswith("_out"):
        found = there(base, overload[:-4])
    return (found, 2) if found else None


def _take_back(defs, impls, kernels, fallbacks):
    for op, key, fn in impls:
        op.take_back(key, fn)
    impls.clear()
    for name in defs:
        torch.ops._remove_python_op(*parse_name(name))
        _fake_places.pop(name, None)
    defs.clear()
    for place, before in kernels.items():
        _C._kernel_set(*place, before)
    kernels.clear()
    for key in fallbacks:
        del FALLBACKS[key]
        if key in _TYPES:
            _C._fallback_set(_TYPES[key], None)
    fallbacks.clear()


def _place_in_program(frame):
    return "%s:%d" % (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ""


def fallthrough_kernel():
    """Stands for "no kernel here, look further"."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """A set of definitions ("DEF", "FRAGMENT") or implementations ("IMPL") in one namespace."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError("Unsupported kind: %s" % kind)
        if ns in ("prim",) and kind in ("DEF", "FRAGMENT"):
            raise ValueError("%s is a reserved namespace. Please try creating a library with another name." % ns)
        self._where = _place_in_program(inspect.currentframe().f_back)
        if kind == "DEF":
            if ns in _sole:
                raise RuntimeError("Only a single TORCH_LIBRARY can be used to register the namespace %s; please put all of your definitions in a single TORCH_LIBRARY "
                                   "block.  If you were trying to specify implementations, consider using TORCH_LIBRARY_IMPL (which can be duplicated).  If you "
                                   "really intended to define operators for a single namespace in a distributed way, you can use TORCH_LIBRARY_FRAGMENT to "
                                   "explicitly indicate this.  Previous registration of TORCH_LIBRARY was registered at %s; latest registration was registered "
                                   "at %s" % (ns, _sole[ns], self._where))
            _sole[ns] = self._where
            self._left = weakref.finalize(self, _sole.pop, ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._op_defs, self._op_impls = set(), set()
        self._python_kernels = []   # (PyOp, dispatch key, function) of what it gave to operators written in Python
        self._kernels = {}          # (record, form, device type, level) of what it gave to the library's operators -> what was there
        self._fallbacks = []        # the dispatch keys to which it gave one
        self._gone = weakref.finalize(self, _take_back, self._op_defs, self._python_kernels, self._kernels, self._fallbacks)
        torch.ops._namespace(ns)

    def __repr__(self):
        return "Library(kind=%s, ns=%s, dispatch_key=%s)>" % (self.kind, self.ns, self.dispatch_key)

    def define(self, schema, alias_analysis="", *, tags=()):
        """Add an operator: "name(Tensor x) -> Tensor"; its name comes back, as it was written but for the overload."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError("Invalid alias_analysis type %s" % alias_analysis)
        parsed = parse_schema(schema)
        for argument in parsed.arguments + parsed.returns:
            argument.written.check()
        written, name = parsed.name, parsed.name.split("::")[-1]
        if "::" in written and written.split("::")[0] != self.ns:
            raise RuntimeError("Explicitly provided namespace (%s) in schema string does not match namespace of enclosing library (%s)."
                               % (written.split("::")[0], self.ns))
        full = name + ("." + parsed.overload_name if parsed.overload_name else "")
        if torch.ops._python_op(self.ns, name, parsed.overload_name, missing_ok=True) is not None:
            raise RuntimeError("Tried to register an operator (%s::%s) with the same name and overload name multiple times."
                               % (self.ns, schema))
        parsed.name = "%s::%s" % (self.ns, name)
        torch.ops._add_python_op(PyOp(self.ns, parsed, tuple(tags) if isinstance(tags, (list, tuple)) else (tags,)))
        self._op_defs.add("%s::%s" % (self.ns, full))
        return written

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=True):
        """Give an operator a kernel for a dispatch key ("CPU", "Meta", "CompositeImplicitAutograd", ...)."""
        if not callable(fn):
            raise TypeError("Input function is required to be a callable but found type %s" % type(fn))
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if not hasattr(torch._C.DispatchKey, str(key)):
            raise RuntimeError("could not parse dispatch key: %s" % key)
        if isinstance(op_name, str):
            name = op_name.split("::")[-1]
        else:
            name = op_name._qualified_name().split("::")[-1] if hasattr(op_name, "_qualified_name") else \
                op_name.name().split("::")[-1]
        if self.dispatch_key and str(key) != str(self.dispatch_key):
            raise RuntimeError('impl("%s", ...): Explicitly provided dispatch key (%s) is inconsistent with the dispatch key of the enclosing TORCH_LIBRARY_IMPL block '
                               "(%s).  Please declare a separate TORCH_LIBRARY_IMPL block for this dispatch key and move your impl() there.  (Error occurred while "
                               "processing TORCH_LIBRARY_IMPL block at %s)" % (name, key, self.dispatch_key, self._where))
        base, _, overload = name.partition(".")
        op = torch.ops._python_op(self.ns, base, overload, missing_ok=True)
        if op is None:
            record = _record_of(self.ns, base, overload)
            if record is not None:
                return self._give(record, str(key), fn, with_keyset)
            if self.ns != "aten" and fn is not fallthrough_kernel:
                torch.ops._await_kernel(self.ns, base, overload, str(key), fn)
            return None
        if not allow_override and str(key) in op.kernels:
            raise RuntimeError("This is not allowed since there's already a kernel registered from python overriding %s's behavior for %s dispatch key and "
                               "%s namespace." % (name, key, self.ns))
        if fn is not fallthrough_kernel:
            op.give(str(key), fn)
            self._python_kernels.append((op, str(key), fn))
        self._op_impls.add("%s::%s/%s" % (self.ns, name, key))

    def _give(self, record, key, fn, with_keyset):
        """A kernel for an operator of the library's own, until this Library goes."""
        place = _place_of(key, _C._is_composite(record[0]))
        if fn is fallthrough_kernel or place is None:
            return
        if key == "Meta" and self.ns in torch.ops._own_namespaces:
            return  # a package's rule for the sizes of what it has in C++, and the library has with a rule of its own
        if with_keyset:
            raw, keys = fn, torch._C.DispatchKeySet(torch._C.DispatchKey[key])
            fn = functools.wraps(raw)(lambda *args, **kwargs: raw(keys, *args, **kwargs))
        self._kernels.setdefault((*record, *place), _C._kernel_set(*record, *place, fn))
        _C._kernel_set(*record, *place, fn)

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        """Give a device's dispatch key the kernel of all operators that have none for it, until this Library goes.

        fn is called with the operator (torch.ops.aten.sin.default), before it with the keys if with_keyset, and then with the call's
        arguments; it returns the results. `fallthrough_kernel`, also for keys other than devices', changes nothing. A key has one."""
        key = str(dispatch_key or self.dispatch_key)
        if not key:
            raise AssertionError("dispatch_key must not be empty for fallback")
        if self.ns != "_":
            raise RuntimeError('Fallback can only be registered using library fragment on the global namespace "_" but it is %s' % self.ns)
        if not callable(fn):
            raise TypeError("Input function is required to be a callable but found type %s" % type(fn))
        if not hasattr(torch._C.DispatchKey, key):
            raise RuntimeError("could not parse dispatch key: " + key)
        where = _place_in_program(inspect.currentframe().f_back)
        if key in FALLBACKS or key == "Meta":
            raise RuntimeError("Tried to register multiple backend fallbacks for the same dispatch key %s; previous registration registered at %s, "
                               "new registration registered at %s" % (key, FALLBACKS[key].where if key in FALLBACKS else "the library itself", where))
        call = fn
        if fn is fallthrough_kernel:
            call = None
        elif key not in _TYPES:
            raise NotImplementedError("a fallback for the dispatch key %s is not supported, only for those of devices" % key)
        elif with_keyset:
            keys = torch._C.DispatchKeySet(torch._C.DispatchKey[key])
            call = functools.wraps(fn)(lambda *args, **kwargs: fn(keys, *args, **kwargs))
        if call is not None:
            _C._fallback_set(_TYPES[key], call)
        FALLBACKS[key] = Fallback(call, where)
        self._fallbacks.append(key)

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=True):
        base, _, overload = op_name.split("::")[-1].partition(".")
        _place_fake("%s::%s" % (self.ns, op_name.split("::")[-1]), _place_in_program(inspect.currentframe().f_back), allow_override)
        torch.ops._set_fake(self.ns, base, overload, fn)

    def _register_torch_dispatch_rule(self, op_name, torch_dispatch_class, fn):
        base, _, overload = op_name.split("::")[-1].partition(".")
        torch.ops._python_op(self.ns, base, overload).torch_dispatch[torch_dispatch_class] = fn

    def _destroy(self):
        """All that it defined and gave goes, as it does with the object."""
        self._gone()
        if self.kind == "DEF":
            self._left()


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    """A library whose operators go when the block ends."""
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


_keep_alive = []


def define(qualname, schema=None, alias_analysis="", *, lib=None, tags=()):
    """Add the operator ns::name with the schema "(Tensor x) -> Tensor"."""
    if not isinstance(qualname, str):
        # define(lib, schema, alias_analysis): the older form, a decorator of the implementation.
        library, text = qualname, schema

        def wrap(f):
            library.define(text, alias_analysis)
            parsed = parse_schema(text)
            library.impl(".".join(filter(None, (parsed.name, parsed.overload_name))), f)
            return f
        return wrap
    namespace, name, overload = parse_name(qualname)
    if not re.fullmatch(r"\(.*\) -> .*", schema, re.S):
        raise ValueError('define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got "%s"' % schema)
    if lib is None:
        lib = Library(namespace, "FRAGMENT")
        _keep_alive.append(lib)
    lib.define(qualname.split("::")[-1] + schema, alias_analysis="", tags=tags)
    return None


def _name_of(op, asks=""):
    """Its qualified name; asks: the function that was given it."""
    if isinstance(op, str):
        return op
    if isinstance(op, CustomOpDef):
        return op._qualname
    if not isinstance(op, torch._ops.OpOverload):
        raise ValueError("%s(%s): got unexpected type for op: %s" % (asks, op, type(op)))
    return op._qualified_name()


def impl(qualname, types=None, func=None, *, lib=None):
    """Give an operator a kernel for device types; usable as a decorator."""
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or ""

        def wrap(f):
            library.impl(name, f, key)
            return f
        return wrap
    keys = [_device_type_to_key(kind) for kind in ((types,) if isinstance(types, str) else types)]
    namespace, _, _ = parse_name(_name_of(qualname))
    if lib is None:
        lib = Library(namespace, "FRAGMENT")
        _keep_alive.append(lib)

    def register(f):
        for key in keys:
            lib.impl(_name_of(qualname), f, key)
        return f
    return register if func is None else register(func)


_impl = impl


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Give an operator a kernel for device types (None: all)."""
    name = _name_of(op, "register_kernel")
    if name in OPDEFS:
        return OPDEFS[name].register_kernel(device_types, func)
    kinds = "default" if device_types is None else device_types
    return impl(name, kinds, func, lib=lib)


_fake_places = {}  # operator -> where in the program it got its fake implementation


def _place_fake(name, place, allow_override):
    if not allow_override and name in _fake_places:
        raise RuntimeError("register_fake(...): the operator %s already has a fake impl registered at %s." % (name, _fake_places[name]))
    _fake_places[name] = place


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=True):
    """Give an operator its results' shapes and dtypes. The operator need not exist (yet)."""
    name = _name_of(op, "register_fake")
    place = _place_in_program(inspect.currentframe().f_back)

    def register(f):
        namespace, base, overload = parse_name(name)
        _place_fake(name, place, allow_override)
        if name in OPDEFS:
            OPDEFS[name].register_fake(f)
        else:
            torch.ops._set_fake(namespace, base, overload, f)
        return f
    return register if func is None else register(func)


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """register_fake by its older name."""
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel + 1)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """Give an operator a derivative. The operator need not exist (yet)."""
    name = _name_of(op, "register_autograd")
    if name in OPDEFS:
        OPDEFS[name].register_autograd(backward, setup_context=setup_context)
        return
    namespace, base, overload = parse_name(name)
    there = torch.ops._python_op(namespace, base, overload, missing_ok=True)
    if there is not None:
        check_tensors_have_places("register_autograd", there.schema)
        check_differentiable(name, there.schema)
    torch.ops._set_autograd(namespace, base, overload, backward, setup_context)


def register_vmap(op, func=None, /, *, lib=None):
    """Give an operator a rule for vmap."""
    namespace, base, overload = parse_name(_name_of(op, "register_vmap"))
    there = torch.ops._python_op(namespace, base, overload)
    check_tensors_have_places("register_vmap", there.schema)

    def register(f):
        there.vmap = f
        return f
    return register if func is None else register(func)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Cast the inputs of an operator under autocast."""
    namespace, base, overload = parse_name(_name_of(op, "register_autocast"))
    torch.device(device_type)
    torch.ops._python_op(namespace, base, overload).autocast[device_type] = cast_inputs


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """What an operator does for a tensor subclass or mode."""
    namespace, base, overload = parse_name(_name_of(op, "register_torch_dispatch"))

    def register(f):
        torch.ops._python_op(namespace, base, overload).torch_dispatch[torch_dispatch_class] = f
        return f
    return register if func is None else register(func)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """custom_op for functions that call Triton kernels."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel, /):
    return triton_kernel


capture_triton = wrap_triton


def _past_given(record, op):
    """Calls an operator of the library without the kernels that programs gave to it."""
    def call(*args, **kwargs):
        before = _C._kernel_past(record)
        try:
            return op(*args, **kwargs)
        finally:
            _C._kernel_past(before)
    return call


def get_kernel(op, dispatch_key):
    """The kernel that an operator has for a dispatch key now, whatever it is given later: kernel.call_boxed(keys, ...)."""
    if not isinstance(op, (str, CustomOpDef, torch._ops.OpOverload)):
        raise ValueError("get_kernel(%s): got unexpected type for op: %s" % (op, type(op)))
    if not isinstance(dispatch_key, (str, torch._C.DispatchKey)):
        raise TypeError("get_kernel(): the dispatch key is a name or a torch.DispatchKey, not %s" % type(dispatch_key).__name__)
    key = dispatch_key if isinstance(dispatch_key, str) else dispatch_key.name
    if not hasattr(torch._C.DispatchKey, key):
        raise ValueError("Invalid dispatch key: %s" % key)
    namespace, base, overload = parse_name(_name_of(op))
    name = _name_of(op)
    python = torch.ops._python_op(namespace, base, overload, missing_ok=True)
    if python is not None:
        for there in (key, "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            if there in python.kernels:
                return torch._C._SafeKernelFunction(name, key, python.kernels[there])
        raise RuntimeError("no kernel is registered for %s and %s" % (name, key))
    record = _record_of(namespace, base, overload)
    if record is None:
        raise RuntimeError("operator %s does not exist" % name)
    place = _place_of(key, _C._is_composite(record[0]))
    given = place and _C._kernel_set(*record, *place, None)
    if given:
        _C._kernel_set(*record, *place, given)
    packet = getattr(getattr(torch.ops, namespace), base)
    return torch._C._SafeKernelFunction(name, key, given or _past_given(record[0], getattr(packet, overload or "default")))


def opcheck(op, args, kwargs=None, *, test_utils=("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"),
            raise_exception=True, atol=None, rtol=None):
    """Check an operator: schema honoured, gradients recorded above the kernels, fake results like real ones, traced as it runs.

    The names of the tests come back, each with "SUCCESS" or, if not raise_exception, the error."""
    from rushlight._library.opcheck import opcheck
    return opcheck(op, args, kwargs, test_utils=test_utils, raise_exception=raise_exception, atol=atol, rtol=rtol)
