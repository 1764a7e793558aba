"""Hooks to find out what communication costs."""
from rushlight.futures import Future

__all__ = ["noop_hook"]


def noop_hook(_, bucket):
    """Nothing is sent: each process keeps its own gradients."""
    future = Future()
    future.set_result(bucket.buffer())
    return future
