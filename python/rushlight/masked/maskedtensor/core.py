"""MaskedTensor: data with a mask of the same size, of which only what the mask has counts.

A wrapper subclass: __torch_dispatch__ runs an operation on the data, and by its kind on the mask. There are four kinds:
elementwise (masks must be equal, and stay), those that move elements (mask like data), reductions (of what is in the mask;
the result has an element where there was one), and a few by name. Gradients are masked tensors: the formulas of elementwise
operations run on them, and a reduction has a node of its own, since its formula would lose the mask.
"""
import warnings

import rushlight as torch

__all__ = ["MaskedTensor", "is_masked_tensor"]


def is_masked_tensor(obj):
    """Is it a MaskedTensor?"""
    return isinstance(obj, MaskedTensor)


class MaskedTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        if is_masked_tensor(data) or not isinstance(data, torch.Tensor):
            raise TypeError("data must be a Tensor")
        if is_masked_tensor(mask) or not isinstance(mask, torch.Tensor):
            raise TypeError("mask must be a Tensor")
        if data.layout != torch.strided or mask.layout != torch.strided:
            raise NotImplementedError("masked tensors of sparse layouts are not supported: to_dense() makes a strided one")
        if data.requires_grad:
            warnings.warn("It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can use data.detach().clone()",
                          UserWarning, stacklevel=2)
        if data.dim() != mask.dim():
            raise ValueError("data.dim() must equal mask.dim()")
        if data.size() != mask.size():
            raise ValueError("data.size() must equal mask.size()")
        if mask.dtype != torch.bool:
            raise TypeError("mask must have dtype bool.")
        if data.dtype.is_complex or data.dtype in (torch.uint16, torch.uint32, torch.uint64):
            raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
        return _make(data.detach().clone(), mask.detach().clone(), requires_grad)

    def get_data(self):
        """What the tensor was made of, with what is masked out."""
        return GetData.apply(self)

    def get_mask(self):
        return self._masked_mask

    def to_tensor(self, value):
        """A dense tensor, with value where the mask is false."""
        return ToTensor.apply(self, value)

    def is_sparse_coo(self):
        return False

    def is_sparse_csr(self):
        return False

    def to_dense(self):
        return self.clone()

    def __repr__(self, *, tensor_contents=None):
        text = _text(self._masked_data, self._masked_mask)
        return "MaskedTensor(%s, %s)" % (text, bool(self._masked_mask)) if self.dim() == 0 else "MaskedTensor(\n%s\n)" % _indented(text)

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        return _rebuild, (type(self), self._masked_data, self._masked_mask, self.requires_grad)

    def __deepcopy__(self, memo):
        memo[id(self)] = made = _make(self._masked_data.clone(), self._masked_mask.clone(), self.requires_grad)
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if getattr(func, "__name__", None) in _REDUCTIONS and args and is_masked_tensor(args[0]):
                return _reduced(func.__name__, *args, **kwargs or {})
            return func(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return _run(func, args, kwargs or {})


def _make(data, mask, requires_grad=False):
    """Of these very tensors."""
    x = torch.Tensor._make_wrapper_subclass(MaskedTensor, data.size(), strides=data.stride(), dtype=data.dtype, device=data.device, layout=data.layout,
                                            requires_grad=requires_grad)
    x._masked_data, x._masked_mask = data, mask
    return x


def _rebuild(cls, data, mask, requires_grad):
    return _make(data, mask, requires_grad)


# ---- as text


def _indented(text):
    return "\n".join("  " + line for line in text.split("\n"))


def _number(x):
    return "%8.4f" % x if isinstance(x, float) else str(x)


def _text(data, mask):
    if data.dim() == 0:
        return _number(data.item()) if mask.item() else "--"
    if data.dim() > 1:
        return "[\n%s\n]" % ",\n".join(_indented(_text(*row)) for row in zip(data, mask))
    numbers = [_number(x) if there else None for x, there in zip(data.tolist(), mask.tolist())]
    width = max([8] + [len(x) for x in numbers if x is not None])
    return "[%s]" % ", ".join("--".rjust(width) if x is None else x for x in numbers)


# ---- steps of the graph


def _like(x, grad):
    """A gradient of x, masked as x is."""
    return grad if is_masked_tensor(grad) else _make(grad, x._masked_mask)


class AsMasked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, data, mask):
        return MaskedTensor(data.detach(), mask)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class GetData(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return x._masked_data.detach()

    @staticmethod
    def backward(ctx, grad):
        return _like(ctx.x, grad)


class ToTensor(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, value):
        ctx.x = x.detach()
        return x._masked_data.masked_fill(~x._masked_mask, value)

    @staticmethod
    def backward(ctx, grad):
        return _like(ctx.x, grad), None


class Reduce(torch.autograd.Function):
    """f(data, mask) of the dense tensors, and the mask of its result; the gradient is that of f by data."""

    @staticmethod
    def forward(ctx, x, f, mask):
        ctx.x, ctx.f = x.detach(), f
        return _make(f(x._masked_data, x._masked_mask), mask)

    @staticmethod
    def backward(ctx, grad):
        data = ctx.x._masked_data.detach().requires_grad_()
        with torch.enable_grad():
            result = ctx.f(data, ctx.x._masked_mask)
        if is_masked_tensor(grad):  # what is masked out may be anything, NaN for one
            grad = grad._masked_data.masked_fill(~grad._masked_mask, 0)
        return _make(torch.autograd.grad(result, data, grad)[0], ctx.x._masked_mask), None, None


_REDUCTIONS = frozenset("sum mean prod amax amin argmax argmin all var std softmax _softmax".split())


def _reduced(name, x, dim=None, keepdim=False, *more, **options):
    """A reduction by its Python arguments: those after keepdim are a variance's."""
    if name in ("var", "std"):
        if isinstance(dim, bool):  # unbiased, in the place of dim
            dim, options = None, dict(options, unbiased=dim)
        options = {k: v for k, v in options.items() if v is not None}
    if name in ("softmax", "_softmax"):
        options = {k: v for k, v in options.items() if k == "dtype"}
        f, mask = (lambda d, m: torch.masked.softmax(d, dim, mask=m, **options)), x._masked_mask
        return Reduce.apply(x, f, mask)
    dims = dim if dim is None or isinstance(dim, int) else tuple(dim) or None
    if name == "all":
        f = lambda d, m: torch.all(d.bool() | ~m, *(() if dims is None else (dims, keepdim)))
    else:
        f = lambda d, m: getattr(torch.masked, name)(d, dims, *more, keepdim=keepdim, mask=m, **options)
    mask = x._masked_mask.any() if dims is None else torch.any(x._masked_mask, dims, keepdim)
    return Reduce.apply(x, f, mask.reshape([1] * x.dim()) if dims is None and keepdim else mask)


# ---- operations below autograd

_MOVES = set("select slice transpose t permute squeeze unbind view _unsafe_view _reshape_alias expand unsqueeze cat stack split split_with_sizes chunk index contiguous "
             "select_backward slice_backward unfold ravel unsafe_split unsafe_chunk as_strided".split())
_KEEPS = set("_to_copy clone detach alias lift_fresh ones_like clamp nan_to_num round isfinite isinf isposinf isneginf isreal positive float_power pow "
             "_conj conj real resolve_conj resolve_neg threshold_backward copy_ _fw_primal div floor_divide isclose add sub rsub".split())
_NOT = frozenset("fill fill_ zero_ masked_fill masked_fill_ xlogy lerp addcmul addcdiv".split())  # rows that say nothing about a mask


def _masks_of(args):
    for a in args:
        if is_masked_tensor(a):
            yield a._masked_mask
        elif isinstance(a, (list, tuple)):
            yield from _masks_of(a)


def _swap(args, part):
    """The arguments with `part` (data or mask) in place of masked tensors."""
    return [getattr(a, part) if is_masked_tensor(a) else type(a)(_swap(a, part)) if isinstance(a, (list, tuple)) else a for a in args]


def _keep(func, args, kwargs):
    """Elementwise: the mask is that of the operands, which all have the same."""
    masks = list(_masks_of((*args, *kwargs.values())))
    if any(m.shape != masks[0].shape or not torch.equal(m, masks[0]) for m in masks[1:]) and func._opname != "copy_":
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    result = func(*_swap(args, "_masked_data"), **dict(zip(kwargs, _swap(kwargs.values(), "_masked_data"))))
    if func._opname.endswith("_") and is_masked_tensor(args[0]):
        return args[0]
    return _make(result, masks[0].expand(result.shape).contiguous())


def _move(func, args, kwargs):
    both = [func(*_swap(args, part), **kwargs) for part in ("_masked_data", "_masked_mask")]
    if isinstance(both[0], torch.Tensor):
        return _make(both[0].clone(), both[1].clone())
    return tuple(_make(d.clone(), m.clone()) for d, m in zip(*both))


def _where(cond, x, y):
    """Of the mask, too; dense operands are there everywhere."""
    parts = [(t._masked_data, t._masked_mask) if is_masked_tensor(t) else (t, torch.ones_like(t, dtype=torch.bool)) for t in (x, y)]
    there = cond._masked_mask if is_masked_tensor(cond) else True
    cond = cond._masked_data if is_masked_tensor(cond) else cond
    return _make(torch.where(cond, parts[0][0], parts[1][0]), torch.where(cond, parts[0][1], parts[1][1]) & there)


def _item(x):
    if not x._masked_mask:
        raise ValueError("the element is masked out")
    return x._masked_data.item()


def _run(func, args, kwargs):
    """What __torch_dispatch__ answers; NotImplemented is a TypeError that names the operation."""
    name = func._opname
    base = name[:-1] if name.endswith("_") else name
    if name in _REDUCTIONS:
        if name == "_softmax":
            args = args[:2]
        return _reduced(name, *args, **kwargs)
    if name == "where":
        return _where(*args)
    if name in ("item", "_local_scalar_dense"):
        return _item(*args)
    if name in _MOVES:
        return _move(func, args, kwargs)
    row = base if func._overloadname == "default" else base + "." + func._overloadname
    if name in _KEEPS or base in _KEEPS or (name not in _NOT and torch._C._op_effects(row) & 8):
        return _keep(func, args, kwargs)
    return NotImplemented
