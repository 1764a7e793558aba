"""Functions that are called remotely."""
import functools

from ._agent import ASYNC


def async_execution(fn):
    """fn returns a future; the caller gets its value, when it has one."""
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)
    setattr(wrapper, ASYNC, fn)
    return wrapper
