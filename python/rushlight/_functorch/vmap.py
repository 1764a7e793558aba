"""vmap: run a function written for one example on a batch of them.

A BatchedTensor stands for one example and holds the whole batch; calls on it arrive in __torch_function__. Pointwise
calls run on the whole batch after lining up the ranks; those with a rule in RULES likewise; all other calls run example
by example and are stacked, which is right for every function and fast for none.
"""
import functools
import itertools
import math

import rushlight as torch
from ..overrides import TorchFunctionMode
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten

Tensor = torch.Tensor
_levels = []  # batch sizes of the vmaps that are running, outermost first
_randomness = []


def in_vmap():
    return bool(_levels)


class BatchedTensor(Tensor):
    """One example of a batch: `value` has the batch in dimension 0, `level` says of which vmap."""

    @staticmethod
    def __new__(cls, value, level):
        with torch._C.DisableTorchFunctionSubclass():
            like = value.new_empty(()) if not isinstance(value, BatchedTensor) else torch.empty((), dtype=value.dtype)
            self = Tensor._make_subclass(cls, like)
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
    mT = property(lambda self: self.transpose(-2, -1))
    data = property(lambda self: BatchedTensor(self.value.data, self.level))
    is_sparse = is_quantized = is_cuda = is_meta = property(lambda self: False)

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
        return f"BatchedTensor(lvl={self.level}, bdim=0, value=\n{self.value!r}\n)"

    def item(self):
        raise RuntimeError("vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
                           ".item() on a Tensor, please try to rewrite what you're doing with other operations.")

    def __bool__(self):
        raise RuntimeError("vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. "
                           "We don't support that yet; use torch.where, or move the branch out of the vmapped function.")

    __int__ = __float__ = __index__ = item

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})


def unwrap(x, level):
    """(tensor, whether it is batched at this level)"""
    if isinstance(x, BatchedTensor) and x.level == level:
        return x.value, True
    return x, False


def _tensors(x):
    return [t for t in tree_flatten(x)[0] if isinstance(t, Tensor)]


def _top(args, kwargs):
    return max((t.level for t in _tensors((args, kwargs)) if isinstance(t, BatchedTensor)), default=None)


def _name(func):
    return getattr(func, "__name__", "").strip("_") if not isinstance(func, property) else "get"


POINTWISE = set("""abs absolute acos acosh add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow
asin asinh atan atan2 atanh bitwise_and bitwise_or bitwise_xor bitwise_not ceil clamp clamp_min clamp_max clip copysign cos cosh
deg2rad digamma eq ne lt le gt ge erf erfc erfinv exp exp2 expm1 fix floor frac gelu greater greater_equal heaviside hypot
hardtanh hardsigmoid hardswish isfinite isinf isnan isneginf isposinf leaky_relu lerp less less_equal lgamma log log10 log1p log2
logaddexp logaddexp2 logical_and logical_or logical_xor logical_not logit logsigmoid maximum minimum fmax fmin mish nan_to_num neg negative
not_equal positive rad2deg reciprocal relu relu6 round rsqrt selu elu celu sgn sigmoid sign signbit silu sin sinc sinh softplus softsign
sqrt square tan tanh tanhshrink threshold trunc where xlogy addcmul addcdiv conj real imag angle
radd rmul rtruediv truediv rfloordiv floordiv mod and or xor invert rpow zeros_like ones_like clone contiguous detach to float double half
bfloat16 long int bool type_as masked_fill ne""".split())
RULES = {}


def rule(*names):
    def add(fn):
        for name in names:
            RULES[name] = fn
        return fn
    return add


def _lift(values, batched, size):
    """Pad the examples' ranks with ones so that broadcasting lines them up; unbatched tensors stay as they are."""
    rank = max(v.ndim - b for v, b in zip(values, batched))
    return [v.reshape(v.shape[:1] + (1,) * (rank - v.ndim + 1) + v.shape[1:]) if b and v.ndim - 1 < rank else v
            for v, b in zip(values, batched)]


