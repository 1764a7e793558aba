"""Schedules of learning rates.

A schedule computes the next rates from the present ones (`get_lr`), so that several can act on one
optimizer; many have a closed form as well, for jumps to an epoch.  What `__dict__` holds besides the
optimizer is the state dict, so names here are part of the file format.

last_epoch: the epoch to go on from, or -1 for a beginning.
"""
import functools
import math
import types
import warnings
import weakref
from bisect import bisect_right
from collections import Counter

import rushlight as torch
from rushlight.optim.optimizer import Optimizer, _to_scalar

__all__ = ["LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR",
           "SequentialLR", "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR",
           "CosineAnnealingWarmRestarts", "OneCycleLR", "PolynomialLR", "LRScheduler"]

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose.")

_ORDER_ADVICE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _copied(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


def _param_groups_val_list(optimizer, key):
    return [_copied(group[key]) for group in optimizer.param_groups]


def _update_param_group_val(param_group, key, val):
    """Set an option of a group; one that is a tensor keeps its identity."""
    if isinstance(param_group[key], torch.Tensor):
        param_group[key].fill_(_to_scalar(val))
    else:
        param_group[key] = val


def _format_param(name, optimizer, param):
    """One value per group, from one value or a list."""
    groups = len(optimizer.param_groups)
    if isinstance(param, (list, tuple)):
        if len(param) != groups:
            raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(param)} "
                             f"values, param_groups has {groups}.")
        return list(param)
    return [_copied(param) for _ in range(groups)]


