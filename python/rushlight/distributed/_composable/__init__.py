"""Composable ways to parallelise."""
from .._absent import absent

globals().update(absent(
    "",
    "fully_shard replicate checkpoint contract", "_composable."))
