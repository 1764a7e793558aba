"""Watching worker processes.

PyTorch installs signal handlers to notice dead workers.  Here the loader waits on the workers' process
sentinels together with their results, so a death wakes it at once and no handler is needed; what is left is
the record of which loader has which workers, for programs that look.
"""
IS_WINDOWS = False

_worker_pids = {}


def _set_worker_pids(loader_id, pids):
    _worker_pids[loader_id] = tuple(pids)


def _remove_worker_pids(loader_id):
    _worker_pids.pop(loader_id, None)


def _error_if_any_worker_fails():
    """Raise if a worker that some loader still uses is no longer running."""
    import os
    for pids in _worker_pids.values():
        for pid in pids:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                raise RuntimeError("DataLoader worker (pid %d) exited unexpectedly" % pid) from None


def _set_worker_signal_handlers():
    return None


def _set_SIGCHLD_handler():
    return None
