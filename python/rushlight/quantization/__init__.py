"""The former home of torch.ao.quantization."""

from rushlight._functions_first import functions_first

from ..ao import quantization
from ..ao.quantization import *  # noqa: F401,F403

functions_first(__name__, "fuse_modules", "quantize")


def __getattr__(name):
    return getattr(quantization, name)


def __dir__():
    return dir(quantization)


