"""Further tensors spread over processes."""
from ._attention import context_parallel  # noqa: F401
from ._local import implicit_replication, local_map, register_sharding  # noqa: F401

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
