"""A home of these data pipes by PyTorch's layout of the package."""
from . import SequenceWrapperMapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]
