"""What DTensors do and where their pieces are."""
from ._comm_mode import CommDebugMode
from ._visualize import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]
