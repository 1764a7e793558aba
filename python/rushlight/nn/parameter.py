"""Parameter and Buffer: tensors that a Module notices when they are assigned to it.

A Parameter is a real subclass of Tensor; a Buffer is a plain tensor with a mark on it.  The
uninitialized kinds stand in lazy modules until the first batch tells their shape.
"""
from collections import OrderedDict

import rushlight as torch
from rushlight import _pending

_TensorMeta = type(torch.Tensor)


class _ParameterMeta(_TensorMeta):
    # A wrapper tensor of another class counts as a Parameter once it carries the mark.
    def __instancecheck__(self, instance):
        if super().__instancecheck__(instance):
            return True
        return self is Parameter and isinstance(instance, torch.Tensor) and getattr(instance, "_is_param", False)


class Parameter(torch.Tensor, metaclass=_ParameterMeta):
    """A tensor that is a module parameter: it joins `parameters()` of the module it is assigned to.

    data: its values; requires_grad: whether gradients are computed.

    >>> layer = nn.Module()
    >>> layer.scale = nn.Parameter(torch.ones(2))
    >>> [name for name, _ in layer.named_parameters()]
    ['scale']
    """

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = torch.empty(0)
        if _pending.open:
            _pending.settle("a Parameter is made")
        kind = type(data)
        if kind is torch.Tensor or kind is Parameter:
            return torch.Tensor._make_subclass(cls, data, requires_grad)
        twin = data.detach().requires_grad_(requires_grad)
        if type(twin) is not kind:
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {kind.__name__} requires that detach() returns "
                f"an instance of the same type, but return type {type(twin).__name__} was found instead. To use "
                "the type as a Parameter, please correct the detach() semantics defined by its "
                "__torch_dispatch__() implementation.")
        twin._is_param = True
        return twin

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            copied = self.data.clone(memory_format=torch.preserve_format)
            found = memo[id(self)] = type(self)(copied, self.requires_grad)
        return found

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, proto):
        from rushlight import _utils
        state = _utils._get_obj_state(self)
        # The dictionary is the place of hooks, which never travel; readers expect it.
        plain = (self.data, self.requires_grad, OrderedDict())
        if not state:
            return (_utils._rebuild_parameter, plain)
        return (_utils._rebuild_parameter_with_state, plain + (state,))

    __torch_function__ = torch._C._disabled_torch_function_impl


def maybe_parameter(module, name, wanted, shape, device=None, dtype=None):
    """Register a parameter of that shape, whose values are still to be set; None under the name where none is wanted."""
    module.register_parameter(name, Parameter(torch.empty(shape, device=device, dtype=dtype)) if wanted else None)


class UninitializedTensorMixin:
    """What a tensor without a shape can do: move, change dtype, be replaced, be materialized."""

    _allowed_methods = [
        torch.Tensor.__hash__, torch.Tensor.size, torch.Tensor.copy_, torch.Tensor.is_complex,
        torch.Tensor.is_floating_point, torch.Tensor.half, torch.Tensor.float, torch.Tensor.double,
        torch.Tensor.char, torch.Tensor.short, torch.Tensor.int, torch.Tensor.long, torch.Tensor.cuda,
        torch.Tensor.cpu, torch.Tensor.to, torch.Tensor.get_device,
    ]

    def materialize(self, shape, device=None, dtype=None):
        """Become an ordinary parameter or buffer of this shape; the contents are not initialised."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = torch.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
            "`forward` to initialize the parameters before accessing their attributes.")

    def share_memory_(self):
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
            "parameters before calling `module.share_memory()`.")

    def __repr__(self):
        return f"<{self.__class__.__name__}>"

    def __reduce_ex__(self, proto):
        return (self.__class__, (self.requires_grad,))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        # Attribute look-ups arrive here as slot wrappers and descriptors; those stay open.
        if func in cls._allowed_methods or func.__class__.__name__ == "method-wrapper":
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using "
            "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch "
            "functions")


def is_lazy(param):
    """True for a parameter or buffer that has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet; a lazy module fills it in.

    requires_grad: of the parameter that it becomes.

    >>> p = nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> p.shape
    torch.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return torch.Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return found


class _BufferMeta(_TensorMeta):
    def __instancecheck__(self, instance):
        if self is Buffer:
            return isinstance(instance, torch.Tensor) and getattr(instance, "_is_buffer", False)
        return super().__instancecheck__(instance)


class Buffer(torch.Tensor, metaclass=_BufferMeta):
    """A tensor that joins the buffers of the module it is assigned to (saved unless not persistent).

    data: its values; persistent: whether it is part of state_dict().

    >>> layer = nn.Module()
    >>> layer.count = nn.Buffer(torch.zeros(1))
    >>> list(layer.state_dict())
    ['count']
    """

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = torch.empty(0)
        marked = data.detach().requires_grad_(data.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked

    __torch_function__ = torch._C._disabled_torch_function_impl


class UninitializedBuffer(UninitializedTensorMixin, torch.Tensor):
    """A buffer whose shape is not known yet.

    requires_grad: of the buffer that it becomes; persistent: whether it is part of state_dict().

    >>> b = nn.UninitializedBuffer()
    >>> b.materialize((2, 3))
    >>> b.shape
    torch.Size([2, 3])
    """

    cls_to_become = torch.Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        made = torch.Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made
