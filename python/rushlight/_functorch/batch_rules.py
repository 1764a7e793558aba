"""Operations that run on the whole batch at once: products, shapes, and what cannot be batched. Others are in dims_rules.py, place_rules.py and whole_rules.py.

A rule is called with (func, args, kwargs, level) when an argument is batched at this level, of all levels the innermost.
"""
import rushlight as torch
from ..utils._pytree import tree_map
from . import levels
from .batched import RULES, BatchedTensor, by_example, lift, name_of, pointwise, rule, shifted, unwrap, whole, wrap


@rule("matmul", "rmatmul")
def _matmul(func, args, kwargs, level):
    (a, in_a), (b, in_b) = unwrap(args[0], level), unwrap(args[1], level)
    if name_of(func) == "rmatmul":
        a, in_a, b, in_b = b, in_b, a, in_a
    rank_a, rank_b = a.ndim - in_a, b.ndim - in_b
    if rank_a > 2 or rank_b > 2:
        if min(rank_a, rank_b) < 2:
            return by_example(torch.matmul, args, kwargs, level)
        return BatchedTensor(torch.matmul(*lift((a, b), (in_a, in_b))), level)
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


RANKS = {"mm": (2, 2), "mv": (2, 1), "bmm": (3, 3), "dot": (1, 1)}


@rule(*RANKS)
def _product(func, args, kwargs, level):
    """A product of operands of two ranks, which the batch must not make up for."""
    name = name_of(func)
    a, b = (*args, *kwargs.values())[:2]
    if (a.ndim, b.ndim) != RANKS[name]:
        raise RuntimeError("Got wrong shapes for dot" if name == "dot" else f"Shape mismatch: Got incorrect dims for {name}(a, b). a has dim {a.ndim} "
                           f"and b has dim {b.ndim} but expected them to have dim {RANKS[name][0]} and dim {RANKS[name][1]}")
    return _matmul(torch.matmul, (a, b), {}, level)


@rule("linear")
def _linear(func, args, kwargs, level):
    names = dict(zip(("input", "weight", "bias"), args), **kwargs)
    out = names["input"] @ names["weight"].transpose(0, 1)
    return out if names.get("bias") is None else out + names["bias"]


@rule("unsqueeze")
def _unsqueeze(func, args, kwargs, level):
    x, dim = args[0], kwargs.get("dim", args[-1])
    return BatchedTensor(x.value.unsqueeze(dim % (x.ndim + 1) + 1), level)


@rule("t")
def _t(func, args, kwargs, level):
    x = args[0]
    return BatchedTensor(x.value.transpose(1, 2) if x.ndim == 2 else x.value, level)


def _ints(args):
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else tuple(args)


def _sizes(args, kwargs):
    return _ints(args[1:]) if len(args) > 1 else tuple(kwargs.get("size", kwargs.get("shape", ())))


@rule("view", "reshape")
def _reshape(func, args, kwargs, level):
    x = args[0]
    if isinstance(dtype := (*args[1:], *kwargs.values())[0], torch.dtype) and x.ndim:
        return BatchedTensor(x.value.view(dtype), level)
    size = _sizes(args, kwargs)
    if any(not isinstance(s, int) for s in size):
        return by_example(func, args, kwargs, level)
    # Derivatives know how an example lies, not how the batch does.
    how = "reshape" if isinstance(func, torch._ops.OpOverload) else name_of(func)
    return BatchedTensor(getattr(x.value, how)((x.value.shape[0], *size)), level)


@rule("view_as", "reshape_as")
def _as_the_other(func, args, kwargs, level):
    x, like = (*args, *kwargs.values())
    return getattr(x, name_of(func)[:-3])(like.shape)


@rule("view_as_real")
def _view_as_real(func, args, kwargs, level):
    value = args[0].value
    return BatchedTensor(torch.view_as_real(value.resolve_conj() if isinstance(func, torch._ops.OpOverload) else value), level)


@rule("to", "type_as", "type", "cpu", "cuda")
def _to(func, args, kwargs, level):
    """Another tensor only says which dtype and device."""
    batched = unwrap(args[0], level)[1]
    args, kwargs = tree_map(lambda t: unwrap(t, level)[0], (args, kwargs))
    out = func(*args, **kwargs)
    return wrap(out, level) if batched else out


@rule("adjoint")
def _adjoint(func, args, kwargs, level):
    return args[0].transpose(-2, -1).conj()


@rule("flatten")
def _flatten(func, args, kwargs, level):
    x = args[0]
    start = kwargs.get("start_dim", args[1] if len(args) > 1 else 0)
    end = kwargs.get("end_dim", args[2] if len(args) > 2 else -1)
    if x.ndim == 0:
        return BatchedTensor(x.value.unsqueeze(1), level)
    return BatchedTensor(x.value.flatten(shifted(start, x.ndim), shifted(end, x.ndim)), level)


@rule("expand")
def _expand(func, args, kwargs, level):
    x, size = args[0], _sizes(args, kwargs)
    value = x.value.reshape(x.value.shape[:1] + (1,) * (len(size) - x.ndim) + x.value.shape[1:])
    return BatchedTensor(value.expand(value.shape[0], *size), level)


@rule("expand_as")
def _expand_as(func, args, kwargs, level):
    x, like = (*args, *kwargs.values())
    return x.expand(like.shape) if unwrap(x, level)[1] else by_example(func, args, kwargs, level)


