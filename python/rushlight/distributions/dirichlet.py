"""The Dirichlet distribution."""
import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


def _sample_backward(x, concentration, grad):
    """The derivative of a sample: torch._dirichlet_grad, with what the components share taken out."""
    total = concentration.sum(-1, True).expand_as(concentration)
    along = torch._dirichlet_grad(x, concentration, total)
    return along * (grad - (x * grad).sum(-1, True))


class _Dirichlet(torch.autograd.Function):
    """Sampling, differentiable in the concentration."""

    @staticmethod
    def forward(ctx, concentration):
        x = torch._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, concentration = ctx.saved_tensors
        return _sample_backward(x, concentration, grad)


class Dirichlet(ExponentialFamily):
    """Points of the simplex."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _expands = {"concentration": 1}

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        value = self._valid(value)
        c = self.concentration
        return torch.xlogy(c - 1.0, value).sum(-1) + torch.lgamma(c.sum(-1)) - torch.lgamma(c).sum(-1)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = (self.concentration < 1).all(dim=-1)
        mode[corner] = torch.nn.functional.one_hot(mode[corner].argmax(dim=-1), above.shape[-1]).to(mode)
        return mode

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        k, c = self.concentration.size(-1), self.concentration
        total = c.sum(-1)
        return (torch.lgamma(c).sum(-1) - torch.lgamma(total) - (k - total) * torch.digamma(total)
                - ((c - 1.0) * torch.digamma(c)).sum(-1))

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))
