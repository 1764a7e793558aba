"""DataLoader: batches of a dataset, read here, by worker processes or by worker threads.

The numbers a loader draws from the generators (one base seed per iterator, then what the sampler takes) and
the order of batches are PyTorch's.  Each worker process has its own pair of pipes; the loader waits for
results and for the death of workers in one call, so an error names the worker and what it was reading at once.
"""
import contextlib
import itertools
import logging
import multiprocessing as python_multiprocessing
import os
import signal
import time
import warnings
from multiprocessing import connection
from typing import Any, Callable, Generic, List, TypeVar

import rushlight as torch
from rushlight._utils import ExceptionWrapper
from rushlight.utils.data import _utils
from rushlight.utils.data._utils.worker import (_IterableDatasetStopIteration, _ResumeIteration, _short,
                                                _worker_main)
from rushlight.utils.data.datapipes.datapipe import (IterDataPipe, MapDataPipe, _IterDataPipeSerializationWrapper,
                                                     _MapDataPipeSerializationWrapper)
from rushlight.utils.data.dataset import Dataset, IterableDataset
from rushlight.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "get_worker_info", "default_collate", "default_convert"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[List[_T]], Any]

default_collate = _utils.collate.default_collate
default_convert = _utils.collate.default_convert
get_worker_info = _utils.worker.get_worker_info

logger = logging.getLogger(__name__)

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        fetcher = _utils.fetch._MapDatasetFetcher if kind == _DatasetKind.Map else _utils.fetch._IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """The "sampler" of an iterable dataset: only says how often to ask."""

    def __iter__(self):
        return itertools.repeat(None)


def _get_distributed_settings():
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    return 1, 0


