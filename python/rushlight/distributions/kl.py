"""Kullback-Leibler divergences, by pair of distributions.

Most pairs of different families are one line: minus the entropy of p minus the mean of log q under p, where that
mean needs only moments of p.
"""
import math
import warnings
from functools import total_ordering

import rushlight as torch
from rushlight.distributions.bernoulli import Bernoulli
from rushlight.distributions.beta import Beta
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.dirichlet import Dirichlet
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.geometric import Geometric
from rushlight.distributions.gumbel import Gumbel
from rushlight.distributions.half_normal import HalfNormal
from rushlight.distributions.independent import Independent
from rushlight.distributions.laplace import Laplace
from rushlight.distributions.lowrank_multivariate_normal import (LowRankMultivariateNormal, _batch_lowrank_logdet,
                                                                 _batch_lowrank_mahalanobis)
from rushlight.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from rushlight.distributions.normal import Normal
from rushlight.distributions.one_hot_categorical import OneHotCategorical
from rushlight.distributions.pareto import Pareto
from rushlight.distributions.poisson import Poisson
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import _sum_rightmost, euler_constant as _euler_gamma

__all__ = ["register_kl", "kl_divergence"]

inf = math.inf
_KL_REGISTRY = {}
_KL_MEMOIZE = {}


def register_kl(type_p, type_q):
    """Decorator: the function computes KL(p || q) for these classes and their subclasses."""
    if not isinstance(type_p, type):
        raise TypeError("Expected type_p to be a Distribution subclass but got %s" % (type_p,))
    if not isinstance(type_q, type):
        raise TypeError("Expected type_q to be a Distribution subclass but got %s" % (type_q,))

    def register(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function
    return register


@total_ordering
class _Match:
    """A pair of classes, ordered by being more special."""

    __slots__ = ["types"]

    def __init__(self, *types):
        self.types = types

    def __eq__(self, other):
        return self.types == other.types

    def __le__(self, other):
        for mine, theirs in zip(self.types, other.types):
            if not issubclass(mine, theirs):
                return False
            if mine is not theirs:
                break
        return True

    __hash__ = object.__hash__


def _dispatch_kl(type_p, type_q):
    """The most special function registered for the two classes."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    left_p, left_q = min(_Match(*m) for m in matches).types
    right_q, right_p = min(_Match(*reversed(m)) for m in matches).types
    left, right = _KL_REGISTRY[left_p, left_q], _KL_REGISTRY[right_p, right_q]
    if left is not right:
        warnings.warn("Ambiguous kl_divergence(%s, %s). Please register_kl(%s, %s)"
                      % (type_p.__name__, type_q.__name__, left_p.__name__, right_q.__name__), RuntimeWarning,
                      stacklevel=3)
    return left


def kl_divergence(p, q):
    """KL(p || q): the mean of log p(x) - log q(x) under p."""
    try:
        function = _KL_MEMOIZE[type(p), type(q)]
    except KeyError:
        function = _dispatch_kl(type(p), type(q))
        _KL_MEMOIZE[type(p), type(q)] = function
    if function is NotImplemented:
        raise NotImplementedError("No KL(p || q) is implemented for p type %s and q type %s"
                                  % (type(p).__name__, type(q).__name__))
    return function(p, q)


def _infinite_like(tensor):
    return torch.full_like(tensor, inf)


def _x_log_x(tensor):
    return torch.special.xlogy(tensor, tensor)


def _batch_trace_XXT(bmat):
    """tr(X X') of each matrix."""
    n, m = bmat.size(-1), bmat.size(-2)
    return bmat.reshape(-1, m * n).pow(2).sum(-1).reshape(bmat.shape[:-2])


# --- families with themselves --------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    softplus = torch.nn.functional.softplus
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = torch.where(q.probs == 0, inf, t1)
    t1 = torch.where(p.probs == 0, 0.0, t1)
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    t2 = torch.where(q.probs == 1, inf, t2)
    t2 = torch.where(p.probs == 1, 0.0, t2)
    return t1 + t2


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    sum_p, sum_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    norm = (q.concentration1.lgamma() + q.concentration0.lgamma() + sum_p.lgamma()
            - (p.concentration1.lgamma() + p.concentration0.lgamma() + sum_q.lgamma()))
    return (norm + (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
            + (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0)
            + (sum_q - sum_p) * torch.digamma(sum_p))


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    more = p.total_count > q.total_count
    kl[more] = _infinite_like(kl[more])
    return kl


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms[(q.probs == 0).expand_as(terms)] = inf
    terms[(p.probs == 0).expand_as(terms)] = 0
    return terms.sum(-1)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    return (((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log())


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p, q):
    return (p.mean * (p.logits - q.logits) + p._cont_bern_log_norm() + torch.log1p(-p.probs)
            - q._cont_bern_log_norm() - torch.log1p(-q.probs))


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    sum_p, sum_q = p.concentration.sum(-1), q.concentration.sum(-1)
    norm = sum_p.lgamma() - sum_q.lgamma() - (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    mean_log = p.concentration.digamma() - sum_p.digamma().unsqueeze(-1)
    return norm + ((p.concentration - q.concentration) * mean_log).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot \
                            be computed using Bregman divergences")
    params = [n.detach().requires_grad_() for n in p._natural_params]
    log_p = p._log_normalizer(*params)
    means = torch.autograd.grad(log_p.sum(), params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - log_p
    for own, other, mean in zip(params, q._natural_params, means):
        result = result - _sum_rightmost((other - own) * mean, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p, q):
    return (q.concentration * (p.rate / q.rate).log() + torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
            + (p.concentration - q.concentration) * torch.digamma(p.concentration)
            + (q.rate - p.rate) * (p.concentration / p.rate))


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ratio = p.scale / q.scale
    shift = q.loc / q.scale - p.loc / q.scale
    return -ratio.log() - shift + ratio * _euler_gamma + torch.exp(shift + (1 + ratio).lgamma()) - (1 + _euler_gamma)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    away = (p.loc - q.loc).abs()
    return -(p.scale / q.scale).log() + away / q.scale + p.scale / q.scale * torch.exp(-away / p.scale) - 1


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Low Rank Multivariate Normals with different event shapes cannot "
                         "be computed")
    W, D = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    log_dets = q._log_det() - p._log_det()
    distance = _batch_lowrank_mahalanobis(W, D, q.loc - p.loc, q._capacitance_tril)
    # tr(Sq^-1 Sp) by Woodbury on Sq and the parts of Sp.
    A = torch.linalg.solve_triangular(q._capacitance_tril, W.mT / D.unsqueeze(-2), upper=False)
    traces = ((p._unbroadcasted_cov_diag / D).sum(-1)
              + _batch_trace_XXT(p._unbroadcasted_cov_factor * D.rsqrt().unsqueeze(-1))
              - _batch_trace_XXT(A * p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2))
              - _batch_trace_XXT(A.matmul(p._unbroadcasted_cov_factor)))
    return 0.5 * (log_dets + traces + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot "
                         "be computed")
    W, D = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    log_dets = q._log_det() - 2 * p._half_log_det()
    distance = _batch_lowrank_mahalanobis(W, D, q.loc - p.loc, q._capacitance_tril)
    A = torch.linalg.solve_triangular(q._capacitance_tril, W.mT / D.unsqueeze(-2), upper=False)
    traces = (_batch_trace_XXT(p._unbroadcasted_scale_tril * D.rsqrt().unsqueeze(-1))
              - _batch_trace_XXT(A.matmul(p._unbroadcasted_scale_tril)))
    return 0.5 * (log_dets + traces + distance - p.event_shape[0])


def _spread(p, q, n):
    """Broadcast batches of factors to a common shape and make both whole matrices of n rows."""
    batch = torch.broadcast_shapes(q.shape[:-2], p.shape[:-2])
    return q.expand(batch + (n, n)), p.expand(batch + (n, p.size(-1)))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot "
                         "be computed")
    n = p.event_shape[0]
    log_dets = 2 * q._half_log_det() - p._log_det()
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    factor_q, factor_p = _spread(p._unbroadcasted_cov_factor, q._unbroadcasted_scale_tril, n)
    _, diagonal = _spread(torch.diag_embed(p._unbroadcasted_cov_diag.sqrt()), q._unbroadcasted_scale_tril, n)
    solve = torch.linalg.solve_triangular
    traces = (_batch_trace_XXT(solve(factor_q, factor_p, upper=False))
              + _batch_trace_XXT(solve(factor_q, diagonal, upper=False)))
    return 0.5 * (log_dets + traces + distance - n)


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    n = p.event_shape[0]
    factor_q, factor_p = _spread(p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril, n)
    traces = _batch_trace_XXT(torch.linalg.solve_triangular(factor_q, factor_p, upper=False))
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return q._half_log_det() - p._half_log_det() + 0.5 * (traces + distance - n)


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    scale_ratio, alpha_ratio = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * scale_ratio.log() - alpha_ratio.log() + alpha_ratio - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, inf, result)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), inf, result)


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# --- one family with another: infinite where p reaches beyond q ---------------------------------------------------------


