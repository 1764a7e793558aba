"""torch.cpu: the CPU by the names of a device module."""
import contextlib
import os
import platform

import rushlight as torch
from rushlight.cpu import amp  # noqa: F401

__all__ = ["is_available", "is_initialized", "synchronize", "current_device", "current_stream", "stream", "set_device",
           "device_count", "Stream", "StreamContext", "Event"]


def _info():
    """{field: text} of the first processor in /proc/cpuinfo; nothing where there is no such file."""
    try:
        with open("/proc/cpuinfo") as f:
            lines = [line.partition(":") for line in f.read().split("\n\n")[0].splitlines()]
    except OSError:
        return {}
    return {name.strip(): text.strip() for name, _, text in lines}


def _flag(name):
    info = _info()
    return name in info.get("flags", info.get("Features", "")).split()


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
    """What the processor is and which instructions it knows, by PyTorch's names."""
    info = _info()
    flags = set(info.get("flags", "").split())
    known = {"sse": "sse", "sse2": "sse2", "sse3": "pni", "ssse3": "ssse3", "sse4_1": "sse4_1", "sse4_2": "sse4_2", "sse4a": "sse4a",
             "avx": "avx", "avx2": "avx2", "avx_vnni": "avx_vnni", "f16c": "f16c", "fma3": "fma", "fma4": "fma4", "bmi": "bmi1",
             "bmi2": "bmi2", "popcnt": "popcnt", "lzcnt": "abm", "aes": "aes", "sha": "sha_ni", "clflush": "clflush",
             "clflushopt": "clflushopt", "clwb": "clwb", "amx_bf16": "amx_bf16", "amx_tile": "amx_tile", "amx_int8": "amx_int8",
             "amx_fp16": "amx_fp16", "avx512_f": "avx512f", "avx512_cd": "avx512cd", "avx512_dq": "avx512dq", "avx512_bw": "avx512bw",
             "avx512_vl": "avx512vl", "avx512_ifma": "avx512ifma", "avx512_vbmi": "avx512vbmi", "avx512_vbmi2": "avx512_vbmi2",
             "avx512_bitalg": "avx512_bitalg", "avx512_vpopcntdq": "avx512_vpopcntdq", "avx512_vnni": "avx512_vnni",
             "avx512_bf16": "avx512_bf16", "avx512_fp16": "avx512_fp16", "avx512_vp2intersect": "avx512_vp2intersect"}
    return {"architecture": platform.machine(), "cpu_name": info.get("model name", ""), "num_logical_cores": os.cpu_count(),
            "num_physical_cores": int(info.get("cpu cores", os.cpu_count())), **{name: flag in flags for name, flag in known.items()}}


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
