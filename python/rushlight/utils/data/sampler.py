"""Samplers: in which order the samples of a dataset are visited.

The random ones draw from the generators exactly as PyTorch's do, so that a seed gives the same epochs.
"""
import itertools
from typing import Generic, TypeVar

import rushlight as torch

__all__ = ["BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
           "WeightedRandomSampler"]

_T_co = TypeVar("_T_co", covariant=True)

_CHUNK = 32     # PyTorch draws with-replacement indices in blocks of 32: the stream of numbers depends on it.


class Sampler(Generic[_T_co]):
    """An iterable of indices (or of lists of indices); __len__ where it is known.

    >>> class Backwards(data.Sampler):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return iter(range(len(self.source) - 1, -1, -1))
    >>> list(data.DataLoader([1, 2, 3], sampler=Backwards([1, 2, 3]), batch_size=3))
    [tensor([3, 2, 1])]
    """

    def __iter__(self):
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... in order.

    data_source: what has a length.

    >>> list(data.SequentialSampler(range(3)))
    [0, 1, 2]
    """

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order, or num_samples draws with replacement.

    data_source: what has a length; replacement: an index may come again; num_samples: how many, the length by default; generator: the source of
    random numbers.

    >>> sorted(data.RandomSampler(range(4)))
    [0, 1, 2, 3]
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError("replacement should be a boolean value, but got replacement=%s" % (replacement,))
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError("num_samples should be a positive integer value, but got num_samples=%s"
                             % (self.num_samples,))

    @property
    def num_samples(self):
        # The size of the data may change between epochs.
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        size = len(self.data_source)
        generator = self.generator
        if generator is None:
            # One number of the global stream seeds the epoch's own.
            generator = torch.Generator()
            generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
        if self.replacement:
            whole, rest = divmod(self.num_samples, _CHUNK)
            for _ in range(whole):
                yield from torch.randint(high=size, size=(_CHUNK,), dtype=torch.int64, generator=generator).tolist()
            yield from torch.randint(high=size, size=(rest,), dtype=torch.int64, generator=generator).tolist()
        elif size:
            rounds, rest = divmod(self.num_samples, size)
            for _ in range(rounds):
                yield from torch.randperm(size, generator=generator).tolist()
            yield from torch.randperm(size, generator=generator).tolist()[:rest]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    indices: a sequence; generator: the source of random numbers.

    >>> sorted(data.SubsetRandomSampler([5, 7, 9]))
    [5, 7, 9]
    """

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for i in torch.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Draws of 0..len(weights)-1 with the given (not normalised) weights.

    weights: numbers of which at least one is positive; num_samples: how many are drawn; replacement: an index may come again; generator: the
    source of random numbers.

    >>> list(data.WeightedRandomSampler([0., 1.], 3))
    [1, 1, 1]
    """

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError("num_samples should be a positive integer value, but got num_samples=%s" % (num_samples,))
        if not isinstance(replacement, bool):
            raise ValueError("replacement should be a boolean value, but got replacement=%s" % (replacement,))
        table = torch.as_tensor(weights, dtype=torch.double)
        if table.dim() != 1:
            raise ValueError("weights should be a 1d sequence but given weights have shape %s" % (tuple(table.shape),))
        self.weights = table
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self):
        yield from torch.multinomial(self.weights, self.num_samples, self.replacement,
                                     generator=self.generator).tolist()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler[list]):
    """Groups another sampler's indices into lists of batch_size.

    sampler: any iterable of indices; drop_last: leave out a last batch that is not full.

    >>> list(data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError("batch_size should be a positive integer value, but got batch_size=%s" % (batch_size,))
        if not isinstance(drop_last, bool):
            raise ValueError("drop_last should be a boolean value, but got drop_last=%s" % (drop_last,))
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while True:
            batch = list(itertools.islice(indices, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return
            yield batch

    def __len__(self):
        if self.drop_last:
            return len(self.sampler) // self.batch_size
        return -(-len(self.sampler) // self.batch_size)
