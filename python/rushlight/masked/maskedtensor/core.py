"""MaskedTensor: data with a mask of the same size, of which only what the mask has counts.

A wrapper subclass: __torch_dispatch__ runs an operation on the data, and by its kind on the mask. There are four kinds:
elementwise (masks must be equal, and stay), those that move elements (mask like data), reductions (of what is in the mask;
the result has an element where there was one), and a few by name. Of sparse layouts (COO and CSR) data and mask have the same
entries, and what is elementwise runs on their values. Gradients are masked tensors: the formulas of elementwise
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
        if data.layout != mask.layout:
            raise TypeError("data and mask must have the same layout.")
        if data.layout not in _LAYOUTS:
            raise TypeError("data layout of %s is not supported." % data.layout)
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
        data, mask = data.detach().clone(), mask.detach().clone()
        if mask.layout == torch.sparse_coo:
            data, mask = data.coalesce(), mask.coalesce()
        if mask.layout != torch.strided:
            if data._nnz() == mask._nnz() and not all(map(torch.equal, _indices(data), _indices(mask))):
                raise ValueError("data and mask are both sparse COO tensors but do not have the same indices." if mask.layout == torch.sparse_coo else
                                 "data and mask are both sparse CSR tensors but do not share either crow or col indices.")
            data = _at_entries(data, mask)
        return _make(data, mask, requires_grad)

    def get_data(self):
        """What the tensor was made of, with what is masked out."""
        return GetData.apply(self)

    def get_mask(self):
        return self._masked_mask

    def to_tensor(self, value):
        """A dense tensor, with value where the mask is false."""
        return ToTensor.apply(self.to_dense(), value)

    @property
    def layout(self):
        return self._masked_data.layout

    @property
    def is_sparse(self):
        return self.layout == torch.sparse_coo

    def is_sparse_coo(self):
        return self.layout == torch.sparse_coo

    def is_sparse_csr(self):
        return self.layout == torch.sparse_csr

    def is_contiguous(self, *, memory_format=torch.contiguous_format):
        if self.layout != torch.strided:
            raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
        return self._masked_data.is_contiguous(memory_format=memory_format)

    def contiguous(self, *, memory_format=torch.contiguous_format):
        return self if self.is_contiguous(memory_format=memory_format) else super().contiguous(memory_format=memory_format)

    def to_dense(self):
        return InLayout.apply(self, torch.strided)

    def to_sparse_coo(self):
        """With the entries that the mask has, in one of the sparse layouts."""
        return InLayout.apply(self, torch.sparse_coo)

    to_sparse = to_sparse_coo

    def to_sparse_csr(self):
        return InLayout.apply(self, torch.sparse_csr)

    @property
    def _masked_values(self):
        """What elementwise operations run on."""
        return self._masked_data if self.layout == torch.strided else self._masked_data.values()

    def __repr__(self, *, tensor_contents=None):
        text = _text(*_dense(self))
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
            if func is torch.where and len(args) == 3 and torch.is_grad_enabled():
                return Where.apply(*args)
            return func(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return _run(func, args, kwargs or {})


_LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)


def _make(data, mask, requires_grad=False):
    """Of these very tensors."""
    if data.layout not in _LAYOUTS:
        raise TypeError("data layout of %s is not supported." % data.layout)
    strides = data.stride() if data.layout == torch.strided else None
    x = torch.Tensor._make_wrapper_subclass(MaskedTensor, data.size(), strides=strides, dtype=data.dtype, device=data.device,
                                            requires_grad=requires_grad)
    x._masked_data, x._masked_mask = data, mask
    return x


def _rebuild(cls, data, mask, requires_grad):
    return _make(data, mask, requires_grad)


# ---- sparse layouts


def _indices(t):
    return (t.indices(),) if t.layout == torch.sparse_coo else (t.crow_indices(), t.col_indices())


def _with_values(t, values):
    """A sparse tensor with the entries of t."""
    if t.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(*_indices(t), values, t.shape, is_coalesced=True)
    return torch.sparse_csr_tensor(*_indices(t), values, t.shape)


def _at_entries(data, mask):
    """What data has at the entries of a sparse mask."""
    if data.layout != torch.strided:
        data = data.to_dense()
    if mask.layout == torch.sparse_coo:
        return data.sparse_mask(mask)
    return _with_values(mask, _at_entries(data, mask.to_sparse_coo().coalesce()).values().reshape(mask.values().shape))


def _dense(x):
    """Data and mask, strided."""
    return (x._masked_data, x._masked_mask) if x.layout == torch.strided else (x._masked_data.to_dense(), x._masked_mask.to_dense())


def _in_layout(x, layout):
    data, mask = _dense(x)
    if layout == torch.strided:
        return _make(data.clone(), mask.clone())
    mask = mask.to_sparse(layout=layout)
    return _make(_at_entries(data, mask), mask)


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
    if is_masked_tensor(grad):
        return grad
    return _make(grad if x.layout == grad.layout else _at_entries(grad, x._masked_mask), x._masked_mask)


class InLayout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layout):
        ctx.layout = x.layout
        return _in_layout(x, layout)

    @staticmethod
    def backward(ctx, grad):
        return _in_layout(grad, ctx.layout), None


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
        return _make(f(*_dense(x)), mask)

    @staticmethod
    def backward(ctx, grad):
        data, mask = _dense(ctx.x)
        data = data.detach().requires_grad_()
        with torch.enable_grad():
            result = ctx.f(data, mask)
        if is_masked_tensor(grad):  # what is masked out may be anything, NaN for one
            grad = grad._masked_data.masked_fill(~grad._masked_mask, 0)
        return _like(ctx.x, torch.autograd.grad(result, data, grad)[0]), None, None


_REDUCTIONS = frozenset("sum mean prod amax amin argmax argmin all var std softmax _softmax".split())


def _reduced(name, x, dim=None, keepdim=False, *more, **options):
    """A reduction by its Python arguments: those after keepdim are a variance's."""
    if name in ("var", "std"):
        if isinstance(dim, bool):  # unbiased, in the place of dim
            dim, options = None, dict(options, unbiased=dim)
        options = {k: v for k, v in options.items() if v is not None}
    if name in ("softmax", "_softmax"):
        if x.layout != torch.strided:
            return NotImplemented
        options = {k: v for k, v in options.items() if k == "dtype"}
        f, mask = (lambda d, m: torch.masked.softmax(d, dim, mask=m, **options)), x._masked_mask
        return Reduce.apply(x, f, mask)
    dims = dim if dim is None or isinstance(dim, int) else tuple(dim) or None
    if x.layout != torch.strided and dims is not None:
        return NotImplemented
    if name == "all":
        f = lambda d, m: torch.all(d.bool() | ~m, *(() if dims is None else (dims, keepdim)))
    else:
        f = lambda d, m: getattr(torch.masked, name)(d, dims, *more, keepdim=keepdim, mask=m, **options)
    mask = _dense(x)[1].any() if dims is None else torch.any(x._masked_mask, dims, keepdim)
    return Reduce.apply(x, f, mask.reshape([1] * x.dim()) if dims is None and keepdim else mask)


