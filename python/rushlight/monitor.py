"""Events and statistics of running programs."""
import enum


class Aggregation(enum.Enum):
    VALUE = 0
    MEAN = 1
    COUNT = 2
    SUM = 3
    MAX = 4
    MIN = 5


class Event:
    def __init__(self, name, timestamp, data):
        self.name, self.timestamp, self.data = name, timestamp, data


class Stat:
    """Numbers added over time and summed up by some of the Aggregations."""

    def __init__(self, name, aggregations, window_size=0, max_samples=None):
        self.name, self.aggregations, self.values = name, aggregations, []

    @property
    def count(self):
        return len(self.values)

    def add(self, v):
        self.values.append(v)

    def get(self):
        compute = {Aggregation.VALUE: lambda v: v[-1], Aggregation.MEAN: lambda v: sum(v) / len(v),
                   Aggregation.COUNT: len, Aggregation.SUM: sum, Aggregation.MAX: max, Aggregation.MIN: min}
        return {a: compute[a](self.values) if self.values else 0 for a in self.aggregations}


_handlers = []


def log_event(event):
    for handler in list(_handlers):
        handler(event)


def register_event_handler(callback):
    _handlers.append(callback)
    return callback


def unregister_event_handler(handle):
    _handlers.remove(handle)


class TensorboardEventHandler:
    """Writes the numbers of events with a SummaryWriter."""

    def __init__(self, writer):
        self._writer = writer

    def __call__(self, event):
        if event.name == "torch.monitor.Stat":
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
