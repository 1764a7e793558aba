"""The Wishart distribution."""
import math
import warnings
from numbers import Number

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.multivariate_normal import _precision_to_scale_tril
from rushlight.distributions.utils import lazy_property

__all__ = ["Wishart"]


def _mvdigamma(x, p):
    """The derivative of the multivariate log-gamma function."""
    if not x.gt((p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    steps = torch.arange(p, dtype=x.dtype, device=x.device).div(2)
    return torch.digamma(x.unsqueeze(-1) - steps.expand(x.shape + (-1,))).sum(-1)


def _clamp_above_eps(x):
    return x.clamp(min=torch.finfo(x.dtype).eps)


class Wishart(ExponentialFamily):
    """Covariance matrices of df normal vectors, not divided by df."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self):
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self.event_shape[-1] - 1)}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {"scale_tril": scale_tril, "covariance_matrix": covariance_matrix,
                 "precision_matrix": precision_matrix}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, matrix), = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, Number):
            batch_shape = torch.Size(matrix.shape[:-2])
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError("Value of df=%s expected to be greater than ndim - 1 = %d." % (df, event_shape[-1] - 1))
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self._batch_dims = [-(i + 1) for i in range(len(batch_shape))]
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if self.df.lt(event_shape[-1]).any():
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                          stacklevel=2)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)
        self._dist_chi2 = self._make_chi2(batch_shape)

    def _make_chi2(self, batch_shape):
        """The squared diagonal of Bartlett's factor: one degree of freedom less for each further row."""
        n = self._event_shape[-1]
        steps = torch.arange(n, dtype=self._unbroadcasted_scale_tril.dtype,
                             device=self._unbroadcasted_scale_tril.device)
        return Chi2(df=self.df.unsqueeze(-1) - steps.expand(batch_shape + (-1,)))

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Wishart, _instance)
        batch_shape = torch.Size(batch_shape)
        cov_shape = batch_shape + self.event_shape
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(cov_shape)
        new.df = self.df.expand(batch_shape)
        new._batch_dims = [-(i + 1) for i in range(len(batch_shape))]
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(cov_shape))
        new._event_shape = self._event_shape
        new._dist_chi2 = new._make_chi2(batch_shape)
        super(Wishart, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self):
        factor = self._unbroadcasted_scale_tril
        identity = torch.eye(self._event_shape[-1], device=factor.device, dtype=factor.dtype)
        return torch.cholesky_solve(identity, factor).expand(self._batch_shape + self._event_shape)

    @property
    def mean(self):
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor[factor <= 0] = float("nan")
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (V.pow(2) + torch.einsum("...i,...j->...ij", diagonal,
                                                                                  diagonal))

    def _bartlett_sampling(self, sample_shape=torch.Size()):
        n = self._event_shape[-1]
        noise = _clamp_above_eps(self._dist_chi2.rsample(sample_shape).sqrt()).diag_embed(dim1=-2, dim2=-1)
        i, j = torch.tril_indices(n, n, offset=-1)
        noise[..., i, j] = torch.randn(torch.Size(sample_shape) + self._batch_shape + (n * (n - 1) // 2,),
                                       dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape=torch.Size(), max_try_correction=None):
        """Bartlett's method; samples that came out singular are drawn anew a few times."""
        if max_try_correction is None:
            max_try_correction = 3 if torch._C._get_tracing_state() else 10
        sample = self._bartlett_sampling(torch.Size(sample_shape))
        # PyTorch draws every sample that passes the check once more, and calls that correcting singular ones. It
        # changes no distribution, but the numbers a seed gives: so it is done here too.
        again = self._over_batch(self.support.check(sample))
        if not again.any():
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(max_try_correction):
            fresh = self._bartlett_sampling(again[again].shape)
            sample[again] = fresh
            still = again.clone()
            still[again] = self._over_batch(self.support.check(fresh).logical_not())
            again = still
            if not again.any():
                break
        return sample

    def _over_batch(self, truth):
        return truth.amax(self._batch_dims) if self._batch_dims else truth

    def log_prob(self, value):
        value = self._valid(value)
        nu, n = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        return (-nu * (n * math.log(2.0) / 2 + factor.diagonal(dim1=-2, dim2=-1).log().sum(-1))
                - torch.mvlgamma(nu / 2, p=n) + (nu - n - 1) / 2 * torch.linalg.slogdet(value).logabsdet
                - torch.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2)

    def entropy(self):
        nu, n = self.df, self._event_shape[-1]
        log_diagonal = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return ((n + 1) * (n * math.log(2.0) / 2 + log_diagonal) + torch.mvlgamma(nu / 2, p=n)
                - (nu - n - 1) / 2 * _mvdigamma(nu / 2, p=n) + nu * n / 2)

    @property
    def _natural_params(self):
        nu, n = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (nu - n - 1) / 2

    def _log_normalizer(self, x, y):
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (-torch.linalg.slogdet(-2 * x).logabsdet + math.log(2.0) * n) + torch.mvlgamma(half, p=n)
