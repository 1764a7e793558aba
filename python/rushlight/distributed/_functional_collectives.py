"""Collectives as functions: they change no argument and return a new tensor, which is there when it is returned."""
import rushlight as torch
import rushlight.distributed as dist

from ._absent import absent
from .distributed_c10d import _functional

globals().update(absent("AsyncCollectiveTensor", "permute_tensor all_to_all_single_autograd", "_functional_collectives."))


def _group(group):
    """A process group, the name of one, the ranks of one, or a mesh of one dimension."""
    if isinstance(group, str):
        return dist.distributed_c10d._resolve_process_group(group)
    if isinstance(group, (list, tuple)) and group and isinstance(group[0], int):
        found = dist.distributed_c10d._find_pg_by_ranks_and_tag("", group)
        if found is None:
            raise ValueError(f"there is no group of the ranks {list(group)}")
        return found
    if hasattr(group, "get_group"):
        return group.get_group()
    if isinstance(group, tuple) and hasattr(group[0], "get_group"):
        return group[0].get_group(group[1])
    return group


def _op(name):
    return getattr(dist.ReduceOp, {"product": "PRODUCT"}.get(name.lower(), name.upper()))


def wait_tensor(tensor):
    return tensor


@_functional()
def all_reduce(self, reduceOp, group, tag=""):
    out = self.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(out, _op(reduceOp), _group(group))
    return out


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    return [all_reduce(t, reduceOp, group, tag) for t in self]


@_functional()
def broadcast(self, src, group, tag=""):
    out = self.clone(memory_format=torch.contiguous_format)
    dist.broadcast(out, src, _group(group))
    return out


@_functional()
def all_gather_tensor(self, gather_dim, group, tag=""):
    group = _group(group)
    parts = [torch.empty_like(self, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, self.contiguous(), group)
    return torch.cat(parts, gather_dim)


@_functional()
def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    group = _group(group)
    n = dist.get_world_size(group)
    if self.size(scatter_dim) % n:
        raise AssertionError(f"input dimension {scatter_dim} ({self.size(scatter_dim)} must be a multiple of group_size {n})")
    parts = [p.contiguous() for p in self.chunk(n, scatter_dim)]
    out = torch.empty_like(parts[0])
    dist.reduce_scatter(out, parts, _op(reduceOp), group)
    return out


@_functional()
def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    rows = sum(output_split_sizes) if output_split_sizes else self.size(0)
    out = self.new_empty((rows, *self.shape[1:]))
    dist.all_to_all_single(out, self.contiguous(), output_split_sizes, input_split_sizes, _group(group))
    return out
