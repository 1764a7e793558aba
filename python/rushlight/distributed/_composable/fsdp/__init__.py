"""Fully sharded parameters."""
from ..._absent import absent

globals().update(absent(
    "FSDPModule MixedPrecisionPolicy OffloadPolicy CPUOffloadPolicy UnshardHandle",
    "fully_shard register_fsdp_forward_method", "_composable.fsdp."))
