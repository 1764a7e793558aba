"""torch.distributed: the stores; for the rest importable, and honest that nothing is there yet: is_available() is False."""
import enum

from rushlight._functions_first import functions_first

from ._absent import absent
from ._store import (DistBackendError, DistError, DistNetworkError, DistStoreError, FileStore, HashStore, PrefixStore,  # noqa: F401
                     Store, TCPStore)

__all__ = ["is_available", "is_initialized", "is_backend_available", "is_gloo_available", "is_mpi_available", "is_nccl_available",
           "is_ucc_available", "is_xccl_available", "is_torchelastic_launched", "get_rank", "get_world_size", "ReduceOp", "Backend"]


def is_available():
    """Whether this build can communicate between processes."""
    return False


def is_initialized():
    """Whether a process group was made: never, without one."""
    return False


def is_backend_available(backend):
    return False


def is_gloo_available():
    return False


def is_mpi_available():
    return False


def is_nccl_available():
    return False


def is_ucc_available():
    return False


def is_xccl_available():
    return False


def is_torchelastic_launched():
    return False


def _uninitialized():
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group=None):
    _uninitialized()


def get_world_size(group=None):
    _uninitialized()


class RedOpType(enum.IntEnum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)


class ReduceOp:
    """How values of the processes are combined."""
    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = RedOpType


reduce_op = ReduceOp


class Backend(str):
    """The name of a communication library."""
    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"
    backend_list = [UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL]


class GroupMember:
    WORLD = None
    NON_GROUP_MEMBER = -100


class group:
    WORLD = None


globals().update(absent(
    "ProcessGroup ProcessGroupGloo ProcessGroupNCCL Work P2POp Logger Reducer GradBucket DebugLevel DeviceMesh",
    "init_process_group destroy_process_group new_group new_subgroups get_backend get_backend_config get_process_group_ranks get_group_rank "
    "get_global_rank get_node_local_rank barrier monitored_barrier all_reduce all_reduce_coalesced all_gather all_gather_into_tensor "
    "all_gather_object all_gather_coalesced all_to_all all_to_all_single broadcast broadcast_object_list gather gather_object reduce "
    "reduce_scatter reduce_scatter_tensor scatter scatter_object_list send recv isend irecv send_object_list recv_object_list "
    "batch_isend_irecv new_subgroups_by_enumeration get_default_backend_for_device _rank_not_in_group supports_complex init_device_mesh split_group breakpoint _all_gather_base _reduce_scatter_base"))

_SUBMODULES = frozenset(("algorithms", "tensor", "_tensor", "_composable", "_functional_collectives", "checkpoint", "device_mesh", "fsdp", "constants",
                         "optim", "rpc", "nn", "autograd", "launcher", "distributed_c10d", "utils", "elastic", "pipelining", "run", "launch"))


functions_first(__name__, "rendezvous")


def __getattr__(name):
    import importlib
    if name in ("rendezvous", "register_rendezvous_handler"):
        return getattr(importlib.import_module(__name__ + ".rendezvous"), name)
    if name in _SUBMODULES:
        try:
            return importlib.import_module(__name__ + "." + name)
        except ModuleNotFoundError as error:
            if error.name != __name__ + "." + name:
                raise
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}'")