_INFINITE = (
    (Bernoulli, ()), (Beta, (Pareto,)), (ContinuousBernoulli, (Pareto,)),
    (Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform)), (Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, (Beta, ContinuousBernoulli, Uniform)), (Poisson, (Bernoulli, Binomial)),
)


def _first_parameter(p):
    for name in ("concentration1", "concentration", "rate", "probs", "loc", "scale"):
        if hasattr(p, name):
            return getattr(p, name)
    raise NotImplementedError("no parameter of %s is known" % type(p).__name__)


def _kl_infinite(p, q):
    return _infinite_like(_first_parameter(p))


for _p, _others in _INFINITE:
    for _q in _others:
        register_kl(_p, _q)(_kl_infinite)


# --- ... and otherwise by the mean of log q under p -----------------------------------------------------------------------


def _mean_log_normal(q, mean, variance):
    return -0.5 * ((variance + (mean - q.loc).pow(2)) / q.scale.pow(2)) - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _mean_log_gamma(q, mean, mean_log):
    return (q.concentration * q.rate.log() - q.concentration.lgamma() + (q.concentration - 1) * mean_log
            - q.rate * mean)


def _inside(p_low, p_high, q, result):
    """result where p lies within the uniform q, infinity elsewhere."""
    return torch.where((q.high < p_high) | (q.low > p_low), inf, result)


