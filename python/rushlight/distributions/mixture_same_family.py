"""MixtureSameFamily: a mixture of distributions that are one batch."""
import rushlight as torch
from rushlight.distributions import Categorical, constraints
from rushlight.distributions.constraints import MixtureSameFamilyConstraint
from rushlight.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """mixture_distribution chooses along the last batch dimension of component_distribution."""

    arg_constraints = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of Distribution")
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        mixture_batch = mixture_distribution.batch_shape
        component_batch = component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(mixture_batch), reversed(component_batch)):
            if a != 1 and b != 1 and a != b:
                raise ValueError("`mixture_distribution.batch_shape` (%s) is not compatible with "
                                 "`component_distribution.batch_shape`(%s)" % (mixture_batch, component_batch))
        categories = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if categories != components:
            raise ValueError("`mixture_distribution component` (%s) does not equal `component_distribution.batch_shape"
                             "[-1]` (%s)" % (categories, components))
        self._num_component = categories
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(component_batch, event_shape, validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = torch.Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        super(MixtureSameFamily, new).__init__(batch_shape, self._component_distribution.event_shape,
                                               validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self):
        return self._mixture_distribution

    @property
    def component_distribution(self):
        return self._component_distribution

    def _weights(self):
        return self._pad_mixture_dimensions(self.mixture_distribution.probs)

    @property
    def mean(self):
        return torch.sum(self._weights() * self.component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self):
        # Variance within the components plus that of their means.
        weights, dim = self._weights(), -1 - self._event_ndims
        within = torch.sum(weights * self.component_distribution.variance, dim=dim)
        away = self.component_distribution.mean - self._pad(self.mean)
        return within + torch.sum(weights * away.pow(2.0), dim=dim)

    def cdf(self, x):
        return torch.sum(self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x):
        x = self._valid(x)
        of_each = self.component_distribution.log_prob(self._pad(x))
        weights = torch.log_softmax(self.mixture_distribution.logits, dim=-1)
        return torch.logsumexp(of_each + weights, dim=-1)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            sample_len = len(sample_shape)
            gather_dim = sample_len + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            event = self.event_shape
            index = chosen.reshape(chosen.shape + torch.Size([1] * (len(event) + 1)))
            index = index.repeat(torch.Size([1] * len(chosen.shape)) + torch.Size([1]) + event)
            return torch.gather(samples, gather_dim, index).squeeze(gather_dim)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x):
        missing = len(self.component_distribution.batch_shape[:-1]) - len(self.mixture_distribution.batch_shape)
        shape = x.shape
        return x.reshape(shape[:-1] + torch.Size(missing * [1]) + shape[-1:] + torch.Size(self._event_ndims * [1]))

    def __repr__(self):
        return "MixtureSameFamily(\n  %s,\n  %s)" % (self.mixture_distribution, self.component_distribution)
