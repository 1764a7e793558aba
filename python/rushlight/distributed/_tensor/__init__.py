"""The former home of torch.distributed.tensor."""
from ..device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
from ..tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_module, distribute_tensor  # noqa: F401
