"""Convolutions and their transposes, in one, two and three dimensions.

`_ConvNd` holds everything that does not depend on the number of dimensions; a concrete layer says how
many there are and which operator computes it.
"""
import math

import rushlight as torch
from rushlight.nn import functional as F, init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from rushlight.nn.parameter import Parameter, UninitializedParameter, maybe_parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d",
           "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d"]


class _ConvNd(Module):
    __constants__ = ["stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
                     "out_channels", "kernel_size"]

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
                 groups, bias, padding_mode, device=None, dtype=None):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        modes = {"zeros", "reflect", "replicate", "circular"}
        if padding_mode not in modes:
            raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = kernel_size, stride, dilation
        self.padding, self.padding_mode = padding, padding_mode
        self.transposed, self.output_padding = transposed, output_padding
        # As F.pad wants it: last dimension first, before and after.
        if isinstance(padding, str):
            around = [0, 0] * len(kernel_size)
            if padding == "same":
                for place, (d, k) in enumerate(zip(reversed(dilation), reversed(kernel_size))):
                    total = d * (k - 1)
                    around[2 * place] = total // 2
                    around[2 * place + 1] = total - total // 2
            self._reversed_padding_repeated_twice = around
        else:
            self._reversed_padding_repeated_twice = _reverse_repeat_tuple(padding, 2)
        outer, inner = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(torch.empty((outer, inner // groups, *kernel_size), device=device, dtype=dtype))
        maybe_parameter(self, "bias", bias, out_channels, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Fill weight and bias uniformly within 1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        ones, zeros = (1,) * len(self.dilation), (0,) * len(self.output_padding)
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != ones:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != zeros:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"

    def _convolve(self, op, spread, input, weight, bias):
        """The convolution; any padding but zeros is added first, by F.pad."""
        if self.padding_mode == "zeros":
            return op(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return op(input, weight, bias, self.stride, spread(0), self.dilation, self.groups)


def _sizes(spread, kernel_size, stride, padding, dilation):
    padding = padding if isinstance(padding, str) else spread(padding)
    return spread(kernel_size), spread(stride), padding, spread(dilation)


class Conv1d(_ConvNd):
    """Convolution over (N, C, L).

    in_channels: of the input; out_channels: how many filters; kernel_size, stride, padding, dilation: one number; padding may be "same" or
    "valid" instead. groups: groups of channels that are convolved separately; bias: add a learnt number per output channel; padding_mode:
    "zeros", "reflect", "replicate" or "circular".
    Shapes: input (N, in_channels, L) or without N, weight (out_channels, in_channels / groups, *kernel_size); result (N, out_channels, L'),
    each side of n becoming (n + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.

    >>> nn.Conv1d(4, 6, 3, stride=2, padding=1)(torch.zeros(2, 4, 10)).shape
    torch.Size([2, 6, 5])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        sizes = _sizes(_single, kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *sizes, False, _single(0), groups, bias, padding_mode,
                         device=device, dtype=dtype)

    def _conv_forward(self, input, weight, bias):
        return self._convolve(F.conv1d, _single, input, weight, bias)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_ConvNd):
    """Convolution over (N, C, H, W).

    in_channels: of the input; out_channels: how many filters; kernel_size, stride, padding, dilation: one number or 2; padding may be "same" or
    "valid" instead. groups: groups of channels that are convolved separately; bias: add a learnt number per output channel; padding_mode:
    "zeros", "reflect", "replicate" or "circular".
    Shapes: input (N, in_channels, H, W) or without N, weight (out_channels, in_channels / groups, *kernel_size); result (N, out_channels, H',
    W'), each side of n becoming (n + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.

    >>> nn.Conv2d(4, 6, 3, stride=2, padding=1)(torch.zeros(2, 4, 10, 12)).shape
    torch.Size([2, 6, 5, 6])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        sizes = _sizes(_pair, kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *sizes, False, _pair(0), groups, bias, padding_mode,
                         device=device, dtype=dtype)

    def _conv_forward(self, input, weight, bias):
        return self._convolve(F.conv2d, _pair, input, weight, bias)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_ConvNd):
    """Convolution over (N, C, D, H, W).

    in_channels: of the input; out_channels: how many filters; kernel_size, stride, padding, dilation: one number or 3; padding may be "same" or
    "valid" instead. groups: groups of channels that are convolved separately; bias: add a learnt number per output channel; padding_mode:
    "zeros", "reflect", "replicate" or "circular".
    Shapes: input (N, in_channels, D, H, W) or without N, weight (out_channels, in_channels / groups, *kernel_size); result (N, out_channels,
    D', H', W'), each side of n becoming (n + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.

    >>> nn.Conv3d(4, 6, 3, stride=2, padding=1)(torch.zeros(2, 4, 6, 8, 8)).shape
    torch.Size([2, 6, 3, 4, 4])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        sizes = _sizes(_triple, kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *sizes, False, _triple(0), groups, bias, padding_mode,
                         device=device, dtype=dtype)

    def _conv_forward(self, input, weight, bias):
        return self._convolve(F.conv3d, _triple, input, weight, bias)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
                 groups, bias, padding_mode, device=None, dtype=None):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, transposed,
                         output_padding, groups, bias, padding_mode, device=device, dtype=dtype)

    def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None):
        """The output padding that gives `output_size`, one of the sizes that convolve to the input's."""
        if output_size is None:
            return _single(self.output_padding)
        n = num_spatial_dims
        plain = input.dim() - n      # 2 with a batch dimension, 1 without
        if len(output_size) == plain + n:
            output_size = output_size[plain:]
        if len(output_size) != n:
            raise ValueError(f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {plain + n} "
                             f"elements (got {len(output_size)})")
        smallest = []
        for d in range(n):
            reach = (dilation[d] if dilation is not None else 1) * (kernel_size[d] - 1) + 1
            smallest.append((input.size(d + plain) - 1) * stride[d] - 2 * padding[d] + reach)
        largest = [low + stride[d] - 1 for d, low in enumerate(smallest)]
        for wanted, low, high in zip(output_size, smallest, largest):
            if not low <= wanted <= high:
                raise ValueError(f"requested an output size of {output_size}, but valid sizes range from {smallest} "
                                 f"to {largest} (for an input of {input.size()[2:]})")
        return [output_size[d] - smallest[d] for d in range(n)]

    def _conv_transpose_forward(self, op, dims, input, output_size):
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for ConvTranspose{dims}d")
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, dims,
                                     self.dilation)
        return op(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class _ConvTransposeMixin(_ConvTransposeNd):
    """The old name of `_ConvTransposeNd`."""

    def __init__(self, *args, **kwargs):
        import warnings
        warnings.warn("_ConvTransposeMixin is a deprecated internal class. Please consider using public APIs.",
                      FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of a convolution over (N, C, L).

    in_channels: of the input; out_channels: of the result; kernel_size, stride, padding, output_padding, dilation: one number; padding is cut
    off both sides of the result, output_padding lengthens one. groups: groups of channels that are treated separately; bias: add a learnt
    number per output channel; padding_mode: only "zeros".
    Shapes: input (N, in_channels, L) or without N, weight (in_channels, out_channels / groups, *kernel_size); result (N, out_channels, L'),
    each side of n becoming (n - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1.

    >>> nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1)(torch.zeros(2, 4, 10)).shape
    torch.Size([2, 6, 20])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        sizes = (_single(kernel_size), _single(stride), _single(padding), _single(dilation))
        super().__init__(in_channels, out_channels, *sizes, True, _single(output_padding), groups, bias,
                         padding_mode, device=device, dtype=dtype)

    def forward(self, input, output_size=None):
        return self._conv_transpose_forward(F.conv_transpose1d, 1, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of a convolution over (N, C, H, W).

    in_channels: of the input; out_channels: of the result; kernel_size, stride, padding, output_padding, dilation: one number or 2; padding is
    cut off both sides of the result, output_padding lengthens one. groups: groups of channels that are treated separately; bias: add a learnt
    number per output channel; padding_mode: only "zeros".
    Shapes: input (N, in_channels, H, W) or without N, weight (in_channels, out_channels / groups, *kernel_size); result (N, out_channels, H',
    W'), each side of n becoming (n - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1.

    >>> nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)(torch.zeros(2, 4, 10, 12)).shape
    torch.Size([2, 6, 20, 24])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        sizes = (_pair(kernel_size), _pair(stride), _pair(padding), _pair(dilation))
        super().__init__(in_channels, out_channels, *sizes, True, _pair(output_padding), groups, bias,
                         padding_mode, device=device, dtype=dtype)

    def forward(self, input, output_size=None):
        return self._conv_transpose_forward(F.conv_transpose2d, 2, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of a convolution over (N, C, D, H, W).

    in_channels: of the input; out_channels: of the result; kernel_size, stride, padding, output_padding, dilation: one number or 3; padding is
    cut off both sides of the result, output_padding lengthens one. groups: groups of channels that are treated separately; bias: add a learnt
    number per output channel; padding_mode: only "zeros".
    Shapes: input (N, in_channels, D, H, W) or without N, weight (in_channels, out_channels / groups, *kernel_size); result (N, out_channels,
    D', H', W'), each side of n becoming (n - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1.

    >>> nn.ConvTranspose3d(4, 6, 3, stride=2, padding=1, output_padding=1)(torch.zeros(2, 4, 6, 8, 8)).shape
    torch.Size([2, 6, 12, 16, 16])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        sizes = (_triple(kernel_size), _triple(stride), _triple(padding), _triple(dilation))
        super().__init__(in_channels, out_channels, *sizes, True, _triple(output_padding), groups, bias,
                         padding_mode, device=device, dtype=dtype)

    def forward(self, input, output_size=None):
        return self._conv_transpose_forward(F.conv_transpose3d, 3, input, output_size)


class _LazyConvXdMixin(LazyModuleMixin):
    """Takes `in_channels` from the first input."""

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        """Take the shapes from `input`."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        pair = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        self.weight.materialize((pair[0], pair[1] // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input):
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                               f"{type(self).__name__}, but got input of size: {input.shape}")
        return input.shape[1] if input.dim() == n + 2 else input.shape[0]

    def _get_num_spatial_dims(self):
        raise NotImplementedError


def _start_lazily(layer, base, args, out_channels, bias, device, dtype):
    """Build a lazy convolution without channels, then leave its tensors open."""
    super(base, layer).__init__(0, 0, *args, device=device, dtype=dtype)
    layer.weight = UninitializedParameter(device=device, dtype=dtype)
    layer.out_channels = out_channels
    if bias:
        layer.bias = UninitializedParameter(device=device, dtype=dtype)


_LAZY = """A %s that learns `in_channels` from its first input.

    out_channels, kernel_size, stride, padding,%s dilation, groups, bias, padding_mode: as of %s.
    Shapes: input (N, in_channels, %s) or without N; result (N, out_channels, *), with sides as of %s.

    >>> nn.Lazy%s(6, 3)(torch.zeros(2, 4%s)).shape
    torch.Size([2, 6%s])
    """


def _lazy_doc(name, dims):
    more, side = (" output_padding,", ", 10") if "Transpose" in name else ("", ", 6")
    return _LAZY % (name, more, name, ", ".join("DHW"[-dims:]) if dims > 1 else "L", name, name, ", 8" * dims, side * dims)


def _lazy_conv(name, base, dims):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        args = (kernel_size, stride, padding, dilation, groups, False, padding_mode)
        _start_lazily(self, made, args, out_channels, bias, device, dtype)

    made = type(name, (_LazyConvXdMixin, base), {
        "__doc__": _lazy_doc(base.__name__, dims), "__module__": __name__,
        "__firstlineno__": __init__.__code__.co_firstlineno, "cls_to_become": base, "__init__": __init__, "_get_num_spatial_dims": lambda self: dims})
    return made


def _lazy_transpose(name, base, dims):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                 dilation=1, padding_mode="zeros", device=None, dtype=None):
        args = (kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        _start_lazily(self, made, args, out_channels, bias, device, dtype)

    made = type(name, (_LazyConvXdMixin, base), {
        "__doc__": _lazy_doc(base.__name__, dims), "__module__": __name__,
        "__firstlineno__": __init__.__code__.co_firstlineno, "cls_to_become": base, "__init__": __init__, "_get_num_spatial_dims": lambda self: dims})
    return made


LazyConv1d = _lazy_conv("LazyConv1d", Conv1d, 1)
LazyConv2d = _lazy_conv("LazyConv2d", Conv2d, 2)
LazyConv3d = _lazy_conv("LazyConv3d", Conv3d, 3)
LazyConvTranspose1d = _lazy_transpose("LazyConvTranspose1d", ConvTranspose1d, 1)
LazyConvTranspose2d = _lazy_transpose("LazyConvTranspose2d", ConvTranspose2d, 2)
LazyConvTranspose3d = _lazy_transpose("LazyConvTranspose3d", ConvTranspose3d, 3)
