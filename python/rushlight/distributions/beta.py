"""The beta distribution."""
from numbers import Number

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.dirichlet import Dirichlet
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """Numbers between 0 and 1; a Dirichlet distribution of two parts."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _expands = {}

    def __init__(self, concentration1, concentration0, validate_args=None):
        if isinstance(concentration1, Number) and isinstance(concentration0, Number):
            both = torch.tensor([float(concentration1), float(concentration0)])
        else:
            both = torch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def _expand_into(self, new, owner, batch_shape):
        new._dirichlet = self._dirichlet.expand(batch_shape)

    @property
    def concentration1(self):
        part = self._dirichlet.concentration[..., 0]
        return torch.tensor([part]) if isinstance(part, Number) else part

    @property
    def concentration0(self):
        part = self._dirichlet.concentration[..., 1]
        return torch.tensor([part]) if isinstance(part, Number) else part

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        value = self._valid(value)
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return torch.lgamma(x) + torch.lgamma(y) - torch.lgamma(x + y)
