"""Marks for a profiler of another vendor; it is not connected, so they go nowhere."""
import contextlib

__all__ = ["is_available", "mark", "range_push", "range_pop", "range"]


def is_available():
    """Whether marks go anywhere: no."""
    return False


def range_push(msg):
    """Begin a range."""


def range_pop():
    """End the innermost range."""


def mark(msg):
    """A moment."""


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """A range around what runs inside; msg is formatted with the other arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
