"""Gradients kept to a group."""
from ..._absent import absent

globals().update(absent(
    "PostLocalSGDState",
    "post_localSGD_hook", "algorithms.ddp_comm_hooks.post_localSGD_hook."))
