"""Pooling layers: each remembers its window and calls the function of its name."""
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _pair, _single, _triple

__all__ = ["MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "AvgPool1d",
           "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
           "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
           "AdaptiveAvgPool3d"]


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _pool_forward(self, function, input):
        return function(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
                        return_indices=self.return_indices)

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)}" for name in
                         ("kernel_size", "stride", "padding", "dilation", "ceil_mode"))


class MaxPool1d(_MaxPoolNd):
    """Maximum over windows of (N, C, L).

    kernel_size: the window; stride: distance of windows, kernel_size by default; padding: added on both sides, at most half a window; dilation:
    distance of a window's elements; each is one number. return_indices: give also where each maximum stood (its number within the channel), as
    max_unpool1d takes it; ceil_mode: windows that begin inside but end outside count, too.
    Shapes: input (N, C, L) or (C, L); each side of n becomes (n + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.

    >>> nn.MaxPool1d(2)(torch.tensor([[[1., 5., 2., 4.]]]))
    tensor([[[5., 4.]]])
    """

    def forward(self, input):
        return self._pool_forward(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """Maximum over windows of (N, C, H, W).

    kernel_size: the window; stride: distance of windows, kernel_size by default; padding: added on both sides, at most half a window; dilation:
    distance of a window's elements; each is one number or 2. return_indices: give also where each maximum stood (its number within the
    channel), as max_unpool2d takes it; ceil_mode: windows that begin inside but end outside count, too.
    Shapes: input (N, C, H, W) or (C, H, W); each side of n becomes (n + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.

    >>> nn.MaxPool2d(2)(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 5, 6])
    """

    def forward(self, input):
        return self._pool_forward(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """Maximum over windows of (N, C, D, H, W).

    kernel_size: the window; stride: distance of windows, kernel_size by default; padding: added on both sides, at most half a window; dilation:
    distance of a window's elements; each is one number or 3. return_indices: give also where each maximum stood (its number within the
    channel), as max_unpool3d takes it; ceil_mode: windows that begin inside but end outside count, too.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); each side of n becomes (n + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.

    >>> nn.MaxPool3d(2)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 3, 4, 4])
    """

    def forward(self, input):
        return self._pool_forward(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    def _remember(self, spread, kernel_size, stride, padding):
        self.kernel_size = spread(kernel_size)
        self.stride = spread(stride if stride is not None else kernel_size)
        self.padding = spread(padding)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Put the maxima of MaxPool1d back.

    kernel_size, stride, padding: of the pool whose maxima these are, one number.
    Shapes: input and indices (N, C, L) or (C, L); each side of n becomes (n - 1) stride - 2 padding + kernel_size, or as output_size says when
    it is called with one.

    >>> values, indices = F.max_pool1d(torch.tensor([[[1., 5., 2., 4.]]]), 2, return_indices=True)
    >>> nn.MaxUnpool1d(2)(values, indices)
    tensor([[[0., 5., 0., 4.]]])
    """

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self._remember(_single, kernel_size, stride, padding)

    def forward(self, input, indices, output_size=None):
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Put the maxima of MaxPool2d back.

    kernel_size, stride, padding: of the pool whose maxima these are, one number or 2.
    Shapes: input and indices (N, C, H, W) or (C, H, W); each side of n becomes (n - 1) stride - 2 padding + kernel_size, or as output_size says
    when it is called with one.

    >>> values, indices = F.max_pool2d(torch.zeros(1, 3, 10, 12), 2, return_indices=True)
    >>> nn.MaxUnpool2d(2)(values, indices).shape
    torch.Size([1, 3, 10, 12])
    """

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self._remember(_pair, kernel_size, stride, padding)

    def forward(self, input, indices, output_size=None):
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Put the maxima of MaxPool3d back.

    kernel_size, stride, padding: of the pool whose maxima these are, one number or 3.
    Shapes: input and indices (N, C, D, H, W) or (C, D, H, W); each side of n becomes (n - 1) stride - 2 padding + kernel_size, or as
    output_size says when it is called with one.

    >>> values, indices = F.max_pool3d(torch.zeros(1, 3, 6, 8, 8), 2, return_indices=True)
    >>> nn.MaxUnpool3d(2)(values, indices).shape
    torch.Size([1, 3, 6, 8, 8])
    """

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self._remember(_triple, kernel_size, stride, padding)

    def forward(self, input, indices, output_size=None):
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Mean over windows of (N, C, L).

    kernel_size: the window; stride: distance of windows, kernel_size by default; padding: added on both sides, at most half a window; each is
    one number. ceil_mode: windows that begin inside but end outside count, too; count_include_pad: zeros of the padding count as elements.
    Shapes: input (N, C, L) or (C, L); each side of n becomes (n + 2 padding - kernel_size) // stride + 1.

    >>> nn.AvgPool1d(2)(torch.tensor([[[1., 5., 2., 4.]]]))
    tensor([[[3., 3.]]])
    """

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input):
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad)


class AvgPool2d(_AvgPoolNd):
    """Mean over windows of (N, C, H, W).

    kernel_size: the window; stride: distance of windows, kernel_size by default; padding: added on both sides, at most half a window; each is
    one number or 2. ceil_mode: windows that begin inside but end outside count, too; count_include_pad: zeros of the padding count as elements.
    divisor_override: divide by this number instead of the number of elements.
    Shapes: input (N, C, H, W) or (C, H, W); each side of n becomes (n + 2 padding - kernel_size) // stride + 1.

    >>> nn.AvgPool2d(2)(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 5, 6])
    """
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                 divisor_override=None):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad, self.divisor_override)


