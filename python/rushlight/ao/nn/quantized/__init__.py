"""Quantized layers, which are not there, and the modules for arithmetic, which are."""
import importlib

from rushlight import _absent as _not_here
from rushlight.nn.quantized import FloatFunctional, FXFloatFunctional

__all__ = ["FloatFunctional", "FXFloatFunctional"]


def layer(module, name):
    """What a module that lists the layers again has under a name."""
    return _not_here.of_module("ao.nn.quantized", name)


def __getattr__(name):
    if name in ("dynamic", "functional", "modules", "reference"):
        return importlib.import_module(__name__ + "." + name)
    return layer(None, name)
