"""What vmap works on: a BatchedTensor stands for one example and holds the whole batch.

Calls on it arrive in __torch_function__. Pointwise calls run on the whole batch after lining up the ranks; those with a
rule in RULES (batch_rules.py, draws.py) likewise; all other calls run example by example and are stacked, which is right
for every function and fast for none.
"""
import math

import rushlight as torch
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from . import draw_modes, levels

Tensor = torch.Tensor


def in_vmap():
    return bool(levels)


class BatchedTensor(Tensor):
    """One example of a batch: `value` has the batch in dimension 0, `level` says of which vmap."""

    _above_modes = True  # before __torch_dispatch__ of modes, as functorch's layers are

    @staticmethod
    def __new__(cls, value, level):
        self = Tensor._make_wrapper_subclass(cls, value.shape[1:], dtype=value.dtype, device=value.device)
        self.value, self.level = value, level
        return self

    shape = property(lambda self: torch.Size(self.value.shape[1:]))
    ndim = property(lambda self: self.value.ndim - 1)
    dtype = property(lambda self: self.value.dtype)
    device = property(lambda self: self.value.device)
    layout = property(lambda self: self.value.layout)
    grad_fn = property(lambda self: self.value.grad_fn)
    is_leaf = property(lambda self: self.value.is_leaf)
    grad = property(lambda self: None if self.value.grad is None else BatchedTensor(self.value.grad, self.level))
    T = property(lambda self: self.permute(*range(self.ndim - 1, -1, -1)))
    data = property(lambda self: BatchedTensor(self.value.data, self.level))
    is_sparse = is_quantized = is_cuda = is_meta = property(lambda self: False)

    @property
    def mT(self):
        if self.ndim < 2:
            raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor.")
        return self.transpose(-2, -1)

    @property
    def mH(self):
        return self.mT.conj()

    @property
    def H(self):
        if self.ndim not in (0, 2):
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
        return self.mH if self.ndim else self.conj()

    real, imag = property(lambda self: torch.real(self)), property(lambda self: torch.imag(self))

    @property
    def requires_grad(self):
        return self.value.requires_grad

    @requires_grad.setter
    def requires_grad(self, on):
        self.value.requires_grad_(on)

    def requires_grad_(self, on=True):
        self.value.requires_grad_(on)
        return self

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.ndim

    def numel(self):
        return math.prod(self.shape)

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def is_complex(self):
        return self.dtype.is_complex

    def __len__(self):
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self):
        return iter(self.unbind(0))

    def __hash__(self):
        return id(self)

    def __repr__(self):
        text = "\n".join("    " + line for line in repr(self.value).split("\n"))
        return f"BatchedTensor(lvl={self.level + 1}, bdim=0, value=\n{text}\n)"

    def item(self):
        raise RuntimeError("vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
                           ".item() on a Tensor, please try to rewrite what you're doing with other operations. If error is "
                           "occurring somewhere inside PyTorch internals, please file a bug report.")

    def __bool__(self):
        raise RuntimeError("vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. "
                           "We don't support that yet; use torch.where, or move the branch out of the vmapped function.")

    def data_ptr(self):
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    tolist = numpy = __array__ = lambda self, *args, **kwargs: self.data_ptr()
    __int__ = __float__ = __index__ = __complex__ = item
    is_nonzero = __bool__

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """What the library calls itself: derivatives, in a backward whose gradients are batched."""
        return _call(func, args, kwargs or {})


def unwrap(x, level):
    """(tensor, whether it is batched at this level)"""
    if isinstance(x, BatchedTensor) and x.level == level:
        return x.value, True
    return x, False


def tensors_in(x):
    return [t for t in tree_flatten(x)[0] if isinstance(t, Tensor)]


def batched_in(x):
    return [t for t in tensors_in(x) if isinstance(t, BatchedTensor)]


def top_level(args, kwargs):
    return max((t.level for t in batched_in((args, kwargs))), default=None)


def raw_name(func):
    return func._schema.name.partition("::")[2] if isinstance(func, torch._ops.OpOverload) else getattr(func, "__name__", "")


def name_of(func):
    return raw_name(func).strip("_") if not isinstance(func, property) else "get"


POINTWISE = set("""abs absolute acos acosh add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow
asin asinh atan atan2 atanh bitwise_and bitwise_or bitwise_xor bitwise_not ceil clamp clamp_min clamp_max clip copysign cos cosh
deg2rad digamma eq ne lt le gt ge erf erfc erfinv exp exp2 expm1 fix floor frac gelu greater greater_equal heaviside hypot
hardtanh hardsigmoid hardswish isfinite isinf isnan isneginf isposinf leaky_relu lerp less less_equal lgamma log log10 log1p log2
logaddexp logaddexp2 logical_and logical_or logical_xor logical_not logit logsigmoid maximum minimum fmax fmin mish nan_to_num neg negative
not_equal positive rad2deg reciprocal relu relu6 round rsqrt selu elu celu sgn sigmoid sign signbit silu sin sinc sinh softplus softsign
sqrt square tan tanh tanhshrink threshold trunc where xlogy addcmul addcdiv conj real imag angle
radd rmul rtruediv truediv rfloordiv floordiv mod and or xor invert rpow zeros_like ones_like clone contiguous detach float double half
bfloat16 long int bool ne pos alias resolve_conj resolve_neg view_as_complex
threshold_backward tanh_backward sigmoid_backward hardtanh_backward elu_backward gelu_backward silu_backward mish_backward
leaky_relu_backward hardsigmoid_backward hardswish_backward logit_backward softplus_backward softshrink_backward hardshrink_backward""".split())
OF_TWO = set("""add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin hypot
copysign xlogy logaddexp logaddexp2 heaviside radd rmul rtruediv truediv rfloordiv floordiv mod rpow""".split())
RULES = {}


