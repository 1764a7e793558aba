"""A model cut into stages, one process (or several times one) after the other."""
from .._absent import absent
from .schedules import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS  # noqa: F401
from .stage import PipelineStage  # noqa: F401

globals().update(absent("SplitPoint Pipe ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble ScheduleDualPipeV", "pipeline pipe_split build_stage", "pipelining."))
