"""An encoder of text."""
import math

import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    positions: Tensor

    def __init__(self, words: int, width: int = 32) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.register_buffer("positions", torch.randn(64, width) * 0.02, persistent=False)

    def forward(self, text: Tensor) -> Tensor:
        x = self.embedding(text) * math.sqrt(self.width) + self.positions[: text.size(1)]
        mask = nn.Transformer.generate_square_subsequent_mask(text.size(1))
        return self.layers(x, mask=mask)


assert Encoder(50)(torch.zeros(2, 9, dtype=torch.int64)).shape == torch.Size([2, 9, 32])
