"""torch.profiler: profiles over a schedule of steps."""
from rushlight.autograd.profiler import (KinetoStepTracker, ProfilerActivity, kineto_available,  # noqa: F401
                                         record_function)
from rushlight.profiler import itt, profiler
from rushlight.profiler.profiler import (ExecutionTraceObserver, ProfilerAction, _KinetoProfile, profile, schedule,
                                         supported_activities, tensorboard_trace_handler)

__all__ = ["profile", "schedule", "supported_activities", "tensorboard_trace_handler", "ProfilerAction",
           "ProfilerActivity", "kineto_available", "DeviceType", "record_function", "ExecutionTraceObserver"]

from rushlight.autograd.profiler import DeviceType  # noqa: E402


def itt_available():
    return False


class _ExperimentalConfig:
    """Settings of a tracer that is not part of rushlight; accepted and not used."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs
