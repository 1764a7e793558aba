"""Derivatives as functions."""
import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap


def f(x: Tensor) -> Tensor:
    return (x ** 3).sum()


x = torch.tensor([1.0, 2.0])
assert grad(f)(x).tolist() == [3, 12]
assert jacrev(grad(f))(x).diagonal().tolist() == [6, 12]
assert vmap(f, in_dims=0)(torch.ones(5, 2)).shape == (5,)
