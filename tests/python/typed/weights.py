"""Weights that begin as told."""
import torch
from torch import nn


def begin(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.kaiming_uniform_(module.weight, a=0.1, nonlinearity="leaky_relu")
        nn.init.zeros_(module.bias)


net = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.1), nn.Linear(4, 1)).apply(begin)
assert net.training and not net.eval().training
gain = nn.init.calculate_gain("tanh")
nn.init.orthogonal_(torch.empty(3, 3), gain=gain)
