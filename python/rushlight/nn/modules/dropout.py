"""Dropout layers."""
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zero each element with probability p while training.

    p: the probability; the other elements are scaled by 1 / (1 - p).
    Shape: any; the result has the same.

    >>> nn.Dropout(0.5)(torch.ones(4))
    tensor([0., 0., 2., 0.])
    """

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zero whole channels of (N, C, L).

    p: the probability that a channel becomes 0; the others are scaled by 1 / (1 - p).
    Shape: (N, C, L) or (C, L); the result has the same.

    >>> nn.Dropout1d(0.5).eval()(torch.ones(1, 2, 10)).mean()
    tensor(1.)
    """

    def forward(self, input):
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zero whole channels of (N, C, H, W).

    p: the probability that a channel becomes 0; the others are scaled by 1 / (1 - p).
    Shape: (N, C, H, W) or (C, H, W); the result has the same.

    >>> nn.Dropout2d(0.5).eval()(torch.ones(1, 2, 10, 12)).mean()
    tensor(1.)
    """

    def forward(self, input):
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zero whole channels of (N, C, D, H, W).

    p: the probability that a channel becomes 0; the others are scaled by 1 / (1 - p).
    Shape: (N, C, D, H, W) or (C, D, H, W); the result has the same.

    >>> nn.Dropout3d(0.5).eval()(torch.ones(1, 2, 6, 8, 8)).mean()
    tensor(1.)
    """

    def forward(self, input):
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of a selu activation.

    p: the probability that an element takes selu's lowest value.
    Shape: any; the result has the same.

    >>> nn.AlphaDropout(0.5).eval()(torch.ones(4))
    tensor([1., 1., 1., 1.])
    """

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    p: the probability that a channel takes selu's lowest value.
    Shape: (N, C, *); the result has the same.

    >>> nn.FeatureAlphaDropout(0.5).eval()(torch.ones(1, 2, 3)).shape
    torch.Size([1, 2, 3])
    """

    def forward(self, input):
        return F.feature_alpha_dropout(input, self.p, self.training)