def _add_cross(p_class, q_class):
    def register(mean_log_q):
        def kl(p, q):
            return -p.entropy() - mean_log_q(p, q)
        kl.__name__ = kl.__qualname__ = "_kl_%s_%s" % (p_class.__name__.lower(), q_class.__name__.lower())
        register_kl(p_class, q_class)(kl)
        return mean_log_q
    return register


for _p in (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform):
    _add_cross(_p, Exponential)(lambda p, q: q.rate.log() - q.rate * p.mean)
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    _add_cross(_p, Normal)(lambda p, q: _mean_log_normal(q, p.mean, p.variance))
for _p in (Beta, ContinuousBernoulli):
    def _kl_unit_uniform(p, q):
        return _inside(0, 1, q, -p.entropy() + (q.high - q.low).log())
    register_kl(_p, Uniform)(_kl_unit_uniform)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@_add_cross(Beta, ContinuousBernoulli)
def _mean_beta_continuous_bernoulli(p, q):
    return p.mean * q.logits + torch.log1p(-q.probs) + q._cont_bern_log_norm()


@_add_cross(Beta, Gamma)
def _mean_beta_gamma(p, q):
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return _mean_log_gamma(q, p.mean, mean_log)


@_add_cross(Exponential, Gamma)
def _mean_exponential_gamma(p, q):
    return _mean_log_gamma(q, p.mean, -_euler_gamma - p.rate.log())


