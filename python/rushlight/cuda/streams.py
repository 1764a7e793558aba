"""Streams and events; they need a device."""
import rushlight as torch
from rushlight import _C

_StreamBase = getattr(_C, "_CudaStreamBase", object)
_EventBase = getattr(_C, "_CudaEventBase", object)


class Stream(_StreamBase):
    """A queue of work on a device."""

    def __new__(cls, device=None, priority=0, **kwargs):
        torch.cuda._lazy_init()
        return super().__new__(cls, priority=priority, **kwargs)

    def wait_event(self, event):
        event.wait(self)

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event


class ExternalStream(Stream):
    """A stream made by other code."""

    def __new__(cls, stream_ptr, device=None, **kwargs):
        torch.cuda._lazy_init()
        return super().__new__(cls, stream_ptr=stream_ptr, **kwargs)


class Event(_EventBase):
    """A point in a stream."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        torch.cuda._lazy_init()
        return super().__new__(cls, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)
