"""Launched processes."""
from . import errors  # noqa: F401
