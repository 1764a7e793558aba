"""Channels to pixels and back."""
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """(C r^2, H, W) to (C, H r, W r).

    upscale_factor: r.
    Shapes: input (*, C r^2, H, W); result (*, C, H r, W r).

    >>> nn.PixelShuffle(2)(torch.arange(4.).reshape(1, 4, 1, 1))
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self):
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(C, H r, W r) to (C r^2, H, W).

    downscale_factor: r.
    Shapes: input (*, C, H r, W r); result (*, C r^2, H, W).

    >>> nn.PixelUnshuffle(2)(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 12, 4, 4])
    """
    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self):
        return f"downscale_factor={self.downscale_factor}"
