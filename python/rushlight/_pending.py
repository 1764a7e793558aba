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


def settle(why):
    """Has the calls done that this thread has put off: a graph ends here."""
    found = capture()
    if found is not None:
        found.stop(why)


def alone(why, function, args, kwargs):
    """function(*args, **kwargs) between two graphs: its calls are done when they are made."""
    found = capture()
    found.stop(why)
    with found.paused():
        return function(*args, **kwargs)
