"""Quantization of traced models, which is not there."""
from rushlight import _absent as _not_here


def __getattr__(name):
    return _not_here.of_module("ao.quantization.quantize_fx", name)
