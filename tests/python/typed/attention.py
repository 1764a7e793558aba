"""Attention, by a layer and by a function."""
import torch
import torch.nn.functional as F
from torch import nn

q, k, v = torch.randn(3, 2, 4, 5, 8).unbind(0)
y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.0)
attention = nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True)
out, weights = attention(q[0], k[0], v[0], need_weights=True)
assert y.shape == q.shape and out.shape == q[0].shape and weights is not None
