"""Modern transformer parts: rotary positions, RMS norm, gated MLPs, grouped queries with a key-value cache, experts, LoRA, weight tying."""
import math

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(30)


def rotary(x, start=0):
    t, d = x.shape[-2:]
    angle = torch.outer(torch.arange(start, start + t).float(), 1.0 / 10000 ** (torch.arange(0, d, 2) / d))
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(z).flatten(-2)


class Attention(nn.Module):
    def __init__(self, d, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, d // heads
        self.qkv, self.out = nn.Linear(d, d + 2 * groups * self.size, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).split([d, self.groups * self.size, self.groups * self.size], dim=-1)
        q, k, v = (y.view(b, t, -1, self.size).transpose(1, 2) for y in (q, k, v))
        start = cache[0].size(2) if cache else 0
        q, k = rotary(q, start), rotary(k, start)
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        many = self.heads // self.groups
        y = F.scaled_dot_product_attention(q, k.repeat_interleave(many, 1), v.repeat_interleave(many, 1), is_causal=not cache)
        return self.out(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class Experts(nn.Module):
    def __init__(self, d, n, top):
        super().__init__()
        self.gate, self.top = nn.Linear(d, n, bias=False), top
        self.up, self.down = nn.Parameter(torch.randn(n, d, 2 * d) / math.sqrt(d)), nn.Parameter(torch.randn(n, 2 * d, d) / math.sqrt(2 * d))

    def forward(self, x):
        flat = x.flatten(0, 1)
        weight, chosen = self.gate(flat).softmax(-1).topk(self.top)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for e in range(len(self.up)):
            rows, slot = torch.where(chosen == e)
            out.index_add_(0, rows, F.silu(flat[rows] @ self.up[e]) @ self.down[e] * weight[rows, slot, None])
        return out.view_as(x)


class Model(nn.Module):
    def __init__(self, vocabulary=11, d=16):
        super().__init__()
        self.embed, self.norms = nn.Embedding(vocabulary, d), nn.ModuleList(nn.RMSNorm(d) for _ in range(3))
        self.attention, self.experts, self.head = Attention(d, 4, 2), Experts(d, 3, 2), nn.Linear(d, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x, cache=None):
        h = self.embed(x)
        a, cache = self.attention(self.norms[0](h), cache)
        h = h + a
        return self.head(self.norms[2](h + self.experts(self.norms[1](h)))), cache


model = Model()
print(sum(p.numel() for p in model.parameters()), len(list(model.parameters())), len(model.state_dict()))
decay = [p for p in model.parameters() if p.dim() >= 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}], lr=1e-2, betas=(0.9, 0.95))
x = torch.randint(0, 11, (4, 1)) + torch.arange(9)
x = x % 11
for step in range(20):
    logits, _ = model(x[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 5 == 4:
        print(step, f"{loss.item():.4f} {norm:.3f}")
model.eval()
with torch.inference_mode():
    whole, _ = model(x[:1, :6])
    part, cache = model(x[:1, :5])
    last, cache = model(x[:1, 5:6], cache)
    print(torch.allclose(whole[:, -1], last[:, -1], atol=1e-5), cache[0].shape)
    token, said = x[:1, :1], []
    logits, cache = model(token)
    for _ in range(6):
        token = logits[:, -1:].argmax(-1)
        said.append(token.item())
        logits, cache = model(token, cache)
    print(x[0, 0].item(), said)


class LoRA(nn.Module):
    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(rank, layer.in_features) * 0.1), nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + F.linear(F.linear(x, self.a), self.b)


before = model(x)[0]
model.attention.out = LoRA(model.attention.out, 2)
print(torch.equal(before, model(x)[0]), [n for n, p in model.named_parameters() if "attention" in n and p.requires_grad])
model(x)[0].logsumexp(-1).sum().backward()
print(f"{model.attention.out.b.grad.norm().item():.3f}", model.attention.out.layer.weight.grad is None or model.attention.out.layer.weight.requires_grad)
