"""Errors of launched processes: record() writes those of a function where the launcher finds them."""
import dataclasses
import functools
import json
import os
import time
import traceback

__all__ = ["ProcessFailure", "ChildFailedError", "record"]


def write_error(error):
    """What a function raised, into the file that the launcher named, as PyTorch's launcher reads it."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):  # the first is the cause
        return
    about = {"message": {"message": f"{type(error).__name__}: {error}",
                         "extraInfo": {"py_callstack": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
                                       "timestamp": str(int(time.time()))}}, "at": time.time()}
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        json.dump(about, file)


@dataclasses.dataclass
class ProcessFailure:
    """How a process failed: exitcode is minus the number of a signal that ended it."""
    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    how: str = ""
    message: str = ""
    timestamp: float = 0.0

    def signal_name(self):
        import signal
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"

    def timestamp_isoformat(self):
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """A process of a job failed: `failures` by rank."""

    def __init__(self, name, failures):
        self.name, self.failures = name, failures
        rank, first = self.get_first_failure()
        super().__init__(f"{name}: rank {rank} (pid {first.pid}) failed first: it {first.how}\n{first.message}")

    def get_first_failure(self):
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]


def record(fn, error_handler=None):
    """A decorator: exceptions of fn are written into the file that the launcher named in TORCHELASTIC_ERROR_FILE."""
    @functools.wraps(fn)
    def recorded(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code not in (None, 0):
                write_error(error)
            raise
        except Exception as error:
            write_error(error)
            raise
    return recorded
