"""Errors of passes over exported programs."""
from enum import Enum

__all__ = ["ExportErrorType", "InternalError", "ExportError", "internal_assert"]


class ExportErrorType(Enum):
    """What is wrong."""
    INVALID_INPUT_TYPE = 1
    INVALID_OUTPUT_TYPE = 2
    VIOLATION_OF_SPEC = 3
    NOT_SUPPORTED = 4
    MISSING_PROPERTY = 5
    UNINITIALIZED = 6


class InternalError(Exception):
    """A pass found a program that should not be."""


class ExportError(Exception):
    """An error of a kind."""

    def __init__(self, error_code, message):
        super().__init__("[%s]: %s" % (error_code, message))


def internal_assert(pred, assert_msg):
    if not pred:
        raise InternalError(assert_msg)
