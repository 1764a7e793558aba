"""TensorBoard's event files, written by the library; and protobuf's wire format, for the messages made here."""
import struct

from rushlight._C import _EventFile

# ---- protobuf's wire format, writing only


def varint(n):
    n &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def integer(field, n):
    return varint(field << 3) + varint(n)


def double(field, x):
    return varint(field << 3 | 1) + struct.pack("<d", x)


def single(field, x):
    return varint(field << 3 | 5) + struct.pack("<f", x)


def data(field, content):
    if isinstance(content, str):
        content = content.encode()
    return varint(field << 3 | 2) + varint(len(content)) + content


def doubles(field, numbers):
    return data(field, struct.pack(f"<{len(numbers)}d", *numbers))


# ---- the file


class EventFile:
    """One file of events in a folder; written from any thread, flushed every `flush_secs` seconds and on request."""

    def __init__(self, folder, suffix="", flush_secs=120):
        self.file = _EventFile(folder, suffix, flush_secs)
        self.path = self.file.path

    def write(self, event):
        """One event, serialised."""
        self.file.event(event)

    def add(self, value, step, walltime=None):
        """A serialised value of a summary at a step."""
        self.file.value(value, *_when(step, walltime))

    def call(self, kind, tag, *args, step=None, walltime=None):
        """A value that the library makes itself: scalar, histogram, image, audio, tensor, pr_curve."""
        getattr(self.file, kind)(tag, *args, *_when(step, walltime))

    def flush(self):
        self.file.flush()

    def close(self):
        self.file.close()


def _when(step, walltime):
    return 0 if step is None else int(step), 0.0 if walltime is None else float(walltime)
