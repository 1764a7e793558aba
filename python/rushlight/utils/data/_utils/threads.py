"""Worker threads of a loader.

A worker is a random generator, a view of the dataset and a lock; who holds the lock may read for it: its thread, or the
program itself. The program does so while reading is cheap, so that no thread need be started, and whenever the batch it
wants has not been begun. A worker's batches are read in order and draw from its generator, so that the numbers do not
depend on who read them, and are those that a worker process would give.
"""
import atexit
import collections
import copy
import itertools
import os
import queue
import threading
import time
import warnings
import weakref

import rushlight as torch
from rushlight import _C
from rushlight._utils import ExceptionWrapper
from rushlight.utils.data import _utils
from rushlight.utils.data._utils.fetch import where
from rushlight.utils.data._utils.worker import WorkerInfo, _failure, _IterableDatasetStopIteration, _local
from rushlight.utils.data.dataloader import _DatasetKind, _WorkersIter

_live = {}                      # iterators whose threads may run: weak references, without Python code that runs at their death


class _Worker:
    """What one worker reads with. The lock is held while its generator and its fetcher are used."""

    def __init__(self, number, loader_iter):
        self.number = number
        self.lock = threading.Lock()
        self.cpu = 0.0          # seconds that reading took of a processor
        self.ended = False      # its stream is over
        self.fetcher = None
        seed = loader_iter._base_seed + number
        dataset = loader_iter._dataset
        if loader_iter._dataset_kind == _DatasetKind.Iterable:
            dataset = _own(dataset)
        self.generator = torch.Generator().manual_seed(seed)
        self.info = WorkerInfo(id=number, num_workers=loader_iter._num_workers, seed=seed, dataset=dataset)
        self.info.__dict__["in_thread"] = True
        self.how = (loader_iter._dataset_kind, dataset, loader_iter._auto_collation, loader_iter._collate_fn, loader_iter._drop_last)

    def read(self, index):
        """The batch of an index list, or what stands for its failure, read by this thread as if it were the worker."""
        info, before = getattr(_local, "info", None), _C._thread_generator(self.generator)
        _local.info = self.info
        try:
            if self.fetcher is None:
                self.fetcher = _DatasetKind.create_fetcher(*self.how)
            return self.fetcher.fetch(index)
        except StopIteration:
            if self.how[0] == _DatasetKind.Iterable:
                self.ended = True
                return _IterableDatasetStopIteration(self.number)
            return _failure(self.number, "thread", self.fetcher, index)
        except Exception:
            return _failure(self.number, "thread", self.fetcher, index)
        except (SystemExit, GeneratorExit) as left:
            return _gone(self.number, left, index)
        finally:
            _local.info = info
            _C._thread_generator(before)


def _own(dataset):
    """A shallow copy of an iterable dataset, which may be its own iterator."""
    try:
        return copy.copy(dataset)
    except Exception:           # whatever a dataset's __reduce__ and the like may raise: it is shared then
        return dataset


def _gone(number, error, index):
    """What a worker that was to exit gives: the process goes on."""
    try:
        raise RuntimeError("DataLoader worker %d exited unexpectedly: %s(%s)" % (number, type(error).__name__, error)) from None
    except RuntimeError:
        return _failure(number, "thread", None, index)


def _run(worker, tasks, results, unclaimed, init_fn, grad_bits):
    """Body of a thread. A task is (number, index list); unclaimed holds it by its number until somebody takes it."""
    _C._thread_alone()
    _C._set_grad_bits(grad_bits)
    failure = None
    if init_fn is not None:
        before = _C._thread_generator(worker.generator)
        _local.info = worker.info
        try:
            init_fn(worker.number)
        except Exception:
            failure = _failure(worker.number, "thread", None, None)
        finally:
            _local.info = None
            _C._thread_generator(before)
    while True:
        task = tasks.get()
        if task is None:
            return
        number, index = task
        with worker.lock:
            if unclaimed.get(number) is not task:   # the program read it; perhaps in an epoch before
                continue
            del unclaimed[number]
            if worker.ended:
                continue
            if failure is not None:
                data, failure = failure, None
            else:
                begin = time.thread_time()
                try:
                    data = worker.read(index)
                except BaseException as odd:    # a thread that ends without a word would be waited for
                    data = _gone(worker.number, odd, index)
                worker.cpu += time.thread_time() - begin
        results.put((number, data))
        del data, index, task


