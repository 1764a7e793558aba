"""Optimizers over several processes."""
from .._absent import absent

globals().update(absent(
    "ZeroRedundancyOptimizer DistributedOptimizer PostLocalSGDOptimizer",
    "", "optim."))
