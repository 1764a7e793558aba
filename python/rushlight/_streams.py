"""torch.Stream and torch.Event: queues of work on a device, and points in them."""
import rushlight as torch
from rushlight import _C

__all__ = ["Stream", "Event"]


def _device(device):
    """With an index; without one that of the accelerator."""
    if device is None or isinstance(device, int):
        accelerator = _C._device_accelerator()
        if accelerator is None:
            raise RuntimeError("Cannot access accelerator device when none is available.")
        device = accelerator if device is None else torch.device(accelerator.type, device)
    device = torch.device(device)
    if device.type != "cpu" and device.index is None:
        device = torch.device(device.type, _C._device_current(device))
    return device


class Stream:
    """A queue of work: what is given to one stream runs in order, several run side by side."""

    def __new__(cls, device=None, *, priority=0, stream_id=None, device_index=None, device_type=None):
        self = super().__new__(cls)
        self.device = _device(device)
        self.stream_id = _C._stream_new(self.device, priority) if stream_id is None else stream_id
        self._before = []
        return self

    @property
    def device_index(self):
        return -1 if self.device.index is None else self.device.index

    @property
    def device_type(self):
        return self.device.type

    @property
    def native_handle(self):
        return self.stream_id

    def is_capturing(self):
        """Is a graph recorded from it?"""
        return self.device.type == "cuda" and _C._cuda_isCurrentStreamCapturing(self.device.index, self.stream_id)

    def query(self):
        """Is all its work done?"""
        return _C._stream_query(self.device, self.stream_id)

    def synchronize(self):
        """Wait for its work."""
        _C._stream_synchronize(self.device, self.stream_id)

    def record_event(self, event=None):
        """An event at what it was given so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        """Its further work runs after the event."""
        event.wait(self)

    def wait_stream(self, stream):
        """Its further work runs after what the other one was given so far."""
        self.wait_event(stream.record_event())

    def __enter__(self):
        self._before.append((_C._device_current(self.device), _C._stream_current(self.device)))
        _C._device_set_current(self.device)
        _C._stream_set(self.device, self.stream_id)
        return self

    def __exit__(self, *error):
        index, stream = self._before.pop()
        _C._stream_set(self.device, stream)
        if index >= 0:
            _C._device_set_current(torch.device(self.device.type, index))

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self):
        return hash((self.device, self.stream_id))

    def __repr__(self):
        return "torch.Stream device_type=%s, device_index=%d, stream_id=%d" % (self.device.type, self.device_index, self.stream_id)


class Event:
    """A point in a stream, when it was recorded."""

    def __new__(cls, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self = super().__new__(cls)
        if device is None:
            device = _C._device_accelerator() or "cpu"
        self.device = _device(device) if isinstance(device, int) else torch.device(device)
        self._timing, self._event = bool(enable_timing), None  # the backend is asked when there is something to record
        return self

    @property
    def event_id(self):
        return 0 if self._event is None else id(self._event)

    def _made(self):
        if self._event is None:
            self.device = _device(self.device)
            self._event = _C._event_new(self.device, self._timing)
        return self._event

    def record(self, stream=None):
        """It is at what the stream was given so far; without one the current stream."""
        _C._event_record(self._made(), self._of(stream))

    def wait(self, stream=None):
        """The stream's further work waits for it."""
        if self._event is not None:
            _C._event_wait(self._event, self._of(stream))

    def _of(self, stream):
        if stream is None:
            return _C._stream_current(self.device)
        if stream.device != self.device:
            raise RuntimeError("Event device %s does not match recording stream's device %s." % (self.device, stream.device))
        return stream.stream_id

    def query(self):
        """Is it passed?"""
        return self._event is None or _C._event_query(self._event)

    def synchronize(self):
        """Wait until it is."""
        if self._event is not None:
            _C._event_synchronize(self._event)

    def elapsed_time(self, end_event):
        """Milliseconds from this to the other; both with enable_timing=True."""
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return _C._event_elapsed(self._event, end_event._event)

    def __repr__(self):
        return "torch.Event device_type=%s, device_index=%d, event_flag=%d, event_id=%d" % (
            self.device.type, -1 if self.device.index is None else self.device.index, self._timing, self.event_id)
