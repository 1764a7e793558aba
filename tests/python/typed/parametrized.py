"""A weight that is computed from another."""
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


layer = nn.Linear(3, 3)
parametrize.register_parametrization(layer, "weight", Symmetric())
assert torch.equal(layer.weight, layer.weight.T) and parametrize.is_parametrized(layer)
