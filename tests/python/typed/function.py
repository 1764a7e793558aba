"""An operation with a derivative of its own."""
from typing import Any

import torch
from torch import Tensor


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return g * 3 * x ** 2


x = torch.tensor([2.0], requires_grad=True)
y: Tensor = Cube.apply(x)
gradient, = torch.autograd.grad(y.sum(), [x])
assert gradient.item() == 12
