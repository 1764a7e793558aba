"""How cost grows with size, at one and at two threads: microseconds per call from 1 element to 10^8, from batch 1 to 256."""
import torch
from clock import measure, wanted
from models import digits_cnn, mlp

torch.manual_seed(1)


def cases():
    for power in range(9):
        n = 10**power
        yield f"add, {n} elements", lambda n=n: (torch.randn(n), torch.randn(n)), lambda x, y: lambda: x + y
        yield f"exp, {n} elements", lambda n=n: (torch.randn(n),), lambda x: x.exp
        yield f"sum, {n} elements", lambda n=n: (torch.randn(n),), lambda x: x.sum
    for power in range(12):
        n = 2**power
        yield f"product, {n} x {n}", lambda n=n: (torch.randn(n, n), torch.randn(n, n)), lambda x, y: lambda: x @ y
    for power in range(9):
        n = 2**power
        yield f"mlp 64-128-10, batch {n}", lambda n=n: (mlp(64, 128, 10), torch.randn(n, 64)), lambda net, x: lambda: net(x)
        yield f"digits cnn, batch {n}", lambda n=n: (digits_cnn().eval(), torch.randn(n, 1, 28, 28)), lambda net, x: lambda: net(x)


with torch.no_grad():
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, make, bind in cases():
            name = f"{name}, {threads} thread{'s'[:threads - 1]}"
            if wanted(name):
                measure(name, bind(*make()), unit="us", budget=0.2)
