"""Lists and dictionaries of modules."""
import torch
from torch import Tensor, nn


class Choice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.kinds = nn.ModuleDict({"relu": nn.ReLU(), "gelu": nn.GELU(approximate="tanh")})
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor, kind: str) -> Tensor:
        for layer in self.layers:
            x = self.kinds[kind](layer(x))
        return x * self.scale


choice = Choice()
names = [name for name, parameter in choice.named_parameters() if parameter.requires_grad]
assert len(names) == 7 and choice(torch.ones(2, 4), "gelu").shape == (2, 4)
assert sum(p.numel() for p in choice.parameters()) == 61
