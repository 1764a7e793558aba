"""Exported programs."""
from rushlight.export import ExportedProgram  # noqa: F401
