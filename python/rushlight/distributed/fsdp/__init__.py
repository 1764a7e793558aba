"""Fully sharded data parallelism."""
from ._fully_shard import (CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, UnshardHandle, fully_shard,  # noqa: F401
                           register_fsdp_forward_method)
from .api import *  # noqa: F401,F403
from .fully_sharded_data_parallel import FlatParameter, FullyShardedDataParallel  # noqa: F401
