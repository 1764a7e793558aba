"""Grouping of parallel lists of tensors by device and dtype, for functions that act on whole lists."""
import rushlight as torch

__all__ = ["_group_tensors_by_device_and_dtype"]


def _get_foreach_kernels_supported_devices():
    return ["cpu", "cuda"]


def _get_fused_kernels_supported_devices():
    return ["cpu", "cuda", "mps"]


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype) of the first list: (the lists cut down to that group, indices)}"""
    groups = {}
    for i, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError("_group_tensors_by_device_and_dtype: the first list must hold tensors only")
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for target, source in zip(lists, tensorlistlist):
            if source:
                target.append(source[i])
        indices.append(i)
    return {key: (lists, indices if with_indices else list(range(len(indices)))) for key, (lists, indices)
            in groups.items()}


def _device_has_foreach_support(device):
    return device.type in _get_foreach_kernels_supported_devices()


def _has_foreach_support(tensors, device):
    return _device_has_foreach_support(device) and all(t is None or type(t) in (torch.Tensor, torch.nn.Parameter)
                                                       for t in tensors)
