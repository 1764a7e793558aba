"""Every optimizer on one problem: the parameters after some steps, the state's names; groups, closures, hooks."""
import torch
from torch import optim

torch.manual_seed(11)
A, b = torch.randn(5, 3), torch.randn(5)


def run(make, steps=6, closure=False):
    p = torch.tensor([1.0, -1.0, 0.5], requires_grad=True)
    o = make([p])
    f = lambda: (A @ p - b).pow(2).mean()

    def again():
        o.zero_grad()
        loss = f()
        loss.backward()
        return loss
    for _ in range(steps):
        if closure:
            o.step(again)
        else:
            again()
            o.step()
    return [round(v, 4) for v in p.tolist()], sorted(k for k in o.state[p] if k not in ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss", "func_evals", "n_iter", "al"))


for name, make in [
    ("SGD", lambda p: optim.SGD(p, lr=0.1)), ("momentum", lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01)),
    ("nesterov", lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)), ("maximize", lambda p: optim.SGD(p, lr=0.01, maximize=True)),
    ("Adam", lambda p: optim.Adam(p, lr=0.1)), ("amsgrad", lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1)),
    ("AdamW", lambda p: optim.AdamW(p, lr=0.1)), ("Adamax", lambda p: optim.Adamax(p, lr=0.1)), ("NAdam", lambda p: optim.NAdam(p, lr=0.1)),
    ("NAdam decoupled", lambda p: optim.NAdam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)), ("RAdam", lambda p: optim.RAdam(p, lr=0.1)),
    ("Adagrad", lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.01)), ("Adadelta", lambda p: optim.Adadelta(p, lr=1.0)), ("RMSprop", lambda p: optim.RMSprop(p, lr=0.05)),
    ("RMSprop centered", lambda p: optim.RMSprop(p, lr=0.05, centered=True, momentum=0.5)), ("Rprop", lambda p: optim.Rprop(p, lr=0.1)), ("ASGD", lambda p: optim.ASGD(p, lr=0.1)),
    ("Adafactor", lambda p: optim.Adafactor(p, lr=0.1)),
]:
    print(name, *run(make))
print("LBFGS", *run(lambda p: optim.LBFGS(p, lr=0.5, max_iter=5), closure=True, steps=3))
print("LBFGS wolfe", run(lambda p: optim.LBFGS(p, line_search_fn="strong_wolfe"), closure=True, steps=2)[0])
w = torch.ones(2, 3, requires_grad=True)
m = optim.Muon([w], lr=0.1) if hasattr(optim, "Muon") else None
w.grad = torch.arange(6.0).view(2, 3)
if m:
    m.step()
    print("Muon", w.detach().sum().item().__format__(".2f"))
e = torch.nn.Embedding(4, 2, sparse=False)
p, q = torch.zeros(2, requires_grad=True), torch.zeros(3, requires_grad=True)
o = optim.Adam([{"params": [p], "lr": 0.5}, {"params": [q], "weight_decay": 0.1}], lr=0.01, betas=(0.8, 0.9))
o.add_param_group({"params": e.parameters(), "name": "embedding"})
print(o)
calls = []
h1 = o.register_step_pre_hook(lambda opt, args, kwargs: calls.append("pre"))
h2 = o.register_step_post_hook(lambda opt, args, kwargs: calls.append("post"))
(p.sum() + q.sum()).backward()
o.step()
h1.remove()
o.step()
print(calls, p, q.detach(), len(o.state), list(o.state_dict()["state"]), o.state_dict()["param_groups"][2]["params"])
o.zero_grad()
print(p.grad, o.defaults["betas"])
