"""Quantized layers, which are not there, and the modules for arithmetic, which are."""
import importlib

from rushlight import _absent as _not_here
from rushlight.nn.quantized import FloatFunctional, FXFloatFunctional

__all__ = ["FloatFunctional", "FXFloatFunctional"]


def __getattr__(name):
    if name == "dynamic":
        return importlib.import_module(__name__ + ".dynamic")
    return _not_here.of_module("ao.nn.quantized", name)
