"""Streams and events of CUDA devices."""
import rushlight as torch

__all__ = ["Stream", "ExternalStream", "Event"]


class Stream(torch.Stream):
    """A queue of work on a device."""

    def __new__(cls, device=None, priority=0, **kwargs):
        return super().__new__(cls, torch.cuda._device(device), priority=priority, stream_id=kwargs.get("stream_id"))

    @property
    def cuda_stream(self):
        return self.stream_id

    @staticmethod
    def priority_range():
        return 0, -5

    def __repr__(self):
        return "<torch.cuda.Stream device=%s cuda_stream=%#x>" % (self.device, self.stream_id)


class ExternalStream(Stream):
    """A stream made by other code."""

    def __new__(cls, stream_ptr, device=None, **kwargs):
        torch.cuda._lazy_init()
        raise NotImplementedError("torch.cuda.ExternalStream: streams of other code are not taken")


class Event(torch.Event):
    """A point in a stream."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        if interprocess:
            raise NotImplementedError("torch.cuda.Event: events are not shared between processes")
        return super().__new__(cls, torch.cuda._device(), enable_timing=enable_timing)

    def __repr__(self):
        return "<torch.cuda.Event>"