def rule(*names):
    def add(fn):
        for name in names:
            RULES[name] = fn
        return fn
    return add


def lift(values, batched):
    """Pad the examples' ranks with ones so that broadcasting lines them up; unbatched tensors stay as they are."""
    rank = max(v.ndim - b for v, b in zip(values, batched))
    return [v.reshape(v.shape[:1] + (1,) * (rank - v.ndim + 1) + v.shape[1:]) if b and v.ndim - 1 < rank else v
            for v, b in zip(values, batched)]


def shifted(dims, ndim):
    """Dimensions of an example as dimensions of the batch."""
    if isinstance(dims, int):
        most = max(ndim, 1)
        if not -most <= dims < most:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], but got {dims})")
        return dims % most + 1
    return type(dims)(shifted(d, ndim) for d in dims) if isinstance(dims, (tuple, list)) else dims


def alone(x, args, kwargs, level):
    """Whether x is batched at this level, has dimensions, and no other tensor is there."""
    return isinstance(x, BatchedTensor) and x.level == level and x.ndim > 0 and len(tensors_in((args, kwargs))) == 1


def whole(x, level):
    """The batch of x, repeated where x is the same for all examples."""
    value, batched = unwrap(x, level)
    return value if batched else value.unsqueeze(0).expand(levels[level], *value.shape)


def wrap(out, level):
    return tree_map(lambda t: BatchedTensor(t, level) if isinstance(t, Tensor) else t, out)


def lined_up(args, kwargs, level):
    """The arguments with the tensors lifted, and the ranks of the examples."""
    flat, spec = tree_flatten((args, kwargs))
    at = [i for i, x in enumerate(flat) if isinstance(x, Tensor)]
    values, batched = zip(*(unwrap(flat[i], level) for i in at))
    for i, v in zip(at, lift(values, batched)):
        flat[i] = v
    return (*tree_unflatten(flat, spec), [v.ndim - b for v, b in zip(values, batched)])


def pointwise(func, args, kwargs, level):
    """func on the whole batch, its operands broadcast example by example."""
    if name_of(func) in OF_TWO:
        args, kwargs = _promoted(args, kwargs, level)
    args, kwargs, _ = lined_up(args, kwargs, level)
    return wrap(func(*args, **kwargs), level)


def _promoted(args, kwargs, level):
    """An example without dimensions decides on the result's dtype only as numbers do, though its batch has one."""
    flat, spec = tree_flatten((args, kwargs))
    at = [i for i, x in enumerate(flat) if isinstance(x, Tensor)]
    ranks = [flat[i].ndim for i in at]
    if len(at) == 2 and min(ranks) == 0 < max(ranks):
        number, other = sorted((flat[i] for i in at), key=lambda t: t.ndim)
        dtype = torch.result_type(torch.empty((), dtype=number.dtype), torch.empty(1, dtype=other.dtype))
        if unwrap(number, level)[1] and number.dtype != dtype:
            flat = [x.to(dtype) if x is number else x for x in flat]
    return tree_unflatten(flat, spec)


