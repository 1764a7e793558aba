"""`import torch.classes` gives the object that torch.classes is."""
import sys

from ._classes import classes

sys.modules[__name__] = classes
