"""Helpers of distributed modules."""
from ._absent import absent

globals().update(absent(
    "",
    "_apply_to_tensors _sync_params_and_buffers _verify_param_shape_across_processes", "utils."))