# ---- operations below autograd

_MOVES = set("select slice transpose t permute squeeze unbind view _unsafe_view _reshape_alias expand unsqueeze cat stack split split_with_sizes chunk index contiguous "
             "select_backward slice_backward unfold unfold_backward im2col col2im ravel unsafe_split unsafe_chunk as_strided".split())
_KEEPS = set("_to_copy clone detach alias lift_fresh ones_like clamp clip nan_to_num round isfinite isinf isposinf isneginf isreal positive float_power pow "
             "_conj conj real resolve_conj resolve_neg threshold_backward copy_ _fw_primal div floor_divide isclose add sub rsub".split())
_NOT = frozenset("fill fill_ zero_ masked_fill masked_fill_ xlogy lerp addcmul addcdiv".split())  # rows that say nothing about a mask


def _masked_of(args):
    for a in args:
        if is_masked_tensor(a):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from _masked_of(a)


def _match(first, x):
    """Have both the same mask?"""
    a, b = first._masked_mask, x._masked_mask
    if a.layout != b.layout:
        raise ValueError("`a` and `b` must have the same layout. Got %s and %s" % (a.layout, b.layout))
    if a.layout == torch.strided:
        return a.shape == b.shape and torch.equal(a, b)
    return a.shape == b.shape and all(torch.equal(*pair) for pair in zip((*_indices(a), a.values()), (*_indices(b), b.values())))


def _swap(args, part):
    """The arguments with `part` (data or mask) in place of masked tensors."""
    return [getattr(a, part) if is_masked_tensor(a) else type(a)(_swap(a, part)) if isinstance(a, (list, tuple)) else a for a in args]


def _keep(func, args, kwargs):
    """Elementwise: the mask is that of the operands, which all have the same."""
    first, *more = _masked_of((*args, *kwargs.values()))
    if not all([_match(first, x) for x in more]) and func._opname != "copy_":
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    sparse = first.layout != torch.strided
    if sparse and any(isinstance(a, torch.Tensor) and not is_masked_tensor(a) and a.dim() for a in args):
        raise RuntimeError("%s: a masked tensor of layout %s and a dense tensor: entries have no place in it, use to_dense()" % (func, first.layout))
    result = func(*_swap(args, "_masked_values"), **dict(zip(kwargs, _swap(kwargs.values(), "_masked_values"))))
    if func._opname.endswith("_") and is_masked_tensor(args[0]):
        if sparse:
            args[0]._masked_data = _with_values(first._masked_data, result)
        return args[0]
    if sparse:
        return _make(_with_values(first._masked_data, result), first._masked_mask)
    return _make(result, first._masked_mask.expand(result.shape).contiguous())


def _apart(data, mask):
    """A masked tensor of its own of what a moving operation made."""
    if data.layout == torch.sparse_coo:
        return _make(data.coalesce().clone(), mask.coalesce().clone())
    return _make(data.clone(), mask.clone())


def _move(func, args, kwargs):
    both = [func(*_swap(args, part), **kwargs) for part in ("_masked_data", "_masked_mask")]
    return _apart(*both) if isinstance(both[0], torch.Tensor) else tuple(_apart(d, m) for d, m in zip(*both))


def _where(cond, x, y):
    """Of the mask, too; dense operands and numbers are there everywhere."""
    parts = [(t._masked_data, t._masked_mask) if is_masked_tensor(t) else (t, torch.tensor(True)) for t in (x, y)]
    there = cond._masked_mask if is_masked_tensor(cond) else True
    cond = cond._masked_data if is_masked_tensor(cond) else cond
    return _make(torch.where(cond, parts[0][0], parts[1][0]), torch.where(cond, parts[0][1], parts[1][1]) & there)


class Where(torch.autograd.Function):
    """What was not chosen has no gradient: masked out, where dense tensors have zero."""

    @staticmethod
    def forward(ctx, cond, x, y):
        ctx.save_for_backward(cond)
        return torch.where(cond, x, y)

    @staticmethod
    def backward(ctx, g):
        cond, = ctx.saved_tensors
        absent = _make(g._masked_data, torch.zeros_like(g._masked_mask))
        wanted = ctx.needs_input_grad
        return None, torch.where(cond, g, absent) if wanted[1] else None, torch.where(cond, absent, g) if wanted[2] else None


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
