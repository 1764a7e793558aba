"""The iterable data pipes: sources, and what maps, filters, orders, groups and splits a stream."""
import collections
import copy
import enum
import functools
import inspect
import os
import random

import rushlight as torch
from rushlight.utils.data.datapipes.datapipe import Batches, DataChunk, IterDataPipe, Shuffles, functional_datapipe, length_below

__all__ = ["Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter", "Forker",
           "Grouper", "IterableWrapper", "Mapper", "Multiplexer", "Sampler", "ShardingFilter", "Shuffler",
           "StreamReader", "UnBatcher", "Zipper"]


class IterableWrapperIterDataPipe(IterDataPipe):
    """Any iterable as a pipe; deep-copied for each pass unless deepcopy=False."""

    def __init__(self, iterable, deepcopy=True):
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self):
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                # Generators and open files cannot be copied: they are read as they are, once.
                source = self.iterable
        yield from source

    def __len__(self):
        return len(self.iterable)


def check_columns(fn, columns):
    """Does a function take as many arguments as there are columns?"""
    if columns is None:
        return
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # one in C that does not say
        return
    wanted = len(columns) if isinstance(columns, (list, tuple)) else 1
    called = "The function %s takes" % getattr(fn.func if isinstance(fn, functools.partial) else fn, "__name__", type(fn).__name__)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    named = sum(p.kind == p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if named:
        raise ValueError("%s %d non-default keyword-only parameters, which is not allowed." % (called, named))
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return
    if len(parameters) < wanted:
        raise ValueError("%s %d parameters, but %d are required." % (called, len(parameters), wanted))
    if not required <= wanted <= len(positional):
        raise ValueError("%s %d positional parameters, but %d are required." % (called, required if required > wanted else len(positional), wanted))


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """fn applied to each item, or to the columns input_col, put into output_col."""

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        check_columns(fn, input_col)
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def _apply(self, item):
        if self.input_col is None:
            return self.fn(item)
        several = isinstance(self.input_col, (list, tuple))
        result = self.fn(*[item[c] for c in self.input_col]) if several else self.fn(item[self.input_col])
        was_tuple = isinstance(item, tuple)
        item = list(item) if was_tuple else copy.copy(item)
        if self.output_col is None:
            if several:
                item[self.input_col[0]] = result
                for column in sorted(self.input_col[1:], reverse=True):
                    del item[column]
            else:
                item[self.input_col] = result
        elif self.output_col == -1:
            item.append(result)
        else:
            item[self.output_col] = result
        return tuple(item) if was_tuple else item

    def __iter__(self):
        for item in self.datapipe:
            yield self._apply(item)

    def __len__(self):
        return length_below(self)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """default_collate (or another function) applied to each item."""

    def __init__(self, datapipe, conversion=None, collate_fn=None):
        super().__init__(datapipe, fn=conversion or collate_fn or torch.utils.data.default_collate)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The items for which filter_fn holds."""

    def __init__(self, datapipe, filter_fn, input_col=None):
        check_columns(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self):
        for item in self.datapipe:
            if self.input_col is None:
                keep = self.filter_fn(item)
            elif isinstance(self.input_col, (list, tuple)):
                keep = self.filter_fn(*[item[c] for c in self.input_col])
            else:
                keep = self.filter_fn(item[self.input_col])
            if not isinstance(keep, bool):
                raise ValueError("Boolean output is required for `filter_fn` of FilterIterDataPipe, got %s" % type(keep))
            if keep:
                yield item


@functional_datapipe("batch")
class BatcherIterDataPipe(Batches, IterDataPipe):
    """Lists of batch_size items."""

    def __iter__(self):
        batch = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """Takes unbatch_level levels of lists apart (-1: all)."""

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _open(self, item, level):
        if level == 0:
            yield item
        elif isinstance(item, (list, DataChunk)):
            for part in item:
                yield from self._open(part, level - 1)
        elif level < 0:
            yield item
        else:
            raise IndexError("unbatch_level %d exceeds the depth of the DataPipe" % self.unbatch_level)

    def __iter__(self):
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for item in self.datapipe:
            yield from self._open(item, self.unbatch_level)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Batches of items that share a key."""

    def __init__(self, datapipe, group_key_fn, *, keep_key=False, buffer_size=10000, group_size=None,
                 guaranteed_group_size=None, drop_remaining=False):
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed_group_size = guaranteed_group_size
        if group_size is not None and guaranteed_group_size is None:
            self.guaranteed_group_size = group_size

    def _out(self, key, items):
        return (key, DataChunk(items)) if self.keep_key else DataChunk(items)

    def __iter__(self):
        groups, held = collections.OrderedDict(), 0
        for item in self.datapipe:
            key = self.group_key_fn(item)
            groups.setdefault(key, []).append(item)
            held += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                held -= len(groups[key])
                yield self._out(key, groups.pop(key))
            if held == self.buffer_size:
                largest = max(groups, key=lambda k: len(groups[k]))
                if self.guaranteed_group_size is not None and len(groups[largest]) < self.guaranteed_group_size \
                        and not self.drop_remaining:
                    raise RuntimeError("Failed to group items: buffer is full and no group has %d items"
                                       % self.guaranteed_group_size)
                items = groups.pop(largest)
                held -= len(items)
                if self.guaranteed_group_size is None or len(items) >= self.guaranteed_group_size:
                    yield self._out(largest, items)
        for key, items in groups.items():
            yield self._out(key, items)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffles, IterDataPipe):
    """Random order through a buffer of buffer_size items."""

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size
        self._rng = random.Random()

    def reset(self):
        if self._enabled:
            self._rng.seed(self._take_seed())

    def __iter__(self):
        if not self._enabled:
            yield from self.datapipe
            return
        buffer = []
        for item in self.datapipe:
            if len(buffer) == self.buffer_size:
                slot = self._rng.randint(0, len(buffer) - 1)
                out, buffer[slot] = buffer[slot], item
                yield out
            else:
                buffer.append(item)
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))


