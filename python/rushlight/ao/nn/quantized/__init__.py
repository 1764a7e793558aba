"""Quantized layers, and the modules for arithmetic."""
import importlib

from .layers import *  # noqa: F401,F403
from .layers import __all__  # noqa: F401


def layer(module, name):
    """What a module that lists the layers again has under a name."""
    from . import layers
    try:
        return getattr(layers, name)
    except AttributeError:
        raise AttributeError("module 'torch.%s' has no attribute '%s'" % (module, name)) from None


def __getattr__(name):
    if name in ("dynamic", "functional", "modules", "reference"):
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError("module 'torch.ao.nn.quantized' has no attribute '%s'" % name)
