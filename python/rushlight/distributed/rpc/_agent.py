"""Remote calls: what a worker has asked others for, and what others ask of it.

A call and its answer are pickled. All pickles are opened by the wire's thread, in their order; functions run in threads of their own, as many as
are needed, since a function may wait for further calls.
"""
import collections
import heapq
import io
import itertools
import pickle
import queue
import threading
import time
import traceback

import rushlight as torch
from rushlight.futures import Future

from ._wire import CALL, FAILURE, NOTE, REPLY, Wire
from .constants import UNSET_RPC_TIMEOUT

ASYNC = "_wrapped_async_rpc_function"  # of functions whose result is a future of the result

WorkerInfo = collections.namedtuple("WorkerInfo", "name id")
WorkerInfo.__repr__ = WorkerInfo.__str__ = lambda self: f"WorkerInfo(id={self.id}, name={self.name})"
WorkerInfo.__doc__ = "A worker: its name and its number."

_agent = None
local = threading.local()  # .opening: (source, number) of the message that is being opened


def agent():
    if _agent is None:
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return _agent


def running():
    """The agent, or None."""
    return _agent


def is_set():
    return _agent is not None


def install(made):
    global _agent
    _agent = made


class Pickler(pickle.Pickler):
    """Knows what goes to workers in a way of its own (references), and tensors through which gradients come back."""

    def __init__(self, file, context, tensors):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.context, self.tensors = context, tensors

    def reducer_override(self, x):
        from ..autograd import arrived
        if hasattr(type(x), "_reduce_for_workers"):
            return x._reduce_for_workers()
        if self.context is not None and isinstance(x, torch.Tensor) and x.requires_grad:
            self.tensors.append(x)
            return arrived, (self.context.id, x.detach(), len(self.tensors) - 1)
        return NotImplemented


def failure(worker, error):
    """The type and the text of an exception, for the caller."""
    return type(error), f"On {worker}:\n{error!r}\n" + "".join(traceback.format_exception(error))


def exception(kind, text):
    """The caller's exception."""
    try:
        return kind(text)
    except Exception as error:
        return RuntimeError(f"Failed to create original exception type. Error msg was {error} Original exception on remote side was {text}")


class Threads:
    """As many threads as there are calls at a time. A function that does not end does not keep the process."""

    def __init__(self):
        self.work, self.idle, self.made = queue.SimpleQueue(), threading.Semaphore(0), 0

    def submit(self, *call):
        self.work.put(call)
        if not self.idle.acquire(blocking=False):
            self.made += 1
            threading.Thread(target=self._run, name="rpc-call", daemon=True).start()

    def _run(self):
        for function, *args in iter(self.work.get, None):
            function(*args)
            del function, args
            self.idle.release()

    def close(self):
        for _ in range(self.made):
            self.work.put(None)