@functional_datapipe("sampler")
class SamplerIterDataPipe(IterDataPipe):
    """The items of an indexable source in the order of a sampler."""

    def __init__(self, datapipe, sampler=None, sampler_args=None, sampler_kwargs=None):
        if not hasattr(datapipe, "__len__"):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        make = sampler or torch.utils.data.SequentialSampler
        self.datapipe = datapipe
        self.sampler = make(data_source=datapipe, *(sampler_args or ()), **(sampler_kwargs or {}))

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return len(self.sampler)


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """One pipe after another."""

    def __init__(self, *datapipes):
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self):
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self):
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of one item of each pipe."""

    def __init__(self, *datapipes):
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self):
        yield from zip(*self.datapipes)

    def __len__(self):
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """One item of each pipe in turn, until the shortest ends."""

    def __init__(self, *datapipes):
        self.datapipes = datapipes

    def __iter__(self):
        for row in zip(*self.datapipes):
            yield from row

    def __len__(self):
        return min(len(pipe) for pipe in self.datapipes) * len(self.datapipes)


class _SharedStream:
    """One pass over a pipe, read by several children at their own pace through a bounded buffer."""

    def __init__(self, datapipe, children, buffer_size, route):
        self.datapipe, self.children, self.buffer_size, self.route = datapipe, children, buffer_size, route
        self.start()

    def start(self):
        self.source = None
        self.waiting = [collections.deque() for _ in range(self.children)]
        self.started = [False] * self.children
        self.done = False

    def begin(self, child):
        # A child that starts over starts a new pass for all.
        if self.started[child]:
            self.start()
        self.started[child] = True

    def next(self, child):
        while not self.waiting[child]:
            if self.source is None:
                self.source = iter(self.datapipe)
            item = next(self.source, self)
            if item is self:
                return False, None
            for target in self.route(item):
                self.waiting[target].append(item)
            held = max(len(queue) for queue in self.waiting)
            if self.buffer_size >= 0 and held > self.buffer_size:
                raise BufferError("data pipe buffer overflow: a child is more than buffer_size=%d items behind"
                                  % self.buffer_size)
        return True, self.waiting[child].popleft()


class _Child(IterDataPipe):
    def __init__(self, stream, number):
        self.main_datapipe, self.instance_id = stream, number
        self.upstream = stream.datapipe

    def __iter__(self):
        self.main_datapipe.begin(self.instance_id)
        while True:
            more, item = self.main_datapipe.next(self.instance_id)
            if not more:
                return
            yield item

    def __len__(self):
        return len(self.main_datapipe.datapipe)


def _all_of(count, item):
    return range(count)


def _one_of(classify, drop_none, count, item):
    target = classify(item)
    if target is None and drop_none:
        return ()
    if target is None or not 0 <= target < count:
        raise ValueError("Output of the classification fn should be between 0 and %d. %s is returned."
                         % (count - 1, target))
    return (target,)


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """num_instances pipes that each see every item."""

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        if num_instances < 1:
            raise ValueError("Expected `num_instances` larger than 0, but %s is found" % num_instances)
        if num_instances == 1:
            return [datapipe]
        stream = _SharedStream(datapipe, num_instances, buffer_size, functools.partial(_all_of, num_instances))
        return [_Child(stream, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """num_instances pipes; classifier_fn says which one gets an item."""

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        if num_instances < 1:
            raise ValueError("Expected `num_instances` larger than 0, but %s is found" % num_instances)
        stream = _SharedStream(datapipe, num_instances, buffer_size,
                               functools.partial(_one_of, classifier_fn, drop_none, num_instances))
        return [_Child(stream, i) for i in range(num_instances)]


class SHARDING_PRIORITIES(enum.IntEnum):
    """Groups of those who share a stream: DEFAULT stands alone."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe):
    """Every n-th item, once apply_sharding said which worker of how many this is.

    Groups share one after the other, the smaller number first; sharding_group_filter: the one group that counts here.
    """

    def __init__(self, source_datapipe, sharding_group_filter=None):
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
        if instance_id >= num_of_instances:
            raise ValueError("instance_id(%d) should be smaller than num_of_instances(%d)"
                             % (instance_id, num_of_instances))
        if self.groups and (sharding_group == SHARDING_PRIORITIES.DEFAULT) != (SHARDING_PRIORITIES.DEFAULT in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups):
            if self.sharding_group_filter in (None, group):
                n, i = self.groups[group]
                self.num_of_instances, self.instance_id = self.num_of_instances * n, self.instance_id * n + i

    def __iter__(self):
        for i, item in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self):
        whole, rest = divmod(len(self.source_datapipe), self.num_of_instances)
        return whole + (self.instance_id < rest)