def _draw_seed(generator):
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def _sharding_worker_init_fn(worker_init_fn, world_size, rank_id, worker_id):
    """Worker start of data pipes: the processes share the stream, and the workers of each its share."""
    info = get_worker_info()
    torch.utils.data.graph_settings.apply_sharding(info.dataset, info.num_workers * world_size, worker_id * world_size + rank_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


def _share_dist_seed(generator, pg):
    """One seed for all processes of a group: rank 0's."""
    seed = torch.empty((), dtype=torch.int64).random_(generator=generator)
    if isinstance(pg, torch.distributed.ProcessGroup):
        torch.distributed.broadcast(seed, src=0, group=pg)
    return int(seed.item())


class DataLoader(Generic[_T_co]):
    """Iterates over a dataset in batches.

    dataset: what has __getitem__ and __len__, or __iter__; batch_size: None for single samples; shuffle: a new order each time; sampler:
    indices, or batch_sampler: lists of indices, in place of the two; num_workers: how many read ahead, 0: none; collate_fn: makes a batch
    of a list of samples; pin_memory, pin_memory_device: for copies to a device; drop_last: leave out a last batch that is not full;
    timeout: seconds to wait for a worker; worker_init_fn: called in each with its number; multiprocessing_context: how processes are
    started; generator: the source of random numbers; prefetch_factor: batches a worker reads ahead; persistent_workers: keep them between
    iterations; in_order: False gives batches as they come.

    worker_type is an addition to PyTorch's arguments: "thread" or "process".  Without it the environment's
    RUSHLIGHT_WORKER_TYPE counts.  Else workers are threads, which start at once and copy nothing, unless the program
    would notice: with multiprocessing_context or worker_init_fn, and for datasets (or a collate_fn) that draw from
    Python's or NumPy's random numbers, change themselves while they are read, or hold what threads may not share,
    such as open files; these get processes.  Random numbers of torch are the same in both.

    >>> loader = data.DataLoader([1, 2, 3, 4, 5], batch_size=2)
    >>> list(loader), len(loader)
    ([tensor([1, 2]), tensor([3, 4]), tensor([5])], 3)
    """

    dataset: Any
    batch_size: Any
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    pin_memory_device: str
    prefetch_factor: Any
    _iterator = None
    _found_type = None          # "process" once threads turned out to hold each other up
    __initialized = False

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False,
                 pin_memory_device="", in_order=True, worker_type=None):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; "
                             "use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing."
                             "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.")
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        elif prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if worker_type is None:
            worker_type = os.environ.get("RUSHLIGHT_WORKER_TYPE") or None
        if worker_type not in (None, "process", "thread"):
            raise ValueError("worker_type should be 'process' or 'thread', but got %r" % (worker_type,))
        if isinstance(dataset, IterDataPipe) and num_workers > 0:
            dataset = _IterDataPipeSerializationWrapper(dataset)
        elif isinstance(dataset, MapDataPipe) and num_workers > 0:
            dataset = _MapDataPipeSerializationWrapper(dataset)

        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_type = worker_type
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order

        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            if isinstance(dataset, IterDataPipe):
                if shuffle is not None:
                    dataset = torch.utils.data.graph_settings.apply_shuffle_settings(dataset, shuffle=shuffle)
            elif shuffle not in {False, None}:
                raise ValueError("DataLoader with IterableDataset: expected unspecified shuffle option, "
                                 "but got shuffle=%s" % (shuffle,))
            if sampler is not None:
                raise ValueError("DataLoader with IterableDataset: expected unspecified sampler option, "
                                 "but got sampler=%s" % (sampler,))
            if batch_sampler is not None:
                raise ValueError("DataLoader with IterableDataset: expected unspecified batch_sampler option, "
                                 "but got batch_sampler=%s" % (batch_sampler,))
        else:
            shuffle = bool(shuffle)
            self._dataset_kind = _DatasetKind.Map

        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                                 "and drop_last")
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

        if sampler is None and self._dataset_kind == _DatasetKind.Iterable:
            sampler = _InfiniteConstantSampler()
        elif sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.sampler, self.batch_sampler, self.batch_size, self.drop_last = sampler, batch_sampler, batch_size, drop_last
        self.generator, self.persistent_workers = generator, persistent_workers
        self.collate_fn = collate_fn if collate_fn is not None else default_collate if self._auto_collation else default_convert
        self.__initialized = True
        self._IterableDataset_len_called = None
        self._iterator = None
        self.check_worker_number_rationality()

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        if self._worker_kind() == "thread":
            from rushlight.utils.data._utils.threads import _ThreadDataLoaderIter
            return _ThreadDataLoaderIter(self)
        return _MultiProcessingDataLoaderIter(self)

    def _worker_kind(self):
        """What kind of workers reads the next epoch."""
        if isinstance(self.dataset, (_IterDataPipeSerializationWrapper, _MapDataPipeSerializationWrapper)):
            return "process"        # each worker reads a part of its own copy
        if self.worker_type is not None:
            return self.worker_type
        if self.multiprocessing_context is not None or self.worker_init_fn is not None:
            return "process"
        if self._found_type is None:
            from rushlight.utils.data._utils.choose import reason_for_processes
            reason = reason_for_processes(self.dataset, self.collate_fn)
            if reason is not None:
                logger.debug("DataLoader: processes, because of %s", reason)
            return "thread" if reason is None else "process"
        return self._found_type

    @property
    def multiprocessing_context(self):
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            if self.num_workers <= 0:
                raise ValueError("multiprocessing_context can only be used with multi-process loading "
                                 "(num_workers > 0), but got num_workers=%d" % self.num_workers)
            if isinstance(context, str):
                known = python_multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError("multiprocessing_context option should specify a valid start method in %r, "
                                     "but got multiprocessing_context=%r" % (known, context))
                context = python_multiprocessing.get_context(context)
            if not isinstance(context, python_multiprocessing.context.BaseContext):
                raise TypeError("multiprocessing_context option should be a valid context object or a string "
                                "specifying the start method, but got multiprocessing_context=%s" % (context,))
        self.__multiprocessing_context = context

    def __setattr__(self, attr, val):
        if self.__initialized and attr in _FIXED:
            raise ValueError("%s attribute should not be set after %s is initialized" % (attr, type(self).__name__))
        super().__setattr__(attr, val)

    def __iter__(self):
        if self.persistent_workers and self.num_workers > 0:
            if self._iterator is None:
                self._iterator = self._get_iterator()
            else:
                self._iterator._reset(self)
            return self._iterator
        return self._get_iterator()

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self):
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self):
        """Warn when more workers are asked for than there are processors."""
        if not self.num_workers:
            return
        try:
            limit = len(os.sched_getaffinity(0))
        except AttributeError:
            limit = os.cpu_count()
        if limit is None:
            warnings.warn("This DataLoader will create %d worker processes in total; how many processors there are "
                          "is not known." % self.num_workers, stacklevel=3)
        elif self.num_workers > limit:
            warnings.warn("This DataLoader will create %d worker processes in total. Our suggested max number of "
                          "worker in current system is %d, the number of processors it may use: excessive worker "
                          "creation might get DataLoader running slow or even freeze." % (self.num_workers, limit), stacklevel=3)


