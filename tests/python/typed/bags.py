"""Bags of words."""
import torch
from torch import nn

bags = nn.EmbeddingBag(20, 4, mode="mean")
words = torch.tensor([1, 2, 4, 5, 4])
offsets = torch.tensor([0, 2])
assert bags(words, offsets).shape == (2, 4)
