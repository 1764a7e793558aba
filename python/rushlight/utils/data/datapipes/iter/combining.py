"""A home of these data pipes by PyTorch's layout of the package."""
from . import ConcaterIterDataPipe, DemultiplexerIterDataPipe, ForkerIterDataPipe, MultiplexerIterDataPipe, ZipperIterDataPipe

__all__ = ["ConcaterIterDataPipe", "DemultiplexerIterDataPipe", "ForkerIterDataPipe", "MultiplexerIterDataPipe", "ZipperIterDataPipe"]
