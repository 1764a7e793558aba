"""Modules of kinds of devices that no build has yet (xpu, mtia, mps): they answer "not available".

fill(module, name) puts the usual functions into a module; those that cannot do anything raise what PyTorch's CPU
build raises.
"""
import sys

import rushlight as torch


def fill(module_name, kind, error):
    """Give the module the functions every kind of device has."""
    module = sys.modules[module_name]

    def refuse(what):
        def function(*args, **kwargs):
            raise error
        function.__name__ = function.__qualname__ = what
        function.__doc__ = "Needs a device of kind %s." % kind
        return function

    constants = {
        "is_available": False, "is_initialized": False, "device_count": 0, "is_bf16_supported": False,
        "is_tf32_supported": False, "_is_in_bad_fork": False, "_is_compiled": False, "get_arch_list": [],
        "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0,
        "memory_stats": {}, "empty_cache": None, "manual_seed": None, "manual_seed_all": None, "seed": None,
        "seed_all": None, "get_rng_state_all": [], "set_rng_state_all": None, "reset_peak_memory_stats": None,
        "reset_accumulated_memory_stats": None, "is_current_stream_capturing": False,
    }
    for name, value in constants.items():
        def answer(*args, _value=value, **kwargs):
            return _value
        answer.__name__ = answer.__qualname__ = name
        answer.__doc__ = "The answer of a build without devices of kind %s." % kind
        module.__dict__.setdefault(name, answer)
    for name in ("init", "current_device", "set_device", "synchronize", "get_device_name", "get_device_properties",
                 "get_device_capability", "mem_get_info", "current_stream", "set_stream", "get_rng_state",
                 "set_rng_state", "initial_seed", "default_stream", "set_per_process_memory_fraction", "memory_snapshot",
                 "can_device_access_peer", "get_per_process_memory_fraction"):
        module.__dict__.setdefault(name, refuse(name))

    class Absent:
        """Needs a device."""

        def __init__(self, *args, **kwargs):
            raise error

    class StreamContext:
        """Context manager: the current stream; nothing for None."""

        def __init__(self, stream):
            self.stream = stream
            if stream is not None:
                raise error

        def __enter__(self):
            return None

        def __exit__(self, *details):
            return None

    class device:
        """Context manager: the current device; nothing for None."""

        def __init__(self, device):
            self.idx = device
            if device is not None and not (isinstance(device, int) and device < 0):
                raise error

        def __enter__(self):
            return None

        def __exit__(self, *details):
            return False

    for name in ("Stream", "Event", "MemPool"):
        module.__dict__.setdefault(name, type(name, (Absent,), {"__module__": module_name}))
    module.__dict__.setdefault("StreamContext", StreamContext)
    module.__dict__.setdefault("stream", lambda stream: StreamContext(stream))
    module.__dict__.setdefault("device", device)
    module.__dict__.setdefault("device_of", device)
    module.__dict__.setdefault("default_generators", ())
    return torch
