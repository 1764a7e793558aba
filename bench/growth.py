"""Resident memory over 10,000 random shapes of convolutions and products: MB more than after the first 500.

Primitives and blocks are cached by shape, and the caches must be bounded. A number on the command line is how many shapes.
"""
import random
import sys

import torch
import torch.nn.functional as F
from clock import show


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def once(pick, i):
    if i % 2:
        return torch.randn(pick(1, 300), i % 297 + 1) @ torch.randn(i % 297 + 1, pick(1, 300))
    x = torch.randn(pick(1, 4), pick(1, 40), pick(5, 40), pick(5, 40))
    w = torch.randn(pick(1, 40), x.shape[1], pick(1, 5), pick(1, 5), requires_grad=True)
    y = F.conv2d(x, w, padding=pick(0, 2), stride=pick(1, 2))
    return y.sum().backward() if i % 4 else y


def growth(shapes):
    """MB of growth from shape 500 to the last."""
    pick = random.Random(7).randint
    for i in range(shapes):
        once(pick, i)
        if i == 500:
            before = resident()
    return resident() - before


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    show(f"growth over {n} shapes", growth(n), "MB")
