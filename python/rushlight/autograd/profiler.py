"""Profiling: ranges with names, and every operation of the library between start and stop.

The extension records (python/_C/profiler.c): _C._profiler_start(record_shapes, profile_memory, with_stack) begins in this
thread, _C._profiler_stop() returns what was seen, _C._profiler_range_push(name) and _pop(number) mark ranges. Ranges of
other threads are kept here.
"""
import enum
import functools
import math
import os
import sys
import threading
import time
import warnings

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
    MTIA = 4
    CUDA = 2
    HPU = 3
    PrivateUse1 = 5


class ProfilerState(enum.IntEnum):
    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    KINETO = 6


class _Recorder:
    """What is being recorded: ranges of other threads, beside what the extension sees in this one."""

    active = 0
    ranges = []
    lock = threading.Lock()
    options = (False, False, False)
    device_thread = None    # the number of the profile's thread in records of devices; None: these are not asked for
    start_ns = 0


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


def _start(record_shapes, profile_memory, with_stack, use_device=None):
    if _Recorder.active:
        raise RuntimeError("Profiler is already enabled on this thread")
    _Recorder.device_thread = _C._cuda_trace_begin(bool(profile_memory)) if use_device == "cuda" else None
    _Recorder.options = (bool(record_shapes), bool(profile_memory), bool(with_stack))
    _Recorder.ranges = []
    _C._profiler_start(*_Recorder.options)
    _Recorder.start_ns = time.perf_counter_ns()
    _Recorder.active += 1
    _set_is_profiler_enabled(True)


# How the extension counts its events (enum rush_profile_how).
_EVALUATE, _NODE, _RANGE = 3, 4, 5


def _stop():
    """The events recorded since _start."""
    raw = _C._profiler_stop()
    records, device = [], None if _Recorder.device_thread is None else "cuda"
    if device:
        records = _C._cuda_trace_end()
    thread = threading.get_native_id()
    _Recorder.active -= 1
    _set_is_profiler_enabled(_Recorder.active > 0)
    shapes, memory, stacks = _Recorder.options
    base, made, level, end = _Recorder.start_ns, [], None, 0
    for name, overload, how, begin, finish, nbytes, live, sequence, inputs, stack in raw:
        if memory and begin >= end:     # between the outermost events
            if level is not None and live - nbytes != level:
                made.append(_memory_event(thread, (end - base) / 1000.0, live - nbytes, cpu_memory_usage=live - nbytes - level))
            level, end = live, finish
        title = "ProfilerStep*" if name.startswith("ProfilerStep#") else name     # steps are added up
        event = FunctionEvent(0, title, thread, (begin - base) / 1000.0, (finish - base) / 1000.0, overload_name=overload,
                              trace_name=name, stack=_frames(stack) if stacks else [], cpu_memory_usage=nbytes, device_type=DeviceType.CPU,
                              sequence_nr=sequence, scope=1 if how in (_EVALUATE, _NODE) else 7 if how == _RANGE else 0,
                              is_user_annotation=how == _RANGE, flops=0)
        event.live_bytes = live
        if shapes and how < _EVALUATE:
            _describe(event, inputs)
        made.append(event)
    for name, other, begin, finish in _Recorder.ranges:
        made.append(FunctionEvent(0, name, other, (begin - base) / 1000.0, (finish - base) / 1000.0, overload_name="",
                                  device_type=DeviceType.CPU, scope=7, is_user_annotation=True, flops=0))
    if device:
        made += _device_events(records, made, thread, base) + _device_memory(records, made, thread, base)
        for event in made:
            event.use_device = device
    made.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    for i, event in enumerate(made):
        event.id = i
    return made


_CALL, _MEMORY = 3, 4   # of enum rush_cuda_record_kind: a call of the driver, memory; what is below them ran on a device


def _open_events(events, thread):
    """A function of times that ascend: the events of a thread that are open then, the innermost last."""
    own = iter(sorted((e for e in events if e.device_type == DeviceType.CPU and e.thread == thread and not e.is_async), key=lambda e: (e.time_range.start, -e.time_range.end)))
    inside, following = [], next(own, None)

    def at(time):
        nonlocal following
        while following and following.time_range.start <= time:
            while inside and following.time_range.start >= inside[-1].time_range.end:
                inside.pop()
            inside.append(following)
            following = next(own, None)
        while inside and time >= inside[-1].time_range.end:
            inside.pop()
        return inside
    return at


def _device_events(records, made, thread, base):
    """Events of what devices did and of the calls that asked for it; each is told to the innermost of `made` that made the call."""
    calls = {}
    for kind, name, _, _, number, caller, start, end, *_ in records:
        if kind == _CALL:
            calls.setdefault(number, (start, end, name, caller == _Recorder.device_thread))
    events, asked = [], {}
    for kind, name, device, stream, number, _, start, end, nbytes, grid, block, shared, registers, *_ in records:
        if kind >= _CALL:
            continue
        event = FunctionEvent(0, name, stream, (start - base) / 1000.0, (end - base) / 1000.0, overload_name="", device_type=DeviceType.CUDA, device_index=device,
                              device_resource_id=stream, flops=0, linked_correlation_id=number)
        event.extra_meta = {"stream": stream, "device": device, "correlation": number}
        event.extra_meta.update({"bytes": nbytes} if nbytes or not grid[0] else {"grid": list(grid), "block": list(block), "shared memory": shared, "registers per thread": registers})
        event.activity_type = ("kernel", "gpu_memcpy", "gpu_memset")[kind]
        events.append(event)
        if number in calls:
            asked.setdefault(number, []).append(event)
    for number, work in asked.items():
        start, end, name, own = calls[number]
        call = FunctionEvent(0, name, thread if own else 0, (start - base) / 1000.0, (end - base) / 1000.0, overload_name="", device_type=DeviceType.CPU, flops=0,
                             linked_correlation_id=number, is_async=not own)
        call.activity_type, call.asked_for = "cuda_driver", work
        events.append(call)
    open_at = _open_events(made, thread)
    for call in sorted((e for e in events if e.device_type == DeviceType.CPU and not e.is_async), key=lambda e: e.time_range.start):
        inside = open_at(call.time_range.start)
        for work in call.asked_for:
            (inside[-1] if inside else call).append_kernel(work.name, work.device_index, work.time_range.elapsed_us())
    return events


def _device_memory(records, made, thread, base):
    """Memory of devices is told to the innermost of `made` in which it was taken or given back, and to those around it; events of what was outside."""
    events, open_at = [], _open_events(made, thread)
    for record in sorted((r for r in records if r[0] == _MEMORY), key=lambda r: r[6]):
        at, nbytes = (record[6] - base) / 1000.0, record[8]
        inside = open_at(at) if record[5] == _Recorder.device_thread else []
        if not inside:
            events.append(_memory_event(thread if record[5] == _Recorder.device_thread else 0, at, device_memory_usage=nbytes))
        for event in inside:
            event.device_memory_usage += nbytes
        (inside or events)[-1].device_memory.append((at, record[2], nbytes, *record[-2:]))
    return events


def _memory_event(thread, at, live=0, **usage):
    event = FunctionEvent(0, "[memory]", thread, at, at, overload_name="", device_type=DeviceType.CPU, flops=0, **usage)
    event.live_bytes = live
    return event


def _frames(stack):
    """Lines such as "train.py(12): step", the innermost first; files below the folders of sys.path by their rest."""
    lines = []
    for path, line, function in stack:
        if path == __file__ and not lines:
            continue        # the range's own beginning
        for folder in sorted(sys.path, key=len, reverse=True):
            if folder and path.startswith(folder.rstrip(os.sep) + os.sep):
                path = path[len(folder.rstrip(os.sep)) + 1:]
                break
        lines.append("%s(%d): %s" % (path, line, function))
    return lines


def _is_tensor(entry):
    return isinstance(entry, tuple)


