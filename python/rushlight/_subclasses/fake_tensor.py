"""Fake tensors: tensors of any device that have sizes, strides and dtype, but no memory.

A FakeTensor is a meta tensor that says it is on another device: both share one storage without bytes, so views and
in-place changes of fake tensors relate as those of real ones do. FakeTensorMode runs each operation on the meta device
and gives the results the device that the real operation would have given them.
"""
import contextlib
import weakref

import rushlight as torch
from rushlight import _C
from rushlight._library.custom_ops import PyOp
from rushlight._library.fake_impl import DependsOnData
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_flatten, tree_map_only

__all__ = ["FakeTensor", "FakeTensorMode", "FakeTensorConverter", "DataDependentOutputException",
           "DynamicOutputShapeException", "UnsupportedFakeTensorException", "UnsupportedOperatorException",
           "is_fake", "maybe_get_fake_mode", "unset_fake_temporarily"]

aten = torch.ops.aten
_META = torch.device("meta")


class UnsupportedFakeTensorException(RuntimeError):
    """There is no fake tensor like this one."""


class _NamesOperator(RuntimeError):
    def __init__(self, func):
        super().__init__(str(func))
        self.func = func


class UnsupportedOperatorException(_NamesOperator):
    """The operator has no rule for tensors without data."""


class DynamicOutputShapeException(_NamesOperator):
    """The operator's result has a size that follows from data."""


class DataDependentOutputException(_NamesOperator):
    """The operator's result is a number that follows from data."""


# What cannot be answered without data.
_NUMBERS_FROM_DATA = {"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::allclose", "aten::_int_list"}
_SIZES_FROM_DATA = {"aten::nonzero", "aten::masked_select", "aten::unique_dim", "aten::_unique2", "aten::_unique",
                    "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::bincount"}


class FakeTensor(torch.Tensor):
    """A tensor without memory, made by FakeTensorMode."""

    @staticmethod
    def __new__(cls, fake_mode, elem, device, constant=None):
        self = _C._with_device(elem, torch.device(device), cls)
        self.fake_mode, self.constant = fake_mode, constant
        return self

    @staticmethod
    def from_tensor(t, fake_mode):
        return fake_mode.from_tensor(t)

    @property
    def fake_device(self):
        return self.device

    def __repr__(self, *, tensor_contents=None):
        shape = ", ".join(map(str, self.shape))
        parts = ["size=(%s%s)" % (shape, "," if self.dim() == 1 else "")]
        if self.device.type != "cpu":
            parts.insert(0, "device='%s'" % self.device)
        if self.dtype != torch.get_default_dtype():
            parts.append("dtype=%s" % self.dtype)
        if self.grad_fn is not None:
            parts.append("grad_fn=<%s>" % type(self.grad_fn).__name__)
        elif self.requires_grad:
            parts.append("requires_grad=True")
        text = "FakeTensor(..., %s)" % ", ".join(parts)
        return "Parameter(%s)" % text if isinstance(self, torch.nn.Parameter) else text

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return memo[id(self)]

    def tolist(self):
        if self.dim() == 0:
            return self.item()
        return [row.tolist() for row in self]

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        for value in tree_flatten((args, kwargs or {}))[0]:
            if isinstance(value, FakeTensor):
                with value.fake_mode:
                    return func(*args, **(kwargs or {}))
        return NotImplemented


class FakeTensorConverter:
    """Real tensors to fake ones; the same one again for the same tensor."""

    def __init__(self, *, copy_data=False, export=False):
        self._known = weakref.WeakKeyDictionary()       # storage -> one of meta

    def from_real_tensor(self, fake_mode, t, **ignored):
        if t.layout is not torch.strided:
            raise UnsupportedFakeTensorException("a tensor of layout %s" % t.layout)
        with torch.no_grad():   # of what a derivative saved there may be the shape alone, without a storage
            elem = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=_META) if t.device.type == "meta" or t.storage_offset() == 0 \
                else torch.empty(t.untyped_storage().nbytes() // t.element_size(), dtype=t.dtype, device=_META).as_strided(
                    t.shape, t.stride(), t.storage_offset())
        fake = FakeTensor(fake_mode, elem, t.device)
        if t.requires_grad:
            fake.requires_grad_()
        if isinstance(t, torch.nn.Parameter):
            fake._is_param = True
        return fake