class _BaseDataLoaderIter:
    """One pass over a loader."""

    def __init__(self, loader):
        self._dataset = loader.dataset
        self._shared_seed = None
        self._pg = None
        if isinstance(self._dataset, IterDataPipe):
            self._shared_seed = _share_dist_seed(loader.generator, self._pg)
            rng = torch.Generator()
            rng.manual_seed(self._shared_seed)
            self._dataset = torch.utils.data.graph_settings.apply_random_seed(self._dataset, rng)
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._world_size, self._rank = _get_distributed_settings()
        self._pin_memory = False
        self._pin_memory_device = None
        if loader.pin_memory:
            self._pin_memory = torch.accelerator.is_available()
            if self._pin_memory:
                self._pin_memory_device = loader.pin_memory_device or None
            else:
                warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned "
                              "memory won't be used.", stacklevel=3)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = _draw_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0
        self._profile_name = "enumerate(DataLoader)#%s.__next__" % type(self).__name__

    def __iter__(self):
        return self

    def _reset(self, loader, first_iter=False):
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        if isinstance(self._dataset, IterDataPipe):
            self._shared_seed = _share_dist_seed(loader.generator, self._pg)
            rng = torch.Generator()
            rng.manual_seed(self._shared_seed)
            self._dataset = torch.utils.data.graph_settings.apply_random_seed(self._dataset, rng)

    def _next_index(self):
        return next(self._sampler_iter)

    def _next_data(self):
        raise NotImplementedError

    def __next__(self):
        with torch.autograd.profiler.record_function(self._profile_name):
            data = self._next_data()
        self._num_yielded += 1
        promised = self._IterableDataset_len_called
        if self._dataset_kind == _DatasetKind.Iterable and promised is not None and self._num_yielded > promised:
            message = ("Length of IterableDataset %s was reported to be %d (when accessing len(dataloader)), but %d "
                       "samples have been fetched. " % (self._dataset, promised, self._num_yielded))
            if self._num_workers > 0:
                message += ("For multiprocessing data-loading, this is what copies give: each worker iterates its own, so have "
                            "the dataset share out its samples by get_worker_info().")
            warnings.warn(message, stacklevel=2)
        return data

    def __len__(self):
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Reads in the calling thread."""

    def __init__(self, loader):
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("timeout must be 0 in single-process loading, got %s" % self._timeout)
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            torch.utils.data.graph_settings.apply_sharding(self._dataset, self._world_size, self._rank)
        self._dataset_fetcher = _DatasetKind.create_fetcher(self._dataset_kind, self._dataset, self._auto_collation,
                                                            self._collate_fn, self._drop_last)

    def _next_data(self):
        index = self._next_index()
        data = self._dataset_fetcher.fetch(index)
        if self._pin_memory:
            data = _utils.pin_memory.pin_memory(data, self._pin_memory_device)
        return data


class _WorkersIter(torch._C._EndsLater, _BaseDataLoaderIter):
    """What worker processes and worker threads share: handing out index lists and putting results in order.

    When nothing refers to it any more, the program calls _end() soon after: not within a finaliser, where Ctrl-C would be lost.

    Task i goes to one worker; _task_info[i] is (worker,) while it is out and (worker, data) once it is back.
    _rcvd_idx is the next task to give to the program, _send_idx the next one to hand out.
    """

    def __init__(self, loader):
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._worker_init_fn = loader.worker_init_fn
        if isinstance(self._dataset, (_IterDataPipeSerializationWrapper, _MapDataPipeSerializationWrapper)):
            import functools
            self._worker_init_fn = functools.partial(_sharding_worker_init_fn, self._worker_init_fn,
                                                     self._world_size, self._rank)
        self._shutdown = False
        self._hung = False      # a worker did not answer in time: it is not waited for at the end
        self._workers = []
        self._start_workers(loader)
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
        self._send_idx = 0
        self._rcvd_idx = 0
        self._task_info = {}
        self._task_index = {}           # task number -> index list, for error messages
        self._tasks_outstanding = 0
        self._workers_status = [True] * self._num_workers
        self._workers_num_tasks = [0] * self._num_workers
        self._worker_queue_idx_cycle = itertools.cycle(range(self._num_workers))
        if not first_iter:
            self._resume_workers()
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _try_put_index(self):
        if self._tasks_outstanding >= self._prefetch_factor * self._num_workers:
            raise AssertionError("too many outstanding tasks")
        try:
            index = self._next_index()
        except StopIteration:
            return
        for _ in range(self._num_workers):
            worker = next(self._worker_queue_idx_cycle)
            if self._workers_status[worker]:
                # Out of order, a slow worker is not given more than its share.
                if self._in_order or self._workers_num_tasks[worker] < self._prefetch_factor:
                    break
        else:
            return
        self._task_info[self._send_idx] = (worker,)
        self._task_index[self._send_idx] = index
        self._workers_num_tasks[worker] += 1
        self._tasks_outstanding += 1
        self._send_idx += 1
        self._send_task(worker, (self._send_idx - 1, index))

    def _doing(self, worker):
        """What a worker is (most likely) reading: its oldest task that has not come back."""
        return self._oldest(worker)

    def _oldest(self, worker):
        for number in sorted(self._task_info):
            info = self._task_info[number]
            if len(info) == 1 and info[0] == worker:
                return "batch indices " + _short(self._task_index[number])
        return "nothing"

    def _next_data(self):
        while True:
            # Skip tasks that will never come back: their worker's stream ended.
            while self._rcvd_idx < self._send_idx:
                info = self._task_info.get(self._rcvd_idx, None)
                if info is not None and (len(info) == 2 or self._workers_status[info[0]]):
                    break
                if info is not None:
                    del self._task_info[self._rcvd_idx]
                    self._task_index.pop(self._rcvd_idx, None)
                self._rcvd_idx += 1
            else:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            if len(self._task_info[self._rcvd_idx]) == 2:
                worker, data = self._task_info.pop(self._rcvd_idx)
                self._rcvd_idx += 1
                return self._process_data(data, worker)
            if self._shutdown or self._tasks_outstanding <= 0:
                raise AssertionError("loader is shut down")
            number, data = self._get_data()
            self._tasks_outstanding -= 1
            if isinstance(data, _IterableDatasetStopIteration):
                if self._persistent_workers:
                    self._workers_status[data.worker_id] = False
                else:
                    self._mark_worker_as_unavailable(data.worker_id)
                self._task_index.pop(number, None)
                self._try_put_index()
                continue
            worker = self._task_info[number][0]
            self._task_index.pop(number, None)
            if number == self._rcvd_idx or not self._in_order:
                del self._task_info[number]
                if number == self._rcvd_idx:
                    self._rcvd_idx += 1
                return self._process_data(data, worker)
            self._task_info[number] = (worker, data)

    def _process_data(self, data, worker_idx):
        self._workers_num_tasks[worker_idx] -= 1
        self._try_put_index()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _get_data(self):
        if self._timeout > 0:
            success, data = self._try_get_data(self._timeout)
            if not success:
                self._hung = True
                late = sorted({info[0] for info in self._task_info.values() if len(info) == 1})
                spots = "; ".join("worker %d was reading %s" % (w, self._doing(w)) for w in late)
                raise RuntimeError("DataLoader timed out after %s seconds (%s)" % (self._timeout, spots))
            return data
        while True:
            success, data = self._try_get_data()
            if success:
                return data

    def _end(self):
        try:
            self._shutdown_workers()
        except AttributeError:
            # __init__ failed before there were workers.
            return


@contextlib.contextmanager
def _without_interrupts():
    """Ctrl-C waits until the block has ended: what Python runs around a fork, and when it drops what multiprocessing has made, loses it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})   # raises one that has come already
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _End(connection.Connection):
    """The end of a pipe that stays here. The collector may finalise it before the iterator that it belongs to: it is closed then, and
    not a number that is somebody else's by the time that the iterator closes it again."""

    def __del__(self):
        self.close()


