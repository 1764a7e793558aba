"""Exports of single operations at opset 9: none yet."""
from .symbolic_opset11 import __getattr__  # noqa: F401
