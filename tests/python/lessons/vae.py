"""A variational autoencoder with the reparametrisation trick, and samples from it."""
import torch
from torch import nn
from torch.distributions import Bernoulli, Independent, Normal, kl_divergence
from torch.nn import functional as F

torch.manual_seed(2)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 16), nn.Tanh())
        self.mean, self.logvar = nn.Linear(16, 3), nn.Linear(16, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 20))

    def forward(self, x):
        h = self.encoder(x)
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        return self.decoder(z), mean, logvar


def elbo(logits, x, mean, logvar):
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    return reconstruction - 0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())


model = VAE()
print(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = (torch.rand(64, 20) < torch.linspace(0, 1, 20)).float()
for epoch in range(12):
    for batch in data.split(16):
        optimizer.zero_grad()
        loss = elbo(*(lambda o: (o[0], batch, o[1], o[2]))(model(batch)))
        loss.backward()
        optimizer.step()
    if epoch % 3 == 2:
        print(epoch, f"{loss.item() / 16:.4f}")
with torch.no_grad():
    logits, mean, logvar = model(data[:4])
    q, p = Normal(mean, (0.5 * logvar).exp()), Normal(0.0, 1.0)
    print(kl_divergence(q, p).sum(1))
    like = Independent(Bernoulli(logits=logits), 1)
    print(like, like.log_prob(data[:4]), like.sample().shape)
    torch.manual_seed(3)
    print(Independent(Bernoulli(logits=model.decoder(torch.randn(2, 3))), 1).sample())
