"""Meshes of devices."""
from ._absent import absent

globals().update(absent(
    "DeviceMesh",
    "init_device_mesh _get_device_handle", "device_mesh."))
