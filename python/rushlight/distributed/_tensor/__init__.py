"""The former home of torch.distributed.tensor."""
from ..tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_module, distribute_tensor  # noqa: F401
