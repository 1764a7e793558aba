"""The negative binomial distribution."""
import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions._binary import Trials
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.utils import lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Trials, Distribution):
    """Successes (of probability probs) before total_count failures."""

    arg_constraints = {"total_count": constraints.greater_than_eq(0),
                       "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer
    _expands = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        total_count, = self._take(probs, logits, total_count)
        self.total_count = total_count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self):
        return Gamma(concentration=self.total_count, rate=torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value):
        value = self._valid(value)
        log_odds = torch.nn.functional.logsigmoid
        unnormalized = self.total_count * log_odds(-self.logits) + value * log_odds(self.logits)
        norm = torch.lgamma(1.0 + value) + torch.lgamma(self.total_count) - torch.lgamma(self.total_count + value)
        # No failure to wait for: certainly 0, where two infinities would cancel to NaN.
        return unnormalized - norm.masked_fill(self.total_count + value == 0.0, 0.0)
