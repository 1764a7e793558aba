"""How a tensor is spread over one dimension of a mesh: cut, copied, or as parts of a sum."""
import dataclasses
from typing import Any, NamedTuple

import rushlight as torch

from .._absent import absent
from ._utils import piece

__all__ = ["Placement", "Shard", "Replicate", "Partial"]
globals().update(absent("_StridedShard", "", "tensor.placement_types."))


class Placement:
    """Base class: Shard, Replicate or Partial."""

    def is_shard(self, dim=None):
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self):
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Each process has a piece along a dimension, those that torch.chunk() makes; the last ones may be smaller, or empty."""
    dim: int

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """(length, first) of a process's piece of so many rows."""
        first, length = piece(curr_local_size, num_chunks, rank)
        return length, first

    _local_shard_size_and_offset = local_shard_size_and_offset     # its name until PyTorch 2.10

    def __str__(self):
        return f"S({self.dim})"


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """Each process has all of it."""

    def __str__(self):
        return "R"


@dataclasses.dataclass(frozen=True)
class Partial(Placement):
    """Each process has a tensor of the whole size; all of them together, by reduce_op, are the tensor."""
    reduce_op: str = "sum"

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"


class TensorMeta(NamedTuple):
    shape: torch.Size
    stride: tuple
    dtype: torch.dtype


@dataclasses.dataclass
class DTensorSpec:
    """Where a DTensor lies, and what it is as a whole."""
    mesh: Any
    placements: tuple
    tensor_meta: TensorMeta = None

    @property
    def device_mesh(self):
        return self.mesh

    @property
    def shape(self):
        return self.tensor_meta.shape

    @property
    def ndim(self):
        return len(self.tensor_meta.shape)
