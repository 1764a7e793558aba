"""torch.func: model ensembling with vmap, per-sample gradients, jacobians, hessians, forward mode."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

torch.manual_seed(0)


class SimpleMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


data, targets = torch.randn(5, 4, 3, 4), torch.randint(3, (5, 4))
models = [SimpleMLP() for _ in range(5)]
params, buffers = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")


def fmodel(params, buffers, x):
    return functional_call(base, (params, buffers), (x,))


apart = torch.stack([m(d) for m, d in zip(models, data)])
together = vmap(fmodel)(params, buffers, data)
print(torch.allclose(apart, together, atol=1e-5), {k: tuple(v.shape) for k, v in params.items()})
same = vmap(fmodel, in_dims=(0, 0, None))(params, buffers, data[0])
print(same.shape, "%.4f" % same.sum().item())

model = models[0]
fparams = {k: v.detach() for k, v in model.named_parameters()}


def loss_of(params, sample, target):
    return F.cross_entropy(functional_call(model, params, (sample.unsqueeze(0),)), target.unsqueeze(0))


per_sample = vmap(grad(loss_of), in_dims=(None, 0, 0))(fparams, data[0], targets[0])
by_hand = []
for x, y in zip(data[0], targets[0]):
    model.zero_grad()
    loss_of(dict(model.named_parameters()), x, y).backward()
    by_hand.append(model.fc1.weight.grad.clone())
print(torch.allclose(per_sample["fc1.weight"], torch.stack(by_hand), atol=1e-6), per_sample["fc2.bias"])
print(grad_and_value(lambda x: x.sin().sum())(torch.tensor([0.0, 1.0])))
W, b, x = torch.randn(3, 4), torch.randn(3), torch.randn(4)
predict = lambda w, b, x: F.linear(x, w, b).tanh()
J = jacrev(predict, argnums=2)(W, b, x)
print(J, torch.allclose(J, jacfwd(predict, argnums=2)(W, b, x), atol=1e-6))
print(hessian(lambda x: (x ** 3).sum())(torch.tensor([1.0, 2.0])))
out, back = vjp(torch.sin, torch.tensor([0.0, 1.0]))
print(out, back(torch.ones(2)))
print(jvp(torch.sin, (torch.tensor([0.0, 1.0]),), (torch.ones(2),)))
print(vmap(torch.dot)(torch.arange(6.0).view(2, 3), torch.ones(2, 3)), vmap(lambda x: x.sum(), in_dims=1)(torch.ones(2, 3)))
print(vmap(vmap(lambda a, b: a * b))(torch.ones(2, 3), torch.arange(6.0).view(2, 3)), vmap(lambda a: (a, a + 1), out_dims=(0, 1))(torch.eye(2)))
print(grad(grad(lambda x: x ** 4))(torch.tensor(2.0)))
