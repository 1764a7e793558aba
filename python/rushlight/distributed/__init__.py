"""torch.distributed: stores, process groups, collectives; on top of them data-parallel training."""
from rushlight._functions_first import functions_first

from .constants import default_pg_timeout  # noqa: F401
from .distributed_c10d import *  # noqa: F401,F403
from .distributed_c10d import (_all_gather_base, _broadcast_coalesced, _coalescing_manager, _CoalescingManager,  # noqa: F401
                               _get_process_group_name, _rank_not_in_group, _reduce_scatter_base, _verify_params_across_processes, _Work)
from ._absent import absent
from . import _c10d  # noqa: F401

globals().update(absent("Logger Reducer", ""))

_SUBMODULES = frozenset(("algorithms", "tensor", "_tensor", "_composable", "_functional_collectives", "checkpoint", "device_mesh", "fsdp", "constants",
                         "optim", "rpc", "nn", "autograd", "launcher", "distributed_c10d", "utils", "elastic", "pipelining", "remote_device"))


functions_first(__name__, "rendezvous")


def __getattr__(name):
    import importlib
    import sys
    put = sys.modules.get("torch.distributed." + name)  # by a program, in place of the file of that name
    if put is not None:
        return put
    if name == "_remote_device":
        return importlib.import_module(__name__ + ".remote_device")._remote_device
    if name == "GradBucket":
        return importlib.import_module("rushlight.nn.parallel.distributed").GradBucket
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(importlib.import_module(__name__ + ".device_mesh"), name)
    if name in _SUBMODULES:
        try:
            return importlib.import_module(__name__ + "." + name)
        except ModuleNotFoundError as error:
            if error.name != __name__ + "." + name:
                raise
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_SUBMODULES, "DeviceMesh", "GradBucket", "init_device_mesh"})
