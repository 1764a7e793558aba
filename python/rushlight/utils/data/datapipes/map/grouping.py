"""A home of these data pipes by PyTorch's layout of the package."""
from . import BatcherMapDataPipe

__all__ = ["BatcherMapDataPipe"]
