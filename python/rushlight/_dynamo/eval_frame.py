"""The class of compiled modules, for isinstance: no module is one."""
import rushlight as torch


class OptimizedModule(torch.nn.Module):
    """What torch.compile would make of a module."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch._dynamo.OptimizedModule: modules are not compiled; torch.compile gives back the module itself")


def is_dynamo_supported():
    return False


def innermost_fn(fn):
    return fn
