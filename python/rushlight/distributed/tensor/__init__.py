"""Tensors spread over processes."""
from ..device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
from ._api import *  # noqa: F401,F403

__all__ = ["DTensor", "distribute_tensor", "distribute_module", "Shard", "Replicate", "Partial", "Placement", "ones", "empty", "full", "rand", "randn", "zeros",
           "DeviceMesh", "init_device_mesh"]
