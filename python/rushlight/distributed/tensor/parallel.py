"""Tensor parallelism."""
from .._absent import absent

globals().update(absent(
    "ColwiseParallel RowwiseParallel SequenceParallel PrepareModuleInput PrepareModuleOutput "
    "PrepareModuleInputOutput ParallelStyle",
    "parallelize_module loss_parallel", "tensor.parallel."))
