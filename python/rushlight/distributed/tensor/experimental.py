"""Further tensors spread over processes."""
from .._absent import absent

globals().update(absent(
    "",
    "implicit_replication local_map context_parallel register_sharding", "tensor.experimental."))
