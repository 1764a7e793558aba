"""Windows to columns and back."""
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Sum of windows given as columns.

    output_size: (H, W) of the result. kernel_size: the window; dilation: distance of its elements; padding: zeros on both sides; stride:
    distance of windows; each one number or 2.
    Shapes: input (N, C kh kw, windows); result (N, C, H, W).

    >>> nn.Fold((2, 3), 2)(torch.ones(1, 4, 2))
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)}" for name in
                         ("output_size", "kernel_size", "dilation", "padding", "stride"))


class Unfold(Module):
    """All windows of the input as columns.

    kernel_size: the window; dilation: distance of its elements; padding: zeros on both sides; stride: distance of windows; each one number or
    2.
    Shapes: input (N, C, H, W); result (N, C kh kw, windows).

    >>> nn.Unfold(2)(torch.arange(6.).reshape(1, 1, 2, 3))
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """
    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)}" for name in ("kernel_size", "dilation", "padding", "stride"))
