"""The half-Cauchy distribution."""
import math

import rushlight as torch
from rushlight.distributions._half import Folded
from rushlight.distributions.cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """The absolute value of a Cauchy variable around 0."""

    _whole = Cauchy

    @property
    def mean(self):
        return torch.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self):
        return self.base_dist.variance
