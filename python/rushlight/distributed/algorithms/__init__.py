"""Joining of uneven inputs."""
from .._absent import absent

globals().update(absent(
    "",
    "", "algorithms."))

from . import join  # noqa: E402,F401
