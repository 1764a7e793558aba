"""Optimizers over several processes."""
from .post_localSGD_optimizer import PostLocalSGDOptimizer  # noqa: F401
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer  # noqa: F401


def __getattr__(name):
    if name == "DistributedOptimizer":  # needs rpc, which most programs do not
        from .optimizer import DistributedOptimizer
        return DistributedOptimizer
    raise AttributeError(f"module 'torch.distributed.optim' has no attribute '{name}'")
