"""A home of these data pipes by PyTorch's layout of the package."""
from . import BatcherIterDataPipe, GrouperIterDataPipe, UnBatcherIterDataPipe

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]
