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
        self = super().__new__(cls, torch.cuda._device(), enable_timing=enable_timing)
        if interprocess and enable_timing:
            raise RuntimeError("CUDA error: invalid argument: events that processes share have no time")
        if interprocess:
            self._event = torch._C._event_shared(self.device)
        return self

    @classmethod
    def from_ipc_handle(cls, device, handle):
        """The event of another process, by what ipc_handle() gave there."""
        self = super().__new__(cls, torch.cuda._device(device))
        self._event = torch._C._event_shared(self.device, handle)
        return self

    def ipc_handle(self):
        """Bytes by which another process opens this event, which was made with interprocess=True."""
        if self._event is None:
            raise RuntimeError("CUDA error: invalid argument: the event was not made with interprocess=True")
        return torch._C._event_handle(self.device, self._event)

    def __repr__(self):
        return "<torch.cuda.Event>"
