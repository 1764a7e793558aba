"""Gradient scaling of sharded parameters."""
from .._absent import absent

globals().update(absent(
    "ShardedGradScaler",
    "", "fsdp.sharded_grad_scaler."))
