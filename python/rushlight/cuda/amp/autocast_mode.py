"""autocast for CUDA."""
import functools
import warnings

import rushlight as torch
from rushlight.amp.autocast_mode import _cast  # noqa: F401

__all__ = ["autocast", "custom_fwd", "custom_bwd"]


def _moved(old, new):
    warnings.warn("`torch.cuda.amp.%s` is deprecated. Please use `torch.amp.%s` instead." % (old, new), FutureWarning,
                  stacklevel=3)


class autocast(torch.amp.autocast_mode.autocast):
    """torch.amp.autocast("cuda")"""

    def __init__(self, enabled=True, dtype=torch.float16, cache_enabled=True):
        _moved("autocast(args...)", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    _moved("custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    return functools.partial(torch.amp.custom_fwd, device_type="cuda")(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd):
    _moved("custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    return functools.partial(torch.amp.custom_bwd, device_type="cuda")(bwd)
