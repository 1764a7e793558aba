"""The functional transforms: vmap.py batches functions, transforms.py differentiates them.

What is running now stands here, so that the rest of the package can ask without importing the transforms.
"""
from rushlight import _C

levels = []  # batch sizes of the vmaps that are running, outermost first
draw_modes = []  # and their randomness
depth = [0]  # how many derivative transforms are running
forward = [0]  # how many of them are of forward mode
pushing = [0]  # whether a backward runs only to be differentiated itself: forward mode
_C._set_transforms(levels, depth)
