"""Collectives as functions."""
from ._absent import absent

globals().update(absent(
    "AsyncCollectiveTensor",
    "all_gather_tensor all_reduce all_reduce_coalesced all_to_all_single all_to_all_single_autograd broadcast "
    "permute_tensor reduce_scatter_tensor wait_tensor", "_functional_collectives."))
