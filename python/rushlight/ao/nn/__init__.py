"""Layers of quantized models, and those that quantization makes of others."""
import importlib


def __getattr__(name):
    if name in ("intrinsic", "qat", "quantizable", "quantized"):
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError(f"module 'torch.ao.nn' has no attribute '{name}'")
