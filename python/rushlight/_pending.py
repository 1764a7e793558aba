"""Calls that compiled functions have put off for a backend (_dynamo/capture.py), as the rest of the package knows of them.

Who hands tensors to something that __torch_function__ does not see (the extension, a generator, a class of its own) has them done first:
`if _pending.open: _pending.settle("what it does")`.
"""
import threading

open = []  # the captures that are running, of all threads


def capture():
    """The capture that runs in this thread, or None."""
    me = threading.get_ident()
    return next((c for c in reversed(open) if c.thread == me), None)


def waits():
    """Whether this thread puts calls off now."""
    found = capture()
    return found is not None and not found.busy


def settle(why, real=True):
    """Has the calls done that this thread has put off: a graph ends here. real: which fullgraph=True does not allow."""
    found = capture()
    if found is not None:
        found.stop(why, real)


def alone(why, function, args, kwargs, real=True):
    """function(*args, **kwargs) between two graphs: its calls are done when they are made."""
    found = capture()
    found.stop(why, real)
    with found.paused():
        return function(*args, **kwargs)


def library(why, function, args, kwargs={}):
    """function(*args, **kwargs), which the library needs for itself and fullgraph=True does not refuse."""
    return alone(why, function, args, kwargs, real=False) if open and waits() else function(*args, **kwargs)


def truth(tensor):
    """bool(tensor) where the library itself chooses by a value."""
    return library("a value is asked for", bool, (tensor,))
