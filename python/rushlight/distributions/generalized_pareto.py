"""The generalised Pareto distribution: the tails of other distributions."""
import math

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Exceedances over loc; concentration 0 is the exponential distribution."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _expands = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def rsample(self, sample_shape=torch.Size()):
        u = torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def _z(self, x):
        return (x - self.loc) / self.scale

    def _zero(self):
        """Where the concentration is so close to 0 that the limit is taken, and a safe divisor."""
        zero = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return zero, torch.where(zero, torch.ones_like(self.concentration), self.concentration)

    def log_prob(self, value):
        value = self._valid(value)
        z = self._z(value)
        zero, safe = self._zero()
        power = torch.where(zero, -z, -(1 + 1 / safe) * torch.log1p(safe * z))
        inside = -self.scale.log() + power
        below = torch.full_like(inside, -math.inf)
        return torch.where(z < 0, below, inside)

    def log_survival_function(self, value):
        value = self._valid(value)
        z = self._z(value)
        zero, safe = self._zero()
        return torch.where(zero, -z, -torch.log1p(self.concentration * z) / safe)

    def log_cdf(self, value):
        value = self._valid(value)
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value):
        value = self._valid(value)
        return 1 - torch.exp(self.log_survival_function(value))

    def icdf(self, value):
        zero, safe = self._zero()
        log_u = torch.log1p(-value)
        return torch.where(zero, self.loc - self.scale * log_u,
                           self.loc + (self.scale / safe) * torch.expm1(-safe * log_u))

    @property
    def mean(self):
        c = self.concentration
        valid = c < 1
        safe = torch.where(valid, c, 0.5)
        return torch.where(valid, self.loc + self.scale / (1 - safe), torch.full_like(self.loc, math.inf))

    @property
    def variance(self):
        c = self.concentration
        valid = c < 0.5
        safe = torch.where(valid, c, 0.25)
        return torch.where(valid, self.scale ** 2 / ((1 - safe) ** 2 * (1 - 2 * safe)),
                           torch.full_like(self.scale, math.inf))

    def entropy(self):
        return (torch.log(self.scale) + self.concentration + 1).broadcast_to(self._batch_shape)

    @property
    def mode(self):
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        upper = torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)
