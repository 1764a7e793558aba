"""Signatures of exported graphs."""
from rushlight.export import ExportGraphSignature  # noqa: F401
