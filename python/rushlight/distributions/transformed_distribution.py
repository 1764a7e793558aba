"""TransformedDistribution: a distribution seen through transforms."""
import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.independent import Independent
from rushlight.distributions.transforms import ComposeTransform, Transform
from rushlight.distributions.utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Samples of base_distribution sent through the transforms."""

    arg_constraints = {}
    _expands = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = transforms
        else:
            raise ValueError("transforms must be a Transform or list, but was %s" % (transforms,))
        # The base is expanded to the shape the transforms broadcast to, and made to have events as large as theirs.
        whole = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event = len(base_distribution.event_shape)
        needed = whole.domain.event_dim
        if len(base_shape) < needed:
            raise ValueError("base_distribution needs to have shape with size at least %d, but got %s."
                             % (needed, base_shape))
        forward_shape = whole.forward_shape(base_shape)
        expanded = whole.inverse_shape(forward_shape)
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[:len(expanded) - base_event])
        if needed > base_event:
            base_distribution = Independent(base_distribution, needed - base_event)
        self.base_dist = base_distribution
        event_dim = max(whole.codomain.event_dim, base_event + whole.codomain.event_dim - needed)
        if len(forward_shape) < event_dim:
            raise AssertionError("shape %s is too small for events of %d dimensions" % (forward_shape, event_dim))
        cut = len(forward_shape) - event_dim
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        owner = self._expand_owner()
        new = self._get_checked_instance(owner, _instance)
        new.transforms = self.transforms
        batch_shape = torch.Size(batch_shape)
        shape = batch_shape + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        self._expand_into(new, owner, batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        own = self.transforms[-1].codomain
        extra = len(self.event_shape) - own.event_dim
        return constraints.independent(own, extra) if extra > 0 else own

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape=torch.Size()):
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value):
        value = self._valid(value)
        event_dim = len(self.event_shape)
        result, y = 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            result = result - _sum_rightmost(transform.log_abs_det_jacobian(x, y),
                                             event_dim - transform.domain.event_dim)
            y = x
        return result + _sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value):
        """Turn a cdf around where the transforms reverse the order."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value):
        value = self.base_dist.icdf(self._monotonize_cdf(value))
        for transform in self.transforms:
            value = transform(value)
        return value
