"""Tensors spread over processes."""
from .._absent import absent

globals().update(absent(
    "DTensor Shard Replicate Partial Placement DeviceMesh",
    "distribute_tensor distribute_module zeros ones rand randn empty full init_device_mesh", "tensor."))