class FakeTensorMode(TorchDispatchMode):
    """Inside, operations run without memory: tensors that are made are fake, fake arguments give fake results."""

    _mode_key = _C._TorchDispatchModeKey.FAKE

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None,
                 export=False):
        super().__init__()
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.static_shapes = shape_env, True if static_shapes is None else static_shapes
        self.fake_tensor_converter = FakeTensorConverter()
        self.in_kernel_invocation = False
        self._memo = {}                   # id of a real tensor -> (weak reference to it, its fake)
        self.entered = 0

    def __enter__(self):
        # A mode inside itself changes nothing.
        if _C._get_dispatch_mode(self._mode_key) is not self:
            super().__enter__()
            self.entered += 1
            self._nested = getattr(self, "_nested", []) + [True]
        else:
            self._nested = getattr(self, "_nested", []) + [False]
        return self

    def __exit__(self, *error):
        if self._nested.pop():
            self.entered -= 1
            super().__exit__(*error)

    def is_our_fake(self, t):
        return isinstance(t, FakeTensor) and t.fake_mode is self

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        """The fake of a real tensor; the same one each time."""
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            return tensor
        known = self._memo.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        with _without(self):
            fake = self.fake_tensor_converter.from_real_tensor(self, tensor)
        self._memo[id(tensor)] = (weakref.ref(tensor), fake)
        return fake

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(self, func, args, kwargs or {})


@contextlib.contextmanager
def _without(mode):
    """The mode is off the stack inside, if it is on it."""
    active = _C._get_dispatch_mode(mode._mode_key) is mode
    if active:
        _C._pop_torch_dispatch_stack(mode._mode_key)
    try:
        yield
    finally:
        if active:
            _C._push_on_torch_dispatch_stack(mode)


class _Traits:
    """What is asked of an operator at each call, found out once."""

    def __init__(self, func):
        self.schema, arguments = func._schema, func._schema.arguments
        self.name = func._schema.name
        self.has_device = any(a.name == "device" for a in arguments)
        self.device_at = next((i for i, a in enumerate(arguments) if a.name == "device" and not a.kwarg_only), len(arguments))
        self.writes = [(i, a.name) for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]


_traits = {}


def _device_of(fakes, func):
    """Where an operator of these tensors runs: their common device; 0-d tensors of the CPU go with any."""
    device = None
    for t in fakes:
        if device is None or (device != t.device and device.type == "cpu" and only_numbers):
            only_numbers = t.dim() == 0
            device = t.device
        elif t.device != device and not (t.dim() == 0 and t.device.type == "cpu"):
            if func._schema.name == "aten::copy_":
                return device
            raise RuntimeError("Unhandled FakeTensor Device Propagation for %s, found two different devices %s, %s"
                               % (func, device, t.device))
        elif t.dim():
            only_numbers = False
    return device


