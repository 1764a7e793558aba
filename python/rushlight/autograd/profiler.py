"""Profiling: ranges with names, and every operation of the library between start and stop.

The extension records: _C._profiler_start(record_shapes, profile_memory, with_stack) begins, _C._profiler_stop()
returns (name, thread, start in ns, end in ns, shapes, bytes allocated, stack) of every operation and range, and
_C._profiler_range_push(name) / _pop(token) mark ranges. Without these functions only ranges are recorded, here.
"""
import enum
import functools
import threading
import time

import rushlight as torch
from rushlight import _C
from rushlight.autograd.profiler_util import (EventList, FormattedTimesMixin, FunctionEvent, FunctionEventAvg,  # noqa
                                              Interval, Kernel, MemRecordsAcc, StringTable, _format_memory,
                                              _format_time)

__all__ = ["profile", "record_function", "emit_itt", "emit_nvtx", "load_nvprof", "EnforceUnique",
           "parse_nvprof_trace", "KinetoStepTracker", "EventList", "FunctionEvent", "MemRecordsAcc"]


class DeviceType(enum.IntEnum):
    CPU = 0
    CUDA = 1
    MKLDNN = 2
    XLA = 9
    Meta = 12


class ProfilerActivity(enum.IntEnum):
    CPU = 0
    XPU = 1
    CUDA = 2
    MTIA = 3
    PrivateUse1 = 5


class ProfilerState(enum.IntEnum):
    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    KINETO = 6


class _Recorder:
    """What is being recorded: ranges of this module, beside what the extension sees."""

    active = 0
    ranges = []
    lock = threading.Lock()


_is_profiler_enabled = False


def _set_is_profiler_enabled(enable):
    global _is_profiler_enabled
    _is_profiler_enabled = enable


def _profiler_enabled():
    return _Recorder.active > 0


def _disable_profiler():
    return _stop()


def kineto_available():
    return True


def _start(record_shapes, profile_memory, with_stack):
    if _Recorder.active:
        raise RuntimeError("Profiler is already enabled on this thread")
    _Recorder.active += 1
    _Recorder.ranges = []
    _set_is_profiler_enabled(True)
    if hasattr(_C, "_profiler_start"):
        _C._profiler_start(bool(record_shapes), bool(profile_memory), bool(with_stack))


def _stop():
    """The events recorded since _start."""
    raw = _C._profiler_stop() if hasattr(_C, "_profiler_stop") else []
    _Recorder.active -= 1
    _set_is_profiler_enabled(_Recorder.active > 0)
    events = [tuple(entry) + (False,) for entry in raw]
    events += [(name, thread, begin, end, [], 0, [], True) for name, thread, begin, end in _Recorder.ranges]
    events.sort(key=lambda e: (e[2], -e[3]))
    made = []
    for i, (name, thread, begin, end, shapes, nbytes, stack, annotation) in enumerate(events):
        made.append(FunctionEvent(i, name, thread, begin / 1000.0, end / 1000.0, input_shapes=shapes, stack=stack,
                                  cpu_memory_usage=nbytes, device_type=DeviceType.CPU, is_user_annotation=annotation))
    return made


class record_function:
    """A named range of a profile; context manager and decorator. Costs next to nothing while no profile runs."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args
        self.begin = 0
        self.run_callbacks_on_exit = True

    def __enter__(self):
        if _Recorder.active:
            self.begin = time.perf_counter_ns()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if self.begin and self.run_callbacks_on_exit:
            self._end()

    def _end(self):
        if _Recorder.active:
            entry = (self.name, threading.get_native_id(), self.begin, time.perf_counter_ns())
            with _Recorder.lock:
                _Recorder.ranges.append(entry)
        self.begin = 0

    def __call__(self, func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            with record_function(self.name, self.args):
                return func(*args, **kwargs)
        return wrapped

    def _call_end_callbacks_on_future(self, fut):
        """End the range when a future is done."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False

        def done(finished):
            self._end()
            return finished.value()
        return fut.then(done)


class _ProfilerStats:
    def __init__(self):
        self.profiling_window_duration_sec = 0


class profile:
    """Context manager: records what happens inside."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False, with_flops=False,
                 profile_memory=False, with_stack=False, with_modules=False, use_kineto=False, use_cpu=True,
                 experimental_config=None, acc_events=False, custom_trace_id_callback=None, post_processing_timeout_s=None):
        self.enabled = enabled
        self.use_cuda, self.use_device = use_cuda, use_device
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules, self.use_cpu = with_stack, with_modules, use_cpu
        self.function_events = None
        self._old_function_events = None
        self.acc_events = acc_events
        self.entered = False
        self.kineto_results = None
        self.profiling_start_time_ns = self.profiling_end_time_ns = 0
        self._stats = _ProfilerStats()
        self.trace_id = ""

    def __enter__(self):
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def _prepare_trace(self):
        self.entered = True

    def _start_trace(self):
        self.entered = True
        self.profiling_start_time_ns = time.perf_counter_ns()
        _start(self.record_shapes, self.profile_memory, self.with_stack)

    def __exit__(self, exc_type, exc_value, traceback):
        if not self.enabled:
            return False
        events = EventList(_stop(), use_device=self.use_device, profile_memory=self.profile_memory,
                           with_flops=self.with_flops)
        self.profiling_end_time_ns = time.perf_counter_ns()
        self._stats.profiling_window_duration_sec = (self.profiling_end_time_ns - self.profiling_start_time_ns) / 1e9
        events._build_tree()
        if self.acc_events and self.function_events is not None:
            events = EventList(list(self.function_events) + list(events), use_device=self.use_device,
                               profile_memory=self.profile_memory, with_flops=self.with_flops)
        self.function_events = events
        return False

    def _need(self):
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def __repr__(self):
        return repr(self.function_events) if self.function_events is not None else "<unfinished torch.autograd.profile>"

    def __str__(self):
        return str(self.function_events) if self.function_events is not None else "<unfinished torch.autograd.profile>"

    def table(self, *args, **kwargs):
        return self._need().table(*args, **kwargs)

    def export_chrome_trace(self, path):
        self._need().export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        return self._need().export_stacks(path, metric)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        return self._need().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self):
        return self._need().total_average()

    @property
    def self_cpu_time_total(self):
        """Microseconds in operations."""
        return self._need().self_cpu_time_total

    def toggle_collection_dynamic(self, enabled, activities):
        return None


class _Emit:
    """Ranges for an outside profiler, which is not connected here."""

    what = ""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self):
        if self.enabled:
            raise RuntimeError("%s: this build has no connection to that profiler" % self.what)
        return self

    def __exit__(self, *error):
        return False


class emit_itt(_Emit):
    what = "emit_itt"


class emit_nvtx(_Emit):
    what = "emit_nvtx"


def load_nvprof(path):
    raise NotImplementedError("load_nvprof: files of nvprof are not read")


def parse_nvprof_trace(path):
    raise NotImplementedError("parse_nvprof_trace: files of nvprof are not read")


class EnforceUnique:
    """Raises when something is seen twice."""

    def __init__(self):
        self.seen = set()

    def see(self, *key):
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps: the largest count of all who count."""

    _current_step = 0
    _step_dict = {}

    @classmethod
    def init_step_count(cls, requester):
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester):
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester):
        cls._step_dict[requester] = cls._step_dict.get(requester, cls._current_step) + 1
        cls._current_step = max(cls._current_step, max(cls._step_dict.values()))
        return cls._current_step

    @classmethod
    def current_step(cls):
        return cls._current_step


def _run_on_profiler_start():
    return None


def _run_on_profiler_stop():
    return None
