"""torch.NAME for a kind of device that a backend brought: of("ghost") is a module with the functions every kind has."""
import types

import rushlight as torch
from rushlight import _C


def of(kind):
    """The module of this kind of device."""
    module = types.ModuleType("torch." + kind, "Devices of type %s." % kind)

    def device(index=None):
        """The device of that index, the current one without."""
        return torch.device(kind, _C._device_current(kind) if index is None else torch._utils._get_device_index(index, optional=True))

    for f in (*_of_devices(kind, device), *_of_memory(device), *_of_random_numbers(kind, device), *_of_streams(module, device)):
        f.__module__ = module.__name__
        setattr(module, f.__name__, f)
    return module


def _of_devices(kind, device):
    def is_available():
        return device_count() > 0

    def is_initialized():
        return True

    def device_count():
        return _C._device_count(kind)

    def current_device():
        return _C._device_current(kind)

    def set_device(index):
        _C._device_set_current(device(index))

    def synchronize(index=None):
        _C._device_synchronize(device(index))

    def get_amp_supported_dtype():
        return [torch.bfloat16, torch.float16]

    def _is_in_bad_fork():
        return False

    class current:
        """Context manager: the current device inside; nothing for a negative index."""

        def __init__(self, index):
            self.index, self.before = torch._utils._get_device_index(index, optional=True), None

        def __enter__(self):
            if self.index >= 0:
                self.before = current_device()
                set_device(self.index)
            return self

        def __exit__(self, *error):
            if self.before is not None:
                set_device(self.before)

    current.__name__ = current.__qualname__ = "device"
    return is_available, is_initialized, device_count, current_device, set_device, synchronize, get_amp_supported_dtype, _is_in_bad_fork, current


def _of_memory(device):
    def memory_stats(index=None):
        """Counts of tensors' memory: allocated_bytes.all.current and so on, as torch.cuda names them."""
        s = _C._device_memory_stats(device(index))
        return {"allocated_bytes.all.current": s["live_bytes"], "allocated_bytes.all.peak": s["peak_bytes"],
                "allocation.all.current": s["live_blocks"], "allocation.all.peak": s["peak_blocks"],
                "allocation.all.allocated": s["allocations"], "allocation.all.freed": s["frees"]}

    def memory_allocated(index=None):
        return memory_stats(index)["allocated_bytes.all.current"]

    def max_memory_allocated(index=None):
        return memory_stats(index)["allocated_bytes.all.peak"]

    def reset_peak_memory_stats(index=None):
        _C._device_reset_peak(device(index))

    return memory_stats, memory_allocated, max_memory_allocated, reset_peak_memory_stats


def _of_random_numbers(kind, index_of):
    def _generator(index=None):
        return _C._device_generator(index_of(index))

    def manual_seed(seed):
        _generator().manual_seed(int(seed))

    def manual_seed_all(seed):
        for i in range(_C._device_count(kind)):
            _generator(i).manual_seed(int(seed))

    def seed():
        return _generator().seed()

    def seed_all():
        manual_seed_all(seed())

    def initial_seed():
        return _generator().initial_seed()

    def get_rng_state(device=kind):
        return _C._device_generator(index_of(device)).get_state()

    def set_rng_state(new_state, device=kind):
        _C._device_generator(index_of(device)).set_state(new_state)

    def get_rng_state_all():
        return [get_rng_state(i) for i in range(_C._device_count(kind))]

    def set_rng_state_all(new_states):
        for i, state in enumerate(new_states):
            set_rng_state(state, i)

    return manual_seed, manual_seed_all, seed, seed_all, initial_seed, get_rng_state, set_rng_state, get_rng_state_all, set_rng_state_all


def _of_streams(module, index_of):
    def current_stream(device=None):
        """The stream that gets this thread's work."""
        device = index_of(device)
        return module.Stream(device, stream_id=_C._stream_current(device))

    def default_stream(device=None):
        return module.Stream(index_of(device), stream_id=0)

    def set_stream(stream):
        _C._stream_set(stream.device, stream.stream_id)

    class StreamContext:
        """Context manager: the current stream inside; nothing without one."""

        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            return self.stream.__enter__() if self.stream is not None else None

        def __exit__(self, *error):
            if self.stream is not None:
                self.stream.__exit__(*error)

    def stream(stream):
        return StreamContext(stream)

    class Stream(torch.Stream):
        """A queue of work on these devices."""

        def __new__(cls, device=None, priority=0, **options):
            return super().__new__(cls, index_of(device) if device is None or isinstance(device, int) else device, priority=priority, **options)

    class Event(torch.Event):
        """A point in a stream of these devices."""

        def __new__(cls, enable_timing=False, blocking=False, interprocess=False, *, device=None):
            return super().__new__(cls, index_of(device), enable_timing=enable_timing)

    return current_stream, default_stream, set_stream, stream, Stream, Event, StreamContext
