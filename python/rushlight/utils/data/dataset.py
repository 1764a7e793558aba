"""Datasets: indexable ones, iterable ones, and ways to combine and to cut them."""
import bisect
import itertools
import math
import warnings
from typing import Generic, Iterable, TypeVar

import rushlight as torch

__all__ = ["Dataset", "IterableDataset", "TensorDataset", "StackDataset", "ConcatDataset", "ChainDataset", "Subset",
           "random_split"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A map from keys to samples: subclasses define __getitem__, mostly __len__, and may define __getitems__.

    >>> class Squares(data.Dataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> list(data.DataLoader(Squares(), batch_size=2))
    [tensor([0, 1]), tensor([4])]
    """

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """A stream of samples: subclasses define __iter__. Worker processes each iterate a copy of their own.

    >>> class Numbers(data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(data.DataLoader(Numbers(), batch_size=2))
    [tensor([0, 1]), tensor([2])]
    """

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Samples are slices of several tensors along their first dimension.

    tensors: of equal size 0.

    >>> data.TensorDataset(torch.tensor([1, 2]), torch.tensor([3, 4]))[1]
    (tensor(2), tensor(4))
    """

    def __init__(self, *tensors):
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Samples of several datasets side by side: tuples for positional datasets, dicts for named ones.

    args or kwargs: the datasets, of equal length.

    >>> data.StackDataset(x=[1, 2], y=[3, 4])[0]
    {'x': 1, 'y': 3}
    """

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or"
                             "``dict``- (via ``kwargs``) like input/output, but both types are given.")
        parts = args if args else tuple(kwargs.values())
        if not parts:
            raise ValueError("At least one dataset should be passed")
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError("Size mismatch between datasets")
        self.datasets = args if args else kwargs

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple([part[index] for part in self.datasets])

    def __getitems__(self, indices):
        named = isinstance(self.datasets, dict)
        keys = list(self.datasets) if named else range(len(self.datasets))
        columns = []
        for key in keys:
            part = self.datasets[key]
            fetch = getattr(part, "__getitems__", None)
            if callable(fetch):
                column = fetch(indices)
                if len(column) != len(indices):
                    raise ValueError("Nested dataset's output size mismatch. Expected %d, got %d"
                                     % (len(indices), len(column)))
            else:
                column = [part[i] for i in indices]
            columns.append(column)
        if named:
            return [dict(zip(keys, row)) for row in zip(*columns)]
        return list(zip(*columns))

    def __len__(self):
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Several indexable datasets, one after another.

    datasets: of known lengths.

    >>> data.ConcatDataset([[1, 2], [3]])[2]
    3
    """

    @staticmethod
    def cumsum(sequence):
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets):
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        for part in self.datasets:
            if isinstance(part, IterableDataset):
                raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self):
        return self.cumulative_sizes[-1]

    def _locate(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return which, index - (self.cumulative_sizes[which - 1] if which else 0)

    def __getitem__(self, idx):
        which, inner = self._locate(idx)
        return self.datasets[which][inner]

    @property
    def cummulative_sizes(self):
        warnings.warn("cummulative_sizes attribute is renamed to cumulative_sizes", DeprecationWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Several iterable datasets, one after another.

    datasets: iterable ones.

    >>> class Numbers(data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(data.ChainDataset([Numbers(), Numbers()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets):
        super().__init__()
        self.datasets = datasets

    def _parts(self):
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield part

    def __iter__(self):
        for part in self._parts():
            yield from part

    def __len__(self):
        return sum(len(part) for part in self._parts())


class Subset(Dataset[_T_co]):
    """The samples of a dataset at the given indices.

    dataset: the whole; indices: a sequence.

    >>> data.Subset([10, 20, 30], [2, 0])[0]
    30
    """

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        fetch = getattr(self.dataset, "__getitems__", None)
        if callable(fetch):
            return fetch([self.indices[i] for i in indices])
        return [self.dataset[self.indices[i]] for i in indices]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    """Cut a dataset at random into subsets of the given lengths, or fractions that sum to 1.

    dataset: the whole; lengths: that sum to its length, or fractions; generator: the source of random numbers.

    >>> [len(part) for part in data.random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    lengths = list(lengths)
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = []
        for i, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError("Fraction at index %d is not between 0 and 1" % i)
            counts.append(int(math.floor(total * fraction)))
        # What rounding left over goes round-robin to the first subsets.
        for i in range(total - sum(counts)):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn("Length of split at index %d is 0. This might result in an empty dataset." % i,
                              stacklevel=2)
        lengths = counts
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = torch.randperm(int(sum(lengths)), generator=torch.default_generator if generator is None else generator)
    order = order.tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - length:end]) for end, length in zip(ends, lengths)]
