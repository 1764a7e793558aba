"""The continuous Bernoulli distribution: density C p^x (1-p)^(1-x) on the unit interval."""
import math

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions._binary import Trials
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Trials, ExponentialFamily):
    """Between the lims around one half, where the formulas are 0/0, Taylor series stand in for them."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True
    _expands = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._take(probs, logits)
        if probs is not None:
            if validate_args is not None and not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def _expand_into(self, new, owner, batch_shape):
        super()._expand_into(new, owner, batch_shape)
        new._lims = self._lims

    def _outside_unstable_region(self):
        return torch.max(torch.le(self.probs, self._lims[0]), torch.gt(self.probs, self._lims[1]))

    def _cut_probs(self):
        return torch.where(self._outside_unstable_region(), self.probs,
                           self._lims[0] * torch.ones_like(self.probs))

    def _cont_bern_log_norm(self):
        cut = self._cut_probs()
        # Each half of log|1 - 2p| is computed only where its argument is legal.
        below = torch.where(torch.le(cut, 0.5), cut, torch.zeros_like(cut))
        above = torch.where(torch.ge(cut, 0.5), cut, torch.ones_like(cut))
        log_norm = torch.log(torch.abs(torch.log1p(-cut) - torch.log(cut))) - torch.where(
            torch.le(cut, 0.5), torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        square = torch.pow(self.probs - 0.5, 2)
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square
        return torch.where(self._outside_unstable_region(), log_norm, taylor)

    @property
    def mean(self):
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (torch.log1p(-cut) - torch.log(cut))
        x = self.probs - 0.5
        return torch.where(self._outside_unstable_region(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x * x) * x)

    @property
    def stddev(self):
        return torch.sqrt(self.variance)

    @property
    def variance(self):
        cut = self._cut_probs()
        exact = cut * (cut - 1.0) / torch.pow(1.0 - 2.0 * cut, 2) + 1.0 / torch.pow(torch.log1p(-cut) - torch.log(cut), 2)
        x = torch.pow(self.probs - 0.5, 2)
        return torch.where(self._outside_unstable_region(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        u = torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(u)

    def log_prob(self, value):
        value = self._valid(value)
        logits, value = broadcast_all(self.logits, value)
        bernoulli = torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - bernoulli

    def cdf(self, value):
        value = self._valid(value)
        cut = self._cut_probs()
        exact = (torch.pow(cut, value) * torch.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = torch.where(self._outside_unstable_region(), exact, value)
        return torch.where(torch.le(value, 0.0), torch.zeros_like(value),
                           torch.where(torch.ge(value, 1.0), torch.ones_like(value), inside))

    def icdf(self, value):
        cut = self._cut_probs()
        exact = (torch.log1p(-cut + value * (2.0 * cut - 1.0)) - torch.log1p(-cut)) / (torch.log(cut) - torch.log1p(-cut))
        return torch.where(self._outside_unstable_region(), exact, value)

    def entropy(self):
        log_one, log_zero = torch.log(self.probs), torch.log1p(-self.probs)
        return self.mean * (log_zero - log_one) - self._cont_bern_log_norm() - log_zero

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        outside = torch.max(torch.le(x, self._lims[0] - 0.5), torch.gt(x, self._lims[1] - 0.5))
        cut = torch.where(outside, x, (self._lims[0] - 0.5) * torch.ones_like(x))
        exact = torch.log(torch.abs(torch.special.expm1(cut))) - torch.log(torch.abs(cut))
        return torch.where(outside, exact, 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0)
