"""Parametrizations, pruning, weight and spectral norm, fusing, conversions of parameters."""
import torch
import torch.nn as nn
import torch.nn.utils.parametrize as parametrize
from torch.nn.utils import parametrizations, prune, parameters_to_vector, vector_to_parameters

torch.manual_seed(7)


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class MatrixExponential(nn.Module):
    def forward(self, X):
        return torch.matrix_exp(X)


layer = nn.Linear(3, 3)
parametrize.register_parametrization(layer, "weight", Symmetric())
print(torch.allclose(layer.weight, layer.weight.T), layer)
print(list(dict(layer.named_parameters())), parametrize.is_parametrized(layer, "weight"))
parametrize.register_parametrization(layer, "weight", MatrixExponential())
print(layer.parametrizations.weight, layer.weight.det().log() - 0 > -10)
with parametrize.cached():
    print(layer.weight is layer.weight)
parametrize.remove_parametrizations(layer, "weight")
print(layer, type(layer).__name__)
sym = nn.Linear(2, 2, bias=False)
parametrize.register_parametrization(sym, "weight", Symmetric())
sym.weight = torch.tensor([[1.0, 2.0], [2.0, 3.0]])
print(sym.weight, dict(sym.state_dict()))
wn = parametrizations.weight_norm(nn.Linear(3, 2), dim=0)
print([(n, tuple(p.shape)) for n, p in wn.named_parameters()])
wn(torch.ones(1, 3)).sum().backward()
print(wn.parametrizations.weight.original0.grad)
sn = parametrizations.spectral_norm(nn.Linear(4, 4))
for _ in range(30):
    sn(torch.ones(1, 4))
print("%.3f" % torch.linalg.matrix_norm(sn.weight, 2).item())
orth = parametrizations.orthogonal(nn.Linear(4, 4))
print(torch.dist(orth.weight.T @ orth.weight, torch.eye(4)).item() < 1e-5)
module = nn.Conv2d(1, 2, 3)
prune.random_unstructured(module, name="weight", amount=0.3)
print(list(n for n, _ in module.named_parameters()), [n for n, _ in module.named_buffers()], module.weight_mask.sum())
prune.l1_unstructured(module, name="bias", amount=1)
prune.ln_structured(module, name="weight", amount=0.5, n=2, dim=0)
print(module.weight_mask.sum(dim=(1, 2, 3)), prune.is_pruned(module), len(module._forward_pre_hooks))
prune.remove(module, "weight")
print([n for n, _ in module.named_parameters()], (module.weight == 0).sum())
net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
prune.global_unstructured([(net[0], "weight"), (net[1], "weight")], pruning_method=prune.L1Unstructured, amount=0.5)
print(sum(int((m.weight == 0).sum()) for m in net))
vec = parameters_to_vector(nn.Linear(2, 2).parameters())
other = nn.Linear(2, 2)
vector_to_parameters(torch.arange(6.0), other.parameters())
print(vec.shape, other.weight, other.bias)
conv, bn = nn.Conv2d(2, 3, 1).eval(), nn.BatchNorm2d(3).eval()
bn.running_mean.uniform_()
bn.running_var.uniform_(0.5, 1.5)
fused = nn.utils.fusion.fuse_conv_bn_eval(conv, bn)
image = torch.randn(1, 2, 2, 2)
print(torch.allclose(fused(image), bn(conv(image)), atol=1e-6), fused)
