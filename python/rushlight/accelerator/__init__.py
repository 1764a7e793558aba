"""torch.accelerator: whichever kind of device there is beside the CPU."""
import rushlight as torch

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
           "device_index", "empty_cache", "get_memory_info", "is_available", "max_memory_allocated",
           "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
           "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx", "set_device_index",
           "set_stream", "synchronize", "get_device_capability"]


def _module():
    """The module of the accelerator, None without one."""
    kind = torch._C._device_accelerator()
    return None if kind is None else getattr(torch, kind.type, None)


def _need():
    module = _module()
    if module is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return module


def device_count():
    module = _module()
    return 0 if module is None else module.device_count()


def is_available():
    return device_count() > 0


def current_accelerator(check_available=False):
    """The device type as a torch.device, None where there is none."""
    return torch._C._device_accelerator()


def current_device_index():
    return _need().current_device()


current_device_idx = current_device_index


def set_device_index(device, /):
    index = torch._utils._get_device_index(device, optional=False)
    _need().set_device(index)


set_device_idx = set_device_index


def current_stream(device=None, /):
    return _need().current_stream(device)


def set_stream(stream):
    """Its device becomes the current one, too."""
    _need().set_stream(stream)
    set_device_index(stream.device_index)


def synchronize(device=None, /):
    _need().synchronize(device)


class device_index:
    """Context manager: the current device inside."""

    def __init__(self, device, /):
        self.idx, self.prev_idx = device, None

    def __enter__(self):
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *error):
        if self.prev_idx is not None:
            set_device_index(self.prev_idx)


def get_device_capability(device=None, /):
    return {"supported_dtypes": set()} if _module() is None else {"capability": _need().get_device_capability(device)}


def empty_cache():
    if _module() is not None:
        _need().empty_cache()


def empty_host_cache():
    return None


def memory_stats(device_index=None, /):
    return {} if _module() is None else _need().memory_stats(device_index)


def memory_allocated(device_index=None, /):
    return 0 if _module() is None else _need().memory_allocated(device_index)


def max_memory_allocated(device_index=None, /):
    return 0 if _module() is None else _need().max_memory_allocated(device_index)


def memory_reserved(device_index=None, /):
    return 0 if _module() is None else _need().memory_reserved(device_index)


def max_memory_reserved(device_index=None, /):
    return 0 if _module() is None else _need().max_memory_reserved(device_index)


def reset_accumulated_memory_stats(device_index=None, /):
    if _module() is not None:
        _need().reset_accumulated_memory_stats(device_index)


def reset_peak_memory_stats(device_index=None, /):
    if _module() is not None:
        _need().reset_peak_memory_stats(device_index)


def get_memory_info(device_index=None, /):
    return _need().mem_get_info(device_index)
