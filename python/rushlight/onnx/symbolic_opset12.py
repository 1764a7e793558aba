"""Exports of single operations at opset 12: none yet."""
from .symbolic_opset11 import __getattr__  # noqa: F401
