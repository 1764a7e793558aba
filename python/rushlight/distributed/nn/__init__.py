"""Collectives with gradients."""
from .._absent import absent

globals().update(absent(
    "RemoteModule",
    "all_gather all_reduce all_to_all broadcast gather reduce reduce_scatter scatter", "nn."))
