"""From one placement to another: what travels between the processes.

Dimensions of the mesh are treated one at a time. What is cut twice along one dimension of the tensor is nested, the later mesh dimension
within the earlier: pieces are put together from the last mesh dimension to the first, and cut from the first to the last.
"""
import rushlight as torch
import rushlight.distributed as dist

from ..distributed_c10d import _functional
from ._utils import compute_local_shape_and_global_offset, piece
from .placement_types import Replicate

_OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN, "product": dist.ReduceOp.PRODUCT, "avg": dist.ReduceOp.SUM}


def _gathered(local, dim, whole, mesh, mesh_dim):
    """The pieces of all processes of a line, put together; `whole` is the size then."""
    n, group = mesh.size(mesh_dim), mesh.get_group(mesh_dim)
    most = piece(whole, n, 0)[1]
    padded = local
    if local.size(dim) != most:
        padded = torch.cat([local, local.new_zeros((*local.shape[:dim], most - local.size(dim), *local.shape[dim + 1:]))], dim)
    parts = [torch.empty_like(padded, memory_format=torch.contiguous_format) for _ in range(n)]
    dist.all_gather(parts, padded.contiguous(), group)
    return torch.cat([part.narrow(dim, 0, piece(whole, n, i)[1]) for i, part in enumerate(parts)], dim)


def _cut(local, dim, mesh, mesh_dim):
    first, length = piece(local.size(dim), mesh.size(mesh_dim), mesh.get_local_rank(mesh_dim))
    return local.narrow(dim, first, length).clone(memory_format=torch.contiguous_format)


def _reduced(local, op, mesh, mesh_dim):
    if op not in _OPS:
        raise NotImplementedError(f"Partial({op}): only {', '.join(_OPS)} are supported")
    out = local.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(out, _OPS[op], mesh.get_group(mesh_dim))
    return out.div_(mesh.size(mesh_dim)) if op == "avg" else out


def _reduced_and_cut(local, op, dim, mesh, mesh_dim):
    n = mesh.size(mesh_dim)
    if local.size(dim) % n or op not in ("sum", "avg"):
        return _cut(_reduced(local, op, mesh, mesh_dim), dim, mesh, mesh_dim)
    parts = [p.contiguous() for p in local.chunk(n, dim)]
    out = torch.empty_like(parts[0])
    dist.reduce_scatter(out, parts, group=mesh.get_group(mesh_dim))
    return out.div_(n) if op == "avg" else out


def _as_part(local, op, mesh, mesh_dim):
    """A copy that is one part of a sum."""
    return local if op != "sum" or mesh.get_local_rank(mesh_dim) == 0 else torch.zeros_like(local)


def _touched(mesh, old, new):
    """The mesh dimensions to be done: those that change, and pieces nested in them along the same dimension of the tensor."""
    changed = [i for i in range(mesh.ndim) if old[i] != new[i]]
    cuts = {p.dim: i for i in reversed(changed) for p in (old[i], new[i]) if p.is_shard()}
    return sorted(set(changed) | {i for i in range(mesh.ndim) if old[i].is_shard() and i > cuts.get(old[i].dim, mesh.ndim)})


watchers = []  # functions of (piece, placements before, after) that are told of what travels


@_functional()
def redistributed(local, shape, mesh, old, new):
    """The piece of this process as `new` says, of one as `old` says; `shape` is that of the whole."""
    touched = _touched(mesh, old, new)
    if not touched:
        return local
    for watcher in watchers:
        watcher(local, old, new)
    if len(touched) == 1 and old[touched[0]].is_partial() and new[touched[0]].is_shard():
        i = touched[0]
        if not any(p.is_shard(new[i].dim) for p in old[i + 1:]):
            return _reduced_and_cut(local, old[i].reduce_op, new[i].dim, mesh, i)
    now = list(old)
    for i in reversed(touched):
        if now[i].is_shard():
            now[i] = Replicate()
            whole = compute_local_shape_and_global_offset(shape, mesh, now)[0]
            local = _gathered(local, old[i].dim, whole[old[i].dim], mesh, i)
        elif now[i].is_partial() and new[i] != now[i]:
            local, now[i] = _reduced(local, now[i].reduce_op, mesh, i), Replicate()
    for i in touched:
        if now[i] == new[i]:
            continue
        local = _cut(local, new[i].dim, mesh, i) if new[i].is_shard() else _as_part(local, new[i].reduce_op, mesh, i)
    return local


def cost(old, new, elements, parts):
    """About what travels, in elements; None: that cannot be."""
    if old == new:
        return 0
    if new.is_partial():
        return None
    if old.is_partial():
        return (2 if new.is_replicate() else 1) * elements * (parts - 1) / parts + 1
    if old.is_replicate():
        return 0.1
    return elements * (parts - 1) / parts + (1 if new.is_replicate() else 2)