class _MultiProcessingDataLoaderIter(_WorkersIter):
    """Reads in worker processes."""

    def _start_workers(self, loader):
        context = loader.multiprocessing_context
        if context is None:
            context = torch.multiprocessing.get_context()
        self._workers_done_event = context.Event()
        self._task_pipes, self._result_pipes = [], []
        self._arrived = []
        self._owner = os.getpid()
        self._board = context.RawArray("q", 2 * self._num_workers)
        with _without_interrupts():     # workers let them in again
            pids = self._start_processes(context)
        _utils.signal_handling._set_worker_pids(id(self), pids)
        self._worker_pids_set = True

    def _start_processes(self, context):
        pids = []
        for i in range(self._num_workers):
            task_out, task_in = context.Pipe(duplex=False)
            result_out, result_in = context.Pipe(duplex=False)
            _widen(result_in)
            task_in.__class__ = result_out.__class__ = _End
            process = context.Process(target=_worker_main, args=(
                self._dataset_kind, self._dataset, task_out, result_in, self._workers_done_event,
                self._auto_collation, self._collate_fn, self._drop_last, self._base_seed, self._worker_init_fn, i,
                self._num_workers, self._persistent_workers, self._shared_seed, self._board))
            process.daemon = True
            process.start()
            # Only the worker may hold its ends: a dead worker then reads as end of file.
            task_out.close()
            result_in.close()
            self._task_pipes.append(task_in)
            self._result_pipes.append(result_out)
            self._workers.append(process)
            pids.append(process.pid)
        return pids

    def _send_task(self, worker, task):
        try:
            self._task_pipes[worker].send(task)
        except (BrokenPipeError, ConnectionResetError):
            self._fail_dead([worker])

    def _resume_workers(self):
        for worker in range(self._num_workers):
            self._send_task(worker, _ResumeIteration(self._shared_seed))
        waiting = self._num_workers
        while waiting:
            success, (note, _) = self._try_get_data()
            if success and isinstance(note, _ResumeIteration):
                waiting -= 1

    def _try_get_data(self, timeout=_utils.MP_STATUS_CHECK_INTERVAL):
        if self._arrived:
            return True, self._take(self._arrived.pop(0))
        live = [i for i in range(self._num_workers) if self._task_pipes[i] is not None]
        pipes = {self._result_pipes[i]: i for i in live}
        sentinels = {self._workers[i].sentinel: i for i in live}
        ready = connection.wait(list(pipes) + list(sentinels), timeout)
        if not ready:
            return False, (None, None)
        # In the order of the workers, so that none starves.
        self._arrived = sorted(pipes[r] for r in ready if r in pipes)
        if not self._arrived:
            self._fail_dead([sentinels[r] for r in ready])
        return True, self._take(self._arrived.pop(0))

    def _take(self, worker):
        from rushlight.multiprocessing.reductions import loads_inline
        try:
            message = self._result_pipes[worker].recv_bytes()
            return loads_inline(message)
        except (EOFError, ConnectionError, FileNotFoundError):
            self._fail_dead([worker])

    def _doing(self, worker):
        """What the worker's part of the board says it is reading."""
        number, position = self._board[2 * worker] - 1, self._board[2 * worker + 1]
        index = self._task_index.get(number)
        if index is None:
            return self._oldest(worker)
        text = "batch indices " + _short(index)
        if self._dataset_kind == _DatasetKind.Iterable:
            return "item %d of its stream" % position
        if self._auto_collation and position < len(index):
            text += ", sample %r" % (index[position],)
        return text

    def _fail_dead(self, workers):
        """Raise the error of workers that ended on their own."""
        parts, pids = [], []
        for i in workers:
            process = self._workers[i]
            process.join(1.0)
            code = process.exitcode
            how = "was killed by signal %d" % -code if code is not None and code < 0 else "exited with code %s" % code
            parts.append("worker %d (pid %s) %s while reading %s" % (i, process.pid, how, self._doing(i)))
            pids.append(str(process.pid))
            self._mark_worker_as_unavailable(i, shutdown=True)
        raise RuntimeError("DataLoader worker (pid(s) %s) exited unexpectedly: %s. A worker that is killed without a "
                           "Python traceback often ran out of memory or of shared memory."
                           % (", ".join(pids), "; ".join(parts)))

    def _mark_worker_as_unavailable(self, worker_id, shutdown=False):
        if self._task_pipes[worker_id] is not None:
            try:
                self._task_pipes[worker_id].send(None)
            except (BrokenPipeError, OSError):
                shutdown = True
            self._task_pipes[worker_id].close()
            self._task_pipes[worker_id] = None
        self._workers_status[worker_id] = False

    def _shutdown_workers(self):
        if self._shutdown or _utils is None or _utils.python_exit_status is True or self._owner != os.getpid():
            return
        with _without_interrupts():
            self._shutdown = True
            self._end_workers()
            # What they were started with, which is dropped here and not with the iterator.
            self._workers, self._result_pipes, self._board, self._workers_done_event = [], [], None, None

    def _end_workers(self):
        self._workers_done_event.set()
        for i in range(len(self._workers)):
            if self._task_pipes[i] is not None:
                try:
                    self._task_pipes[i].send(None)
                except (BrokenPipeError, OSError):
                    self._workers_status[i] = False
                self._task_pipes[i].close()
                self._task_pipes[i] = None
        for pipe in self._result_pipes:
            pipe.close()
        deadline = time.monotonic() + (0.1 if self._hung else _utils.MP_STATUS_CHECK_INTERVAL)
        for process in self._workers:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                # It is stuck in the dataset's code.
                process.terminate()
                process.join(1.0)
                if process.is_alive():
                    process.kill()
                    process.join(_utils.MP_STATUS_CHECK_INTERVAL)   # it is gone with its handles, not about to go
        if self._worker_pids_set:
            _utils.signal_handling._remove_worker_pids(id(self))
            self._worker_pids_set = False


def _widen(pipe):
    """Let a result pipe hold a megabyte: batches sent inline then do not wait for the loader."""
    try:
        import fcntl
        fcntl.fcntl(pipe.fileno(), 1031, 1 << 20)   # F_SETPIPE_SZ
    except (ImportError, OSError):
        return
