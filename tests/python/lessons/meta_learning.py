"""Second derivatives in use: MAML, a gradient penalty, gradient reversal, conjugate gradients with Hessian products."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(18)


def forward(params, x):
    w1, b1, w2, b2 = params
    return F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2)


params = [(torch.randn(*s) * 0.3).requires_grad_() for s in ((8, 1), (8,), (1, 8), (1,))]
meta = torch.optim.Adam(params, lr=1e-2)
for it in range(12):
    meta.zero_grad()
    total = 0
    for task in range(3):
        a, p = torch.rand(2)
        x = torch.linspace(-2, 2, 10).unsqueeze(1)
        y = (a + 0.5) * torch.sin(x + p)
        inner = F.mse_loss(forward(params, x), y)
        grads = torch.autograd.grad(inner, params, create_graph=True)
        fast = [w - 0.1 * g for w, g in zip(params, grads)]
        total = total + F.mse_loss(forward(fast, x), y)
    total.backward()
    meta.step()
    if it % 3 == 2:
        print(it, "%.4f" % (total.item() / 3))
critic = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))
real, fake = torch.randn(6, 2), torch.randn(6, 2) + 2
mix = torch.rand(6, 1)
between = (mix * real + (1 - mix) * fake).requires_grad_()
g, = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
(critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
print("%.4f" % penalty.item(), critic[0].bias.grad)


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.k, None


z = torch.ones(3, requires_grad=True)
Reverse.apply(z * 2, 0.5).sum().backward()
print(z.grad)
w = torch.tensor([1.0, 1.0], dtype=torch.double, requires_grad=True)
rosenbrock = lambda v: (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2 + 0.1 * v.pow(2).sum()
for _ in range(5):
    g, = torch.autograd.grad(rosenbrock(w), w, create_graph=True)
    d, r = torch.zeros_like(w), -g.detach()
    p, rs = r.clone(), r.dot(r)
    for _ in range(2):
        hp, = torch.autograd.grad(g, w, grad_outputs=p, retain_graph=True)
        alpha = rs / p.dot(hp)
        d, r = d + alpha * p, r - alpha * hp
        new = r.dot(r)
        p, rs = r + new / rs * p, new
    with torch.no_grad():
        w += d
print(w, torch.autograd.functional.hessian(rosenbrock, w))
x = torch.randn(4, 3, requires_grad=True)
y = torch.linalg.inv(x.t() @ x + torch.eye(3)).logdet()
gx, = torch.autograd.grad(y, x, create_graph=True)
ggx, = torch.autograd.grad(gx.pow(2).sum(), x)
print(ggx.norm().item().__format__(".3f"), y.item().__format__(".4f"))
