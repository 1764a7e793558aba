"""What __torch_dispatch__ of a DTensor does: choose placements by the operation's rule, bring the arguments there, run it on the pieces."""
import itertools
import math

import rushlight as torch
from rushlight.utils._python_dispatch import _disable_current_modes

from . import _rules
from ._redistribute import cost, redistributed
from ._utils import compute_local_shape_and_global_offset
from .placement_types import Replicate


def _flat(things, out):
    for x in things:
        if isinstance(x, torch.Tensor):
            out.append(x)
        elif isinstance(x, (list, tuple)):
            _flat(x, out)
    return out


def _swapped(things, tensors):
    """The arguments with tensors of an iterator in the places of tensors."""
    made = (next(tensors) if isinstance(x, torch.Tensor) else _swapped(x, tensors) if isinstance(x, (list, tuple)) else x for x in things)
    return list(made) if isinstance(things, list) else tuple(made)


def _with(func, args, kwargs, tensors):
    """Run func on other tensors."""
    tensors = iter(tensors)
    return func(*_swapped(args, tensors), **dict(zip(kwargs, _swapped(list(kwargs.values()), tensors))))


def _is_dtensor(x):
    return hasattr(x, "_spec")


def _ghost(x):
    """A tensor of the whole size without memory."""
    return torch.empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device="meta")


def _choice(rule, call, mesh, mesh_dim, fixed):
    """(placements of the arguments, of the results) that need the least to travel; `fixed` arguments stay as they are."""
    best = None
    for ins, outs in rule(call):
        if len(outs) != len(call.results) or any(ins[k] != call.old[k] for k in fixed):
            continue
        total = 0
        for old, new, shape in zip(call.old, ins, call.shapes):
            c = cost(old, new, math.prod(shape), mesh.size(mesh_dim))
            if c is None and call.name.startswith("add") and old.is_replicate():
                c = 0.2  # the bias of a product in parts
            if c is None:
                break
            total += c
        else:
            if best is None or total < best[0]:
                best = total, ins, outs
    return best and best[1:]


def _plan(func, args, kwargs, tensors, mesh, results):
    """([placements of each argument], [placements of each result])"""
    name = func._opname
    rule = _rules.RULES.get(name) or (_rules.pointwise if _rules.is_pointwise(func) else None)
    old = [t._spec.placements if _is_dtensor(t) else (Replicate(),) * mesh.ndim for t in tensors]
    if rule is None or results is None:
        return [(Replicate(),) * mesh.ndim] * len(tensors), None
    fixed = [0] if name.endswith("_") and name not in ("_to_copy",) and _is_dtensor(tensors[0]) else []
    shapes, sizes = [tuple(t.shape) for t in tensors], [tuple(r.shape) for r in results]
    ins, outs = [], []
    for d in range(mesh.ndim):
        call = _rules.Call(name, args, kwargs, shapes, sizes, math.prod(mesh.shape), [p[d] for p in old])
        chosen = _choice(rule, call, mesh, d, fixed)
        if chosen is None:
            if fixed:
                raise RuntimeError(f"{func}: in-place operations that require placement changes are not supported ({old[0]})")
            chosen = call.copies
        ins.append(chosen[0])
        outs.append(chosen[1])
    return list(zip(*ins)), list(zip(*outs))


def _wholes(func, args, kwargs, tensors):
    """What the results are as wholes: a list, and whether it is one tensor. (None, ...) where only the values tell."""
    try:
        with _disable_current_modes():  # these are no operations of the program's
            made = _with(func, args, kwargs, [_ghost(t) for t in tensors])
    except (RuntimeError, NotImplementedError):
        return None
    if isinstance(made, torch.Tensor):
        return [made]
    if isinstance(made, (list, tuple)) and all(isinstance(m, torch.Tensor) for m in made):
        return list(made)
    return None


def _embedding(func, args, kwargs, mesh, spec, local):
    """Of rows in pieces: those of other processes are zeros here, parts of a sum."""
    rows, first = compute_local_shape_and_global_offset(spec.tensor_meta.shape, mesh, spec.placements)
    weight, index = local
    index = index - first[0]
    inside = (index >= 0) & (index < rows[0])
    if not rows[0]:
        return torch.zeros((*index.shape, weight.size(1)), dtype=weight.dtype, device=weight.device)
    out = func(weight, index.clamp(0, rows[0] - 1))
    return out.masked_fill(~inside.unsqueeze(-1), 0)


def _wrapped(DTensor, local, mesh, placements, whole):
    return DTensor(local, mesh, placements, whole.shape, whole.stride()) if isinstance(local, torch.Tensor) else local


plain_is_copy = False  # in implicit_replication(): a tensor that is no DTensor is a copy that all have
_FROM_VALUES = frozenset("_local_scalar_dense item equal is_nonzero nonzero unique masked_select".split())
_TAKES_PLAIN = frozenset("copy_ index _index_put_impl_ index_put index_put_".split())
_NORMS = {"linalg_vector_norm": 1, "norm": 1}


