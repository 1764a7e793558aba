"""The relaxed Bernoulli (concrete) distribution."""
import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions._binary import Trials
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import SigmoidTransform
from rushlight.distributions.utils import broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(Trials, Distribution):
    """The logit of a relaxed Bernoulli variable."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _expands = {"probs": 0, "logits": 0}

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def _expand_into(self, new, owner, batch_shape):
        super()._expand_into(new, owner, batch_shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        p = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(torch.rand(shape, dtype=p.dtype, device=p.device))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value):
        value = self._valid(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that approach a Bernoulli variable as the temperature goes to 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _expands = {}

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(),
                         validate_args=validate_args)

    @property
    def temperature(self):
        return self.base_dist.temperature

    @property
    def logits(self):
        return self.base_dist.logits

    @property
    def probs(self):
        return self.base_dist.probs
