"""The former home of torch.distributed.tensor."""
from .._absent import absent

globals().update(absent(
    "",
    "", "_tensor."))

from ..tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_module, distribute_tensor  # noqa: E402,F401
