"""The former home of torch.distributed.tensor.experimental."""
from ..tensor.experimental import implicit_replication, local_map  # noqa: F401
