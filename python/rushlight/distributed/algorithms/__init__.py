"""Joining of uneven inputs."""
from .join import Join, Joinable, JoinHook  # noqa: F401
