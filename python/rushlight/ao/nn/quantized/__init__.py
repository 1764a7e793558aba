"""Quantized layers, and the modules for arithmetic."""
import importlib

from .layers import *  # noqa: F401,F403
from .layers import __all__  # noqa: F401


def layer(module, name):
    """What a module that lists the layers again has under a name."""
    from rushlight import _absent
    from . import layers
    return getattr(layers, name) if hasattr(layers, name) else _absent.of_module("ao.nn.quantized", name)


def __getattr__(name):
    if name in ("dynamic", "functional", "modules", "reference"):
        return importlib.import_module(__name__ + "." + name)
    return layer("ao.nn.quantized", name)
