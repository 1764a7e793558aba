"""The binomial distribution."""
import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions._binary import Trials
from rushlight.distributions.distribution import Distribution

__all__ = ["Binomial"]


def _clamp_by_zero(x):
    """max(x, 0), with a derivative of one half at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(Trials, Distribution):
    """Successes in total_count trials."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}
    has_enumerate_support = True
    _expands = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        total_count, = self._take(probs, logits, total_count)
        self.total_count = total_count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        value = self._valid(value)
        n = self.total_count
        choose = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        return value * self.logits + choose - (n * _clamp_by_zero(self.logits)
                                               + n * torch.log1p(torch.exp(-torch.abs(self.logits))))

    def entropy(self):
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = torch.arange(1 + n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
