"""The former home of torch.ao.quantization."""
from rushlight import _absent as _not_here
from ..ao.quantization import *  # noqa: F401,F403
from ..ao.quantization import DeQuantStub, QuantStub, QuantWrapper  # noqa: F401


def __getattr__(name):
    return _not_here.of_module("quantization", name)
