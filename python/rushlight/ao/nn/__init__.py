"""Layers of quantized models, and those that quantization makes of others."""
import importlib


def part(module, name):
    """The module of that name in one that lists layers again."""
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.{module}' has no attribute '{name}'")
    try:
        return importlib.import_module("rushlight.%s.%s" % (module, name))
    except ModuleNotFoundError:
        raise AttributeError(f"module 'torch.{module}' has no attribute '{name}'") from None


def __getattr__(name):
    if name in ("intrinsic", "qat", "quantizable", "quantized"):
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError(f"module 'torch.ao.nn' has no attribute '{name}'")
