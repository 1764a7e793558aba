"""A home of these data pipes by PyTorch's layout of the package."""
from . import FileListerIterDataPipe

__all__ = ["FileListerIterDataPipe"]
