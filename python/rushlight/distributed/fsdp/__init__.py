"""Fully sharded data parallelism."""
from ._fully_shard import (CPUOffloadPolicy, DataParallelMeshDims, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, UnshardHandle,  # noqa: F401
                           fully_shard, register_fsdp_forward_method, share_comm_ctx)
from .api import *  # noqa: F401,F403
from .fully_sharded_data_parallel import FlatParameter, FullyShardedDataParallel  # noqa: F401
