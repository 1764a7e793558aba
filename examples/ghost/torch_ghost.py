"""torch.ghost: a backend that was written in C (ghost.c), made a device of PyTorch's programs.

    import torch_ghost          # finds ghost.so in RUSHLIGHT_GHOST_LIBRARY or beside this file
    x = torch.ones(3, device="ghost")
"""
import os

import rushlight as torch
import rushlight._device_module


def load(path=None):
    """Register the backend; torch.ghost, Tensor.ghost() and Module.ghost() with it."""
    path = path or os.environ.get("RUSHLIGHT_GHOST_LIBRARY") or os.path.join(os.path.dirname(__file__), "ghost.so")
    torch.utils.rename_privateuse1_backend("ghost")
    torch.ops.load_library(path)
    torch._register_device_module("ghost", torch._device_module.of("ghost"))
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


load()
