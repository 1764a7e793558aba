"""Collectives between the devices of one process."""
import rushlight as torch

__all__ = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"]


def is_available(tensors):
    return False


def version():
    """Of the library, as (major, minor, patch)."""
    torch.cuda._lazy_init()
    n = torch._C._nccl_version()
    return n // 10000, n % 10000 // 100, n % 100


def _refuse(*args, **kwargs):
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.nccl: collectives between the devices of one process")


all_reduce = reduce = broadcast = all_gather = reduce_scatter = _refuse
