"""The profiler under its oldest name."""
from rushlight.autograd.profiler import profile  # noqa: F401

__all__ = ["profile"]
