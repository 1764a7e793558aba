"""Distributions: samples of a seed, densities that integrate, divergences against sampling."""
import math

import pytest
import rushlight as torch
import rushlight.distributions as D


def test_samples_of_a_seed_are_those_of_torch():
    torch.manual_seed(0)
    assert torch.allclose(D.Normal(0.0, 1.0).sample((3,)), torch.tensor([1.5410, -0.2934, -2.1788]), atol=1e-4)


@pytest.mark.parametrize("make", [lambda: D.Normal(0.3, 1.2), lambda: D.Laplace(0.0, 1.0), lambda: D.Gumbel(0.0, 1.0),
                                  lambda: D.StudentT(torch.tensor(5.0)), lambda: D.Cauchy(0.0, 0.01)])
def test_densities_integrate_to_one(make):
    x = torch.linspace(-60, 60, 400001, dtype=torch.float64)
    assert abs(float(make().log_prob(x).exp().sum() * (x[1] - x[0])) - 1) < 2e-3


@pytest.mark.parametrize("p,q", [(D.Beta(2.0, 3.0), D.Beta(1.0, 1.5)), (D.Gamma(2.0, 1.0), D.Gamma(3.0, 2.0)),
                                 (D.Normal(0.0, 1.0), D.Laplace(0.5, 1.0)), (D.Exponential(2.0), D.Gamma(2.0, 1.0)),
                                 (D.Uniform(0.1, 0.6), D.Beta(2.0, 2.0)), (D.Normal(0.0, 1.0), D.Gumbel(0.0, 2.0))])
def test_kl_agrees_with_sampling(p, q):
    torch.manual_seed(1)
    x = p.sample((200000,))
    estimate = (p.log_prob(x) - q.log_prob(x)).mean()
    assert abs(float(D.kl_divergence(p, q) - estimate)) < 0.02


def test_transforms_invert():
    for constraint in (D.constraints.positive, D.constraints.unit_interval, D.constraints.simplex, D.constraints.real,
                       D.constraints.corr_cholesky):
        t = D.biject_to(constraint)
        x = torch.randn(2, 6) * 0.5
        y = t(x)
        assert constraint.check(y).all() and torch.allclose(t.inv(y), x, atol=1e-3)


def test_checks_and_expand():
    with pytest.raises(ValueError, match="scale"):
        D.Normal(0.0, -1.0)
    d = D.MultivariateNormal(torch.zeros(3), torch.eye(3)).expand((2,))
    assert d.sample((4,)).shape == (4, 2, 3)
    assert abs(float(d.log_prob(torch.zeros(2, 3))[0]) + 1.5 * math.log(2 * math.pi)) < 1e-5
