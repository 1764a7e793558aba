"""What the half-normal and the half-Cauchy distribution share: they fold a symmetric one at 0."""
import math

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AbsTransform


class Folded(TransformedDistribution):
    """The absolute value of a variable that is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _expands = {}
    _whole = None       # the class of the symmetric distribution

    def __init__(self, scale, validate_args=None):
        super().__init__(self._whole(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self):
        return self.base_dist.scale

    @property
    def mode(self):
        return torch.zeros_like(self.scale)

    def log_prob(self, value):
        value = self._valid(value)
        value = torch.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        both = self.base_dist.log_prob(value) + math.log(2)
        return torch.where(value >= 0, both, -math.inf)

    def cdf(self, value):
        value = self._valid(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
