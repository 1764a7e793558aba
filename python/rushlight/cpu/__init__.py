"""torch.cpu: the CPU by the names of a device module."""
import contextlib

import rushlight as torch
from rushlight.cpu import amp  # noqa: F401

__all__ = ["is_available", "is_initialized", "synchronize", "current_device", "current_stream", "stream", "set_device",
           "device_count", "Stream", "StreamContext", "Event"]


def _flag(name):
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith(("flags", "Features")):
                    return name in line.split()
    except OSError:
        return False
    return False


def _is_avx2_supported():
    return _flag("avx2")


def _is_avx512_supported():
    return _flag("avx512f")


def _is_avx512_bf16_supported():
    return _flag("avx512_bf16")


def _is_vnni_supported():
    return _flag("avx512_vnni")


def _is_amx_tile_supported():
    return _flag("amx_tile")


def _is_amx_fp16_supported():
    return _flag("amx_fp16")


def _init_amx():
    return False


def get_capabilities():
    return {name: _flag(name) for name in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")}


def is_available():
    return True


def is_initialized():
    return True


def synchronize(device=None):
    return None


def device_count():
    return 1


def current_device():
    return "cpu"


def set_device(device):
    return None


class Stream:
    """The CPU has one queue: nothing to wait for."""

    def __init__(self, priority=-1):
        self.priority = priority

    def wait_stream(self, stream):
        return None

    def record_event(self):
        return Event()

    def wait_event(self, event):
        return None

    def synchronize(self):
        return None


class Event:
    def __init__(self, enable_timing=False):
        self.enable_timing = enable_timing

    def query(self):
        return True

    def record(self, stream=None):
        return None

    def synchronize(self):
        return None

    def wait(self, stream=None):
        return None


_default_cpu_stream = Stream()


def current_stream(device=None):
    return _default_cpu_stream


class StreamContext(contextlib.AbstractContextManager):
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None


def stream(stream):
    return StreamContext(stream)


def get_rng_state(device=None):
    return torch.get_rng_state()


def set_rng_state(state, device=None):
    torch.set_rng_state(state)
