"""spawn(): run a function in several processes, and stop all of them when one fails."""
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings

__all__ = ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "spawn",
           "SpawnContext", "start_processes"]


class ProcessException(Exception):
    """A process failed: error_index says which, error_pid its number."""

    __slots__ = ["error_index", "error_pid"]

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception; its traceback is in the message."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process was killed or left with a non-zero exit code."""

    __slots__ = ["exit_code"]

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _wrap(fn, i, args, error_file):
    _die_with_parent()
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        # The parent was interrupted as well, and shows it.
        sys.exit(1)
    except Exception:
        with open(error_file, "wb") as f:
            pickle.dump(traceback.format_exc(), f)
        sys.exit(1)


def _die_with_parent():
    """Ask Linux for SIGINT when the parent goes, so that no process is left behind."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGINT)   # PR_SET_PDEATHSIG


class ProcessContext:
    """The running processes."""

    def __init__(self, processes, error_files):
        self.error_files = error_files
        self.processes = processes
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self):
        return [int(process.pid) for process in self.processes]

    def _wait_all(self, deadline):
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))

    def join(self, timeout=None, grace_period=None):
        """True when all have ended well, False when some still run after timeout; raises when one failed."""
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(self.sentinels.keys(), timeout=timeout)
        failed = None
        for sentinel in ready:
            i = self.sentinels.pop(sentinel)
            self.processes[i].join()
            if self.processes[i].exitcode != 0 and failed is None:
                failed = i
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            self._wait_all(time.monotonic() + grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait_all(time.monotonic() + 30)
        for process in self.processes:
            if process.is_alive():
                warnings.warn("process %s did not end when terminated: it is killed" % process.pid, stacklevel=2)
                process.kill()
            process.join()
        self._raise(failed)

    def _raise(self, i):
        process = self.processes[i]
        if os.path.exists(self.error_files[i]) and os.path.getsize(self.error_files[i]):
            with open(self.error_files[i], "rb") as f:
                original = pickle.load(f)
            raise ProcessRaisedException("\n\n-- Process %d terminated with the following error:\n%s" % (i, original),
                                         i, process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = "<Unknown signal %d>" % -code
            raise ProcessExitedException("process %d terminated with signal %s" % (i, name), i, process.pid, code, name)
        raise ProcessExitedException("process %d terminated with exit code %d" % (i, code), i, process.pid, code)


class SpawnContext(ProcessContext):
    """The name older programs know."""

    def __init__(self, processes, error_files):
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Run fn(i, *args) for i below nprocs, each in a process of its own."""
    context = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    for i in range(nprocs):
        handle, path = tempfile.mkstemp(prefix="rushlight-process-error-", suffix=".pickle")
        os.close(handle)
        os.unlink(path)
        process = context.Process(target=_wrap, args=(fn, i, args, path), daemon=daemon)
        process.start()
        processes.append(process)
        error_files.append(path)
    running = ProcessContext(processes, error_files)
    if not join:
        return running
    while not running.join():
        continue
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """start_processes with the spawn method."""
    if start_method != "spawn":
        warnings.warn("This method only supports start_method=spawn (got: %s).\nTo use a different start_method use:\n"
                      "\t\t torch.multiprocessing.start_processes(...)" % start_method, FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
