"""functorch.einops: rearrange, which is torch.func's."""
from torch.func import rearrange

__all__ = ["rearrange"]
