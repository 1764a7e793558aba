"""`import torch.ops` and `from torch.ops import aten` give the object that torch.ops is."""
import sys

from ._ops import ops

sys.modules[__name__] = ops