class FileListerIterDataPipe(IterDataPipe):
    """Paths of the files below the given folders whose names match a mask."""

    def __init__(self, root=".", masks="", *, recursive=False, abspath=False, non_deterministic=False, length=-1):
        self.roots = [root] if isinstance(root, str) else list(root)
        self.masks = [masks] if isinstance(masks, str) else list(masks)
        self.recursive, self.abspath, self.length = recursive, abspath, length

    def __iter__(self):
        import fnmatch
        for root in self.roots:
            for folder, folders, files in os.walk(root):
                folders.sort()
                for name in sorted(files):
                    if self.masks == [""] or any(fnmatch.fnmatch(name, mask) for mask in self.masks):
                        path = os.path.join(folder, name)
                        yield os.path.abspath(path) if self.abspath else path
                if not self.recursive:
                    break

    def __len__(self):
        if self.length < 0:
            raise TypeError("%s instance doesn't have valid length" % type(self).__name__)
        return self.length


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe):
    """(path, open file) for each path."""

    def __init__(self, datapipe, mode="r", encoding=None, length=-1):
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self):
        for path in self.datapipe:
            mode = {"b": "rb", "t": "rt"}.get(self.mode, self.mode)
            yield path, open(path, mode, encoding=self.encoding)

    def __len__(self):
        if self.length < 0:
            raise TypeError("%s instance doesn't have valid length" % type(self).__name__)
        return self.length


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """(path, content) for each (path, stream), in pieces of `chunk` bytes where given."""

    def __init__(self, datapipe, chunk=None):
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self):
        for path, stream in self.datapipe:
            while True:
                piece = stream.read(self.chunk if self.chunk is not None else -1)
                if not piece:
                    stream.close()
                    break
                yield path, piece


IterableWrapper = IterableWrapperIterDataPipe
Mapper = MapperIterDataPipe
Collator = CollatorIterDataPipe
Filter = FilterIterDataPipe
Batcher = BatcherIterDataPipe
UnBatcher = UnBatcherIterDataPipe
Grouper = GrouperIterDataPipe
Shuffler = ShufflerIterDataPipe
Sampler = SamplerIterDataPipe
Concater = ConcaterIterDataPipe
Zipper = ZipperIterDataPipe
Multiplexer = MultiplexerIterDataPipe
Forker = ForkerIterDataPipe
Demultiplexer = DemultiplexerIterDataPipe
ShardingFilter = ShardingFilterIterDataPipe
FileLister = FileListerIterDataPipe
FileOpener = FileOpenerIterDataPipe
StreamReader = StreamReaderIterDataPipe
