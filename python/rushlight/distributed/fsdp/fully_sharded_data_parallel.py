"""Fully sharded data parallelism."""
from .._absent import absent

globals().update(absent(
    "FlatParameter",
    "", "fsdp.fully_sharded_data_parallel."))

from . import *  # noqa: E402,F401,F403
from . import (BackwardPrefetch, CPUOffload, FullStateDictConfig, FullyShardedDataParallel, MixedPrecision,  # noqa: E402,F401
               ShardingStrategy, StateDictType)
