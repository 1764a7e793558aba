"""Helpers of distributed modules."""
from rushlight.nn.parallel.scatter_gather import _recursive_to  # noqa: F401

from ._absent import absent
from .distributed_c10d import _broadcast_coalesced


def _to_kwargs(inputs, kwargs, target_device, use_side_stream_for_tensor_copies):
    """Arguments with their tensors on a device: ((inputs,), (kwargs,))."""
    return tuple(_recursive_to(inputs, target_device, use_side_stream_for_tensor_copies)), tuple(_recursive_to(kwargs, target_device, use_side_stream_for_tensor_copies))


def _sync_params_and_buffers(process_group, module_states, broadcast_bucket_size, src):
    """Tensors become, in place, those of the process src of a group."""
    _broadcast_coalesced(process_group, module_states, broadcast_bucket_size, src)


def _sync_module_states(module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore, broadcast_buffers=True):
    """A module's parameters and buffers become those of the process src, but for those of the given names."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    _sync_params_and_buffers(process_group, [t for name, t in named if name not in params_and_buffers_to_ignore], broadcast_bucket_size, src)


globals().update(absent(
    "",
    "_apply_to_tensors _verify_param_shape_across_processes", "utils."))
