"""Loggers whose level is that of the environment's LOGLEVEL."""
import logging
import os
import sys

from .log_level import get_log_level

__all__ = ["get_logger"]


def get_logger(name=None):
    """The logger of that name, or of the caller's module."""
    log = logging.getLogger(name or sys._getframe(1).f_globals.get("__name__", "<unknown>"))
    log.setLevel(os.environ.get("LOGLEVEL", get_log_level()))
    return log