class _flag:
    """Inside the block an attribute is True."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name

    def __enter__(self):
        setattr(self.owner, self.name, True)
        return self

    def __exit__(self, type, value, traceback):
        setattr(self.owner, self.name, False)


class _initial_mode(_flag):
    def __init__(self, o):
        super().__init__(o, "_is_initial")


class _enable_get_lr_call(_flag):
    def __init__(self, o):
        super().__init__(o, "_get_lr_called_within_step")


def _warn_get_lr_called_within_step(lr_scheduler):
    if not lr_scheduler._get_lr_called_within_step:
        warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                      stacklevel=3)


def _notice_steps(optimizer):
    """Let the optimizer remember that it has stepped, to warn of schedules that go first."""
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    function = step.__func__
    owner = weakref.ref(optimizer)  # a method would keep the optimizer alive until a collection

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        optimizer = owner()
        optimizer._opt_called = True
        return function(optimizer, *args, **kwargs)

    wrapper._wrapped_by_lr_sched = True
    optimizer.step = wrapper


class LRScheduler:
    """Base class of schedules: write `get_lr`.

    optimizer: whose rates it changes. step() is called after optimizer.step(); get_last_lr() has the rate of each group; state_dict() is saved
    with the optimizer's.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> class Halve(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate * 0.5 ** self.last_epoch for rate in self.base_lrs]
    >>> schedule = Halve(optimizer)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", _copied(group["lr"]))
        else:
            for place, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{place}] when resuming scheduler with "
                        "last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume training from a "
                        "checkpoint but haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 "
                        "for a fresh training run (not recommended)")
        self.base_lrs = _param_groups_val_list(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _notice_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        with _initial_mode(self):
            self.step()

    def state_dict(self):
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        """Take over a state dict."""
        self.__dict__.update(state_dict)

    def get_last_lr(self):
        """The rates that were set last."""
        return _param_copies(self._last_lr)

    def get_lr(self):
        """The rates that come next; for `step` to call."""
        raise NotImplementedError

    def step(self, epoch=None):
        """Set the next rates."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn("Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                              "initialization. Please, make sure to call `optimizer.step()` before "
                              "`lr_scheduler.step()`. " + _ORDER_ADVICE, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and "
                              "later, you should call them in the opposite order: `optimizer.step()` before "
                              "`lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the first "
                              "value of the learning rate schedule. " + _ORDER_ADVICE, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        with _enable_get_lr_call(self):
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, values):
            _update_param_group_val(group, "lr", lr)
        self._last_lr = _param_groups_val_list(self.optimizer, "lr")


def _present(scheduler):
    return _param_groups_val_list(scheduler.optimizer, "lr")


def _scaled(scheduler, factor):
    return [group["lr"] * factor for group in scheduler.optimizer.param_groups]


def _param_copies(values):
    return [_copied(value) for value in values]


class _LRScheduler(LRScheduler):
    """The old name of LRScheduler."""


def _is_plain_function(fn):
    return isinstance(fn, types.FunctionType)


class _Lambdas(LRScheduler):
    """Schedules by functions of the epoch, one for all groups or one each."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        """Everything but the optimizer; of functions only objects are saved, by their attributes."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [None if _is_plain_function(fn) else fn.__dict__.copy() for fn in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict):
        """Take over a state dict."""
        lambdas = state_dict.pop("lr_lambdas")
        self.__dict__.update(state_dict)
        state_dict["lr_lambdas"] = lambdas
        for fn, saved in zip(self.lr_lambdas, lambdas):
            if saved is not None:
                fn.__dict__.update(saved)


class LambdaLR(_Lambdas):
    """initial rate * lr_lambda(epoch).

    optimizer: whose rates it changes; lr_lambda: a function of the epoch, or one for each group.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9 ** epoch)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    0.9
    0.81
    0.729
    """

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_Lambdas):
    """present rate * lr_lambda(epoch).

    optimizer: whose rates it changes; lr_lambda: a function of the epoch, or one for each group.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    0.5
    0.25
    0.125
    """

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        if self._is_initial:
            return _present(self)
        return [group["lr"] * fn(self.last_epoch) for fn, group in zip(self.lr_lambdas, self.optimizer.param_groups)]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs.

    optimizer: whose rates it changes; step_size: how many epochs; gamma: the factor.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    1.0
    0.1
    0.1
    """

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return _present(self)
        return _scaled(self, self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone.

    optimizer: whose rates it changes; milestones: epochs, ascending; gamma: the factor.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.1)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    0.1
    0.1
    0.01
    """

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch not in self.milestones:
            return _present(self)
        return _scaled(self, self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma ** passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times factor for the first total_iters epochs.

    optimizer: whose rates it changes; factor: the factor; total_iters: for how many epochs.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    0.5
    0.5
    1.0
    1.0
    """

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0:
            return _scaled(self, self.factor)
        if self.last_epoch != self.total_iters:
            return _present(self)
        return _scaled(self, 1.0 / self.factor)

    def _get_closed_form_lr(self):
        return [base * (self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor))
                for base in self.base_lrs]


class LinearLR(LRScheduler):
    """A factor that goes in a line from start_factor to end_factor in total_iters epochs.

    optimizer: whose rates it changes; start_factor, end_factor: at both ends; total_iters: in how many epochs.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=3)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    0.25
    0.5
    0.75
    1.0
    """

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0:
            return _scaled(self, self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return _present(self)
        rise = self.end_factor - self.start_factor
        return _scaled(self, 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self):
        rise = self.end_factor - self.start_factor
        return [base * (self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters)
                for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch.

    optimizer: whose rates it changes; gamma: the factor.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    0.5
    0.25
    0.125
    """

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        return _present(self) if self._is_initial else _scaled(self, self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """(1 - epoch / total_iters) ** power.

    optimizer: whose rates it changes; total_iters: when it reaches 0; power: of the polynomial.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    0.75
    0.5
    0.25
    """

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        if self._is_initial or self.last_epoch > self.total_iters:
            return _present(self)
        now, before = self.last_epoch / self.total_iters, (self.last_epoch - 1) / self.total_iters
        return _scaled(self, ((1.0 - now) / (1.0 - before)) ** self.power)

    def _get_closed_form_lr(self):
        return [base * (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
                for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Along a cosine from the initial rate to eta_min in T_max epochs, and back.

    optimizer: whose rates it changes; T_max: epochs of the way down; eta_min: the lowest rate.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    0.75
    0.25
    0.0
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        groups, t, low = self.optimizer.param_groups, self.last_epoch, self.eta_min
        if self._is_initial:
            return _present(self)
        if self._step_count == 1 and t > 0:
            return [low + (base - low) * (1 + math.cos(t * math.pi / self.T_max)) / 2
                    for base, _ in zip(self.base_lrs, groups)]
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:
            # At the bottom the quotient below would be 0 / 0.
            return [group["lr"] + (base - low) * (1 - math.cos(math.pi / self.T_max)) / 2
                    for base, group in zip(self.base_lrs, groups)]
        ratio = (1 + math.cos(math.pi * t / self.T_max)) / (1 + math.cos(math.pi * (t - 1) / self.T_max))
        return [ratio * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self):
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
                for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Along a cosine down, and again from the top after T_0, T_0 * T_mult, ... epochs.

    optimizer: whose rates it changes; T_0: epochs of the first way; T_mult: by how much each way is longer than the last; eta_min: the lowest
    rate.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    0.5
    1.0
    0.5
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates that come next."""
        _warn_get_lr_called_within_step(self)
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
                for base in self.base_lrs]

    def step(self, epoch=None):
        """Set the next rates; `epoch` may be fractional."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            if epoch < self.T_0:
                self.T_i, self.T_cur = self.T_0, epoch
            elif self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                self.T_cur = epoch - self.T_0 * (self.T_mult ** n - 1) / (self.T_mult - 1)
                self.T_i = self.T_0 * self.T_mult ** n
        self.last_epoch = math.floor(epoch)
        with _enable_get_lr_call(self):
            for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
                _update_param_group_val(group, "lr", lr)
        self._last_lr = _param_groups_val_list(self.optimizer, "lr")


def _set_momentum(group, use_beta1, value):
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _check_momentum(optimizer):
    """Whether the momentum is the first beta; complains when there is none."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


class CyclicLR(LRScheduler):
    """Up and down between two rates, the amplitude possibly shrinking.

    optimizer: whose rates it changes; base_lr, max_lr: the two rates, numbers or one per group; step_size_up, step_size_down: how many steps
    each way takes; mode: "triangular", "triangular2" (half the amplitude each cycle) or "exp_range" (gamma ** step); scale_fn: an amplitude of
    your own, a function of the cycle or step, as scale_mode says; cycle_momentum, base_momentum, max_momentum: momentum moves the other way.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5, step_size_up=2, cycle_momentum=False)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    0.1
    0.3
    0.5
    0.3
    """

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular",
                 gamma=1.0, scale_fn=None, scale_mode="cycle", cycle_momentum=True, base_momentum=0.8,
                 max_momentum=0.9, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        base_lrs = _format_param("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                _update_param_group_val(group, "lr", lr)
        self.max_lrs = _format_param("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _check_momentum(optimizer)
            self.base_momentums = _format_param("base_momentum", optimizer, base_momentum)
            self.max_momentums = _format_param("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for high, low, group in zip(self.max_momentums, self.base_momentums, optimizer.param_groups):
                    _set_momentum(group, self.use_beta1, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self):
        if self._scale_fn_custom is None:
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    @staticmethod
    def _triangular_scale_fn(x):
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x):
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma, x):
        return gamma ** x

    def scale_fn(self, x):
        """The amplitude in cycle or at iteration x."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return self._exp_range_scale_fn(self.gamma, x)
        return self._triangular_scale_fn(x) if self.mode == "triangular" else self._triangular2_scale_fn(x)

    def get_lr(self):
        """The rates that come next; sets momenta too."""
        _warn_get_lr_called_within_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        at = cycle if self.scale_mode == "cycle" else self.last_epoch
        lrs = [low + (high - low) * height * self.scale_fn(at) for low, high in zip(self.base_lrs, self.max_lrs)]
        if self.cycle_momentum:
            for low, high, group in zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups):
                _set_momentum(group, self.use_beta1, high - (high - low) * height * self.scale_fn(at))
        return lrs

    def state_dict(self):
        """Everything but the optimizer; a scale function only by its attributes."""
        state = super().state_dict()
        fn = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if fn is None or _is_plain_function(fn) else fn.__dict__.copy()
        return state

    def load_state_dict(self, state_dict):
        """Take over a state dict."""
        state_dict = dict(state_dict)
        saved = state_dict.pop("_scale_fn_custom", None)
        super().load_state_dict(state_dict)
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self._init_scale_fn()


class OneCycleLR(LRScheduler):
    """Up to max_lr, then down far below the start: one cycle for the whole training.

    optimizer: whose rates it changes; max_lr: the highest rate; total_steps, or epochs and steps_per_epoch: how many steps there are;
    pct_start: the share of the way up; anneal_strategy: "cos" or "linear"; cycle_momentum, base_momentum, max_momentum: momentum moves the
    other way; div_factor: max_lr over the first rate; final_div_factor: the first rate over the last; three_phase: down to the first rate
    before the rest.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1., total_steps=4, cycle_momentum=False)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    0.04
    0.8117
    0.2831
    0.0
    """

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if total_steps is not None:
            if total_steps <= 0 or not isinstance(total_steps, int):
                raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if not isinstance(value, int) or value <= 0:
                    raise ValueError(f"Expected positive integer {name}, but got {value}")
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        top = float(pct_start * self.total_steps) - 1

        def phase(end, *legs):
            return dict(zip(("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum"), (end, *legs)))

        rise = ("initial_lr", "max_lr", "max_momentum", "base_momentum")
        last = self.total_steps - 1
        if three_phase:
            self._schedule_phases = [
                phase(top, *rise),
                phase(float(2 * pct_start * self.total_steps) - 2, "max_lr", "initial_lr", "base_momentum",
                      "max_momentum"),
                phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            self._schedule_phases = [phase(top, *rise),
                                     phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for place, group in enumerate(optimizer.param_groups):
                high = _format_param("max_lr", optimizer, max_lr)[place]
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _check_momentum(optimizer)
            highs = _format_param("max_momentum", optimizer, max_momentum)
            lows = _format_param("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                for high, low, group in zip(highs, lows, optimizer.param_groups):
                    _set_momentum(group, self.use_beta1, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, *args, **kwargs):
        if not hasattr(self, "_anneal_func_type"):  # a state dict of PyTorch 1.12 or before holds the function
            return self.anneal_func(*args, **kwargs)
        if self._anneal_func_type == "cos":
            return self._annealing_cos(*args, **kwargs)
        return self._annealing_linear(*args, **kwargs)

    @staticmethod
    def _annealing_cos(start, end, pct):
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start, end, pct):
        return (end - start) * pct + start

    def get_lr(self):
        """The rates that come next; sets momenta too."""
        _warn_get_lr_called_within_step(self)
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for place, phase in enumerate(self._schedule_phases):
            end = phase["end_step"]
            if step <= end or place == len(self._schedule_phases) - 1:
                break
            start = end
        share = (step - start) / (end - start)
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._anneal_func(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                _set_momentum(group, self.use_beta1, momentum)
        return lrs


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a measured value has not improved for a while.

    optimizer: whose rates it changes; mode: "min" or "max", what is better; factor: the factor; patience: how many epochs without an
    improvement are taken; threshold: what counts as one, a share ("rel") or an amount ("abs") by threshold_mode; cooldown: epochs to wait after
    a change; min_lr: the lowest rate; eps: smaller changes are not made.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     schedule.step(1.0)
    1.0
    1.0
    1.0
    0.1
    """

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel",
                 cooldown=0, min_lr=0, eps=1e-8):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != groups:
                raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = _param_groups_val_list(optimizer, "lr")
        self._init_is_better(mode=mode, threshold=threshold, threshold_mode=threshold_mode)
        self._reset()

    def _reset(self):
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics, epoch=None):
        """Look at the value measured in this epoch."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self.last_epoch = epoch
        better, resting = self._is_better(current, self.best), self.in_cooldown
        self.best = current if better else self.best
        self.cooldown_counter -= resting
        self.num_bad_epochs = 0 if better or resting else self.num_bad_epochs + 1
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.num_bad_epochs, self.cooldown_counter = 0, self.cooldown
        self._last_lr = _param_groups_val_list(self.optimizer, "lr")

    def _reduce_lr(self, epoch):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError("The number of param groups in the `optimizer` "
                                   f"({len(groups)}) differs from when `ReduceLROnPlateau` was initialized "
                                   f"({len(self.min_lrs)}), usually due to a new param group being added to the "
                                   "optimizer. Please modify the `min_lrs` field to match the length of the "
                                   "`optimizer` param groups.")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, low in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, low)
            if old - new > self.eps:
                _update_param_group_val(group, "lr", new)

    @property
    def in_cooldown(self):
        """Whether values are not counted now."""
        return self.cooldown_counter > 0

    def _is_better(self, a, best):
        if self.mode == "min":
            return a < (best * (1.0 - self.threshold) if self.threshold_mode == "rel" else best - self.threshold)
        return a > (best * (self.threshold + 1.0) if self.threshold_mode == "rel" else best + self.threshold)

    def _init_is_better(self, mode, threshold, threshold_mode):
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def load_state_dict(self, state_dict):
        """Take over a state dict."""
        self.__dict__.update(state_dict)
        self._init_is_better(mode=self.mode, threshold=self.threshold, threshold_mode=self.threshold_mode)


class _Several(LRScheduler):
    """Schedules made of schedules."""

    def state_dict(self):
        """Everything but the optimizer; the schedules as their own state dicts."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict):
        """Take over a state dict."""
        inner = state_dict.pop("_schedulers")
        self.__dict__.update(state_dict)
        state_dict["_schedulers"] = inner
        for scheduler, saved in zip(self._schedulers, inner):
            scheduler.load_state_dict(saved)


def _check_several(scheduler_of, schedulers, optimizer, empty, plateau_allowed):
    name = type(scheduler_of).__name__
    if len(schedulers) < 1:
        raise ValueError(f"{name} expects at least one scheduler{empty}, but got no scheduler.")
    for place, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {place} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau) and not plateau_allowed:
            raise ValueError(f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                             "kwargs to be specified when calling `step`, but got one at index "
                             f"{place} in the given schedulers sequence.")
        if optimizer is not scheduler.optimizer:
            raise ValueError(f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                             f"{type(scheduler).__name__} at index {place} has {scheduler.optimizer}, which is "
                             f"different from {type(optimizer).__name__}.")


class SequentialLR(_Several):
    """Schedules one after the other, changing at milestones.

    optimizer: whose rates it changes; schedulers: in their order; milestones: the epochs at which the next one begins.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5, 9), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)], milestones=[2])
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    0.5
    0.5
    1.0
    0.5
    """

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        _check_several(self, schedulers, optimizer, "", False)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than the "
                             f"number of milestone points, but got number of schedulers {len(schedulers)} and the "
                             f"number of milestones to be equal to {len(milestones)}")
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # All schedules have made their first step; only the first one's should stand.
        for group in optimizer.param_groups:
            _update_param_group_val(group, "lr", group["initial_lr"])
        self.recursive_undo()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched=None):
        """Take back one step of all schedules."""
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for inner in sched._schedulers:
                self.recursive_undo(inner)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self):
        """Step the schedule that is on."""
        self.last_epoch += 1
        place = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[place]
        if place > 0 and self._milestones[place - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """Schedules acting together.

    optimizer: whose rates it changes; schedulers: which all step at once; optimizer may be left out.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.lr_scheduler.ChainedScheduler([torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5, 2), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)])
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    0.5
    0.25
    0.25
    0.125
    """

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) >= 1 and optimizer is None:
            optimizer = schedulers[0].optimizer
        _check_several(self, schedulers, optimizer, " to be chained", False)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = _param_groups_val_list(schedulers[-1].optimizer, "lr")

    def step(self):
        """Step all schedules."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _param_groups_val_list(self._schedulers[-1].optimizer, "lr")
