"""Exchange of tensors with other libraries through DLPack."""
import enum

import rushlight as torch
from rushlight._C import _to_dlpack as to_dlpack

__all__ = ["DLDeviceType", "from_dlpack"]


class DLDeviceType(enum.IntEnum):
    """Kinds of devices of the DLPack standard."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of another library's array (an object with __dlpack__, or a capsule)."""
    if not hasattr(ext_tensor, "__dlpack__"):
        if device is not None or copy is not None:
            raise AssertionError("device and copy can only be given for objects with __dlpack__")
        return torch._C._from_dlpack(ext_tensor)
    options = {"max_version": (1, 0)}
    if copy is not None:
        options["copy"] = copy
    if device is not None:
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            kinds = {"cpu": DLDeviceType.kDLCPU, "cuda": DLDeviceType.kDLCUDA}
            if device.type not in kinds:
                raise BufferError("Cannot pack tensors on %s" % device)
            options["dl_device"] = (kinds[device.type], device.index or 0)
        else:
            options["dl_device"] = device
    kind, index = ext_tensor.__dlpack_device__()
    if kind == DLDeviceType.kDLCUDA:
        stream = torch.cuda.current_stream("cuda:%d" % index)
        options["stream"] = 1 if stream.cuda_stream == 0 else stream.cuda_stream
    try:
        capsule = ext_tensor.__dlpack__(**options)
    except TypeError:
        # A library of before version 1.0 of the standard.
        options.pop("max_version")
        capsule = ext_tensor.__dlpack__(**options)
    return torch._C._from_dlpack(capsule)