def _pointwise(func, args, kwargs, level):
    flat, spec = tree_flatten((args, kwargs))
    at = [i for i, x in enumerate(flat) if isinstance(x, Tensor)]
    values, batched = zip(*(unwrap(flat[i], level) for i in at))
    for i, v in zip(at, _lift(values, batched, _levels[level])):
        flat[i] = v
    args, kwargs = tree_unflatten(flat, spec)
    return _wrap(func(*args, **kwargs), level)


def _wrap(out, level):
    return tree_map(lambda t: BatchedTensor(t, level) if isinstance(t, Tensor) else t, out)


def _by_example(func, args, kwargs, level):
    """The road that is always right: each example by itself."""
    flat, spec = tree_flatten((args, kwargs))
    results, kind = [], None
    for k in range(_levels[level]):
        one = [unwrap(x, level)[0][k] if isinstance(x, BatchedTensor) and x.level == level else x for x in flat]
        a, kw = tree_unflatten(one, spec)
        leaves, kind = tree_flatten(func(*a, **kw))
        results.append(leaves)
    stacked = []
    for leaves in zip(*results):
        stacked.append(BatchedTensor(torch.stack(leaves), level) if isinstance(leaves[0], Tensor) else leaves[0])
    return tree_unflatten(stacked, kind)


def _in_place(func, args, kwargs, level):
    name = _name(func)
    target = args[0]
    if not (isinstance(target, BatchedTensor) and target.level == level):
        raise RuntimeError(f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has "
                           "more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over.")
    if name == "resize":
        return _resize(target, *args[1:], **kwargs)
    for k in range(_levels[level]):
        one = tree_map(lambda x: x.value[k] if isinstance(x, BatchedTensor) and x.level == level else x, (args, kwargs))
        func(*one[0], **one[1])
    return target


def _resize(target, *size, memory_format=None):
    """The elements of the whole batch, in a row, are read anew: that is what PyTorch does, too."""
    if memory_format not in (None, torch.contiguous_format):
        raise RuntimeError(f"NYI: resize_ batching rule for {memory_format} is not implemented")
    if not target.value.is_contiguous():
        raise RuntimeError("NYI: resize_ batching rule for a batch that is not in dimension 0 is not implemented")
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    target.value.resize_((target.value.shape[0], *size))
    return target


def _shifted(dims, ndim):
    """Dimensions of an example as dimensions of the batch."""
    if isinstance(dims, int):
        return dims % max(ndim, 1) + 1
    return type(dims)(_shifted(d, ndim) for d in dims) if isinstance(dims, (tuple, list)) else dims


def _dims_rule(func, args, kwargs, level):
    """Reductions and the like: argument 1 or dim= names dimensions of an example; without one, all of them."""
    x = args[0]
    if not isinstance(x, BatchedTensor) or x.level != level or len(_tensors((args, kwargs))) != 1 or x.ndim == 0:
        return _by_example(func, args, kwargs, level)
    args, kwargs = list(args), dict(kwargs)
    key = "dim" if "dim" in kwargs else "axis" if "axis" in kwargs else None
    dim = kwargs[key] if key else args[1] if len(args) > 1 else None
    if dim is None:
        if _name(func) not in ("sum", "mean", "all", "any", "amax", "amin", "var", "std", "logsumexp"):
            return _by_example(func, args, kwargs, level)
        dim = tuple(range(x.ndim))
    dim = _shifted(tuple(dim) if isinstance(dim, list) else dim, x.ndim)
    if key or len(args) == 1:
        kwargs[key or "dim"] = dim
    else:
        args[1] = dim
    return _wrap(func(x.value, *args[1:], **kwargs), level)


for _n in "sum mean amax amin softmax log_softmax logsumexp cumsum cumprod argmax argmin squeeze norm all any flip sort argsort".split():
    RULES[_n] = _dims_rule


@rule("matmul", "rmatmul")
def _matmul(func, args, kwargs, level):
    (a, in_a), (b, in_b) = unwrap(args[0], level), unwrap(args[1], level)
    if _name(func) == "rmatmul":
        a, in_a, b, in_b = b, in_b, a, in_a
    rank_a, rank_b = a.ndim - in_a, b.ndim - in_b
    if rank_a > 2 or rank_b > 2:
        return _by_example(torch.matmul, args, kwargs, level)
    if rank_a == 1:
        a = a.unsqueeze(-2)
    if rank_b == 1:
        b = b.unsqueeze(-1)
    out = torch.matmul(a, b)
    if rank_a == 1:
        out = out.squeeze(-2)
    if rank_b == 1:
        out = out.squeeze(-1)
    return BatchedTensor(out, level)


