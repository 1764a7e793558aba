"""A home of these data pipes by PyTorch's layout of the package."""
from . import SamplerIterDataPipe, ShufflerIterDataPipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]
