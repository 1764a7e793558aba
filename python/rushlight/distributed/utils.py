"""Helpers of distributed modules."""
from rushlight.nn.parallel.scatter_gather import _recursive_to  # noqa: F401

from ._absent import absent


def _to_kwargs(inputs, kwargs, target_device, use_side_stream_for_tensor_copies):
    """Arguments with their tensors on a device: ((inputs,), (kwargs,))."""
    return tuple(_recursive_to(inputs, target_device, use_side_stream_for_tensor_copies)), tuple(_recursive_to(kwargs, target_device, use_side_stream_for_tensor_copies))


globals().update(absent(
    "",
    "_apply_to_tensors _sync_params_and_buffers _verify_param_shape_across_processes", "utils."))
