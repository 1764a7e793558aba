"""torch._refs: operations in terms of primitive ones; those of the library stand in for them."""
import rushlight as torch


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(torch, name)
