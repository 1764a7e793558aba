"""Fully sharded data parallelism."""
from .._absent import absent

globals().update(absent(
    "FullyShardedDataParallel FSDPModule CPUOffload CPUOffloadPolicy MixedPrecision MixedPrecisionPolicy "
    "OffloadPolicy ShardingStrategy BackwardPrefetch StateDictType FullStateDictConfig ShardedStateDictConfig "
    "LocalStateDictConfig StateDictConfig StateDictSettings LocalOptimStateDictConfig OptimStateKeyType FullOptimStateDictConfig ShardedOptimStateDictConfig OptimStateDictConfig",
    "fully_shard register_fsdp_forward_method", "fsdp."))
