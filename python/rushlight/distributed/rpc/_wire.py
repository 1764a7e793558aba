"""Messages between the workers of remote calls: bytes, sent and received over the connections of a process group.

A message is a head of three numbers (its kind, its number, its length) and, behind it, its bytes. A group sees that a process has died or
is silent; then all waits end with an error that says which one.
"""
import datetime
import threading

import rushlight as torch
from rushlight import _C

from ..distributed_c10d import _RECEIVE, _SEND, _ALL_REDUCE

CALL, REPLY, FAILURE, NOTE, BYE = range(5)
_HEAD, _BODY = 0, 1  # tags
FOREVER = datetime.timedelta(days=365)


class Wire:
    """deliver(source, kind, number, body) is called by one thread for all that comes, in order of arrival; lost(error) at the end of all."""

    def __init__(self, store, rank, size, deliver, lost):
        self.rank, self.size, self._deliver, self._lost = rank, size, deliver, lost
        self._group = _C._Group(store, rank, size, "gloo", "rpc", FOREVER.total_seconds())
        self._locks = [threading.Lock() for _ in range(size)]  # head and body of a message follow each other
        self._over = [False] * size  # to whom this worker has said BYE
        self._thread = threading.Thread(target=self._receive, name="rpc", daemon=True)

    def start(self):
        self._thread.start()

    def send(self, to, kind, number, body=b""):
        if to == self.rank:
            self._deliver(to, kind, number, body)
            return None
        with self._locks[to]:
            if self._over[to]:
                raise RuntimeError("RPC has been shut down: nothing can be sent any more")
            self._over[to] = kind == BYE
            work = self._begin(_SEND, (torch.tensor([kind, number, len(body)]),), (), to, _HEAD)
            if body:
                work = self._begin(_SEND, (torch.frombuffer(bytearray(body), dtype=torch.uint8),), (), to, _BODY)
        return work

    def _begin(self, kind, inputs, outputs, root, tag):
        return _C._Work(self._group, kind, inputs, outputs, root=root, tag=tag, timeout=FOREVER.total_seconds())

    def _receive(self):
        left = self.size - 1
        try:
            while left:
                head = torch.empty(3, dtype=torch.int64)
                work = self._begin(_RECEIVE, (), (head,), -1, _HEAD)
                work.wait()
                kind, number, length = head.tolist()
                body, source = bytearray(length), work.source_rank()
                if length:
                    self._begin(_RECEIVE, (), (torch.frombuffer(body, dtype=torch.uint8),), source, _BODY).wait()
                if kind == BYE:
                    left -= 1
                else:
                    self._deliver(source, kind, number, body)
        except Exception as error:
            self._group.abort(f"worker {self.rank} cannot go on: {error}")
            self._lost(error)

    def total(self, numbers):
        """The sums of all workers' numbers; each waits for the others."""
        t = torch.tensor(numbers)
        _C._Work(self._group, _ALL_REDUCE, (), (t,), timeout=FOREVER.total_seconds()).wait()
        return t.tolist()

    def close(self, politely):
        """politely: all workers do it, and nobody has anything to say any more."""
        if politely:
            byes = [self.send(to, BYE, 0) for to in range(self.size) if to != self.rank]
            self._thread.join()
            for work in byes:  # a message is on its way when the other side has asked for it
                work.wait()
        self._group.destroy()
