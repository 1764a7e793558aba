"""The former home of torch.ao.quantization."""
from rushlight import _absent as _not_here
from ..ao import quantization
from ..ao.quantization import *  # noqa: F401,F403
from ..ao.quantization import DeQuantStub, QuantStub, QuantWrapper  # noqa: F401


def __getattr__(name):
    if name in ("fuse_modules", "fuse_modules_qat", "get_default_qconfig_propagation_list"):
        return getattr(quantization, name)
    return _not_here.of_module("quantization", name)
