"""Marks for a profiler of another vendor; it is not connected, so they go nowhere."""
from rushlight._ranges import ranges

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


range = ranges(range_push, range_pop)
