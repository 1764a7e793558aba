"""A home of these data pipes by PyTorch's layout of the package."""
from . import CollatorIterDataPipe, MapperIterDataPipe

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]
