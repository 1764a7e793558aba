"""Normalisations that keep no statistics: by layer, group, root mean square, and over neighbours."""
import rushlight as torch
from rushlight.nn import functional as F, init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import maybe_parameter

__all__ = ["LocalResponseNorm", "CrossMapLRN2d", "LayerNorm", "GroupNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Divide by a power of the mean square over neighbouring channels.

    size: over how many channels the squares are averaged; alpha, beta, k: the divisor is (k + alpha mean) ** beta.
    Shape: (N, C, *); the result has the same.

    >>> nn.LocalResponseNorm(2)(torch.ones(1, 4, 5)).shape
    torch.Size([1, 4, 5])
    """
    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """As LocalResponseNorm, for images only.

    size: over how many channels the squares are averaged; alpha, beta, k: the divisor is (k + alpha mean) ** beta.
    Shape: (N, C, H, W); the result has the same.

    >>> nn.CrossMapLRN2d(2)(torch.ones(1, 4, 5, 5)).shape
    torch.Size([1, 4, 5, 5])
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        # PyTorch's running sum never drops the first channel, so it is in every later window.
        reach = (self.size - 1) // 2
        squares = input.mul(input)
        padded = F.pad(squares.unsqueeze(1), (0, 0, 0, 0, reach, reach))
        sums = F.avg_pool3d(padded, (2 * reach + 1, 1, 1), stride=1, divisor_override=1).squeeze(1)
        later = torch.arange(input.size(1), device=input.device).view(1, -1, 1, 1) > reach
        sums = sums + squares[:, :1] * later
        return input * sums.mul(self.alpha / self.size).add(self.k).pow(-self.beta)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _as_shape(normalized_shape):
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Normalise over the last dimensions.

    normalized_shape: the sizes of the last dimensions, or one size; eps: added to the variance; elementwise_affine: learn a weight and, with
    bias, a bias of normalized_shape.
    Shape: (*, *normalized_shape); the result has the same.

    >>> nn.LayerNorm(4)(torch.tensor([[1., 1., 3., 3.]])).detach()
    tensor([[-1.0000, -1.0000,  1.0000,  1.0000]])
    """
    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        maybe_parameter(self, "weight", elementwise_affine, self.normalized_shape, device, dtype)
        maybe_parameter(self, "bias", elementwise_affine and bias, self.normalized_shape, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Weight 1, bias 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")


class GroupNorm(Module):
    """Normalise groups of channels.

    num_groups: how many groups, a divisor of num_channels (C); eps: added to the variance; affine: learn a weight and, with bias, a bias per
    channel.
    Shape: (N, C, *); the result has the same.

    >>> y = nn.GroupNorm(2, 4)(torch.rand(8, 4, 10))
    >>> y.shape, bool(y.mean().abs() < 1e-5)
    (torch.Size([8, 4, 10]), True)
    """
    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        maybe_parameter(self, "weight", affine, num_channels, device, dtype)
        maybe_parameter(self, "bias", affine and bias, num_channels, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Weight 1, bias 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")


class RMSNorm(Module):
    """Divide by the root mean square over the last dimensions.

    normalized_shape: the sizes of the last dimensions, or one size; eps: added to the mean square, the dtype's epsilon by default;
    elementwise_affine: learn a weight of normalized_shape.
    Shape: (*, *normalized_shape); the result has the same.

    >>> nn.RMSNorm(2)(torch.tensor([[1., 7.]])).detach()
    tensor([[0.2000, 1.4000]])
    """
    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        maybe_parameter(self, "weight", elementwise_affine, self.normalized_shape, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Weight 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
