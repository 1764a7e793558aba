"""Ranges for profilers, made of a function that begins one and one that ends it."""
import contextlib


def ranges(begin, end):
    @contextlib.contextmanager
    def range(msg, *args, **kwargs):
        """A range around what runs inside; msg is formatted with the other arguments."""
        begin(msg.format(*args, **kwargs))
        try:
            yield
        finally:
            end()

    return range
