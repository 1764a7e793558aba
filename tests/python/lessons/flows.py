"""A normalising flow, a mixture density network, a small diffusion model, and distillation."""
import math

import torch
from torch import nn
import torch.nn.functional as F
from torch import distributions as D

torch.manual_seed(19)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip, self.net = flip, nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        a, b = x.chunk(2, 1) if not self.flip else x.flip(1).chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        y = torch.cat([a, b * s.tanh().exp() + t], 1)
        return (y.flip(1) if self.flip else y), s.tanh().sum(1)


flow = nn.ModuleList([Coupling(i % 2 == 1) for i in range(4)])
base = D.MultivariateNormal(torch.zeros(2), torch.eye(2))
opt = torch.optim.Adam(flow.parameters(), 5e-3)
x = torch.randn(64, 1)
data = torch.cat([x, x ** 2 + 0.1 * torch.randn(64, 1)], 1)
for i in range(20):
    z, logdet = data, 0
    for layer in flow:
        z, d = layer(z)
        logdet = logdet + d
    loss = -(base.log_prob(z) + logdet).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 5 == 4:
        print("flow", i, f"{loss.item():.4f}")


class MDN(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.pi, self.mu, self.sigma = nn.Linear(1, k), nn.Linear(1, k), nn.Linear(1, k)

    def forward(self, x):
        return D.MixtureSameFamily(D.Categorical(logits=self.pi(x)), D.Normal(self.mu(x), self.sigma(x).exp()))


mdn = MDN()
opt = torch.optim.Adam(mdn.parameters(), 0.05)
for i in range(20):
    loss = -mdn(data[:, 1:]).log_prob(data[:, 0]).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("mdn", f"{loss.item():.4f}")

T = 20
betas = torch.linspace(1e-4, 0.2, T)
alphas = torch.cumprod(1 - betas, 0)
model = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
opt = torch.optim.AdamW(model.parameters(), 1e-2)
for i in range(20):
    t = torch.randint(0, T, (64,))
    noise = torch.randn_like(data)
    noisy = alphas[t].sqrt()[:, None] * data + (1 - alphas[t]).sqrt()[:, None] * noise
    loss = F.mse_loss(model(torch.cat([noisy, t[:, None] / T], 1)), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("diffusion", f"{loss.item():.4f}")
with torch.no_grad():
    s = torch.randn(3, 2)
    for k in reversed(range(T)):
        e = model(torch.cat([s, torch.full((3, 1), k / T)], 1))
        s = (s - betas[k] / (1 - alphas[k]).sqrt() * e) / (1 - betas[k]).sqrt()
        if k:
            s += betas[k].sqrt() * torch.randn_like(s)
    print((s * 100).round() / 100)

teacher, student = nn.Linear(4, 3), nn.Linear(4, 3)
x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
opt = torch.optim.SGD(student.parameters(), 0.5)
for i in range(5):
    soft = F.softmax(teacher(x).detach() / 2, -1)
    own = F.log_softmax(student(x) / 2, -1)
    loss = 0.25 * torch.sum(soft * (soft.log() - own)) / own.size(0) * 4 + 0.75 * F.cross_entropy(student(x), y)
    kl = F.kl_div(own, soft, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("distilled", f"{loss.item():.4f} {kl.item():.4f}")