def _mean_log_gumbel(q, mean, mean_exp):
    """E log q from the mean and E exp(-(x - loc) / scale)."""
    return -q.scale.log() - (mean - q.loc) / q.scale - mean_exp


@_add_cross(Exponential, Gumbel)
def _mean_exponential_gumbel(p, q):
    product = p.rate * q.scale
    return _mean_log_gumbel(q, p.mean, (q.loc / q.scale).exp() * product / (product + 1))


@_add_cross(Gamma, Gumbel)
def _mean_gamma_gumbel(p, q):
    product = p.rate * q.scale
    return _mean_log_gumbel(q, p.mean, (q.loc / q.scale).exp() * (1 + product.reciprocal()).pow(-p.concentration))


@_add_cross(Normal, Gumbel)
def _mean_normal_gumbel(p, q):
    return _mean_log_gumbel(q, p.loc, torch.exp((q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2)))


@_add_cross(Uniform, Gumbel)
def _mean_uniform_gumbel(p, q):
    low, high = torch.exp((q.loc - p.low) / q.scale), torch.exp((q.loc - p.high) / q.scale)
    return _mean_log_gumbel(q, p.mean, q.scale * (low - high) / (p.high - p.low))


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    # The mean of |x - loc| under a normal distribution.
    away = p.loc - q.loc
    z = away / p.scale
    mean_abs = p.scale * math.sqrt(2 / math.pi) * torch.exp(-0.5 * z.pow(2)) + away * torch.erf(math.sqrt(0.5) * z)
    return -p.entropy() + (2 * q.scale).log() + mean_abs / q.scale


def _infinite_up_to(limit, p, result):
    return torch.where(p.alpha <= limit, inf, result)


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p, q):
    return _infinite_up_to(1, p, -p.entropy() - q.rate.log() + q.rate * (p.alpha * p.scale / (p.alpha - 1)))


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p, q):
    mean_log = p.scale.log() + p.alpha.reciprocal()
    mean = p.alpha * p.scale / (p.alpha - 1)
    return _infinite_up_to(1, p, -p.entropy() - _mean_log_gamma(q, mean, mean_log))


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p, q):
    a = p.alpha
    mean = a * p.scale / (a - 1)
    variance = p.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))
    return _infinite_up_to(2, p, -p.entropy() - _mean_log_normal(q, mean, variance))


def _mean_log_of_uniform(low, high):
    """The mean of log x for uniform x."""
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    log_beta = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    mean = ((q.concentration1 - 1) * _mean_log_of_uniform(p.low, p.high)
            + (q.concentration0 - 1) * _mean_log_of_uniform(1 - p.high, 1 - p.low) - log_beta)
    return torch.where((p.high > 1) | (p.low < 0), inf, -p.entropy() - mean)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p, q):
    mean = p.mean * q.logits + torch.log1p(-q.probs) + q._cont_bern_log_norm()
    return torch.where((p.high > 1) | (p.low < 0), inf, -p.entropy() - mean)


def _kl_uniform_exponential(p, q):
    return torch.where(p.low < 0, inf, q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log())


register_kl(Uniform, Exponential)(_kl_uniform_exponential)


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p, q):
    mean = _mean_log_gamma(q, p.mean, _mean_log_of_uniform(p.low, p.high))
    return torch.where(p.low < 0, inf, -p.entropy() - mean)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p, q):
    mean = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log_of_uniform(p.low, p.high)
    return torch.where(p.low < q.scale, inf, -p.entropy() - mean)


def _add_kl_info():
    """Append the pairs that are implemented to the docstring of kl_divergence."""
    rows = sorted("%s and %s" % (p.__name__, q.__name__) for p, q in _KL_REGISTRY)
    kl_divergence.__doc__ = (kl_divergence.__doc__ or "") + "\n\n    Pairs: " + ", ".join(rows) + "\n"
