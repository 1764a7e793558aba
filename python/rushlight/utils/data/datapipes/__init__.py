"""Data pipes: composable streams, kept for programs that still use them."""
from rushlight.utils.data.datapipes import datapipe, iter, map

__all__ = ["datapipe", "iter", "map"]
