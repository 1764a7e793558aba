"""Fully sharded parameters."""
from ..._absent import absent

globals().update(absent(
    "FSDPModule",
    "fully_shard", "_composable.fsdp.fully_shard."))
