"""A home of these data pipes by PyTorch's layout of the package."""
from . import ConcaterMapDataPipe, ZipperMapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]
