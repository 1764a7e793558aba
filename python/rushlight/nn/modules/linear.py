"""Linear layers."""
import math

import rushlight as torch
from rushlight.nn import functional as F, init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter, UninitializedParameter, maybe_parameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Gives back its input; takes and ignores any arguments.

    Shape: any; the result is the input.

    >>> nn.Identity(54, unused=True)(torch.tensor([1., 2.]))
    tensor([1., 2.])
    """

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """y = x W^T + b.

    in_features, out_features: the last size of input and result; bias: add b. weight (out_features, in_features) and bias (out_features) begin
    uniform within 1 / sqrt(in_features).
    Shapes: input (*, in_features); result (*, out_features).

    >>> nn.Linear(20, 30)(torch.zeros(128, 20)).shape
    torch.Size([128, 30])
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: torch.Tensor

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.empty((out_features, in_features), device=device, dtype=dtype))
        maybe_parameter(self, "bias", bias, out_features, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Fill weight and bias uniformly within 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that dynamic quantization leaves alone (the output projection of attention)."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__(in_features, out_features, bias=bias, device=device, dtype=dtype)


class Bilinear(Module):
    """y = x1^T A x2 + b.

    in1_features, in2_features, out_features: the last sizes of both inputs and of the result; bias: add b.
    Shapes: inputs (*, in1_features) and (*, in2_features), weight (out_features, in1_features, in2_features); result (*, out_features).

    >>> nn.Bilinear(3, 4, 2)(torch.zeros(5, 3), torch.zeros(5, 4)).shape
    torch.Size([5, 2])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(torch.empty(shape, device=device, dtype=dtype))
        maybe_parameter(self, "bias", bias, out_features, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Fill weight and bias uniformly within 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that learns `in_features` from its first input.

    out_features, bias: as of Linear.
    Shapes: input (*, in_features); result (*, out_features).

    >>> layer = nn.LazyLinear(30)
    >>> layer(torch.zeros(128, 20)).shape
    torch.Size([128, 30])
    >>> layer
    Linear(in_features=20, out_features=30, bias=True)
    """

    cls_to_become = Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Take the shapes from `input`."""
        width = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = width
            with torch.no_grad():
                self.weight.materialize((self.out_features, width))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0 and width != self.weight.shape[-1]:
            raise AssertionError(f"The in_features inferred from input: {width} is not equal to "
                                 f"in_features from self.weight: {self.weight.shape[-1]}")
        self.in_features = self.in_features or width