def refuse_draws():
    raise RuntimeError("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                       "randomness flags on vmap or perform the randomness operation out of vmap")


def by_example(func, args, kwargs, level):
    """The road that is always right: each example by itself. Draws are noticed by what they do to the generator."""
    flat, spec = tree_flatten((args, kwargs))
    results, kind, size = [], None, levels[level]
    state = torch.random._states() if draw_modes[level] != "different" else None

    def example(x, k):
        """One of the batch; of an empty batch one that matrices can be inverted with."""
        if size:
            return x.value[k]
        made = x.value.new_zeros(x.shape)
        if made.ndim > 1:
            made.diagonal(dim1=-2, dim2=-1).fill_(1)
        return made
    for k in range(size or 1):
        if k and draw_modes[level] == "same":
            torch.random._go_on_from(state)
        one = [example(x, k) if isinstance(x, BatchedTensor) and x.level == level else x for x in flat]
        a, kw = tree_unflatten(one, spec)
        leaves, kind = tree_flatten(func(*a, **kw))
        results.append(leaves)
        if not k and draw_modes[level] == "error" and torch.random._drawn_since(state):
            torch.random._go_on_from(state)
            refuse_draws()
    wholes = [x.value for x in flat if isinstance(x, BatchedTensor) and x.level == level] if size else []

    def together(leaves):
        view = _view_of_all(leaves, wholes)
        return BatchedTensor(torch.stack(leaves)[:size] if view is None else view, level)
    return tree_unflatten([together(leaves) if isinstance(leaves[0], Tensor) else leaves[0] for leaves in zip(*results)], kind)


def _below(x):
    """The tensor beneath all levels, and the levels."""
    through = []
    while isinstance(x, BatchedTensor):
        through.append(x.level)
        x = x.value
    return x, through


def _view_of_all(results, wholes):
    """What the examples' results are together if each is the same part of its example: a view of the batch, so that what is written to it is there."""
    (first, through), *others = map(_below, results)
    outer, step = len(through), None
    for whole, levels_of_it in map(_below, wholes):
        if levels_of_it == through and first.dtype == whole.dtype and torch._C._is_alias_of(first, whole) and (first.is_conj(), first.is_neg()) == (whole.is_conj(), whole.is_neg()):
            step = whole.stride(outer)
            break
    if step is None or any(r.stride() != first.stride() or r.storage_offset() != first.storage_offset() + k * step for k, (r, _) in enumerate(others, 1)):
        return None
    size, stride = ((*lead[:outer], one, *lead[outer:]) for lead, one in ((first.shape, len(results)), (first.stride(), step)))
    view = whole.as_strided(size, stride, first.storage_offset())
    for level in reversed(through):
        view = BatchedTensor(view, level)
    return view


def _in_place(func, args, kwargs, level):
    name = name_of(func)
    target = args[0]
    if not (isinstance(target, BatchedTensor) and target.level == level):
        what = "inplace arithmetic" if name in POINTWISE or name == "copy" else getattr(func, "__name__", name)
        raise RuntimeError(f"vmap: {what}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more "
                           "elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. "
                           f"Please try to use out-of-place operators instead of {what}. If said operator is being called inside the PyTorch "
                           "framework, please file a bug report instead.")
    if name == "resize":
        return _resize(target, *args[1:], **kwargs)
    if name in ("unsqueeze", "squeeze", "transpose", "swapaxes", "swapdims", "t", "as_strided"):  # another shape of the same memory
        target.value = getattr(torch.Tensor, name)(*args, **kwargs).value
        return target
    if name in POINTWISE or name in ("iadd", "isub", "imul", "itruediv", "copy", "fill", "zero"):
        whole, named, ranks = lined_up(args, kwargs, level)
        if max(ranks) == target.ndim:
            if name == "fill" and len(ranks) == 2:  # a value of each example
                whole[0].copy_((*whole, *named.values())[1])
            else:
                func(*whole, **named)
            return target
    for k in range(levels[level]):
        one = tree_map(lambda x: x.value[k] if isinstance(x, BatchedTensor) and x.level == level else x, (args, kwargs))
        func(*one[0], **one[1])
    return target


def _asked_in_place(func, args, kwargs, level):
    """F.relu(x, inplace=True) and its like: on the whole batch where that is the same, else computed and copied."""
    target, whole = args[0], name_of(func) in POINTWISE and len(args) == 1
    if whole and isinstance(target, BatchedTensor) and target.level == level:
        return _in_place(func, args, kwargs, level)
    out = _call(func, args, dict(kwargs, inplace=False))
    return _in_place(torch.Tensor.copy_, (target, out), {}, level)


def _resize(target, *size, memory_format=None):
    """The elements of the whole batch, in a row, are read anew: that is what PyTorch does, too."""
    if memory_format not in (None, torch.contiguous_format):
        raise RuntimeError(f"NYI: resize_ batching rule for {memory_format} is not implemented")
    if not target.value.is_contiguous():
        raise RuntimeError("NYI: resize_ batching rule for a batch that is not in dimension 0 is not implemented")
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    target.value.resize_((target.value.shape[0], *size))
    return target


def _call(func, args, kwargs):
    level = top_level(args, kwargs)
    if level is None:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if isinstance(func, torch._ops.OperatorBase):
        own = torch._ops.written_in_python(func, args, kwargs)
        if own is not None:     # its name says nothing about it
            from .custom import by_rule
            return by_example(func, args, kwargs, level) if own.vmap is None else by_rule(own.vmap, args, kwargs, level, "the vmap staticmethod")
    raw, name = raw_name(func), name_of(func)
    if raw in RULES:
        return RULES[raw](func, args, kwargs, level)
    if raw.endswith("_") and not raw.endswith("__") and raw[:-1].strip("_") not in ("", "requires_grad") or raw in ("__setitem__", "__iadd__", "__imul__",
                                                                                                                 "__isub__", "__itruediv__"):
        return _in_place(func, args, kwargs, level)
    if kwargs.get("inplace") and args:
        return _asked_in_place(func, args, kwargs, level)
    if name in POINTWISE and "out" not in kwargs:
        return pointwise(func, args, kwargs, level)
    return RULES.get(name, by_example)(func, args, kwargs, level)
