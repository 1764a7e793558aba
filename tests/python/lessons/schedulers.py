"""Every learning-rate scheduler: the rates of some epochs, and its state."""
import warnings

import torch
from torch.optim import SGD, lr_scheduler as S

warnings.simplefilter("ignore")


def rates(make, epochs=8, metric=None, groups=1):
    p = [torch.zeros(1, requires_grad=True) for _ in range(groups)]
    optimizer = SGD([{"params": [q], "lr": 0.1 * (i + 1)} for i, q in enumerate(p)], lr=0.1, momentum=0.9)
    scheduler, seen = make(optimizer), []
    for epoch in range(epochs):
        optimizer.step()
        seen.append([round(g["lr"], 6) for g in optimizer.param_groups])
        scheduler.step(metric[epoch]) if metric else scheduler.step()
    state = {k: v for k, v in scheduler.state_dict().items() if isinstance(v, (int, float, list)) and not k.startswith("_")}
    return seen if groups > 1 else [s[0] for s in seen], {k: state[k] for k in sorted(state) if k not in ("lr_lambdas",)}


for name, make, more in [
    ("StepLR", lambda o: S.StepLR(o, 3, gamma=0.5), {}),
    ("MultiStepLR", lambda o: S.MultiStepLR(o, [2, 5, 5], gamma=0.1), {}),
    ("ConstantLR", lambda o: S.ConstantLR(o, factor=0.5, total_iters=4), {}),
    ("LinearLR", lambda o: S.LinearLR(o, start_factor=0.25, total_iters=5), {}),
    ("ExponentialLR", lambda o: S.ExponentialLR(o, 0.9), {}),
    ("PolynomialLR", lambda o: S.PolynomialLR(o, total_iters=6, power=2.0), {}),
    ("CosineAnnealingLR", lambda o: S.CosineAnnealingLR(o, T_max=5, eta_min=0.01), {}),
    ("CosineAnnealingWarmRestarts", lambda o: S.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2), {}),
    ("LambdaLR", lambda o: S.LambdaLR(o, [lambda e: 0.95 ** e, lambda e: 1 / (1 + e)]), {"groups": 2}),
    ("MultiplicativeLR", lambda o: S.MultiplicativeLR(o, lambda e: 0.8), {}),
    ("CyclicLR", lambda o: S.CyclicLR(o, base_lr=0.01, max_lr=0.1, step_size_up=3, mode="triangular2"), {}),
    ("CyclicLR exp", lambda o: S.CyclicLR(o, base_lr=0.01, max_lr=0.1, step_size_up=2, step_size_down=3, mode="exp_range", gamma=0.99), {}),
    ("OneCycleLR", lambda o: S.OneCycleLR(o, max_lr=0.5, total_steps=10), {}),
    ("OneCycleLR 3", lambda o: S.OneCycleLR(o, max_lr=0.5, epochs=5, steps_per_epoch=2, three_phase=True, anneal_strategy="linear"), {}),
    ("ReduceLROnPlateau", lambda o: S.ReduceLROnPlateau(o, factor=0.5, patience=1, threshold=1e-3), {"metric": [1, 0.9, 0.95, 0.94, 0.93, 0.5, 0.6, 0.7]}),
    ("ReduceLROnPlateau max", lambda o: S.ReduceLROnPlateau(o, mode="max", patience=0, cooldown=1, min_lr=0.02), {"metric": [1, 2, 1, 1, 1, 3, 1, 1]}),
    ("SequentialLR", lambda o: S.SequentialLR(o, [S.ConstantLR(o, factor=0.1, total_iters=2), S.ExponentialLR(o, gamma=0.9)], milestones=[3]), {}),
    ("ChainedScheduler", lambda o: S.ChainedScheduler([S.ConstantLR(o, factor=0.1, total_iters=2), S.ExponentialLR(o, gamma=0.9)], optimizer=o), {}),
]:
    seen, state = rates(make, **more)
    print(name, seen, state)
p = torch.zeros(1, requires_grad=True)
o = SGD([p], lr=0.2)
s = S.StepLR(o, 2)
print(s.get_last_lr(), o.param_groups[0]["initial_lr"], s.state_dict()["last_epoch"])
for _ in range(3):
    o.step()
    s.step()
fresh = S.StepLR(SGD([p], lr=0.2), 5)
fresh.load_state_dict(s.state_dict())
print(fresh.step_size, fresh.last_epoch, fresh.get_last_lr())
