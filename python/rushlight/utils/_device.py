"""DeviceContext: the mode behind `with torch.device(...)` and set_default_device."""
import functools

import rushlight as torch

CURRENT_DEVICE = None


@functools.lru_cache(None)
def _device_constructors():
    """The functions that make tensors and take a device."""
    names = ("empty", "empty_permuted", "empty_strided", "empty_quantized", "ones", "arange", "bartlett_window",
             "blackman_window", "eye", "full", "fill", "hamming_window", "hann_window", "kaiser_window", "linspace",
             "logspace", "nested.nested_tensor", "rand", "randn", "randint", "randperm", "range",
             "sparse_coo_tensor", "sparse_compressed_tensor", "sparse_csr_tensor", "sparse_csc_tensor",
             "sparse_bsr_tensor", "sparse_bsc_tensor", "tril_indices", "triu_indices", "zeros", "asarray", "tensor",
             "as_tensor", "scalar_tensor", "fft.fftfreq", "fft.rfftfreq")
    found = set()
    for name in names:
        value = torch
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is not None:
            found.add(value)
    return found


class DeviceContext(torch.overrides.TorchFunctionMode):
    """Inside, makers of tensors use this device where none is given."""

    def __init__(self, device):
        self.device = torch.device(device)

    def __enter__(self):
        global CURRENT_DEVICE
        self.old_device = CURRENT_DEVICE
        CURRENT_DEVICE = self.device
        return super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb):
        global CURRENT_DEVICE
        CURRENT_DEVICE = self.old_device
        return super().__exit__(exc_type, exc_val, exc_tb)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = self.device
        return func(*args, **kwargs)


def device_decorator(device, func):
    from rushlight.utils._contextlib import context_decorator
    return context_decorator(lambda: device, func)


def set_device(device):
    """Decorator: the function runs with that default device."""
    return lambda func: device_decorator(torch.device(device), func)
