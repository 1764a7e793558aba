"""Contexts that change how a tracer sees indexing; eager execution needs none."""
import contextlib


class TransformGetItemToIndex(contextlib.AbstractContextManager):
    """x[tensor of one integer] works inside vmap without it."""

    def __exit__(self, *what):
        return None
