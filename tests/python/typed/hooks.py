"""Look at what passes."""
from typing import Any

import torch
from torch import Tensor, nn

seen: list[torch.Size] = []


def look(module: nn.Module, args: Any, output: Tensor) -> None:
    seen.append(output.shape)


layer = nn.Linear(3, 2)
handle = layer.register_forward_hook(look)
y = layer(torch.ones(1, 3))
doubled = y.register_hook(lambda g: g * 2)
y.sum().backward()
handle.remove()
doubled.remove()
assert seen == [torch.Size([1, 2])] and layer.bias is not None and layer.bias.grad is not None
