"""Exports of single operations at opset 14: none yet."""
from .symbolic_opset11 import __getattr__  # noqa: F401
