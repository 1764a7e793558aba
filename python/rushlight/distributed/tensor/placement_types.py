"""How a tensor is spread."""
from .._absent import absent

globals().update(absent(
    "_StridedShard DTensorSpec TensorMeta",
    "", "tensor.placement_types."))

from . import Partial, Placement, Replicate, Shard  # noqa: E402,F401