class AvgPool3d(AvgPool2d):
    """Mean over windows of (N, C, D, H, W).

    kernel_size: the window; stride: distance of windows, kernel_size by default; padding: added on both sides, at most half a window; each is
    one number or 3. ceil_mode: windows that begin inside but end outside count, too; count_include_pad: zeros of the padding count as elements.
    divisor_override: divide by this number instead of the number of elements.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); each side of n becomes (n + 2 padding - kernel_size) // stride + 1.

    >>> nn.AvgPool3d(2)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 3, 4, 4])
    """

    def forward(self, input):
        return F.avg_pool3d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad, self.divisor_override)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding", 0)
        self.__dict__.setdefault("ceil_mode", False)
        self.__dict__.setdefault("count_include_pad", True)


class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        super().__init__()
        spread, name = self._spread, type(self).__name__
        self.kernel_size = spread(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else spread(output_size)
        self.output_ratio = None if output_ratio is None else spread(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input):
        return self._function(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                              _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maximum over windows of random size.

    kernel_size: the window, one number or 2; output_size: the result's sides, or output_ratio: their ratio to the input's, between 0 and 1;
    return_indices: give also where each maximum stood.
    Shapes: input (N, C, H, W) or (C, H, W); result (N, C, *output_size) or without N.

    >>> nn.FractionalMaxPool2d(2, output_size=3)(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 3, 3])
    """
    _spread = staticmethod(_pair)
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maximum over windows of random size.

    kernel_size: the window, one number or 3; output_size: the result's sides, or output_ratio: their ratio to the input's, between 0 and 1;
    return_indices: give also where each maximum stood.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); result (N, C, *output_size) or without N.

    >>> nn.FractionalMaxPool3d(2, output_size=3)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 3, 3, 3])
    """
    _spread = staticmethod(_triple)
    _function = staticmethod(F.fractional_max_pool3d)


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def _pool_forward(self, function, input):
        return function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)}" for name in
                         ("norm_type", "kernel_size", "stride", "ceil_mode"))


class LPPool1d(_LPPoolNd):
    """p-norm over windows of (N, C, L).

    norm_type: p; kernel_size: the window; stride: distance of windows, kernel_size by default; both are one number. ceil_mode: windows that
    begin inside but end outside count, too.
    Shapes: input (N, C, L) or (C, L); each side of n becomes (n - kernel_size) // stride + 1.

    >>> nn.LPPool1d(2, 2)(torch.tensor([[[1., 5., 2., 4.]]]))
    tensor([[[5.0990, 4.4721]]])
    """

    def forward(self, input):
        return self._pool_forward(F.lp_pool1d, input)


class LPPool2d(_LPPoolNd):
    """p-norm over windows of (N, C, H, W).

    norm_type: p; kernel_size: the window; stride: distance of windows, kernel_size by default; both are one number or 2. ceil_mode: windows
    that begin inside but end outside count, too.
    Shapes: input (N, C, H, W) or (C, H, W); each side of n becomes (n - kernel_size) // stride + 1.

    >>> nn.LPPool2d(2, 2)(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 5, 6])
    """

    def forward(self, input):
        return self._pool_forward(F.lp_pool2d, input)


class LPPool3d(_LPPoolNd):
    """p-norm over windows of (N, C, D, H, W).

    norm_type: p; kernel_size: the window; stride: distance of windows, kernel_size by default; both are one number or 3. ceil_mode: windows
    that begin inside but end outside count, too.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); each side of n becomes (n - kernel_size) // stride + 1.

    >>> nn.LPPool3d(2, 2)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 3, 4, 4])
    """

    def forward(self, input):
        return self._pool_forward(F.lp_pool3d, input)


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maximum over windows that give the output size asked for.

    output_size: how many windows, one number. return_indices: give also where each maximum stood.
    Shapes: input (N, C, L) or (C, L); result (N, C, *output_size) or without N.

    >>> nn.AdaptiveMaxPool1d(2)(torch.tensor([[[1., 5., 2., 4.]]]))
    tensor([[[5., 4.]]])
    """

    def forward(self, input):
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum over windows that give the output size asked for.

    output_size: how many windows, one number or 2; None keeps a side. return_indices: give also where each maximum stood.
    Shapes: input (N, C, H, W) or (C, H, W); result (N, C, *output_size) or without N.

    >>> nn.AdaptiveMaxPool2d(2)(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 2, 2])
    """

    def forward(self, input):
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum over windows that give the output size asked for.

    output_size: how many windows, one number or 3; None keeps a side. return_indices: give also where each maximum stood.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); result (N, C, *output_size) or without N.

    >>> nn.AdaptiveMaxPool3d(2)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 2, 2, 2])
    """

    def forward(self, input):
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean over windows that give the output size asked for.

    output_size: how many windows, one number.
    Shapes: input (N, C, L) or (C, L); result (N, C, *output_size) or without N.

    >>> nn.AdaptiveAvgPool1d(2)(torch.tensor([[[1., 5., 2., 4.]]]))
    tensor([[[3., 3.]]])
    """

    def forward(self, input):
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean over windows that give the output size asked for.

    output_size: how many windows, one number or 2; None keeps a side.
    Shapes: input (N, C, H, W) or (C, H, W); result (N, C, *output_size) or without N.

    >>> nn.AdaptiveAvgPool2d(2)(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 2, 2])
    """

    def forward(self, input):
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean over windows that give the output size asked for.

    output_size: how many windows, one number or 3; None keeps a side.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); result (N, C, *output_size) or without N.

    >>> nn.AdaptiveAvgPool3d(2)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 2, 2, 2])
    """

    def forward(self, input):
        return F.adaptive_avg_pool3d(input, self.output_size)
