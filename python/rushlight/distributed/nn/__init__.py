"""Collectives with gradients, and modules at other workers."""
from .functional import *  # noqa: F401,F403


def __getattr__(name):
    """RemoteModule brings torch.distributed.rpc: only where it is asked for."""
    if name == "RemoteModule":
        from .api.remote_module import RemoteModule
        return RemoteModule
    raise AttributeError(f"module 'torch.distributed.nn' has no attribute '{name}'")
