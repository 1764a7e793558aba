"""The former home of torch.distributed.tensor.placement_types."""
from ..tensor.placement_types import *  # noqa: F401,F403
from ..tensor.placement_types import DTensorSpec, TensorMeta  # noqa: F401
from ..tensor import Partial, Placement, Replicate, Shard  # noqa: F401
