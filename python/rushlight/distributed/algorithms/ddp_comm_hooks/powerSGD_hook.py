"""Gradients as products of thin matrices."""
from ..._absent import absent

globals().update(absent(
    "PowerSGDState",
    "powerSGD_hook batched_powerSGD_hook", "algorithms.ddp_comm_hooks.powerSGD_hook."))
