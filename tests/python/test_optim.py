"""Optimizers and schedules; numbers in here are PyTorch 2.13's."""
import copy

import pytest

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F
from rushlight.optim import _fused, lr_scheduler

AFTER_SEVEN_STEPS = {
    "SGD": (dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01), [2.591855, -2.585616, 2.567024]),
    "Adam": (dict(lr=0.1, amsgrad=True), [1.690125, -2.198393, 2.338891]),
    "AdamW": (dict(lr=0.1), [1.680748, -2.189446, 2.321147]),
    "Adagrad": (dict(lr=0.1), [1.384942, -2.081968, 2.647636]),
    "Adadelta": (dict(lr=1.0), [1.023132, -1.98216, 2.976914]),
    "Adamax": (dict(lr=0.1), [1.623813, -2.181893, 2.441265]),
    "NAdam": (dict(lr=0.1), [1.532084, -2.125221, 2.524344]),
    "RAdam": (dict(lr=0.1), [2.419822, -2.009364, 1.445275]),
    "RMSprop": (dict(lr=0.1, momentum=0.9, centered=True), [-0.338884, -0.538776, 0.966015]),
    "Rprop": (dict(lr=0.1), [2.291591, -2.1684, 2.007008]),
    "ASGD": (dict(lr=0.1), [2.295796, -2.295963, 2.296003]),
    "LBFGS": (dict(lr=0.1, max_iter=3), [2.291901, -2.416214, 2.576132]),
    "Adafactor": (dict(lr=0.1), [2.156657, -2.29353, 2.265011]),
}


def run(name, options, steps, optimizer=None, param=None):
    param = nn.Parameter(torch.tensor([1.0, -2.0, 3.0])) if param is None else param
    optimizer = getattr(optim, name)([param], **options) if optimizer is None else optimizer

    def closure():
        optimizer.zero_grad()
        loss = (param ** 4).sum() / 10 + param[0] * param[1] * param[2]
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return optimizer, param


def close(tensor, numbers, tolerance=2e-5):
    got = tensor.detach().tolist()
    assert all(abs(a - b) <= tolerance * max(1, abs(b)) for a, b in zip(got, numbers)), (got, numbers)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", AFTER_SEVEN_STEPS)
def test_steps(name, fused, monkeypatch):
    if name == "Adafactor" and not hasattr(torch.linalg, "vector_norm"):
        pytest.skip("no operation linalg_vector_norm")
    monkeypatch.setattr(_fused, "enabled", fused)
    options, numbers = AFTER_SEVEN_STEPS[name]
    _, param = run(name, options, 7)
    close(param, numbers)


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "RMSprop", "Rprop", "ASGD", "NAdam"])
def test_resume_from_state_dict(name):
    options, numbers = AFTER_SEVEN_STEPS[name]
    optimizer, param = run(name, options, 4)
    saved = copy.deepcopy(optimizer.state_dict())
    fresh = nn.Parameter(param.detach().clone())
    other = getattr(optim, name)([fresh], **options)
    other.load_state_dict(saved)
    run(name, options, 3, other, fresh)
    close(fresh, numbers)


