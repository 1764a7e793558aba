"""Joining of uneven inputs."""
from .._absent import absent

globals().update(absent(
    "Join Joinable JoinHook",
    "", "algorithms.join."))
