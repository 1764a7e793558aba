"""The indexed data pipes."""
import copy
import random

from rushlight.utils.data.datapipes.datapipe import Batches, IterDataPipe, MapDataPipe, Shuffles, functional_datapipe

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapperMapDataPipe(MapDataPipe):
    """Any sequence (or mapping) as a pipe."""

    def __init__(self, sequence, deepcopy=True):
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index):
        return self.sequence[index]

    def __len__(self):
        return len(self.sequence)


def _same(item):
    return item


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """fn applied to each item; without one the items as they are."""

    def __init__(self, datapipe, fn=_same):
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])

    def __len__(self):
        return len(self.datapipe)


def _pipes(datapipes):
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    return datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """One pipe after another."""

    def __init__(self, *datapipes):
        self.datapipes = _pipes(datapipes)

    def __getitem__(self, index):
        for pipe in self.datapipes:
            if index < len(pipe):
                return pipe[index]
            index -= len(pipe)
        raise IndexError("Index %d is out of range." % index)

    def __len__(self):
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe):
    """Tuples of the items of several pipes at one index."""

    def __init__(self, *datapipes):
        self.datapipes = _pipes(datapipes)

    def __getitem__(self, index):
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self):
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("batch")
class BatcherMapDataPipe(Batches, MapDataPipe):
    """Lists of batch_size items."""

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("Index %d is out of bound." % index)
        start = index * self.batch_size
        stop = min(start + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(start, stop)])


class ShufflerIterDataPipe(Shuffles, IterDataPipe):
    """The items in a random order, as a stream."""

    def __init__(self, datapipe, *, indices=None):
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices

    def __iter__(self):
        order = list(self.indices)
        if self._enabled:
            order = random.Random(self._take_seed()).sample(order, len(order))
        for index in order:
            yield self.datapipe[index]


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
SequenceWrapper = SequenceWrapperMapDataPipe
Mapper = MapperMapDataPipe
Concater = ConcaterMapDataPipe
Zipper = ZipperMapDataPipe
Batcher = BatcherMapDataPipe
Shuffler = ShufflerIterDataPipe
