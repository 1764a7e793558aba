"""Tensor parallelism: layers whose weights are spread over processes."""
from .api import parallelize_module  # noqa: F401
from .loss import loss_parallel  # noqa: F401
from .style import (ColwiseParallel, ParallelStyle, PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput, RowwiseParallel,  # noqa: F401
                    SequenceParallel)

__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel",
           "parallelize_module", "loss_parallel"]
