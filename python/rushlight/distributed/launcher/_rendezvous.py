"""Rendezvous: the machines of a job meet in its store, in rounds.

In a round each machine takes a seat. It is closed when all seats are taken, or when the least number is and nobody has come for a while. A round
is over when a process failed, a machine left or fell silent, or one came that had no seat; then all who are still there meet in the next. Keys of
round r begin with "r/": seats (how many were taken), seat/i (whose), closed (how many count), beat/i (that i is alive), done (how many
machines ended well), over (why it ended: JSON).
"""
import json
import socket
import time

__all__ = ["Meeting", "Round"]


class Round:
    """Who takes part: the machines in order, this one's place, how many failures there have been."""

    def __init__(self, number, seat, machines, restarts):
        self.number, self.seat, self.machines, self.restarts = number, seat, machines, restarts

    @property
    def before(self):
        """Processes on machines before this one."""
        return sum(m["processes"] for m in self.machines[:self.seat])

    @property
    def world(self):
        return sum(m["processes"] for m in self.machines)


class Meeting:
    """`number`: this machine's seat in every round; None: as they come. `silence`: seconds after which a machine is taken for lost."""

    def __init__(self, store, low, high, processes, number=None, timeout=600.0, last_call=30.0, silence=15.0):
        self.store, self.low, self.high, self.number = store, low, high, number
        self.about = {"processes": processes, "host": socket.gethostname()}
        self.timeout, self.last_call, self.silence, self.at, self.now = timeout, last_call, silence, 0, None

    def _read(self, key):
        return self.store.get(key).decode() if self.store.check([key]) else ""

    def _key(self, name):
        return f"{self.at}/{name}"

    def _advance(self, to):
        """The round that meets next is `to` at least."""
        while True:
            text = self._read("round")
            if text and int(text) >= to:
                return
            self.store.compare_set("round", text, str(to))

    def join(self, interrupted):
        """The Round in which this machine has a place; None: `interrupted()`, or the job has ended without it."""
        end = time.monotonic() + self.timeout
        while not interrupted() and not self._read("finished"):
            self.at = max(self.at, int(self._read("round") or 0))
            taken = self.store.add(self._key("seats"), 1)
            seat = taken - 1 if self.number is None else self.number
            self.store.set(self._key(f"seat/{seat}"), json.dumps(self.about))
            size = self._closed(end, interrupted)
            if size is not None and seat < size:
                return self._begun(seat, size)
            if size == self.high and not self._await_end(interrupted):
                return None
            if size is not None:
                self.end("came", seat=seat)
                self.next()
        return None

    def _closed(self, end, interrupted):
        """How many machines the round has, once that is settled."""
        before, since = 0, time.monotonic()
        while not interrupted():
            text = self._read(self._key("closed"))
            if text:
                return int(text)
            n, now = self.store.add(self._key("seats"), 0), time.monotonic()
            if n != before:
                before, since = n, now
            if n >= self.high:
                self.store.compare_set(self._key("closed"), "", str(self.high))
            elif n >= self.low and now - since >= self.last_call:
                self.store.compare_set(self._key("closed"), "", str(n))
            elif now > end:
                raise RuntimeError(f"{n} of at least {self.low} machines came in {self.timeout:g} seconds")
            else:
                time.sleep(0.05)
        return None

    def _await_end(self, interrupted):
        """All seats are taken: until one is free (True), or the job has ended."""
        while not interrupted() and not self._read("finished"):
            if self.over():
                return True
            time.sleep(0.2)
        return False

    def _begun(self, seat, size):
        keys = [self._key(f"seat/{i}") for i in range(size)]
        machines = [json.loads(value) for value in self.store.multi_get(keys)]
        last = json.loads(self._read(f"{self.at - 1}/over") or "{}") if self.at else {}
        self.now = Round(self.at, seat, machines, last.get("restarts", 0))
        self.heard, self.neighbour_said, self.next_beat = time.monotonic(), -1, 0.0
        return self.now

    def next(self):
        """To the next round."""
        self.at += 1
        self._advance(self.at)

    def end(self, kind, **more):
        """The round is over, if it was not yet; kinds: failed, left, lost, came."""
        restarts = (self.now.restarts if self.now and self.now.number == self.at else 0) + (kind == "failed")
        self.store.compare_set(self._key("over"), "", json.dumps({"kind": kind, "restarts": restarts, **more}))

    def over(self):
        """Why the round is over, or None."""
        text = self._read(self._key("over"))
        return json.loads(text) if text else None

    def beat(self):
        """About once a second: this machine is alive; is the next one?"""
        now = time.monotonic()
        if now < self.next_beat or len(self.now.machines) == 1:
            return
        self.next_beat = now + 1
        self.store.add(self._key(f"beat/{self.now.seat}"), 1)
        neighbour = (self.now.seat + 1) % len(self.now.machines)
        said = self.store.add(self._key(f"beat/{neighbour}"), 0)
        if said != self.neighbour_said:
            self.neighbour_said, self.heard = said, now
        elif now - self.heard > self.silence:
            self.end("lost", seat=neighbour, host=self.now.machines[neighbour]["host"])

    def done(self):
        """This machine's processes ended well."""
        if self.store.add(self._key("done"), 1) >= len(self.now.machines):
            self.finish()

    def all_done(self):
        return self.store.add(self._key("done"), 0) >= len(self.now.machines)

    def finish(self):
        """Nobody needs to come any more."""
        self.store.set("finished", "1")

    def leave(self, serves):
        """The machine that serves the store does so until the others have gone."""
        gone, end = self.store.add(self._key("gone"), 1), time.monotonic() + 10
        while serves and gone < len(self.now.machines) and time.monotonic() < end:
            time.sleep(0.05)
            gone = self.store.add(self._key("gone"), 0)