RULES["mm"] = RULES["mv"] = RULES["bmm"] = RULES["dot"] = lambda func, args, kwargs, level: _matmul(torch.matmul, args, kwargs, level)


@rule("linear")
def _linear(func, args, kwargs, level):
    names = dict(zip(("input", "weight", "bias"), args), **kwargs)
    out = names["input"] @ names["weight"].transpose(0, 1)
    return out if names.get("bias") is None else out + names["bias"]


@rule("unsqueeze")
def _unsqueeze(func, args, kwargs, level):
    x, dim = args[0], kwargs.get("dim", args[-1])
    return BatchedTensor(x.value.unsqueeze(dim % (x.ndim + 1) + 1), level)


@rule("transpose", "swapaxes", "swapdims")
def _transpose(func, args, kwargs, level):
    x = args[0]
    if kwargs:
        return _by_example(func, args, kwargs, level)
    return BatchedTensor(x.value.transpose(*(_shifted(d, x.ndim) for d in args[1:])), level)


@rule("t")
def _t(func, args, kwargs, level):
    x = args[0]
    return BatchedTensor(x.value.transpose(1, 2) if x.ndim == 2 else x.value, level)


def _ints(args):
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else tuple(args)


@rule("permute")
def _permute(func, args, kwargs, level):
    x, dims = args[0], _ints(args[1:]) or tuple(kwargs["dims"])
    return BatchedTensor(x.value.permute(0, *_shifted(dims, x.ndim)), level)


@rule("view", "reshape")
def _reshape(func, args, kwargs, level):
    x = args[0]
    size = _ints(args[1:]) if len(args) > 1 else tuple(kwargs.get("shape", ()))
    if any(not isinstance(s, int) for s in size):
        return _by_example(func, args, kwargs, level)
    return BatchedTensor(x.value.reshape(x.value.shape[0], *size), level)


@rule("flatten")
def _flatten(func, args, kwargs, level):
    x = args[0]
    start = kwargs.get("start_dim", args[1] if len(args) > 1 else 0)
    end = kwargs.get("end_dim", args[2] if len(args) > 2 else -1)
    if x.ndim == 0:
        return BatchedTensor(x.value.unsqueeze(1), level)
    return BatchedTensor(x.value.flatten(_shifted(start, x.ndim), _shifted(end, x.ndim)), level)


@rule("expand")
def _expand(func, args, kwargs, level):
    x, size = args[0], _ints(args[1:])
    value = x.value.reshape(x.value.shape[:1] + (1,) * (len(size) - x.ndim) + x.value.shape[1:])
    return BatchedTensor(value.expand(value.shape[0], *size), level)


@rule("cat", "stack", "concat")
def _join(func, args, kwargs, level):
    tensors = list(args[0] if args else kwargs["tensors"])
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    rank = max(t.ndim for t in tensors)
    values = []
    for t in tensors:
        v, batched = unwrap(t, level)
        values.append(v if batched else v.unsqueeze(0).expand(_levels[level], *v.shape))
    return BatchedTensor(func(values, dim % (rank + (_name(func) == "stack")) + 1), level)


@rule("getitem")
def _getitem(func, args, kwargs, level):
    x, index = args
    if any(isinstance(i, BatchedTensor) for i in _tensors(index)) or not isinstance(x, BatchedTensor) or x.level != level:
        return _by_example(func, args, kwargs, level)
    index = index if isinstance(index, tuple) else (index,)
    kinds = [None if i is None or i is ... or isinstance(i, slice) else "place" for i in index if type(i) is not int]
    if sum(kind is not None and before is None for before, kind in zip([None] + kinds, kinds)) > 1:
        return _by_example(func, args, kwargs, level)  # places apart from each other: their dimensions would go before the batch's
    return BatchedTensor(x.value[(slice(None),) + index], level)


