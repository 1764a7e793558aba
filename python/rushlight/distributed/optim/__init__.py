"""Optimizers over several processes."""
from .._absent import absent
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer  # noqa: F401

globals().update(absent("DistributedOptimizer PostLocalSGDOptimizer", "", "optim."))
