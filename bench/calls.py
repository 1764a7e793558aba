"""Microseconds per call on tiny tensors, on one thread: what the framework itself costs."""
import torch
from torch import nn
import torch.nn.functional as F
from clock import run

torch.set_num_threads(1)
torch.manual_seed(1)
u, v = torch.randn(4), torch.randn(4)
m, w = torch.randn(4, 8), torch.randn(8, 8)
leaf, weight = torch.randn(4, requires_grad=True), torch.randn(8, 8, requires_grad=True)
places = torch.tensor([0, 2, 1])
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
labels = torch.arange(4)
adam = torch.optim.Adam(net.parameters(), lr=1e-3)
sgd = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
library = torch.library.Library("bench", "DEF")
library.define("negated(Tensor x) -> Tensor")
library.impl("negated", lambda x: -x, "CPU")
custom = torch.library.custom_op("bench::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
custom.register_autograd(lambda ctx, g: g * 2)


def there_and_back():
    weight.grad = None
    torch.relu(m @ weight).sum().backward()


def train():
    adam.zero_grad()
    F.cross_entropy(net(m), labels).backward()
    adam.step()


F.cross_entropy(net(m), labels).backward()
recorded = [
    ("add, recorded", "leaf + v", None, "us"),
    ("relu(m @ w).sum(), forward and backward", "there_and_back()", None, "us"),
    ("custom_op, recorded", "custom(leaf)", None, "us"),
    ("training step of an mlp", "train()", None, "us"),
]
plain = [
    ("zeros", "torch.zeros(4)", None, "us"),
    ("tensor of a list", "torch.tensor([1.0, 2.0, 3.0])", None, "us"),
    ("add", "u + v", None, "us"),
    ("add in place", "u.add_(v)", None, "us"),
    ("times a number", "u * 2.0", None, "us"),
    ("view", "w.view(64)", None, "us"),
    ("transpose", "w.t()", None, "us"),
    ("index by a number", "w[0]", None, "us"),
    ("index by a slice", "w[1:3]", None, "us"),
    ("index by a tensor", "w[places]", None, "us"),
    ("sum", "w.sum()", None, "us"),
    ("sum of rows", "w.sum(1)", None, "us"),
    ("item", "u[0].item()", None, "us"),
    ("product 4x8x8", "m @ w", None, "us"),
    ("relu", "torch.relu(w)", None, "us"),
    ("softmax", "torch.softmax(w, -1)", None, "us"),
    ("cat", "torch.cat([u, v])", None, "us"),
    ("where", "torch.where(u > 0, u, v)", None, "us"),
    ("operator of torch.library", "torch.ops.bench.negated(u)", None, "us"),
    ("nn.Linear", "net[0](m)", None, "us"),
    ("nn.Sequential of three", "net(m)", None, "us"),
    ("SGD step, 4 parameters", "sgd.step()", None, "us"),
    ("Adam step, 4 parameters", "adam.step()", None, "us"),
]
run(recorded, globals(), 0.4)
with torch.no_grad():
    run(plain, globals(), 0.4)
