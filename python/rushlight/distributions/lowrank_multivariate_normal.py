"""The multivariate normal distribution whose covariance is a diagonal plus a product of thin matrices."""
import math

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv
from rushlight.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W, D):
    """The Cholesky factor of I + W' D^-1 W."""
    m = W.size(-1)
    scaled = W.mT / D.unsqueeze(-2)
    K = torch.matmul(scaled, W).contiguous()
    K.view(-1, m * m)[:, ::m + 1] += 1
    return torch.linalg.cholesky(K)


def _batch_lowrank_logdet(W, D, capacitance_tril):
    """log det(W W' + D), by the matrix determinant lemma."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W, D, x, capacitance_tril):
    """x' (W W' + D)^-1 x, by the Woodbury identity."""
    projected = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, projected)


class LowRankMultivariateNormal(Distribution):
    """Covariance cov_factor cov_factor' + diag(cov_diag)."""

    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True
    _expands = {"loc": 1, "cov_diag": 1, "cov_factor": 2}

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError("cov_factor must be a batch of matrices with shape %d x m" % event_shape[0])
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError("cov_diag must be a batch of vectors with shape %s" % (event_shape,))
        try:
            vectors, diagonals = torch.broadcast_tensors(loc.unsqueeze(-1), cov_diag.unsqueeze(-1))
            batch_shape = torch.broadcast_shapes(vectors.shape[:-2], cov_factor.shape[:-2])
        except RuntimeError as error:
            raise ValueError("Incompatible batch shapes: loc %s, cov_factor %s, cov_diag %s"
                             % (loc.shape, cov_factor.shape, cov_diag.shape)) from error
        self.loc = vectors[..., 0].expand(batch_shape + event_shape)
        self.cov_diag = diagonals[..., 0].expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _expand_into(self, new, owner, batch_shape):
        super()._expand_into(new, owner, batch_shape)
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))

    def _matrix_shape(self):
        return self._batch_shape + self._event_shape + self._event_shape

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @lazy_property
    def variance(self):
        return (self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag).expand(
            self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        # L = D^1/2 chol(I + D^-1/2 W W' D^-1/2): the matrix under the root is well conditioned.
        n = self._event_shape[0]
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        K = torch.matmul(scaled, scaled.mT).contiguous()
        K.view(-1, n * n)[:, ::n + 1] += 1
        return (root * torch.linalg.cholesky(K)).expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self):
        W = self._unbroadcasted_cov_factor
        return (torch.matmul(W, W.mT) + torch.diag_embed(self._unbroadcasted_cov_diag)).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self):
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        half = torch.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return (torch.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - half.mT @ half).expand(
            self._matrix_shape())

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        eps_w = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        eps_d = _standard_normal(shape, **options)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, eps_w) + self._unbroadcasted_cov_diag.sqrt() * eps_d

    def _log_det(self):
        return _batch_lowrank_logdet(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag,
                                     self._capacitance_tril)

    def log_prob(self, value):
        value = self._valid(value)
        distance = _batch_lowrank_mahalanobis(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag,
                                              value - self.loc, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self):
        result = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return result.expand(self._batch_shape) if self._batch_shape else result
