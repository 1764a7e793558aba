"""Queues of torch.multiprocessing: the standard ones, whose pickler knows tensors once reductions are registered."""
from multiprocessing import queues
from multiprocessing.reduction import ForkingPickler  # noqa: F401

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue"]

Queue = queues.Queue
SimpleQueue = queues.SimpleQueue


class ConnectionWrapper:
    """A connection object; kept for programs that name it."""

    def __init__(self, conn):
        self.conn = conn

    def send(self, obj):
        self.conn.send(obj)

    def recv(self):
        return self.conn.recv()

    def __getattr__(self, name):
        return getattr(self.__dict__["conn"], name)
