"""Optimizer states in pieces."""
from .._absent import absent

globals().update(absent(
    "",
    "load_sharded_optimizer_state_dict", "checkpoint.optimizer."))
