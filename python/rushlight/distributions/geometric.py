"""The geometric distribution: failures before the first success."""
import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions._binary import Trials
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["Geometric"]


class Geometric(Trials, Distribution):
    """P(k) = (1 - probs)^k probs"""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _expands = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            # 0 lies in the unit interval, but would never succeed.
            if not (self.probs > 0).all():
                bad = self.probs.data[~(self.probs > 0)]
                raise ValueError("Expected parameter probs (%s of shape %s) of distribution %r to be positive but found "
                                 "invalid values:\n%s"
                                 % (type(self.probs).__name__, tuple(self.probs.shape), self, bad))

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        return torch.zeros_like(self.probs)

    @property
    def variance(self):
        return self.mean / self.probs

    def sample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            u = self.probs.new(shape).uniform_(torch.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        value = self._valid(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone(memory_format=torch.contiguous_format)
        probs[(probs == 1) & (value == 0)] = 0      # 0 * log(0) is 0 here
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        return torch.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs,
                                                                    reduction="none") / self.probs
