"""A model cut into stages, one process (or several times one) after the other."""
from ._pipe import Pipe, SplitPoint, build_stage, pipe_split, pipeline  # noqa: F401
from .schedules import (Schedule1F1B, ScheduleDualPipeV, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble,  # noqa: F401
                        ScheduleLoopedBFS, ScheduleZBVZeroBubble)
from .stage import PipelineStage  # noqa: F401
