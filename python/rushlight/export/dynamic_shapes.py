"""Sizes that vary."""
from rushlight.export import Dim, dims  # noqa: F401
