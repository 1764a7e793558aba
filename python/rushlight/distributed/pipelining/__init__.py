"""A model cut into stages."""
from .._absent import absent

globals().update(absent(
    "PipelineStage ScheduleGPipe Schedule1F1B ScheduleInterleaved1F1B SplitPoint Pipe",
    "pipeline pipe_split build_stage", "pipelining."))
