"""Python's multiprocessing, with tensors that travel between processes as shared memory instead of as copies."""
import multiprocessing
import sys

import rushlight as torch
from multiprocessing import *  # noqa: F401,F403
from rushlight.multiprocessing.reductions import init_reductions
from rushlight.multiprocessing import _atfork, pool, queue, reductions
from rushlight.multiprocessing.spawn import (ProcessContext, ProcessException, ProcessExitedException,
                                             ProcessRaisedException, SpawnContext, spawn, start_processes)

__all__ = ["set_sharing_strategy", "get_sharing_strategy", "get_all_sharing_strategies"]
__all__ += multiprocessing.__all__

_sharing_strategy = "file_descriptor" if sys.platform != "darwin" else "file_system"
_all_sharing_strategies = {"file_descriptor", "file_system"} if sys.platform != "darwin" else {"file_system"}


def set_sharing_strategy(new_strategy):
    """How memory is shared: by passing file descriptors, or by names of files in shared memory."""
    global _sharing_strategy
    if new_strategy not in _all_sharing_strategies:
        raise AssertionError("invalid sharing strategy %r, expected one of %s"
                             % (new_strategy, sorted(_all_sharing_strategies)))
    _sharing_strategy = new_strategy


def get_sharing_strategy():
    return _sharing_strategy


def get_all_sharing_strategies():
    return _all_sharing_strategies


def _set_thread_name(name):
    """Name the calling thread for tools like top and ps."""
    try:
        with open("/proc/thread-self/comm", "w") as f:
            f.write(name[:15])
    except OSError:
        return


def _get_thread_name():
    with open("/proc/thread-self/comm") as f:
        return f.read().strip()


init_reductions()
