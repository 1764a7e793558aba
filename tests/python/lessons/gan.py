"""A generative adversarial network on a ring of points: two optimizers, detach, spectral norm."""
import math

import torch
import torch.nn as nn
from torch.nn.utils import spectral_norm

torch.manual_seed(4)
generator = nn.Sequential(nn.Linear(2, 16, bias=False), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
critic = nn.Sequential(spectral_norm(nn.Linear(2, 16)), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())


def weights_init(m):
    name = m.__class__.__name__
    if name.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


generator.apply(weights_init)
bce = nn.BCELoss()
of_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
of_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.999))
fixed = torch.randn(3, 2)
for step in range(20):
    angle = torch.rand(32) * 2 * math.pi
    real = torch.stack([angle.cos(), angle.sin()], 1)
    critic.zero_grad()
    label = torch.full((32, 1), 1.0)
    real_loss = bce(critic(real), label)
    real_loss.backward()
    fake = generator(torch.randn(32, 2))
    fake_loss = bce(critic(fake.detach()), label.fill_(0))
    fake_loss.backward()
    of_d.step()
    generator.zero_grad()
    g_loss = bce(critic(fake), label.fill_(1))
    g_loss.backward()
    of_g.step()
    if step % 5 == 0:
        print("[%d] D %.4f G %.4f" % (step, (real_loss + fake_loss).item(), g_loss.item()))
generator.eval()
print(generator(fixed).detach())
print(sorted(critic.state_dict()), critic[0])
