"""The Gumbel distribution."""
import math

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, ExpTransform
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """loc - scale * log(-log(u)) for uniform u."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _expands = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        info = torch.finfo(self.loc.dtype)
        low, high = info.tiny, 1 - info.eps
        if isinstance(loc, torch.Tensor) or isinstance(scale, torch.Tensor):
            low, high = torch.full_like(self.loc, low), torch.full_like(self.loc, high)
        base = Uniform(low, high, validate_args=validate_args)
        steps = [ExpTransform().inv, AffineTransform(loc=0, scale=-torch.ones_like(self.scale)), ExpTransform().inv,
                 AffineTransform(loc=loc, scale=-self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def log_prob(self, value):
        value = self._valid(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self):
        return self.loc + self.scale * euler_constant

    @property
    def mode(self):
        return self.loc

    @property
    def stddev(self):
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self):
        return self.stddev.pow(2)

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)