def _run(mode, func, args, kwargs):
    traits = _traits.get(func)
    if traits is None or traits.schema is not func._schema:    # of another operator that a program has given this name
        traits = _traits[func] = _Traits(func)
    fakes = []

    def to_meta(t):
        if not isinstance(t, FakeTensor):
            if t.device.type == "meta" and not mode.allow_non_fake_inputs or traits.name.startswith("aten::lift"):
                t = mode.from_tensor(t)
            elif mode.allow_non_fake_inputs or (t.dim() == 0 and t.device.type == "cpu"):
                t = mode.from_tensor(t)
            else:
                raise AssertionError(
                    "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                    "'allow_non_fake_inputs'. Found in %s" % func)
        elif t.fake_mode is not mode:
            raise AssertionError("Mixing fake modes NYI")
        fakes.append(t)
        return _C._with_device(t, _META)

    if traits.name in _NUMBERS_FROM_DATA:
        raise DataDependentOutputException(func)
    if traits.name in _SIZES_FROM_DATA or (traits.name == "aten::index" and any(
            isinstance(t, torch.Tensor) and t.dtype in (torch.bool, torch.uint8) for t in args[1])):
        raise DynamicOutputShapeException(func)
    meta_args, meta_kwargs = tree_map_only(torch.Tensor, to_meta, (args, kwargs))
    device = _device_of(fakes, func)
    if traits.has_device:
        at = traits.device_at
        asked = meta_args[at] if at < len(meta_args) else meta_kwargs.get("device")
        if asked is not None:
            device = torch.device(asked)
            if device.type == "cuda" and device.index is None:
                device = torch.device("cuda", 0)
        elif device is None:
            device = torch.get_default_device()
        if at < len(meta_args):
            meta_args = (*meta_args[:at], _META, *meta_args[at + 1:])
        elif not fakes or asked is not None:
            meta_kwargs["device"] = _META
        meta_kwargs.pop("pin_memory", None)
    if isinstance(func._op, PyOp) and not func._op.has_meta():
        raise UnsupportedOperatorException(func)
    with _without(mode):
        try:
            out = func(*meta_args, **meta_kwargs)
        except DependsOnData:
            raise DynamicOutputShapeException(func) from None
    return _wrap(mode, traits, args, kwargs, meta_args, out, device)


def _take_geometry(fake, meta):
    """transpose_, resize_ and their kind: what became of the one becomes of the other."""
    if isinstance(fake, FakeTensor) and (fake.shape != meta.shape or fake.stride() != meta.stride() or fake.storage_offset() != meta.storage_offset()):
        watched = _C._watch_off(True)
        try:
            with torch.no_grad():
                fake.as_strided_(meta.shape, meta.stride(), meta.storage_offset())
        finally:
            _C._watch_off(watched)


def _wrap(mode, traits, args, kwargs, meta_args, out, device):
    if traits.writes:
        given = [args[i] if i < len(args) else kwargs.get(name) for i, name in traits.writes]
        if traits.writes[0][0] == 0 and isinstance(meta_args[0], torch.Tensor):
            _take_geometry(args[0], meta_args[0])
        return given[0] if len(given) == 1 else out if out is None else tuple(given)
    return tree_map_only(torch.Tensor, lambda t: FakeTensor(mode, t, device if device is not None else t.device), out)


def is_fake(x):
    """Whether x is a fake tensor, or a wrapper of some."""
    from rushlight.utils._python_dispatch import is_traceable_wrapper_subclass
    if isinstance(x, FakeTensor):
        return True
    if is_traceable_wrapper_subclass(x):
        return all(is_fake(getattr(x, name)) for name in x.__tensor_flatten__()[0])
    return False


def maybe_get_fake_mode(t):
    """The mode that made a fake tensor; None for others."""
    return t.fake_mode if isinstance(t, FakeTensor) else None


def get_plain_tensors(subclass, *, out=None):
    """The tensors at the bottom of a wrapper."""
    out = [] if out is None else out
    names, _ = subclass.__tensor_flatten__()
    for name in names:
        inner = getattr(subclass, name)
        out.append(inner) if type(inner) is torch.Tensor else get_plain_tensors(inner, out=out)
    return out


@contextlib.contextmanager
def unset_fake_temporarily():
    """No fake mode is active inside."""
    mode = _C._get_dispatch_mode(FakeTensorMode._mode_key)
    if mode is not None:
        _C._pop_torch_dispatch_stack(mode._mode_key)
    try:
        yield mode
    finally:
        if mode is not None:
            _C._push_on_torch_dispatch_stack(mode)


class FakeCopyMode(torch.overrides.TorchFunctionMode):
    """Inside, clone and deepcopy of real tensors give fake ones."""

    def __init__(self, fake_mode):
        self.fake_mode = fake_mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch._C.TensorBase.clone:
            return func(self.fake_mode.from_tensor(args[0]), **kwargs)
        if func is torch.Tensor.__deepcopy__:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor)
            return memo[id(tensor)]
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
