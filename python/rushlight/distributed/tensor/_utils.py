"""Where a piece of a tensor lies."""
from .._absent import absent

globals().update(absent(
    "",
    "compute_local_shape_and_global_offset compute_global_tensor_info compute_local_shape", "tensor._utils."))
