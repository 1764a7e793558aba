"""What runs in a loader's worker: seed, then read index lists, fetch, send back.

A worker has a pipe of its own for tasks and one for results, so a worker that is killed can neither hold a
lock the others need nor leave half a message in a shared queue.  Results are pickled here, before sending,
so that a batch that cannot be pickled is an error message like any other.
"""
import os
import queue
import random
import signal
import sys
import threading

import rushlight as torch
from rushlight.utils.data._utils import HAS_NUMPY, ExceptionWrapper, signal_handling
from rushlight.utils.data._utils.fetch import where

INLINE_BYTES = 65536    # tensors up to this size travel inside the message, larger ones as shared memory

_local = threading.local()
_worker_info = None     # of the process; threads that are workers have theirs in _local


class WorkerInfo:
    """What get_worker_info() answers inside a worker: id, num_workers, seed, dataset. Read-only."""

    def __init__(self, **fields):
        self.__dict__.update(fields)
        self.__dict__["_names"] = tuple(fields)

    def __setattr__(self, name, value):
        raise AttributeError("cannot assign to field %r" % name)

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%s" % (n, getattr(self, n)) for n in self._names))


def get_worker_info():
    """The WorkerInfo of the loader worker that calls this, None outside of workers.

    It has id, num_workers, seed and dataset.

    >>> data.get_worker_info() is None
    True
    """
    return getattr(_local, "info", None) or _worker_info


class _IterableDatasetStopIteration:
    """Sent back when a worker's copy of an iterable dataset has ended."""

    def __init__(self, worker_id):
        self.worker_id = worker_id


class _ResumeIteration:
    """Sent to persistent workers to start the next epoch, and sent back when they have."""

    def __init__(self, seed=None):
        self.seed = seed


class ManagerWatchdog:
    """Tells a worker whether the process that started it still lives."""

    def __init__(self):
        self.parent = os.getppid()

    def is_alive(self):
        return os.getppid() == self.parent


def _generate_state(base_seed, worker_id):
    """Four 32-bit words to seed NumPy with: O'Neill's seed_seq mixing (as in numpy.random.SeedSequence) of both."""
    mask = 0xFFFFFFFF
    const_a = 0x43B0D7E5

    def scatter(value):
        nonlocal const_a
        value = ((value ^ const_a) & mask)
        const_a = (const_a * 0x931E8875) & mask
        value = (value * const_a) & mask
        return value ^ (value >> 16)

    pool = [scatter(word) for word in (worker_id, base_seed & mask, base_seed >> 32, 0)]
    for src in range(4):
        for dst in range(4):
            if src != dst:
                mixed = (0xCA01F9DD * pool[dst] - 0x4973F715 * scatter(pool[src])) & mask
                pool[dst] = mixed ^ (mixed >> 16)
    const_b, words = 0x8B51F9DD, []
    for word in pool:
        word = (word ^ const_b) & mask
        const_b = (const_b * 0x58F38DED) & mask
        word = (word * const_b) & mask
        words.append(word ^ (word >> 16))
    return words


class _Sender:
    """Writes messages to a pipe: at once while there is room, else from a thread, so that the worker goes on."""

    def __init__(self, pipe):
        self.pipe = pipe
        self.waiting = queue.SimpleQueue()
        self.thread = None
        self.broken = False     # the loader is gone: nobody is left to tell

    def _write(self, message):
        try:
            self.pipe.send_bytes(message)
        except (BrokenPipeError, OSError):
            self.broken = True

    def _run(self):
        while True:
            message = self.waiting.get()
            if message is None:
                return
            self._write(message)

    def put(self, message):
        if self.broken:
            return
        if self.thread is None:
            if len(message) <= _room(self.pipe.fileno()):
                return self._write(message)
            self.thread = threading.Thread(target=self._run, daemon=True)
            self.thread.start()
        self.waiting.put(message)

    def close(self):
        if self.thread is not None:
            self.waiting.put(None)
            self.thread.join()


def _room(fd):
    """Bytes that a pipe surely takes without waiting: pages may be filled in part only, so half of what is free."""
    try:
        import fcntl
        import termios
        size = fcntl.fcntl(fd, 1032)    # F_GETPIPE_SZ
        used = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
    except (ImportError, OSError):
        return 0
    return (size - 4 * used) // 2


