"""torch.ao: what packages import of quantization."""
import importlib

from . import quantization  # noqa: F401


def __getattr__(name):
    if name in ("nn", "ns", "pruning"):
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError(f"module 'torch.ao' has no attribute '{name}'")
