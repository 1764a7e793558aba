"""A transformer from scratch: attention, positions, masks; learns to reverse sequences."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div)
        pe[:, 0, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:x.size(0)]


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.heads = heads

    def forward(self, x, memory, mask=None):
        t, b, d = x.shape
        split = lambda y: y.view(y.size(0), b, self.heads, d // self.heads).permute(1, 2, 0, 3)
        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        out = (scores.softmax(-1) @ v).permute(2, 0, 1, 3).reshape(t, b, d)
        return self.o(out)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(d, heads), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, mask)
        return x + self.mlp(self.norm2(x))


torch.manual_seed(0)
vocabulary, length, d = 12, 6, 16
embed, positions = nn.Embedding(vocabulary, d), PositionalEncoding(d)
blocks, head = nn.ModuleList([Block(d, 2) for _ in range(2)]), nn.Linear(d, vocabulary)
parameters = [p for m in (embed, blocks, head) for p in m.parameters()]
print(sum(p.numel() for p in parameters), blocks[0])
optimizer = torch.optim.Adam(parameters, lr=3e-3, betas=(0.9, 0.98), eps=1e-9)
causal = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
for step in range(30):
    x = torch.randint(0, vocabulary, (length, 8))
    h = positions(embed(x) * math.sqrt(d))
    for i, block in enumerate(blocks):
        h = block(h, causal if i == 0 and step % 5 == 4 else None)
    loss = F.cross_entropy(head(h).reshape(-1, vocabulary), x.flip(0).reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    if step % 5 == 4:
        print(step, f"{loss.item():.4f}", f"{norm:.3f}")
