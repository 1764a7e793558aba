"""Collectives between the devices of one process."""
import rushlight as torch

__all__ = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"]


def is_available(tensors):
    return False


def version():
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.nccl: NCCL is not connected")


def _refuse(*args, **kwargs):
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.nccl: NCCL is not connected")


all_reduce = reduce = broadcast = all_gather = reduce_scatter = _refuse
