"""One's own optimizer, scheduler, sampler, dataset, initialisation, module containers, lazy modules, deepcopy and pickle."""
import copy
import io
import math
import pickle
import warnings

import torch
from torch import nn
from torch.nn.parameter import Parameter, UninitializedParameter
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer, required
from torch.utils.data import DataLoader, Sampler

warnings.simplefilter("ignore")
torch.manual_seed(23)


class SignSGD(Optimizer):
    def __init__(self, params, lr=required, decay=0.0):
        super().__init__(params, dict(lr=lr, decay=decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"], state["mean"] = 0, torch.zeros_like(p, memory_format=torch.preserve_format)
                state["step"] += 1
                state["mean"].mul_(0.9).add_(p.grad, alpha=0.1)
                p.add_(state["mean"].sign(), alpha=-group["lr"])
        return loss


class Warmup(LRScheduler):
    def __init__(self, optimizer, steps, last_epoch=-1):
        self.steps = steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * min(1.0, (self.last_epoch + 1) / self.steps) for base in self.base_lrs]


class Reversed(Sampler):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        return iter(reversed(range(len(self.source))))

    def __len__(self):
        return len(self.source)


class MyLinear(nn.Module):
    __constants__ = ["n"]

    def __init__(self, n_in, n_out):
        super().__init__()
        self.n = n_out
        self.weight = Parameter(torch.empty(n_out, n_in))
        self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, x):
        return x @ self.weight.T

    def extra_repr(self):
        return f"out={self.n}"


class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": MyLinear(3, 2), "b": nn.LazyLinear(2)})
        self.scales = nn.ParameterList([torch.ones(1), torch.ones(2)])
        self.named = nn.ParameterDict({"k": torch.zeros(2)})

    def forward(self, x):
        return (self.layers["a"](x) + self.layers["b"](x)) * self.scales[1] + self.named["k"]


net = Many()
print(isinstance(net.layers["b"].weight, UninitializedParameter), net)
net(torch.ones(1, 3))
print(net.layers["b"], net.layers["b"].weight.shape, list(net.state_dict()))
opt = SignSGD(net.parameters(), lr=0.1)
plan = Warmup(opt, 4)
for step in range(5):
    def closure():
        opt.zero_grad()
        loss = (net(torch.ones(2, 3)) - 1).pow(2).sum()
        loss.backward()
        return loss
    loss = opt.step(closure)
    plan.step()
    print(step, f"{loss.item():.4f}", plan.get_last_lr())
print([b.tolist() for b in DataLoader(torch.arange(5), sampler=Reversed(range(5)), batch_size=2)])
twin = copy.deepcopy(net)
twin.scales[0].data.fill_(5)
print(net.scales[0], twin.scales[0], twin.layers["a"] is net.layers["a"])
again = pickle.loads(pickle.dumps(net))
print(torch.equal(again(torch.ones(1, 3)), net(torch.ones(1, 3))), again.training)
file = io.BytesIO()
torch.save(net, file)
file.seek(0)
print(type(torch.load(file, weights_only=False)).__name__, pickle.loads(pickle.dumps(torch.arange(3)[1:])), copy.copy(torch.ones(1)))
t = torch.empty(3, 5)
for init in (nn.init.xavier_uniform_, nn.init.xavier_normal_, nn.init.kaiming_normal_, nn.init.orthogonal_, nn.init.trunc_normal_, nn.init.ones_, nn.init.eye_):
    print(init.__name__, f"{init(t).sum().item():.4f}")
print(nn.init.calculate_gain("leaky_relu", 0.2), f"{nn.init.sparse_(t, 0.5).count_nonzero().item()}", nn.init.dirac_(torch.empty(2, 2, 3)).sum())
print(list(nn.Sequential(nn.ReLU(), nn.Linear(1, 1)).append(nn.Tanh()).named_children()), nn.ModuleList([nn.ReLU()]).extend([nn.Tanh()]))
