"""Processes as a grid."""
from .._absent import absent

globals().update(absent(
    "DeviceMesh",
    "init_device_mesh", "_tensor.device_mesh."))