@rule("select_backward", "slice_backward")
def _part_backward(func, args, kwargs, level):
    """(gradient, sizes of the whole, dim, ...)"""
    g, size, dim, *rest = args
    return BatchedTensor(func(g.value, (levels[level], *size), shifted(dim, len(size)), *rest, **kwargs), level)


@rule("softmax_backward_data", "log_softmax_backward_data")
def _softmax_backward(func, args, kwargs, level):
    """(gradient, result, dim, dtype)"""
    return BatchedTensor(func(*(whole(t, level) for t in args[:2]), shifted(args[2], args[0].ndim), *args[3:], **kwargs), level)


@rule("cat", "stack", "concat")
def _join(func, args, kwargs, level):
    tensors = list(args[0] if args else kwargs["tensors"])
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    rank = max(t.ndim for t in tensors)
    if any(t.ndim != rank for t in tensors):  # cat takes empty vectors beside anything
        return by_example(func, args, kwargs, level)
    return BatchedTensor(func([whole(t, level) for t in tensors], shifted(dim, rank + (name_of(func) == "stack"))), level)


@rule("masked_fill")
def _masked_fill(func, args, kwargs, level):
    x, mask, value = (*args, *kwargs.values())
    if isinstance(value, torch.Tensor):
        return pointwise(torch.where, (mask, value.to(x.dtype), x), {}, level)
    return pointwise(func, args, kwargs, level)


@rule("batch_norm", "instance_norm")
def _batch_norm(func, args, kwargs, level):
    given = dict(zip(("input", "running_mean", "running_var", "weight", "bias", "training"), args), **kwargs)
    learns = given.get("training", False) if name_of(func) == "batch_norm" else given.get("use_input_stats", True)
    running = [given[k] for k in ("running_mean", "running_var") if given.get(k) is not None]
    if learns and unwrap(given["input"], level)[1] and any(not unwrap(t, level)[1] for t in running):
        raise RuntimeError("Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
                           "were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
                           "False.")
    return by_example(func, args, kwargs, level)


def _changing_size(what):
    def refuse(func, args, kwargs, level):
        raise RuntimeError(f"vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{what}. "
                           "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature.")
    return refuse


for _n, _what in (("nonzero", "nonzero"), ("unique", "_unique2"), ("_unique2", "_unique2"),
                  ("unique_consecutive", "unique_consecutive")):
    RULES[_n] = _changing_size(_what)


@rule("masked_select")
def _masked_select(func, args, kwargs, level):
    x, mask = (*args, *kwargs.values())[:2]
    if not unwrap(mask, level)[1]:
        return by_example(func, args, kwargs, level)
    raise RuntimeError("vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch "
                       "this would return a differently shaped Tensor. Please file an issue at https://github.com/pytorch/pytorch/issues if "
                       "you need this feature.")


@rule("allclose")
def _allclose(func, args, kwargs, level):
    raise RuntimeError("vmap over torch.allclose isn't supported yet. Please file an issue at https://github.com/pytorch/pytorch/issues if "
                       "you need this feature.")


@rule("equal")
def _equal(func, args, kwargs, level):
    raise RuntimeError("Batching rule not implemented for aten::equal. We could not generate a fallback.")


@rule("as_strided")
def _as_strided(func, args, kwargs, level):
    """A view of the whole batch, so that what is written to it is there. Offsets count from the start of an example."""
    given = dict(zip(("size", "stride", "storage_offset"), args[1:]), **kwargs)
    whole, batched = unwrap(args[0], level) if args else (None, False)
    if not batched:
        return by_example(func, args, kwargs, level)
    offset = given.get("storage_offset")
    return BatchedTensor(whole.as_strided((whole.shape[0], *given["size"]), (whole.stride(0), *given["stride"]), whole.storage_offset() if offset is None else offset), level)


@rule("new_empty_strided")
def _new_empty_strided(func, args, kwargs, level):
    """Each example lies as it is asked for, one behind the other."""
    whole, batched = unwrap(args[0], level)
    if not batched or len(args) < 3:
        return by_example(func, args, kwargs, level)
    size, stride = args[1:3]
    each = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride))
    return BatchedTensor(func(whole, (whole.shape[0], *size), (each, *stride), *args[3:], **kwargs), level)


@rule("as_strided_copy", "as_strided_scatter")
def _strided(func, args, kwargs, level):
    """Offsets count from the start of an example."""
    x = args[0]
    named = "storage_offset" in kwargs
    place = 4 if name_of(func).endswith("scatter") else 3
    given = kwargs.get("storage_offset") if named else args[place] if len(args) > place else None
    if given is None or not (isinstance(x, BatchedTensor) and x.level == level):
        return by_example(func, args, kwargs, level)
    out = []
    for k in range(levels[level]):
        a, kw = tree_map(lambda t: t.value[k] if isinstance(t, BatchedTensor) and t.level == level else t, (args, dict(kwargs)))
        offset = given + a[0].storage_offset() - x.value.storage_offset()
        kw["storage_offset"] = offset
        out.append(func(*a[:place], **kw))
    return BatchedTensor(torch.stack(out), level)


@rule("grad")
def _grad(func, args, kwargs, level):
    """torch.autograd.grad, where it is not one walk with batched gradients: each example through the graph, which is there until the last has been."""
    given, left = dict(kwargs), [levels[level]]
    keep = given.pop("retain_graph", None)
    keep = given.get("create_graph", False) if keep is None else keep

    def one(*args, **kwargs):
        left[0] -= 1
        return func(*args, retain_graph=keep or left[0] > 0, **kwargs)
    return by_example(one, args, given, level)
