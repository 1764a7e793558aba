"""Copies between the devices of one process."""
import rushlight as torch


def _refuse(*args, **kwargs):
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.comm: copies between several devices are not supported")


broadcast = broadcast_coalesced = reduce_add = reduce_add_coalesced = scatter = gather = _refuse
