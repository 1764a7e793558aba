"""The multinomial distribution."""
import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each category occurs in total_count draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _expands = {}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    def _expand_into(self, new, owner, batch_shape):
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        new._binomial = self._binomial.expand(batch_shape + self.event_shape)

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    @property
    def logits(self):
        return self._categorical.logits

    @property
    def probs(self):
        return self._categorical.probs

    @property
    def param_shape(self):
        return self._categorical.param_shape

    def sample(self, sample_shape=torch.Size()):
        draws = self._categorical.sample(torch.Size((self.total_count,)) + torch.Size(sample_shape))
        draws = draws.permute(*range(1, draws.dim()), 0)    # the draws last, to be counted
        counts = draws.new(self._extended_shape(sample_shape)).zero_()
        counts.scatter_add_(-1, draws, torch.ones_like(draws))
        return counts.type_as(self.probs)

    def entropy(self):
        n = torch.tensor(self.total_count)
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = torch.exp(self._binomial.log_prob(support))
        repeated = (weights * torch.lgamma(support + 1)).sum([0, -1])
        return n * self._categorical.entropy() - torch.lgamma(n + 1) + repeated

    def log_prob(self, value):
        value = self._valid(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone(memory_format=torch.contiguous_format)
        logits[(value == 0) & (logits == -float("inf"))] = 0
        return torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)
