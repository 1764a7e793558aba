"""DistributedSampler: every process of a group gets its own share of the dataset."""
import math
from typing import TypeVar

import rushlight as torch
from rushlight.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]

_T_co = TypeVar("_T_co", covariant=True)


class DistributedSampler(Sampler[_T_co]):
    """Rank r of n visits every n-th index of one shared order, padded (or cut) to equal lengths.

    dataset: what has a length; num_replicas, rank: n and r, from the process group by default; shuffle: the order is drawn anew for each
    set_epoch(e), from seed; drop_last: cut off, instead of repeating some.

    >>> list(data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            if not torch.distributed.is_available():
                raise RuntimeError("Requires distributed package to be available")
        if num_replicas is None:
            num_replicas = torch.distributed.get_world_size()
        if rank is None:
            rank = torch.distributed.get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError("Invalid rank %s, rank should be in the interval [0, %s]" % (rank, num_replicas - 1))
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        size = len(dataset)
        if drop_last and size % num_replicas:
            self.num_samples = math.ceil((size - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self):
        size = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(size, generator=generator).tolist()
        else:
            order = list(range(size))
        if self.drop_last:
            order = order[:self.total_size]
        elif order:
            missing = self.total_size - len(order)
            order += (order * math.ceil(missing / len(order)))[:missing]
        if len(order) != self.total_size:
            raise AssertionError("Number of indices (%d) does not match total_size (%d)"
                                 % (len(order), self.total_size))
        mine = order[self.rank:self.total_size:self.num_replicas]
        if len(mine) != self.num_samples:
            raise AssertionError("Number of subsampled indices (%d) does not match num_samples (%d)"
                                 % (len(mine), self.num_samples))
        return iter(mine)

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Call before each epoch: the shuffling depends on seed + epoch."""
        self.epoch = epoch
