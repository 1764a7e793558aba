"""The launcher of several processes, as functions."""
from .._absent import absent

globals().update(absent(
    "LaunchConfig elastic_launch",
    "launch_agent", "launcher.api."))
