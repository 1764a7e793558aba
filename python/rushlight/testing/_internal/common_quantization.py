"""Models that tests of quantization share."""
import rushlight as torch
from rushlight import nn


class _EmbeddingConvLinear(nn.Module):
    """Rows of a table, convolved, each through a linear layer."""

    def __init__(self):
        super().__init__()
        self.emb, self.conv, self.linear = nn.Embedding(num_embeddings=10, embedding_dim=8), nn.Conv2d(8, 16, (1, 3)), nn.Linear(16, 8)

    def forward(self, indices):
        rows = self.emb(indices).unsqueeze(0).permute(0, 3, 1, 2)
        return self.linear(self.conv(rows).permute(0, 2, 3, 1).squeeze(0))


class _ConvLinear(nn.Module):
    """A convolution whose channels go through a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 16, 3), nn.Linear(16, 5)

    def forward(self, x):
        return self.linear(torch.permute(self.conv(x), (0, 2, 3, 1)))


class TestHelperModules:
    """The models by their names."""
    __test__ = False
    EmbeddingConvLinearModule, ConvLinearWPermute = _EmbeddingConvLinear, _ConvLinear
