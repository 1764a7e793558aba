"""Meshes of devices."""
from .._absent import absent

globals().update(absent(
    "DeviceMesh",
    "init_device_mesh", "tensor.device_mesh."))