def _failure(worker_id, kind, fetcher, index):
    """The exception being handled, wrapped for the way back, with the place where it happened at the end."""
    wrapped = ExceptionWrapper(where="in DataLoader worker process %d" % worker_id)     # PyTorch's words
    if index is not None:
        spot = where(fetcher)
        note = "while reading %s" % spot if spot is not None else "while collating"
        wrapped.exc_msg += "\nThe worker%s was at batch indices %s, %s." % (
            " (a thread)" if kind == "thread" else "", _short(index), note)
    return wrapped


def _short(index):
    text = repr(index)
    return text if len(text) <= 200 else text[:200] + "..."


def _worker_main(*args):
    """What a worker process runs. On Ctrl-C all workers get it too; the program tells the user, once.

    Not a worker that ends either: Python's own end of a process, which follows, would tell of it."""
    interrupts = {signal.SIGINT}
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)
        try:
            _worker_loop(*args)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, interrupts)
    except KeyboardInterrupt:
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts)


def _say_nothing_of_lost_connections():
    """Python's thread that hands memory to the program prints what fails; that the program has ended, the user knows."""
    report = sys.excepthook

    def excepthook(kind, error, traceback):
        if not issubclass(kind, (OSError, EOFError)):
            report(kind, error, traceback)

    sys.excepthook = excepthook


def _worker_loop(dataset_kind, dataset, tasks, results, done_event, auto_collation, collate_fn, drop_last, base_seed,
                 init_fn, worker_id, num_workers, persistent_workers, shared_seed, board):
    """Body of a worker process: tasks and results are pipe ends, board shows the loader what is being read."""
    from rushlight.multiprocessing.reductions import dumps_small_inline
    from rushlight.utils.data.dataloader import _DatasetKind
    global _worker_info
    signal_handling._set_worker_signal_handlers()
    _say_nothing_of_lost_connections()
    torch.set_num_threads(1)
    seed = base_seed + worker_id
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if "rushlight.cuda" in sys.modules:     # else no device was used, and none can be after a fork
        torch.manual_seed(seed)
    if HAS_NUMPY:
        import numpy
        numpy.random.seed(_generate_state(base_seed, worker_id))
    _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset)
    sender = _Sender(results)
    watchdog = ManagerWatchdog()

    def send(number, data):
        try:
            message = dumps_small_inline((number, data), INLINE_BYTES)
        except Exception:
            message = dumps_small_inline((number, _failure(worker_id, "process", None, None)), INLINE_BYTES)
        sender.put(message)

    fetcher, init_failure, ended = None, None, False

    def start(seed_of_epoch):
        if dataset_kind == _DatasetKind.Iterable and seed_of_epoch is not None:
            from rushlight.utils.data import graph_settings
            from rushlight.utils.data.datapipes.datapipe import IterDataPipe
            if isinstance(dataset, IterDataPipe):
                rng = torch.Generator()
                rng.manual_seed(seed_of_epoch)
                graph_settings.apply_random_seed(dataset, rng)
        made = _DatasetKind.create_fetcher(dataset_kind, dataset, auto_collation, collate_fn, drop_last)
        made.progress = mine
        return made

    # This worker's two numbers on the board: task number + 1 (0: none), position in the batch or stream.
    mine = memoryview(board).cast("B").cast("q")[2 * worker_id:2 * worker_id + 2]
    try:
        if init_fn is not None:
            init_fn(worker_id)
        fetcher = start(shared_seed)
    except Exception:
        init_failure = _failure(worker_id, "process", None, None)

    while True:
        while not tasks.poll(1.0):
            if not watchdog.is_alive():
                return
        try:
            task = tasks.recv()
        except (EOFError, OSError):
            return
        if task is None or done_event.is_set():
            break
        if isinstance(task, _ResumeIteration):
            send(task, None)
            ended = False
            try:
                fetcher = start(task.seed)
            except Exception:
                init_failure = _failure(worker_id, "process", None, None)
            continue
        if ended:
            # An iterable dataset is over: indices sent before the loader knew are dropped.
            continue
        number, index = task
        if init_failure is not None:
            data, init_failure = init_failure, None
        else:
            mine[0], mine[1] = number + 1, 0
            try:
                data = fetcher.fetch(index)
            except StopIteration:
                if dataset_kind == _DatasetKind.Iterable:
                    data = _IterableDatasetStopIteration(worker_id)
                    ended = True
                else:
                    data = _failure(worker_id, "process", fetcher, index)
            except Exception:
                data = _failure(worker_id, "process", fetcher, index)
        mine[0] = 0
        send(number, data)
        del data, number, index, task
    # The loader opens shared memory as it reads each message, so nothing needs this process once all are written.
    sender.close()