def run(DTensor, func, args, kwargs):
    name = func._opname
    if name.startswith("_foreach_") or name.startswith("_fused_") and isinstance(args[0], (list, tuple)):
        return _lists(DTensor, func, args, kwargs)
    tensors = _flat((*args, *kwargs.values()), [])
    first = next(t for t in tensors if _is_dtensor(t))
    mesh = first._spec.mesh
    for t in tensors:
        if not _is_dtensor(t) and t.dim() and torch._C._current_graph_task_id() == -1 and name not in _TAKES_PLAIN and not plain_is_copy:
            raise RuntimeError(f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!")
        if _is_dtensor(t) and t._spec.mesh != mesh:
            raise RuntimeError(f"{func}: DTensors of different meshes, {mesh} and {t._spec.mesh}")
    if name in _NORMS and _whole_norm(args, kwargs):
        return _norm(DTensor, func, args, kwargs)
    results = None if name in _FROM_VALUES else _wholes(func, args, kwargs, tensors)
    ins, outs = _plan(func, args, kwargs, tensors, mesh, results)
    local = [_piece(t, mesh, new) for t, new in zip(tensors, ins)]
    if name in _rules.SIZED and outs is not None and len(outs) == 1:
        size = compute_local_shape_and_global_offset(results[0].shape, mesh, outs[0])[0]
        args = [*args[:_rules.SIZED[name]], list(size), *args[_rules.SIZED[name] + 1:]]
        if name in ("view", "_unsafe_view") and not local[0].is_contiguous():
            local[0] = local[0].contiguous()
    if name == "embedding" and any(p.is_shard(0) for p in ins[0]):
        made = _embedding(func, args, kwargs, mesh, _respec(first, ins[0]), local)
    else:
        made = _with(func, args, kwargs, local)
    if name.endswith("_") and _is_dtensor(args[0]):
        return args[0]
    if outs is None:
        return _copies(DTensor, made, mesh)
    if isinstance(made, torch.Tensor):
        return _wrapped(DTensor, made, mesh, outs[0], results[0])
    return type(made)(_wrapped(DTensor, *each) for each in zip(made, itertools.repeat(mesh), outs, results))


def _piece(t, mesh, placements):
    """What an operation gets of an argument. Gradients that are zeros, and in backward tensors of which only the shape counts, are plain."""
    if _is_dtensor(t):
        return redistributed(t._local_tensor, t._spec.tensor_meta.shape, mesh, t._spec.placements, placements)
    if not t.dim():
        return t
    if not torch._C._has_storage(t) or not t.untyped_storage().nbytes() and t.numel():
        return torch.empty(compute_local_shape_and_global_offset(t.shape, mesh, placements)[0], dtype=t.dtype, device=t.device)
    return redistributed(t, t.shape, mesh, (Replicate(),) * mesh.ndim, placements)


def _respec(x, placements):
    from .placement_types import DTensorSpec
    return DTensorSpec(x._spec.mesh, placements, x._spec.tensor_meta)


def _copies(DTensor, made, mesh):
    """Results of an operation on copies: every process has them whole."""
    everywhere = (Replicate(),) * mesh.ndim
    if isinstance(made, torch.Tensor):
        return DTensor(made, mesh, everywhere, made.shape, made.stride())
    if isinstance(made, (list, tuple)):
        return type(made)(_copies(DTensor, m, mesh) for m in made)
    return made


# ---- norms of all elements: from the norms of the pieces

def _whole_norm(args, kwargs):
    order = args[1] if len(args) > 1 else kwargs.get("ord", 2)
    dims = args[2] if len(args) > 2 else kwargs.get("dim")
    keep = args[3] if len(args) > 3 else kwargs.get("keepdim", False)
    return isinstance(order, (int, float)) and order > 0 and not dims and not keep and kwargs.get("dtype") is None


def _norm(DTensor, func, args, kwargs):
    x = args[0]
    mesh, order = x._spec.mesh, args[1] if len(args) > 1 else 2
    placements = tuple(Replicate() if p.is_partial() else p for p in x._spec.placements)
    local = redistributed(x._local_tensor, x._spec.tensor_meta.shape, mesh, x._spec.placements, placements)
    value = func(local, *args[1:], **kwargs) if local.numel() else local.new_zeros(())
    for d, p in enumerate(placements):
        if p.is_shard():
            value = value if order == math.inf else value ** order
            torch.distributed.all_reduce(value, torch.distributed.ReduceOp.MAX if order == math.inf else torch.distributed.ReduceOp.SUM, mesh.get_group(d))
            value = value if order == math.inf else value ** (1 / order)
    return _copies(DTensor, value, mesh)


# ---- lists, as optimizers have them

def _lists(DTensor, func, args, kwargs):
    """Steps of optimizers run on the pieces, gradients brought to where their parameters are; other lists go one by one."""
    name = func._opname
    if name.startswith("_fused_"):
        first = args[0]

        def locals_of(things):
            if not isinstance(things, (list, tuple)):
                return things
            return [redistributed(t._local_tensor, t._spec.tensor_meta.shape, t._spec.mesh, t._spec.placements, p._spec.placements)
                    if _is_dtensor(t) and _is_dtensor(p) else t for t, p in zip(things, first)]
        func(*[locals_of(a) for a in args], **kwargs)
        return None
    base = getattr(torch.ops.aten, name[len("_foreach_"):] if name != "_foreach_norm" else "linalg_vector_norm")
    base = getattr(base, func._overloadname if func._overloadname not in ("ScalarList", "List") else "Scalar" if func._overloadname == "ScalarList" else "Tensor",
                   None) or base.default
    n = len(args[0])
    made = [base(*[a[i] if isinstance(a, (list, tuple)) else a for a in args], **kwargs) for i in range(n)]
    return None if name.endswith("_") else made
