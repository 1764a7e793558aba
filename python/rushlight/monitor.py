"""Events and statistics of running programs."""
import datetime
import enum
import time


class Aggregation(enum.IntEnum):
    """What is told of the numbers of a window."""

    VALUE = 1
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation
STAT_EVENT = "torch.monitor.Stat"  # the name of events with the numbers of a Stat
_HOW = {MEAN: lambda v: sum(v) / len(v), COUNT: len, SUM: sum, MAX: max, MIN: min}  # VALUE is of no window


class Event:
    """Something that happened: a name, when (datetime), and data: {str: str, int or float}."""

    def __init__(self, name, timestamp, data):
        if not isinstance(timestamp, datetime.datetime):
            raise TypeError(f"Event: timestamp must be a datetime, not {type(timestamp).__name__}")
        for value in data.values():
            if not isinstance(value, (str, int, float)):
                raise TypeError(f"Event: data must be str, int or float, not {type(value).__name__}")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class Stat:
    """Numbers added over time. A window of them ends after window_size (timedelta), or with its max_samples-th number, those that come later being dropped;
    what the aggregations say of it is an event then, {"name.sum": ...}, and what get() returns."""

    def __init__(self, name, aggregations, window_size, max_samples=None):
        if not isinstance(window_size, datetime.timedelta):
            raise TypeError(f"Stat: window_size must be a timedelta, not {type(window_size).__name__}")
        self.name, self._kinds = name, [kind for kind in Aggregation if kind in aggregations and kind in _HOW]
        self._size, self._most = window_size.total_seconds(), max_samples
        self._window, self._values, self._last, self._full = self._now(), [], dict.fromkeys(self._kinds, 0.), False

    def _now(self):
        return time.monotonic() // self._size if self._size else 0

    def _end(self):
        """Of a window: nothing is told of an empty one."""
        values, self._values = self._values, []
        self._last = {kind: float(_HOW[kind](values)) if values else 0. for kind in self._kinds}
        if values:
            log_event(Event(STAT_EVENT, datetime.datetime.now(), {f"{self.name}.{kind.name.lower()}": value for kind, value in self._last.items()}))

    @property
    def count(self):
        """Numbers of this window so far."""
        return len(self._values)

    def add(self, v):
        """One more number."""
        v, now = float(v), self._now()
        if now != self._window:
            self._window, self._full = now, False
            self._end()
        if self._full:
            return
        self._values.append(v)
        if len(self._values) == self._most:
            self._full = True
            self._end()

    def get(self):
        """{Aggregation: float} of the window before this one, zeros if it was empty."""
        return dict(self._last)

    def __del__(self):
        if getattr(self, "_values", None):
            self._end()


class EventHandlerHandle:
    """What register_event_handler() returns."""

    def __init__(self, handler):
        self._handler = handler


_handlers = []


def log_event(event):
    """Give an Event to all handlers."""
    if not isinstance(event, Event):
        raise TypeError(f"log_event: an Event, not {type(event).__name__}")
    for handle in list(_handlers):
        handle._handler(event)


def register_event_handler(callback):
    """Have callback(event) called with each Event, until unregister_event_handler()."""
    if not callable(callback):
        raise TypeError(f"register_event_handler: a function, not {type(callback).__name__}")
    _handlers.append(EventHandlerHandle(callback))
    return _handlers[-1]


def unregister_event_handler(handle):
    """End that; a handle that has ended is nothing."""
    if handle in _handlers:
        _handlers.remove(handle)


class TensorboardEventHandler:
    """Writes the numbers of events with a SummaryWriter."""

    def __init__(self, writer):
        self._writer = writer

    def __call__(self, event):
        if event.name == STAT_EVENT:
            for key, value in event.data.items():
                self._writer.add_scalar(key, value, walltime=event.timestamp.timestamp())


_vitals = []


def set_vital(vital, attr, value):
    """Note a fact about the program, when the environment says TORCH_VITAL=ON; whether it was noted."""
    import os
    on = os.environ.get("TORCH_VITAL", "").upper() == "ON"
    if on:
        _vitals.append("[TORCH_VITAL] %s.%s\t\t %s\n" % (vital, attr, value))
    return on


def read_vitals():
    """What was noted, a line each."""
    return "".join(_vitals)
