"""The LKJ distribution of Cholesky factors of correlation matrices."""
import math

import rushlight as torch
from rushlight.distributions import Beta, constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Density of the correlation matrix proportional to det^(concentration - 1). Sampled by the onion method."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError("Expected dim to be an integer greater than or equal to 2. Found dim=%d." % dim)
        self.dim = dim
        self.concentration, = broadcast_all(concentration)
        marginal = self.concentration + 0.5 * (dim - 2)
        steps = torch.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        steps = torch.cat([steps.new_zeros((1,)), steps])
        self._beta = Beta(steps + 0.5, marginal.unsqueeze(-1) - 0.5 * steps)
        super().__init__(self.concentration.size(), torch.Size((dim, dim)), validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = torch.Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand(batch_shape + (self.dim,))
        super(LKJCholesky, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape=torch.Size()):
        squared = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = torch.randn(self._extended_shape(sample_shape), dtype=squared.dtype, device=squared.device).tril(-1)
        direction = normal / normal.norm(dim=-1, keepdim=True)
        direction[..., 0, :].fill_(0.0)     # the first row has no direction: 0 / 0
        rows = torch.sqrt(squared) * direction
        rest = torch.clamp(1 - torch.sum(rows ** 2, dim=-1), min=torch.finfo(rows.dtype).tiny).sqrt()
        return rows + torch.diag_embed(rest)

    def log_prob(self, value):
        value = self._valid(value)
        n = self.dim - 1
        order = torch.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = torch.sum(order * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log(), dim=-1)
        alpha = self.concentration + 0.5 * n
        # pi^(n/2) of the rows' spheres over the product of Gamma(alpha - i/2) / Gamma(alpha).
        norm = 0.5 * n * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, n) - torch.lgamma(alpha) * n
        return unnormalized - norm
