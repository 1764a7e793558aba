"""The multivariate normal distribution."""
import math

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(mat, vec):
    """Matrices times vectors, both in batches."""
    return torch.matmul(mat, vec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor, x):
    """x' (L L')^-1 x for batches of factors L and of vectors x, whose batch may be larger.

    The factors are not copied for x's larger batch: x is turned so that all vectors of one factor are the
    columns of one triangular solve.
    """
    n = x.size(-1)
    batch = x.shape[:-1]
    outer = len(batch) - (factor.dim() - 2)
    # Where a batch dimension of the factor is 1 (or smaller), those of x are split into (same, more).
    split, keep, more = list(batch[:outer]), [], []
    at = outer
    for size_l, size_x in zip(factor.shape[:-2], batch[outer:]):
        split += [size_l, size_x // size_l]
        keep.append(at)
        more.append(at + 1)
        at += 2
    permuted = list(range(outer)) + more
    x = x.reshape(split + [n]).permute(permuted + keep + [at])
    turned = x.shape[:-1]
    flat_l = factor.reshape(-1, n, n)
    flat_x = x.reshape(-1, flat_l.size(0), n).permute(1, 2, 0)
    solved = torch.linalg.solve_triangular(flat_l, flat_x, upper=False).pow(2).sum(-2)
    back = solved.t().reshape(turned)
    order = permuted + keep
    inverse = [order.index(i) for i in range(len(order))]
    return back.permute(inverse).reshape(batch)


def _precision_to_scale_tril(precision):
    """The lower Cholesky factor of the inverse: from the Cholesky factor of the flipped matrix."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    upper_inverse = torch.transpose(torch.flip(flipped, (-2, -1)), -2, -1)
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(upper_inverse, identity, upper=False)


class MultivariateNormal(Distribution):
    """Vectors with mean loc; the spread by covariance_matrix, its inverse, or its Cholesky factor."""

    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True
    _expands = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2, "_unbroadcasted_scale_tril": -1}

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
                 "precision_matrix": precision_matrix}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, matrix), = given.items()
        if matrix.dim() < 2:
            raise ValueError("%s must be at least two-dimensional, with optional leading batch dimensions" % name)
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + matrix.shape[-2:]))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def _expand_into(self, new, owner, batch_shape):
        for name, dims in owner._expands.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                setattr(new, name, value if dims < 0 else value.expand(batch_shape + value.shape[value.dim() - dims:]))

    def _matrix_shape(self):
        return self._batch_shape + self._event_shape + self._event_shape

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_scale_tril
        return torch.matmul(factor, factor.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self):
        return torch.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape())

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=torch.Size()):
        eps = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        value = self._valid(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self):
        result = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return result.expand(self._batch_shape) if self._batch_shape else result
