"""TensorBoard's event files: records of length, masked crc, protobuf. No TensorFlow, no tensorboard package."""
import os
import socket
import struct
import threading
import time

# ---- crc32c (Castagnoli), by table


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return tuple(table)


_TABLE = _table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


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

_count = 0


class EventFile:
    """One file of events in a folder; written from any thread, flushed every `flush_secs` seconds and on request."""

    def __init__(self, folder, suffix="", flush_secs=120):
        global _count
        os.makedirs(folder, exist_ok=True)
        name = "events.out.tfevents.%010d.%s.%s.%s" % (time.time(), socket.gethostname(), os.getpid(), _count)
        _count += 1
        self.path = os.path.join(folder, name + suffix)
        self._file = open(self.path, "wb")
        self._lock = threading.Lock()
        self._every, self._last = flush_secs, time.time()
        self.write(double(1, time.time()) + data(3, "brain.Event:2"))
        self.flush()

    def write(self, event):
        """One event, serialised."""
        head = struct.pack("<Q", len(event))
        record = head + struct.pack("<I", masked_crc(head)) + event + struct.pack("<I", masked_crc(event))
        with self._lock:
            self._file.write(record)
            if time.time() - self._last > self._every:
                self._file.flush()
                self._last = time.time()

    def add(self, values, step, walltime=None):
        """A summary of these values (each serialised) at a step."""
        event = double(1, time.time() if walltime is None else walltime)
        if step is not None:
            event += integer(2, int(step))
        self.write(event + data(5, b"".join(data(1, v) for v in values)))

    def flush(self):
        with self._lock:
            self._file.flush()
            self._last = time.time()

    def close(self):
        with self._lock:
            if not self._file.closed:
                self._file.close()