def test_state_dict_format():
    optimizer, _ = run("Adam", {}, 1)
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert list(state["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][0]["step"].dtype == torch.float32 and state["state"][0]["step"].item() == 1.0
    assert list(state["param_groups"][0]) == [
        "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable", "differentiable",
        "fused", "decoupled_weight_decay", "params"]


def test_repr():
    assert repr(optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
        "    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)")


@pytest.mark.parametrize("make, kind, text", [
    (lambda p: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
    (lambda p: optim.SGD(p), TypeError, "should be an iterable of Tensors or dicts, but got torch.FloatTensor"),
    (lambda p: optim.SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda p: optim.Adam([p], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda p: optim.Adam([p], betas=(2, 0)), ValueError, "Invalid beta parameter at index 0: 2"),
    (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
    (lambda p: optim.SGD([{"params": p}, {"params": p}]), ValueError, "appear in more than one parameter group"),
    (lambda p: optim.Muon([p]), ValueError, "Muon only supports 2D parameters"),
])
def test_errors(make, kind, text):
    with pytest.raises(kind) as problem:
        make(nn.Parameter(torch.ones(2)))
    assert text in str(problem.value)


def test_groups_and_hooks():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.5)
    seen = []
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(1))
    (a + b).sum().backward()
    optimizer.step()
    handle.remove()
    assert a.item() == 0.5 and b.item() == 0.0 and seen == [1]
    optimizer.add_param_group({"params": nn.Parameter(torch.ones(1)), "lr": 2.0})
    assert len(optimizer.param_groups) == 3
    optimizer.zero_grad()
    assert a.grad is None


def test_differentiable_step():
    lr = torch.tensor(0.1, requires_grad=True)
    start = torch.ones(1, requires_grad=True)
    param = start.clone()
    param.retain_grad()
    optimizer = optim.SGD([param], lr=lr, differentiable=True)
    param.grad = torch.full((1,), 3.0)
    optimizer.step()
    param.sum().backward()
    assert abs(lr.grad.item() + 3.0) < 1e-6


RATES = {
    "StepLR": (lambda o: lr_scheduler.StepLR(o, 2), [1.0, 0.1, 0.1, 0.01, 0.01]),
    "MultiStepLR": (lambda o: lr_scheduler.MultiStepLR(o, [1, 3]), [0.1, 0.1, 0.01, 0.01, 0.01]),
    "ConstantLR": (lambda o: lr_scheduler.ConstantLR(o, 0.5, 2), [0.5, 1.0, 1.0, 1.0, 1.0]),
    "LinearLR": (lambda o: lr_scheduler.LinearLR(o, 0.5, total_iters=3), [0.666667, 0.833333, 1.0, 1.0, 1.0]),
    "ExponentialLR": (lambda o: lr_scheduler.ExponentialLR(o, 0.5), [0.5, 0.25, 0.125, 0.0625, 0.03125]),
    "PolynomialLR": (lambda o: lr_scheduler.PolynomialLR(o, 4, 2.0), [0.5625, 0.25, 0.0625, 0.0, 0.0]),
    "CosineAnnealingLR": (lambda o: lr_scheduler.CosineAnnealingLR(o, 3), [0.75, 0.25, 0.0, 0.25, 0.75]),
    "CosineAnnealingWarmRestarts": (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
                                    [0.5, 1.0, 0.5, 1.0, 0.5]),
    "CyclicLR": (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, 2), [0.55, 1.0, 0.55, 0.1, 0.55]),
    "OneCycleLR": (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 6), [0.994415, 0.811746, 0.462637, 0.133478, 4e-06]),
    "SequentialLR": (lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.5)], [2]),
        [0.1, 1.0, 0.5, 0.25, 0.125]),
    "LambdaLR": (lambda o: lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)), [0.5, 0.333333, 0.25, 0.2, 0.166667]),
}


@pytest.mark.parametrize("name", RATES)
def test_schedules(name):
    make, numbers = RATES[name]
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], 1.0, momentum=0.9)
    schedule = make(optimizer)
    got = []
    for _ in range(5):
        optimizer.step()
        schedule.step()
        got.append(optimizer.param_groups[0]["lr"])
    assert all(abs(a - b) < 1e-6 for a, b in zip(got, numbers)), got
    schedule.load_state_dict(copy.deepcopy(schedule.state_dict()))


def test_plateau():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], 1.0)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    for value in [1.0, 0.5, 0.6, 0.6, 0.6, 0.6]:
        schedule.step(value)
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_warns_when_the_schedule_goes_first():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], 1.0)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`"):
        schedule.step()


def test_same_seed_same_training():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = optim.Adam(net.parameters(), 0.05)
    x, y = torch.randn(16, 4), torch.randint(3, (16,))
    losses = []
    for _ in range(5):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(abs(a - b) < 1e-4 for a, b in zip(losses, [1.26126, 1.07774, 1.00429, 1.01538, 0.89097])), losses


def test_averages():
    from rushlight.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    net = nn.Linear(1, 1, bias=False)
    plain, ema = AveragedModel(net), AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    for value in (1.0, 3.0, 5.0):
        with torch.no_grad():
            net.weight.fill_(value)
        plain.update_parameters(net)
        ema.update_parameters(net)
    assert plain.module.weight.item() == 3.0 and ema.module.weight.item() == 3.5
    assert plain.n_averaged.item() == 3
