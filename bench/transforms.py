"""torch.func: per-sample gradients, ensembles, Jacobians, Hessians, and single operations under vmap. In us per run."""
import torch
import torch.nn.functional as F
from clock import measure, wanted
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap

torch.manual_seed(1)
R, whole = torch.randn, torch.randint


def by_sample(net, x, y):
    """Gradients of a loss by all parameters, for each sample."""
    weights = {k: p.detach() for k, p in net.named_parameters()}
    each = vmap(grad(lambda w, a, b: F.cross_entropy(functional_call(net, w, (a.unsqueeze(0),)), b.unsqueeze(0))), in_dims=(None, 0, 0))
    return lambda: each(weights, x, y)


def ensemble(make, count, x):
    """The same input through networks of one shape."""
    nets = [make() for _ in range(count)]
    weights, buffers = stack_module_state(nets)
    each = vmap(lambda w, b: functional_call(nets[0], (w, b), (x,)))
    return lambda: each(weights, buffers)


def mapped(f, *tensors, **dims):
    each = vmap(f, **dims)
    return lambda: each(*tensors)


cnn = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 11 * 11, 10))
mlp = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10))
field = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
frozen = {k: p.detach() for k, p in field.named_parameters()}
a, b, x, points = R(256, 256) / 16, R(256, 256) / 16, R(256), R(500, 2)
filters, rows, matrices, few = R(2, 3, 3), R(1000, 20), R(1000, 4, 4) + 4 * torch.eye(4), whole(20, (1000, 5))


def net(t):
    return torch.tanh(torch.tanh(t @ a) @ b)


def at(p):
    return functional_call(field, frozen, (p,)).squeeze()


CASES = {
    "per-sample gradients, cnn x64": by_sample(cnn, R(64, 1, 28, 28), whole(10, (64,))),
    "per-sample gradients, mlp x256": by_sample(mlp, R(256, 64), whole(10, (256,))),
    "ensemble of 50 mlps": ensemble(lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)), 50, R(128, 32)),
    "ensemble of 10 cnns": ensemble(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)), 10, R(16, 3, 16, 16)),
    "jacrev 256x256": lambda: jacrev(net)(x),
    "jacfwd 256x256": lambda: jacfwd(net)(x),
    "hessian 256": lambda: hessian(lambda t: net(t).sum())(x),
    "hessian-vector product": lambda: jvp(grad(lambda t: net(t).sum()), (x,), (x,)),
    "vmap of jacrev x4": mapped(jacrev(net), R(4, 256)),
    "functional.jacobian, vectorized": lambda: torch.autograd.functional.jacobian(net, x, vectorize=True),
    "laplacian x500": mapped(lambda p: hessian(at)(p).diagonal().sum(), points),
    "gradient x500": mapped(grad(at), points),
    "layer_norm": mapped(lambda t: F.layer_norm(t, (16,)), R(1000, 8, 16)),
    "cross_entropy": mapped(F.cross_entropy, R(1000, 8, 16), whole(16, (1000, 8))),
    "attention": mapped(F.scaled_dot_product_attention, R(200, 4, 16, 8), R(200, 4, 16, 8), R(200, 4, 16, 8)),
    "solve": mapped(torch.linalg.solve, matrices, R(1000, 4)),
    "inv": mapped(torch.linalg.inv, matrices),
    "logdet": mapped(torch.logdet, matrices),
    "cholesky": mapped(torch.linalg.cholesky, matrices @ matrices.mT),
    "norm": mapped(torch.linalg.norm, rows),
    "standardize": mapped(lambda t: (t - t.mean()) / t.std(), rows),
    "where, max": mapped(lambda t: torch.where(t > 0, t, t.max()), rows),
    "sort, topk, argmax": mapped(lambda t: t.sort()[0] + t.topk(20)[0] + t.argmax(), rows),
    "indexing": mapped(lambda t, i: t[i], rows, few),
    "gather": mapped(lambda t, i: t.gather(0, i), rows, few),
    "index_select": mapped(lambda t, i: t.index_select(0, i), rows, few),
    "scatter_add": mapped(lambda i, v: torch.zeros(20).scatter_add(0, i, v), few, R(1000, 5)),
    "embedding": mapped(lambda i: F.embedding(i, a), few),
    "one_hot": mapped(lambda i: F.one_hot(i, 20), few),
    "rfft": mapped(torch.fft.rfft, rows),
    "conv1d": mapped(lambda t: F.conv1d(t, filters), R(1000, 3, 20)),
    "max_pool2d": mapped(lambda t: F.max_pool2d(t, 2), R(200, 3, 8, 8)),
    "interpolate": mapped(lambda t: F.interpolate(t[None], scale_factor=2.)[0], R(200, 3, 8, 8)),
    "einsum": mapped(lambda s, t: torch.einsum("ij,kj->ik", s, t), R(1000, 4, 5), R(1000, 4, 5)),
    "cdist": mapped(torch.cdist, R(300, 10, 3), R(300, 12, 3)),
    "pad": mapped(lambda t: F.pad(t, (1, 2)), rows),
    "diag, outer": mapped(lambda t: torch.diag(t) + torch.outer(t, t), R(1000, 8)),
    "cross": mapped(torch.linalg.cross, R(1000, 3), R(1000, 3)),
    "searchsorted": mapped(torch.searchsorted, rows.sort(1)[0], R(1000, 5)),
    "mse_loss": mapped(F.mse_loss, rows, R(1000, 20)),
}
for name, fn in CASES.items():
    if wanted(name):
        measure(name, fn)
