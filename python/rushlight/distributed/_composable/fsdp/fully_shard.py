"""Fully sharded parameters, under the names that they had before they were torch.distributed.fsdp."""
from rushlight.distributed.fsdp import FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method  # noqa: F401