def _refuse_draws():
    raise RuntimeError("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                       "randomness flags on vmap or perform the randomness operation out of vmap")


class _Draws(TorchFunctionMode):
    """Draws that no batched tensor takes part in, torch.rand(3): a batch of them, where examples are to differ."""

    NAMES = {"rand": 0, "randn": 0, "randint": 1, "randperm": None}  # how many arguments come before the size, at least

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name not in self.NAMES or not _levels or _top(args, kwargs) is not None:
            return func(*args, **kwargs)
        if "error" in _randomness:
            _refuse_draws()
        apart = [level for level, mode in enumerate(_randomness) if mode == "different"]
        batch = tuple(_levels[level] for level in apart)
        if name == "randperm":
            value = torch.stack([func(*args, **kwargs) for _ in range(math.prod(batch))]).unflatten(0, batch or (1,))
            value = value if batch else value[0]
        else:
            before = self.NAMES[name] + (name == "randint" and len(args) > 1 and isinstance(args[1], int))
            size = kwargs.pop("size", None) if "size" in kwargs else args[before:]
            size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
            value = func(*args[:before], batch + size, **kwargs)
        for level in apart:
            value = BatchedTensor(value, level)
        return value


@rule("rand", "randn", "randint", "bernoulli", "normal", "dropout", "rand_like", "randn_like", "randint_like", "multinomial")
def _random(func, args, kwargs, level):
    mode = _randomness[level]
    given = dict(zip(("input", "p", "training"), args), **kwargs)
    still = _name(func) == "dropout" and (not given.get("training", given.get("train", True)) or given.get("p") == 0)
    if mode == "error" and not still:
        _refuse_draws()
    if mode == "same":
        state = torch.get_rng_state()

        def again(*a, **kw):
            torch.set_rng_state(state)
            return func(*a, **kw)
        return _by_example(again, args, kwargs, level)
    return _by_example(func, args, kwargs, level)


@rule("as_strided", "as_strided_copy", "as_strided_scatter")
def _strided(func, args, kwargs, level):
    """Offsets count from the start of an example."""
    x = args[0]
    named = "storage_offset" in kwargs
    place = 4 if _name(func).endswith("scatter") else 3
    given = kwargs.get("storage_offset") if named else args[place] if len(args) > place else None
    if given is None or not (isinstance(x, BatchedTensor) and x.level == level):
        return _by_example(func, args, kwargs, level)
    out = []
    for k in range(_levels[level]):
        a, kw = tree_map(lambda t: t.value[k] if isinstance(t, BatchedTensor) and t.level == level else t, (args, dict(kwargs)))
        offset = given + a[0].storage_offset() - x.value.storage_offset()
        kw["storage_offset"] = offset
        out.append(func(*a[:place], **kw))
    return BatchedTensor(torch.stack(out), level)


def _call(func, args, kwargs):
    level = _top(args, kwargs)
    if level is None:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    raw = getattr(func, "__name__", "")
    name = _name(func)
    if raw.endswith("_") and not raw.endswith("__") and raw[:-1].strip("_") not in ("", "requires_grad") or raw in ("__setitem__", "__iadd__", "__imul__",
                                                                                                                 "__isub__", "__itruediv__"):
        return _in_place(func, args, kwargs, level)
    if name in POINTWISE and "inplace" not in kwargs and "out" not in kwargs:
        return _pointwise(func, args, kwargs, level)
    return RULES.get(name, _by_example)(func, args, kwargs, level)


# ---- the transform

def _called(func):
    return getattr(func, "__name__", None) or repr(func)


def _spread(dims, tree):
    """One of dims per leaf of the tree; None where the two don't fit."""
    if not isinstance(dims, (tuple, list, dict)):
        return [dims] * len(tree_flatten(tree)[0])
    if type(dims) is not type(tree) or len(dims) != len(tree) or isinstance(dims, dict) and dims.keys() != tree.keys():
        return None
    parts = [_spread(dims[k], tree[k]) for k in tree] if isinstance(dims, dict) else [_spread(d, x) for d, x in zip(dims, tree)]
    return None if None in parts else list(itertools.chain(*parts))


def _in_dims(in_dims, args, func):
    """(leaves of args, the dimension of each to map over or None, the spec, the size of the batch)"""
    if not args:
        raise ValueError(f"vmap({_called(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
                         "function with no inputs. The latter is unsupported.")
    call = f"vmap({_called(func)}, in_dims={in_dims}, ...)(<inputs>)"
    flat, spec = tree_flatten(args)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}.")
    dims = _spread(in_dims, args)
    if dims is None:
        raise ValueError(f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has structure {tree_flatten(in_dims)[1]} "
                         f"but inputs has structure {spec}.")
    for x, d in zip(flat, dims):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(f"{call}: Got in_dim={d} for an input but in_dim must be either an integer dimension or None.")
        if not isinstance(x, Tensor):
            raise ValueError(f"{call}: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, "
                             "please use None as the respective in_dim")
        if not -x.ndim <= d < x.ndim:
            raise ValueError(f"{call}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {x.ndim} "
                             f"so expected in_dim to satisfy -{x.ndim} <= in_dim < {x.ndim}.")
    sizes = [x.shape[d] for x, d in zip(flat, dims) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension")
    return flat, dims, spec, sizes[0]


def _run_levelled(size, randomness, body):
    _levels.append(size)
    _randomness.append(randomness)
    try:
        if len(_levels) > 1:
            return body(len(_levels) - 1)
        with _Draws():
            return body(0)
    finally:
        _levels.pop()
        _randomness.pop()


def _unwrap_outputs(func, out, out_dims, level, size):
    flat, spec = tree_flatten(out)
    dims = list(out_dims) if isinstance(out, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1 else _spread(out_dims, out)
    if dims is None:
        raise ValueError(f"vmap({_called(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
                         f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}.")
    results = []
    for x, d in zip(flat, dims):
        if not isinstance(x, Tensor):
            if d is not None:
                raise ValueError(f"vmap({_called(func)}, ...): `{_called(func)}` must only return Tensors, got type {type(x)}. "
                                 "Did you mean to set out_dims= to None for output?")
            results.append(x)
            continue
        value, batched = unwrap(x, level)
        if d is None:
            if batched:
                raise ValueError(f"vmap({_called(func)}, ...): `{_called(func)}` can not return a BatchedTensor when out_dim is None")
            results.append(value)
            continue
        if not batched:
            value = value.unsqueeze(0).expand(size, *value.shape)
        results.append(value.movedim(0, d) if d else value)
    return tree_unflatten(results, spec)


def check_randomness(randomness):
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """`func` for a batch: every tensor input is an example per index of its dimension in `in_dims` (None: the same for
    all); the outputs' batch goes to `out_dims`. randomness: "error", "different" or "same" across examples.
    chunk_size: that many examples at a time."""
    check_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def batched(*args, **kwargs):
        if not all(d is None or isinstance(d, int) for d in tree_flatten(out_dims)[0]):
            raise ValueError(f"vmap({_called(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
                             "representing where in the outputs the vmapped dimension should appear.")
        flat, dims, spec, size = _in_dims(in_dims, args, func)
        more, more_spec = tree_flatten(kwargs)
        flat, dims = flat + more, dims + [0 if isinstance(x, Tensor) else None for x in more]
        n = len(flat) - len(more)

        def run(part, part_size):
            def body(level):
                made = [BatchedTensor(x.movedim(d, 0), level) if d is not None else x for x, d in zip(part, dims)]
                out = func(*tree_unflatten(made[:n], spec), **tree_unflatten(made[n:], more_spec))
                return _unwrap_outputs(func, out, out_dims, level, part_size)
            return _run_levelled(part_size, randomness, body)

        if chunk_size is None or chunk_size >= size:
            return run(flat, size)
        outs = []
        for begin in range(0, size, chunk_size):
            k = min(chunk_size, size - begin)
            outs.append(run([x.narrow(d, begin, k) if d is not None else x for x, d in zip(flat, dims)], k))
        leaves = [tree_flatten(o) for o in outs]
        kinds = [out_dims] * len(leaves[0][0]) if isinstance(out_dims, int) else list(itertools.chain(out_dims))
        return tree_unflatten([torch.cat(parts, d or 0) for parts, d in zip(zip(*(f for f, _ in leaves)), kinds)], leaves[0][1])
    return batched
