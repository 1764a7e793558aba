"""What programs call."""
import contextlib
import enum
import functools
import itertools
import os
import threading

from rushlight.futures import Future, wait_all

from ..distributed_c10d import PrefixStore, is_gloo_available
from ..rendezvous import rendezvous
from ._agent import Agent, WorkerInfo, agent, install
from ._rref import RRef
from .constants import (DEFAULT_INIT_METHOD, DEFAULT_NUM_WORKER_THREADS, DEFAULT_RPC_TIMEOUT_SEC, DEFAULT_SHUTDOWN_TIMEOUT,
                        UNSET_RPC_TIMEOUT)
from .functions import async_execution

_generation = itertools.count()
_waited = threading.local()  # futures: those of this thread's _wait_all()


class BackendType(enum.Enum):
    TENSORPIPE = "TENSORPIPE"

    def __repr__(self):
        return "BackendType." + self.name


class RpcBackendOptions:
    """rpc_timeout: seconds for a call (0: any time); init_method: how the workers find each other."""

    def __init__(self, rpc_timeout=DEFAULT_RPC_TIMEOUT_SEC, init_method=DEFAULT_INIT_METHOD):
        self.rpc_timeout, self.init_method = float(rpc_timeout), init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """The options of the only backend. Threads are made as they are needed; tensors are on the CPU."""

    def __init__(self, *, num_worker_threads=DEFAULT_NUM_WORKER_THREADS, rpc_timeout=DEFAULT_RPC_TIMEOUT_SEC, init_method=DEFAULT_INIT_METHOD,
                 device_maps=None, devices=None, _transports=None, _channels=None):
        super().__init__(rpc_timeout, init_method)
        self.num_worker_threads, self.device_maps, self.devices = num_worker_threads, device_maps or {}, devices or []

    def set_device_map(self, to, device_map):
        if any(str(d) != "cpu" for pair in device_map.items() for d in pair):
            raise ValueError("remote calls carry tensors of the CPU")

    def set_devices(self, devices):
        if any(str(d) != "cpu" for d in devices):
            raise ValueError("remote calls carry tensors of the CPU")


def _require_initialized(func):
    """func, which fails without init_rpc()."""
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        agent()
        return func(*args, **kwargs)
    return wrapper


def is_available():
    """Whether this build can call remotely."""
    return is_gloo_available()


def init_rpc(name, backend=None, rank=-1, world_size=None, rpc_backend_options=None):
    """Makes this process a worker; returns when all have come. rank and world_size are those of the environment unless given."""
    from ._agent import running
    if running() is not None:
        raise RuntimeError("RPC is already initialized")
    if backend is not None and backend != BackendType.TENSORPIPE:
        raise TypeError(f"backend must be BackendType.TENSORPIPE, not {backend}")
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    if not isinstance(options, RpcBackendOptions):
        raise TypeError("rpc_backend_options must be RpcBackendOptions")
    if world_size is None and rank != -1 and "WORLD_SIZE" not in os.environ:
        raise NotImplementedError("init_rpc: groups of workers that grow and shrink (world_size=None) are not supported")
    store, rank, world_size = next(rendezvous(options.init_method, rank, -1 if world_size is None else world_size))
    made = Agent(PrefixStore(f"rpc_prefix_{next(_generation)}", store), name, rank, world_size, options)
    made.store = store  # in one worker it serves the others
    install(made)
    made.start()


@_require_initialized
def shutdown(graceful=True, timeout=DEFAULT_SHUTDOWN_TIMEOUT):
    """Ends remote calls here; graceful: once no worker has one under way, for which each waits for all."""
    me = agent()
    try:
        if graceful:
            me.finish()
    finally:
        try:
            me.close(graceful and me.broken is None)
        finally:
            install(None)


@_require_initialized
def get_worker_info(worker_name=None):
    """The worker of a name; of this process."""
    me = agent()
    return me.me if worker_name is None else me.worker(worker_name)


def get_rpc_timeout():
    """Seconds for calls that do not say."""
    return agent().timeout


@_require_initialized
def rpc_async(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """A future of func(*args, **kwargs) at another worker."""
    me = agent()
    future = me.call(me.worker(to).id, func, args, kwargs, timeout)
    if getattr(_waited, "futures", None) is not None:
        _waited.futures.append(future)
    return future


@_require_initialized
def rpc_sync(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """func(*args, **kwargs) at another worker."""
    return rpc_async(to, func, args, kwargs, timeout).wait()


@_require_initialized
def remote(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """A reference to func(*args, **kwargs), which stays at the other worker."""
    return RRef._of_remote(agent().worker(to), func, args, kwargs, timeout)


@contextlib.contextmanager
def _wait_all():
    """The calls that rpc_async() begins in the block have ended after it."""
    before, _waited.futures = getattr(_waited, "futures", None), []
    try:
        yield
        wait_all(_waited.futures)
    finally:
        _waited.futures = before


@async_execution
def _bring(meeting, name, obj):
    """At the worker where a meeting is held: a future of what all bring to it, by their names."""
    names, me = meeting[0], agent()
    with me.lock:
        future, brought = me.meetings.setdefault(meeting, (Future(), {}))
        brought[name] = obj
        if len(brought) < len(names):
            return future
        del me.meetings[meeting]
    future.set_result(brought)
    return future


@_require_initialized
def _all_gather(obj, worker_names=None, timeout=UNSET_RPC_TIMEOUT):
    """{name: what it gave as obj} of all workers, or of those of these names, all of which call this; they meet at the first by name."""
    me = agent()
    names = tuple(sorted(me.by_name if worker_names is None else worker_names))
    if me.me.name not in names:
        raise ValueError(f"_all_gather: {me.me.name} is not among {list(names)}")
    return rpc_sync(names[0], _bring, ((names, next(me.times[names])), me.me.name, obj), timeout=timeout)


def _barrier(worker_names):
    """Returns once all workers of these names have called it."""
    _all_gather(None, worker_names)


__all__ = ["BackendType", "RRef", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "WorkerInfo", "get_rpc_timeout", "get_worker_info", "init_rpc",
           "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]
