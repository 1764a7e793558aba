"""Distributions: samples under a seed, densities, entropies, divergences, transforms."""
import torch
import torch.distributions as D

torch.manual_seed(14)
for d in [
    D.Normal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])), D.LogNormal(0.0, 0.5), D.Uniform(torch.tensor(-1.0), 2.0), D.Exponential(2.0), D.Laplace(0.0, 1.0),
    D.Cauchy(0.0, 1.0), D.HalfNormal(1.0), D.HalfCauchy(1.0), D.Gumbel(0.0, 1.0), D.Gamma(2.0, 3.0), D.Beta(2.0, 3.0), D.Chi2(3.0), D.StudentT(4.0), D.FisherSnedecor(3.0, 4.0),
    D.Dirichlet(torch.tensor([1.0, 2.0, 3.0])), D.Bernoulli(0.3), D.Binomial(10, torch.tensor(0.4)), D.Categorical(torch.tensor([0.2, 0.3, 0.5])), D.Poisson(4.0), D.Geometric(0.3),
    D.Multinomial(5, torch.tensor([0.2, 0.8])), D.NegativeBinomial(5.0, 0.4), D.OneHotCategorical(torch.tensor([0.5, 0.5])), D.Pareto(1.0, 2.0), D.Weibull(1.0, 2.0), D.VonMises(0.0, 2.0),
    D.Kumaraswamy(2.0, 3.0), D.ContinuousBernoulli(0.3), D.LogisticNormal(torch.zeros(2), torch.ones(2)), D.MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]])),
    D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2)), D.RelaxedBernoulli(torch.tensor(0.5), 0.3), D.RelaxedOneHotCategorical(torch.tensor(0.5), torch.tensor([0.4, 0.6])), D.InverseGamma(3.0, 2.0),
    D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.tensor([0.0, 3.0]), torch.ones(2))), D.Independent(D.Normal(torch.zeros(2), torch.ones(2)), 1),
]:
    s = d.sample((2,))
    line = [type(d).__name__, [round(v, 4) for v in s.flatten().tolist()[:4]], [round(v, 4) for v in d.log_prob(s).flatten().tolist()[:3]]]
    for name in ("entropy", "mean", "variance"):
        try:
            v = getattr(d, name)
            v = v() if callable(v) else v
            line.append([round(float(q), 4) for q in v.flatten()[:2]])
        except NotImplementedError:
            line.append(None)
    print(*line)
n, m = D.Normal(0.0, 1.0), D.Normal(1.0, 2.0)
print(D.kl_divergence(n, m), n.cdf(torch.tensor(0.5)), n.icdf(torch.tensor(0.7)), D.kl_divergence(D.Gamma(1.0, 2.0), D.Gamma(2.0, 1.0)))
print(D.kl_divergence(D.Categorical(torch.tensor([0.5, 0.5])), D.Categorical(torch.tensor([0.1, 0.9]))))
flow = D.TransformedDistribution(n, [D.AffineTransform(1.0, 2.0), D.SigmoidTransform()])
print(flow.sample((3,)), flow.log_prob(torch.tensor(0.6)), D.StickBreakingTransform()(torch.tensor([0.1, 0.2])))
loc = torch.tensor(0.5, requires_grad=True)
D.Normal(loc, 1.0).rsample((4,)).sum().backward()
print(loc.grad, n.expand((2, 3)).batch_shape, n, D.Categorical(logits=torch.zeros(3)))
policy = D.Categorical(logits=torch.randn(2, 3))
action = policy.sample()
print(action, -policy.log_prob(action), policy.probs.sum(-1), policy.enumerate_support())
try:
    D.Normal(0.0, torch.tensor(-1.0))
except ValueError as error:
    print(str(error).splitlines()[0])
