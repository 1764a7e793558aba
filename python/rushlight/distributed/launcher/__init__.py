"""The launcher of several processes, as functions."""
from .api import LaunchConfig, elastic_launch, launch_agent  # noqa: F401
