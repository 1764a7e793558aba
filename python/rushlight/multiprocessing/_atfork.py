"""register_after_fork, also for children made by a bare os.fork()."""
import os

__all__ = ["register_after_fork"]


def register_after_fork(func):
    os.register_at_fork(after_in_child=func)