class _ThreadDataLoaderIter(_WorkersIter):
    """Reads in worker threads, or in place of them."""

    _WORTH_A_THREAD = 2e-4      # seconds a batch: more than handing one over takes
    _SURELY = 0.02              # seconds after which no second batch is waited for
    _LONG = 2.0                 # seconds of wall time after which is looked whether threads hold each other up
    _direct = False             # the program reads all itself, no thread was started
    _apart = True               # threads are given tasks

    def _start_workers(self, loader):
        self._owner = os.getpid()
        self._loader = weakref.ref(loader)
        self._grad_bits = _C._grad_bits()
        self._team = [_Worker(i, self) for i in range(self._num_workers)]
        self._results, self._tasks, self._unclaimed = None, [], {}
        # Somebody must be there to notice that time is up, or to take the batch that is there first; and a worker's start happens in the worker.
        self._in_place = self._worker_init_fn is None and self._timeout == 0 and self._in_order
        self._returned = self._cpu = self._waited = 0.0
        self._began = time.perf_counter()
        self._begun_at = 0
        self._direct_periods, self._thread_periods = [], []
        self._slow = 0
        if not self._in_place:
            self._start_threads()

    def _reset(self, loader, first_iter=False):
        if not first_iter:
            self._finish_epoch()
        for worker in self._team:
            if self._dataset_kind == _DatasetKind.Iterable:
                worker.fetcher = None
            worker.ended = False
        self._ahead = collections.deque()
        self._direct = self._in_place and not self._workers and self._dataset_kind == _DatasetKind.Map
        super()._reset(loader, first_iter)
        if self._direct and loader.__dict__.get("_slow_to_read"):
            self._start_threads()

    def _finish_epoch(self):
        """Read what was handed out in an epoch that was left early: workers' generators move as far as PyTorch's."""
        while self._direct and self._ahead:
            self._team[self._rcvd_idx % self._num_workers].read(self._ahead.popleft())
            self._rcvd_idx += 1
        if not self._direct:
            while any(len(info) == 1 and self._workers_status[info[0]] for info in self._task_info.values()):
                number, data = self._get_data()
                info = self._task_info.pop(number)
                if isinstance(data, _IterableDatasetStopIteration):
                    self._workers_status[info[0]] = False
                while self._rcvd_idx < self._send_idx and len(self._task_info.get(self._rcvd_idx, (0, 0))) == 2:
                    self._rcvd_idx += 1
            self._unclaimed.clear()

    def _resume_workers(self):
        """Threads that run go on; there is nothing to tell them."""

    # ---- without threads ----

    def _try_put_index(self):
        if not self._direct:
            return super()._try_put_index()
        try:
            self._ahead.append(next(self._sampler_iter))
        except StopIteration:
            return

    def _next_data(self):
        if not self._direct:
            data = super()._next_data()
            self._judge()
            return data
        ahead = self._ahead
        if not ahead:
            if not self._persistent_workers:
                self._shutdown_workers()
            raise StopIteration
        index = ahead.popleft()
        begin = time.perf_counter()
        try:
            data = self._team[self._rcvd_idx % self._num_workers].read(index)
        except BaseException:       # the user's Ctrl-C: this batch is still to be read
            ahead.appendleft(index)
            raise
        end = time.perf_counter()
        self._rcvd_idx += 1
        try:
            ahead.append(next(self._sampler_iter))
        except StopIteration:
            pass
        if type(data) is ExceptionWrapper:
            data.reraise()
        took = end - begin
        if took > self._WORTH_A_THREAD:
            if len(self._direct_periods) < 64:
                self._direct_periods.append(took + (begin - self._returned if self._returned else 0.0))
            self._slow += 1
            if took > self._SURELY or self._slow > 2:
                self._start_threads()
        self._returned = end
        return data

    # ---- with threads ----

    def _start_threads(self):
        self._results = queue.SimpleQueue()
        self._tasks = [queue.SimpleQueue() for _ in self._team]
        for worker, tasks in zip(self._team, self._tasks):
            thread = threading.Thread(target=_run, daemon=True, name="DataLoader worker %d" % worker.number, args=(
                worker, tasks, self._results, self._unclaimed, self._worker_init_fn, self._grad_bits))
            thread.start()
            self._workers.append(thread)
        _live[id(self)] = weakref.ref(self)
        if not self._direct:
            return
        # What was laid ready for the program becomes tasks.
        self._direct = False
        loader = self._loader()
        if loader is not None:
            loader.__dict__["_slow_to_read"] = True
        self._begun_at = self._send_idx = self._rcvd_idx
        for _ in range(self._rcvd_idx % self._num_workers):
            next(self._worker_queue_idx_cycle)
        rest, self._sampler_iter = self._sampler_iter, iter(self._ahead)
        for _ in range(len(self._ahead)):
            super()._try_put_index()
        self._sampler_iter = rest

    def _send_task(self, worker, task):
        self._unclaimed[task[0]] = task
        if self._workers and self._apart:
            self._tasks[worker].put(task)

    def _hand_out(self):
        """Start the threads, and give them what was laid ready."""
        self._start_threads()
        for number in sorted(self._unclaimed):
            self._tasks[self._task_info[number][0]].put(self._unclaimed[number])

    def _get_data(self):
        number = self._rcvd_idx
        if self._in_place and number in self._unclaimed:
            worker = self._team[self._task_info[number][0]]
            # A thread that holds the lock will read it, or has no task and lets go at once.
            if worker.lock.acquire(not self._apart):
                try:
                    task = self._unclaimed.pop(number, None)
                    if task is not None:
                        return number, self._read_in_place(worker, task)
                finally:
                    worker.lock.release()
        begin = time.perf_counter()
        try:
            return super()._get_data()
        finally:
            self._waited += time.perf_counter() - begin

    def _read_in_place(self, worker, task):
        begin, cpu = time.perf_counter(), time.thread_time()
        try:
            data = worker.read(task[1])
        except BaseException:
            self._unclaimed[task[0]] = task
            raise
        took = time.perf_counter() - begin
        self._waited += took
        self._cpu += time.thread_time() - cpu
        if self._in_place and not self._workers:    # an iterable dataset, so far without threads
            self._slow += took > self._WORTH_A_THREAD
            if took > self._SURELY or self._slow > 2:
                self._hand_out()
        return data

    def _try_get_data(self, timeout=_utils.MP_STATUS_CHECK_INTERVAL):
        if self._owner != os.getpid():
            raise RuntimeError("DataLoader: this iterator was begun in another process, where its worker threads are; "
                               "begin a new one after a fork")
        if not self._workers:
            self._hand_out()
        try:
            return True, self._results.get(timeout=timeout)
        except queue.Empty:
            return False, (None, None)

    def _doing(self, worker):
        spot, text = where(self._team[worker].fetcher), self._oldest(worker)
        return text if spot is None else text + ", " + spot

    # ---- do they pay? ----

    def _judge(self):
        """Give the work back to the program when threads do not make it faster; say so when that matters."""
        now = time.perf_counter()
        if self._workers and self._apart and self._in_place and self._direct_periods:
            skip = self._prefetch_factor * self._num_workers + 1
            if self._rcvd_idx - self._begun_at > skip:
                periods = self._thread_periods
                periods.append(now - self._returned)
                if len(periods) >= 8 and sum(periods) > 0.004:
                    if sum(periods) / len(periods) > 0.97 * sorted(self._direct_periods)[len(self._direct_periods) // 2]:
                        self._apart = False
                    self._direct_periods = []
        self._returned = now
        if self._num_workers < 2 or now - self._began < self._LONG:
            return
        wall, self._began = now - self._began, now
        cpu = self._cpu + sum(worker.cpu for worker in self._team)
        waited, self._cpu, self._waited = self._waited, 0.0, 0.0
        for worker in self._team:
            worker.cpu = 0.0
        if 0.7 * wall < cpu < 1.15 * wall and waited > 0.6 * wall and _processors() > 1:
            self._held_up()

    def _held_up(self):
        loader = self._loader()
        if loader is None or loader.__dict__.get("_told"):
            return
        loader.__dict__["_told"] = True
        chosen = loader.worker_type is None and not self._persistent_workers
        if chosen:
            loader.__dict__["_found_type"] = "process"
        warnings.warn("The %d worker threads of this DataLoader wait for each other: reading a sample holds Python's interpreter "
                      "lock most of the time. DataLoader(..., worker_type=\"process\") reads in parallel%s."
                      % (self._num_workers, "; the next epochs of this loader will" if chosen else ""), stacklevel=4)

    # ---- the end ----

    def _mark_worker_as_unavailable(self, worker_id, shutdown=False):
        if self._workers:
            self._tasks[worker_id].put(None)
        self._workers_status[worker_id] = False

    def _shutdown_workers(self):
        if not self._shutdown:
            self._shutdown = True
            _live.pop(id(self), None)
            for tasks in self._tasks:
                tasks.put(None)
            self._unclaimed.clear()     # what nobody has begun, nobody need read


def _processors():
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@atexit.register
def _stop_all():
    """At the program's end no thread may be in the library's code when that goes: a second for each to finish its batch."""
    threads = []
    for reference in list(_live.values()):
        iterator = reference()
        if iterator is not None:
            iterator._shutdown_workers()
            threads += iterator._workers
    end = time.monotonic() + 1.0
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, end - time.monotonic()))