class Agent:
    """This process as a worker."""

    def __init__(self, store, name, rank, size, options):
        self.timeout, self.rank, self.size = options.rpc_timeout, rank, size
        store.set(f"worker/{rank}", name)
        self.workers = [WorkerInfo(store.get(f"worker/{i}").decode(), i) for i in range(size)]
        self.by_name = {w.name: w for w in self.workers}
        if len(self.by_name) < size:
            raise RuntimeError(f"RPC worker names must be unique; they are {[w.name for w in self.workers]}")
        self.me = self.workers[rank]
        self.numbers = itertools.count(1)
        self.values = {}  # what others refer to: id -> entry (_rref.py)
        self.meetings, self.times = {}, collections.defaultdict(itertools.count)  # of _all_gather(): those held here; how often by who takes part
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.pending, self.handling, self.sent, self.opened, self.broken = {}, 0, 0, 0, None
        self.deadlines, self.garbage, self.closed = [], queue.SimpleQueue(), False
        self.pool = Threads()
        self.wire = Wire(store, rank, size, self.deliver, self.lost)
        self.clock = threading.Thread(target=self._clock, name="rpc-clock", daemon=True)

    def start(self):
        self.wire.start()
        self.clock.start()

    def worker(self, to):
        """The worker that a name, a number or an info means."""
        if isinstance(to, WorkerInfo):
            return to
        if isinstance(to, str):
            if to not in self.by_name:
                raise RuntimeError(f"name:{self.me.name},rank:{self.rank} could not find destination name {to}")
            return self.by_name[to]
        if isinstance(to, int):
            if not 0 <= to < self.size:
                raise RuntimeError(f"name:{self.me.name},rank:{self.rank} could not find destination id {to}")
            return self.workers[to]
        raise ValueError(f"Cannot get WorkerInfo from name {to}")

    # ---- what this worker asks ----

    def _pack(self, to, value, context):
        """(number, bytes) of a message; the tensors in it are remembered for the gradients that will come back."""
        file, tensors, number = io.BytesIO(), [], next(self.numbers)
        Pickler(file, context, tensors).dump(value)
        if context is not None:
            context.sent(to, number, tensors)
        return number, file.getvalue()

    def call(self, to, function, args=(), kwargs=None, timeout=UNSET_RPC_TIMEOUT):
        """A future of the result."""
        from ..autograd import current
        context, future = current(), Future()
        number, body = self._pack(to, (function, tuple(args or ()), dict(kwargs or {}), context and context.id), context)
        seconds = self.timeout if timeout == UNSET_RPC_TIMEOUT else timeout
        with self.lock:
            if self.broken is not None:
                raise self.broken
            self.pending[number] = future
            if seconds:
                heapq.heappush(self.deadlines, (time.monotonic() + seconds, number, seconds))
                self.changed.notify_all()
        self._send(to, CALL, number, body)
        return future

    def note(self, to, function, *args):
        """function(*args) at a worker, in order with other notes from here; nothing comes back. For quick functions of this package."""
        self._send(to, NOTE, 0, pickle.dumps((function, args)))

    def _send(self, to, kind, number, body):
        with self.lock:
            self.sent += 1
        try:
            self.wire.send(to, kind, number, body)
        except Exception as error:
            self.lost(error)

    def _take(self, number):
        with self.lock:
            future = self.pending.pop(number, None)
            self.changed.notify_all()
            return future

    def _clock(self):
        """Ends calls that take too long, and gives back what references that are gone held."""
        while not self.closed:
            late = []
            with self.lock:
                now = time.monotonic()
                while self.deadlines and (self.deadlines[0][0] <= now or self.deadlines[0][1] not in self.pending):
                    late.append(heapq.heappop(self.deadlines))
                if not late and self.garbage.empty():
                    self.changed.wait(min(0.2, self.deadlines[0][0] - now if self.deadlines else 1))
            for _, number, seconds in late:
                future = self._take(number)
                if future is not None:
                    future.set_exception(RuntimeError(f"RPCErr:1:RPC ran for more than set timeout ({seconds * 1e3:.0f} ms) and will now be marked with an error"))
            while not self.garbage.empty():
                self.note(*self.garbage.get())

    # ---- what others ask ----

    def deliver(self, source, kind, number, body):
        """A message has come; it counts as opened once what it sends on has been sent."""
        try:
            self._open(source, kind, number, body)
        finally:
            with self.lock:
                self.opened += 1
                self.changed.notify_all()

    def _open(self, source, kind, number, body):
        local.opening = source, number
        try:
            content = pickle.loads(body)
        except Exception as error:
            if kind == CALL:
                self._send(source, FAILURE, number, pickle.dumps(failure(self.me, error)))
                return
            content, kind = (type(error), f"the answer cannot be opened: {error}"), FAILURE
        if kind == NOTE:
            content[0](*content[1])
        elif kind == CALL:
            with self.lock:
                self.handling += 1
            self.pool.submit(self._run, source, number, *content)
        else:
            future = self._take(number if kind == FAILURE else content[0])
            if future is None:  # it came too late
                return
            if kind == FAILURE:
                future.set_exception(exception(*content))
            else:
                future.set_result(content[1])

    def _run(self, source, number, function, args, kwargs, context):
        from ..autograd import entered
        context = entered(context)
        try:
            with context:
                result = function(*args, **kwargs)
            if not hasattr(function, ASYNC):
                self._answer(source, number, context, result)
            elif isinstance(result, Future) or hasattr(result, "add_done_callback"):
                result.add_done_callback(lambda done: self._answer_later(source, number, context, done))
            else:
                raise RuntimeError("Functions decorated with @rpc.async_function must return a torch.futures.Future object, but got " + str(type(result)))
        except Exception as error:
            self._answer_error(source, number, error)

    def _answer_later(self, source, number, context, done):
        try:
            self._answer(source, number, context, done.value())
        except Exception as error:
            self._answer_error(source, number, error)

    def _answer(self, source, number, context, result):
        own, body = self._pack(source, (number, result), context.context)
        self._send(source, REPLY, own, body)
        self._handled()

    def _answer_error(self, source, number, error):
        kind, text = failure(self.me, error)
        try:
            body = pickle.dumps((kind, text))
        except Exception:  # a type of a function's own
            body = pickle.dumps((RuntimeError, text))
        self._send(source, FAILURE, number, body)
        self._handled()

    def _handled(self):
        with self.lock:
            self.handling -= 1
            self.changed.notify_all()

    # ---- the end ----

    def lost(self, error):
        """Nothing can be sent or received any more."""
        with self.lock:
            self.broken = self.broken or error
            waiting, self.pending = list(self.pending.values()), {}
            self.changed.notify_all()
        for future in waiting:
            future.set_exception(error if isinstance(error, Exception) else RuntimeError(str(error)))

    def finish(self):
        """Until no worker has a call under way, or a message that is not opened; all workers do it.

        Each adds what it had sent and opened when it had nothing to do. If as many were opened as sent, twice in a row, nobody did anything
        between the two times: messages that only make others send messages (references that end, contexts that are forgotten) have come, too.
        """
        before = None
        while True:
            with self.lock:
                self.changed.wait_for(lambda: self.broken or not self.pending and not self.handling)
                if self.broken:
                    raise self.broken
                counts = [self.sent, self.opened]
            sent, opened = total = self.wire.total(counts)
            if sent == opened and total == before:
                return
            if sent != opened:
                time.sleep(0.002)  # something is on its way
            before = total

    def close(self, politely):
        self.closed = True
        with self.lock:
            self.changed.notify_all()
        if threading.current_thread() is not self.clock:
            self.clock.join()
        try:
            self.wire.close(politely)
        finally:
            self.pool.close()
            self.values.clear()
