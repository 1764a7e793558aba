"""Layers of quantization, which are not there."""
from rushlight import _absent as _not_here


def __getattr__(name):
    return _not_here.of_module("ao.nn.quantizable", name)
