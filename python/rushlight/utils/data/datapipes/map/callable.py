"""A home of these data pipes by PyTorch's layout of the package."""
from . import MapperMapDataPipe

__all__ = ["MapperMapDataPipe"]
