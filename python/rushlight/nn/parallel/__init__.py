"""Wrappers that run a module on several devices or in several processes."""
from rushlight.nn.parallel.data_parallel import DataParallel, data_parallel
from rushlight.nn.parallel.distributed import DistributedDataParallel
from rushlight.nn.parallel.parallel_apply import parallel_apply
from rushlight.nn.parallel.replicate import replicate
from rushlight.nn.parallel.scatter_gather import gather, scatter

__all__ = ["replicate", "scatter", "parallel_apply", "gather", "data_parallel", "DataParallel",
           "DistributedDataParallel"]


def DistributedDataParallelCPU(*args, **kwargs):
    """The old name of DistributedDataParallel."""
    return DistributedDataParallel(*args, **kwargs)
