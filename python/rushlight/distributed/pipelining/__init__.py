"""A model cut into stages, one process (or several times one) after the other."""
from .._absent import absent
from ._pipe import Pipe, SplitPoint, build_stage, pipe_split, pipeline  # noqa: F401
from .schedules import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS  # noqa: F401
from .stage import PipelineStage  # noqa: F401

globals().update(absent("ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble ScheduleDualPipeV", "", "pipelining."))