def _describe(event, inputs):
    """Shapes, strides, dtypes and plain values of a call's arguments, and the work they amount to."""
    lists = [isinstance(x, list) and bool(x) and all(_is_tensor(y) or y is None for y in x) and any(map(_is_tensor, x)) for x in inputs]
    event.input_shapes = [x[1] if _is_tensor(x) else [] for x in inputs]
    event.concrete_inputs = [None if _is_tensor(x) or many else x for x, many in zip(inputs, lists)]
    event.structured_input_shapes = [x[1] if _is_tensor(x) else [y[1] if y else [] for y in x] if many else []
                                     for x, many in zip(inputs, lists)]
    event.structured_input_strides = [x[2] if _is_tensor(x) else [y[2] if y else [] for y in x] if many else []
                                      for x, many in zip(inputs, lists)]
    event.input_dtypes = [x[0] if _is_tensor(x) else "TensorList" if many else "" if x is None else
                          "ScalarList" if isinstance(x, list) else "Scalar" for x, many in zip(inputs, lists)]
    event.flops = _flops(event.name, event.input_shapes, event.concrete_inputs)


def _flops(name, shapes, values):
    """Multiplications and additions of the operations that dominate networks; 0 for others."""
    if name in ("aten::mm", "aten::addmm"):
        a, b = shapes[-2:] if name == "aten::mm" else shapes[1:3]
        return 2 * a[0] * a[1] * b[1]
    if name == "aten::linear":      # which is one operation here: no addmm inside of it is told of
        return 2 * math.prod(shapes[0]) * (shapes[1][0] if len(shapes[1]) > 1 else 1)
    if name == "aten::scaled_dot_product_attention":
        query, key, value = shapes[:3]
        return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    if name in ("aten::bmm", "aten::baddbmm"):
        a, b = shapes[-2:] if name == "aten::bmm" else shapes[1:3]
        return 2 * a[0] * a[1] * a[2] * b[2]
    if name in ("aten::add", "aten::mul"):
        return math.prod(shapes[0])
    if name == "aten::conv2d" and len(shapes[0]) == 4 and isinstance(values[4], list):
        stride, padding, dilation, groups = ([x] * 2 if not isinstance(x, list) else x * (3 - len(x)) for x in values[3:7])
        x, w = shapes[:2]
        size = [(x[2 + i] + 2 * padding[i] - dilation[i] * (w[2 + i] - 1) - 1) // stride[i] + 1 for i in range(2)]
        return 2 * x[0] * w[0] * size[0] * size[1] * (x[1] // groups[0]) * w[2] * w[3]
    return 0


watchers = []  # functions of (name, whether it begins) that are told of ranges


class record_function:
    """A named range of a profile; context manager and decorator. Costs next to nothing while no profile runs."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args
        self.begin, self.number = 0, -1
        self.run_callbacks_on_exit = True

    def __enter__(self):
        if _Recorder.active:
            self.begin, self.number = time.perf_counter_ns(), _C._profiler_range_push(self.name)
        for watcher in watchers:
            watcher(self.name, True)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        for watcher in watchers:
            watcher(self.name, False)
        if self.begin and self.run_callbacks_on_exit:
            self._end()

    def _end(self):
        if self.number >= 0:
            _C._profiler_range_pop(self.number)
        elif _Recorder.active:
            entry = (self.name, threading.get_native_id(), self.begin, time.perf_counter_ns())
            with _Recorder.lock:
                _Recorder.ranges.append(entry)
        self.begin, self.number = 0, -1

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
                 experimental_config=None, acc_events=False, custom_trace_id_callback=None, post_processing_timeout_s=None, activity_filters=None):
        self.enabled = enabled
        if use_cuda:
            warnings.warn("The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.", FutureWarning, stacklevel=2)
            if not torch.cuda.is_available():
                warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
                use_cuda = False
            else:
                use_device = "cuda"
        elif use_device == "cuda" and not torch.cuda.is_available():
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
            use_device = None
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
        _start(self.record_shapes, self.profile_memory, self.with_stack, self.use_device)
        self.profiling_start_time_ns = _Recorder.start_ns

    def __exit__(self, exc_type, exc_value, traceback):
        if not self.enabled:
            return False
        events = EventList(_stop(), use_device=self.use_device, profile_memory=self.profile_memory,
                           with_flops=self.with_flops)
        events._start_ns = self.profiling_start_time_ns
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
