"""profile(): records some steps of a loop and skips others, and hands finished traces to a function."""
import enum
import json
import os
import socket
import time
import warnings

import rushlight as torch
from rushlight.autograd import profiler as prof
from rushlight.autograd import profiler_trace
from rushlight.autograd.profiler import KinetoStepTracker, ProfilerActivity

__all__ = ["supported_activities", "ProfilerAction", "schedule", "tensorboard_trace_handler", "profile",
           "ExecutionTraceObserver"]

PROFILER_STEP_NAME = "ProfilerStep"


def supported_activities():
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if torch.cuda.is_available() else {ProfilerActivity.CPU}


class ProfilerAction(enum.Enum):
    """What happens in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function step -> ProfilerAction: cycles of waiting, warming up and recording."""
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        given = (("wait", wait), ("warmup", warmup), ("active", active), ("repeat", repeat), ("skip_first", skip_first))
        raise AssertionError("Invalid profiler schedule arguments. Got " + ", ".join(
            "%s=%d (need %s 0)" % (name, value, ">" if name == "active" else ">=") for name, value in given) + ".")
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def action(step):
        if step < 0:
            raise AssertionError("step must be >= 0")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step / length >= repeat:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE
    return action


def _default_schedule_fn(_):
    """Every step is recorded."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """A function for on_trace_ready that writes each trace into a folder."""
    def handler(p):
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or "%s_%d" % (socket.gethostname(), os.getpid())
        name = "%s.%d.pt.trace.json" % (worker, time.time_ns())
        p.export_chrome_trace(os.path.join(dir_name, name + (".gz" if use_gzip else "")))
    return handler


class _KinetoProfile:
    """A profile that is started and stopped by hand."""

    def __init__(self, *, activities=None, record_shapes=False, profile_memory=False, with_stack=False,
                 with_flops=False, with_modules=False, experimental_config=None, execution_trace_observer=None,
                 acc_events=False, custom_trace_id_callback=None, post_processing_timeout_s=None):
        self.activities = set(activities) if activities else supported_activities()
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.profiler = None
        self._metadata = {}
        self.has_cudagraphs = False
        self.use_device = "cuda" if ProfilerActivity.CUDA in self.activities else None

    def start(self):
        self.prepare_trace()
        self.start_trace()

    def stop(self):
        self.stop_trace()

    def prepare_trace(self):
        if self.profiler is None or not self.acc_events:
            self.profiler = prof.profile(use_device=self.use_device, record_shapes=self.record_shapes, with_flops=self.with_flops,
                                         profile_memory=self.profile_memory, with_stack=self.with_stack,
                                         with_modules=self.with_modules, acc_events=self.acc_events)
        self.profiler._prepare_trace()

    def start_trace(self):
        if self.execution_trace_observer:
            self.execution_trace_observer.start()
        self.profiler._start_trace()

    def stop_trace(self):
        if self.execution_trace_observer:
            self.execution_trace_observer.stop()
        self._need().__exit__(None, None, None)

    def _need(self):
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized")
        return self.profiler

    def export_chrome_trace(self, path):
        profiler_trace.write(self._need()._need(), path, self._metadata)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        return self._need().export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable, activities):
        return None

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        return self._need().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def events(self):
        return self._need().function_events

    def add_metadata(self, key, value):
        self._metadata[key] = value

    def add_metadata_json(self, key, value):
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key, value):
        self._metadata[key] = json.loads(value)

    def export_memory_timeline(self, path, device=None):
        raise NotImplementedError("export_memory_timeline is not supported")


class profile(_KinetoProfile):
    """Context manager; call step() after each step when there is a schedule."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False,
                 profile_memory=False, with_stack=False, with_flops=False, with_modules=False,
                 experimental_config=None, execution_trace_observer=None, acc_events=False, use_cuda=None,
                 custom_trace_id_callback=None, post_processing_timeout_s=None):
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
        super().__init__(activities=activities, record_shapes=record_shapes, profile_memory=profile_memory,
                         with_stack=with_stack, with_flops=with_flops, with_modules=with_modules,
                         experimental_config=experimental_config, execution_trace_observer=execution_trace_observer,
                         acc_events=acc_events)
        self.record_steps = schedule is not None
        self.schedule = schedule if schedule is not None else _default_schedule_fn
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(self.step_num)
        self.step_rec_fn = None
        KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.stop()
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)

    def _begin_step(self):
        if self.record_steps:
            self.step_rec_fn = prof.record_function("ProfilerStep#" + str(self.step_num))
            self.step_rec_fn.__enter__()

    def _end_step(self):
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def start(self):
        self._move(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self):
        self._end_step()
        self._move(self.current_action, None)

    def step(self):
        """The next step begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._move(before, self.current_action)
        self._begin_step()

    def set_custom_trace_id_callback(self, callback):
        return None

    def get_trace_id(self):
        return self.profiler.trace_id if self.profiler is not None else None

    def _trace_ready(self):
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _move(self, before, after):
        """From what the last step did to what the next one does (None: the end)."""
        recording = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if before in recording and (after not in recording or before is ProfilerAction.RECORD_AND_SAVE):
            if after is ProfilerAction.NONE and before is ProfilerAction.RECORD:
                warnings.warn("Incorrect schedule: RECORD followed by NONE", stacklevel=3)
            self.stop_trace()
            if before is ProfilerAction.RECORD_AND_SAVE or after is None:
                self._trace_ready()
        if after in (ProfilerAction.WARMUP,) and before is not ProfilerAction.WARMUP:
            self.prepare_trace()
        if after in recording and (before not in recording or before is ProfilerAction.RECORD_AND_SAVE):
            if before is not ProfilerAction.WARMUP:
                self.prepare_trace()
            self.start_trace()


class ExecutionTraceObserver:
    """Writes a trace of the operations as a graph; not supported beyond its name."""

    def __init__(self):
        self._path = None

    def register_callback(self, output_file_path):
        raise NotImplementedError("ExecutionTraceObserver: execution traces are not written; use export_chrome_trace")

    def start(self):
        return None

    def stop(self):
        return None

    def cleanup(self):
        return None
