"""Walks over sharded modules."""
from .._absent import absent

globals().update(absent(
    "",
    "_get_fsdp_states _get_fsdp_handles", "fsdp._traversal_utils."))
