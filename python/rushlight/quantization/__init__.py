"""The former home of torch.ao.quantization."""

from ..ao import quantization
from ..ao.quantization import *  # noqa: F401,F403


def __getattr__(name):
    return getattr(quantization, name)


def __dir__():
    return dir(quantization)


