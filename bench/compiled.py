"""torch.compile: the same functions plain and compiled; chains of elementwise operations, with gradients, and an optimizer in Python."""
import time

import torch
from clock import measure, show, wanted

torch.manual_seed(1)


def chain(x, y):
    z = x * y + 1.5
    z = x * torch.sigmoid(z)
    z = torch.tanh(z - y)
    z = torch.relu(z) + x * 0.5
    return torch.exp(z * z) * 0.1


def with_bias(x, bias, scale):
    return torch.tanh((x + bias) * scale + 0.5) * 2 - 1


def backward(f, x, y):
    x.grad = None
    f(x, y).backward(y)


def adam(p, g, m, v):
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    return p - 0.001 * m / (torch.sqrt(v) + 1e-8), m, v


x, y, bias, scale = torch.randn(4_000_000), torch.randn(4_000_000), torch.randn(1000), torch.rand(4000, 1)
square, leaf = x.view(4000, 1000), torch.randn(1_000_000, requires_grad=True)
short = x[:50_000].clone(), y[:50_000].clone()
half = x[:1_000_000].bfloat16(), y[:1_000_000].bfloat16()
moments = [torch.rand(1_000_000) for _ in range(4)]
CASES = [("chain of ten, 4,000,000 floats", chain, (x, y), "ms"), ("chain of ten, 50,000 floats", chain, short, "us"),
         ("chain of ten, 1,000,000 bfloat16", chain, half, "ms"), ("bias, scale and tanh, 4000 x 1000", with_bias, (square, bias, scale), "ms"),
         ("Adam's formula, 1,000,000 floats", adam, moments, "ms"), ("chain, forward and backward, 1,000,000 floats", chain, (leaf, y[:1_000_000].clone()), "ms")]
for name, f, arguments, unit in CASES:
    for how, g in (("as it is", f), ("compiled", torch.compile(f))):
        if not wanted(f"{name}, {how}"):
            continue
        begin = time.perf_counter()
        g(*arguments)
        if how == "compiled":
            show(f"{name}, first call", (time.perf_counter() - begin) * 1e3, "ms")
        if arguments[0].requires_grad:
            measure(f"{name}, {how}", lambda: backward(g, *arguments), unit=unit, budget=2)
        else:
            with torch.no_grad():
                measure(f"{name}, {how}", lambda: g(*arguments), unit=unit, budget=2)
