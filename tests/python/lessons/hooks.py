"""Hooks of modules, of all kinds, and surgery on state dicts."""
import collections

import torch
from torch import nn

torch.manual_seed(8)
net = nn.Sequential(collections.OrderedDict([("one", nn.Linear(3, 4)), ("act", nn.ReLU()), ("two", nn.Linear(4, 2))]))
log = []
handles = [
    net.one.register_forward_pre_hook(lambda m, args: log.append("pre one") or (args[0] * 2,)),
    net.one.register_forward_hook(lambda m, args, out: log.append("after one")),
    net.two.register_forward_hook(lambda m, args, kwargs, out: log.append(f"after two {kwargs}") or out + 1, with_kwargs=True),
    net.two.register_full_backward_hook(lambda m, gin, gout: log.append(("back two", [tuple(g.shape) for g in gin + gout]))),
    net.act.register_full_backward_pre_hook(lambda m, gout: log.append("before back act") or (gout[0] * 0.5,)),
    net.register_forward_pre_hook(lambda m, a, k: log.append("first of all"), with_kwargs=True, prepend=True),
    nn.modules.module.register_module_forward_hook(lambda m, a, o: log.append("any " + type(m).__name__)),
]
x = torch.ones(2, 3, requires_grad=True)
net(x).sum().backward()
for line in log:
    print(line)
print(x.grad)
for h in handles:
    h.remove()
log.clear()
net(x)
print(log)
always = []
h = net.one.register_forward_hook(lambda m, a, o: always.append("called"), always_call=True)
try:
    net.one(torch.ones(1, 7))
except RuntimeError:
    print("failed", always)
h.remove()
features = {}
net.act.register_forward_hook(lambda m, i, o: features.update(act=o.detach()))
net(torch.ones(1, 3))
print({k: v.shape for k, v in features.items()})

sd = net.state_dict()
print(list(sd), dict(sd._metadata))
renamed = {k.replace("one", "first"): v for k, v in sd.items()}
result = net.load_state_dict(renamed, strict=False)
print(result, result.missing_keys)
try:
    net.load_state_dict({"one.weight": torch.ones(1)})
except RuntimeError as error:
    print(error)
print(net.load_state_dict({k: torch.zeros_like(v) for k, v in sd.items()}), net.two.bias)
net.load_state_dict({k: torch.ones_like(v) for k, v in sd.items()}, assign=True)
print(net.two.bias, [k for k, _ in net.named_parameters()])


class Versioned(nn.Module):
    _version = 2

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.register_buffer("kept", torch.ones(1))
        self.register_buffer("scratch", torch.ones(1), persistent=False)
        self._register_state_dict_hook(lambda m, d, prefix, meta: d.update({prefix + "extra_key": torch.tensor(5)}))
        self.register_load_state_dict_post_hook(lambda m, keys: print("after load", keys))
        self.register_state_dict_pre_hook(lambda m, prefix, keep: print("before save", repr(prefix)))

    def _load_from_state_dict(self, state_dict, prefix, metadata, *rest):
        print("version", metadata.get("version"))
        state_dict.pop(prefix + "extra_key", None)
        super()._load_from_state_dict(state_dict, prefix, metadata, *rest)

    def get_extra_state(self):
        return {"note": 1}

    def set_extra_state(self, state):
        print("extra", state)


m = nn.ModuleList([Versioned()])
d = m.state_dict()
print(list(d))
print(m.load_state_dict(d))
m.requires_grad_(False).double().train(False)
print(m[0].weight.dtype, m[0].weight.requires_grad, m.training, m[0].training, [n for n, _ in m.named_buffers()])
copy = m.get_submodule("0")
print(copy is m[0], m.get_parameter("0.weight").shape, [type(x).__name__ for x in m.modules()], list(dict(m.named_children())))
