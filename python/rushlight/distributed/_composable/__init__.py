"""Composable ways to parallelise."""
from .._absent import absent
from ..fsdp import fully_shard  # noqa: F401

globals().update(absent("", "replicate checkpoint contract", "_composable."))
