"""Student's t distribution."""
import math

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """df degrees of freedom, moved by loc and stretched by scale."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _expands = {"df": 0, "loc": 0, "scale": 0}

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def _expand_into(self, new, owner, batch_shape):
        super()._expand_into(new, owner, batch_shape)
        new._chi2 = self._chi2.expand(batch_shape)

    @property
    def mean(self):
        mean = self.loc.clone(memory_format=torch.contiguous_format)
        mean[self.df <= 1] = float("nan")
        return mean

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        df = self.df
        variance = df.clone(memory_format=torch.contiguous_format)
        variance[df > 2] = self.scale[df > 2].pow(2) * df[df > 2] / (df[df > 2] - 2)
        variance[(df <= 2) & (df > 1)] = float("inf")
        variance[df <= 1] = float("nan")
        return variance

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * torch.rsqrt(chi2 / self.df))

    def _log_norm(self):
        return (self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + torch.lgamma(0.5 * self.df)
                - torch.lgamma(0.5 * (self.df + 1.0)))

    def log_prob(self, value):
        value = self._valid(value)
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1.0) * torch.log1p(y ** 2.0 / self.df) - self._log_norm()

    def entropy(self):
        half = 0.5 * self.df
        log_beta = torch.lgamma(half) + math.lgamma(0.5) - torch.lgamma(half + 0.5)
        return (self.scale.log() + 0.5 * (self.df + 1) * (torch.digamma(0.5 * (self.df + 1)) - torch.digamma(half))
                + 0.5 * self.df.log() + log_beta)
