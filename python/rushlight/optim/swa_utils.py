"""Averages of a model over its training."""
import itertools
import math
from copy import deepcopy

import rushlight as torch
from rushlight.nn import Module
from rushlight.optim.lr_scheduler import LRScheduler, _format_param
from rushlight.utils._foreach_utils import _group_tensors_by_device_and_dtype  # noqa: F401

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn",
           "get_swa_avg_fn"]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay=0.999):
    """Exponential mean of lists of parameters, in place.

    decay: how much of the means is kept.

    >>> means = [torch.tensor([1.])]
    >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)(means, [torch.tensor([2.])], 1)
    >>> means
    [tensor([1.1000])]
    """
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for mean, current in zip(ema_param_list, current_param_list):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(current, 1 - decay)
            else:
                mean.copy_(mean * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn():
    """Plain mean of lists of parameters, in place.

    >>> means = [torch.tensor([1.])]
    >>> torch.optim.swa_utils.get_swa_multi_avg_fn()(means, [torch.tensor([4.])], torch.tensor(2))
    >>> means
    [tensor([2.])]
    """
    @torch.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for mean, current in zip(averaged_param_list, current_param_list):
            mean.add_(((current - mean) / (num_averaged + 1)).to(mean.dtype))

    return swa_update


def get_ema_avg_fn(decay=0.999):
    """Exponential mean of one parameter.

    decay: how much of the mean is kept.

    >>> torch.optim.swa_utils.get_ema_avg_fn(0.9)(torch.tensor(1.), torch.tensor(2.), 1)
    tensor(1.1000)
    """
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """Plain mean of one parameter.

    >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.tensor(1.), torch.tensor(4.), torch.tensor(2))
    tensor(2.)
    """
    @torch.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model that holds the mean of its parameters.

    model: is copied, to device if given; avg_fn: of (mean, parameter, count), or multi_avg_fn: of lists of them, computes the new mean; the
    plain mean by default; use_buffers: average buffers, too.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> mean = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1., 3.):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     mean.update_parameters(model)
    >>> mean.module.weight.item()
    2.0
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        """Take the model's present parameters into the mean."""
        own, new = self.module, model
        if self.use_buffers:
            own = list(itertools.chain(own.parameters(), own.buffers()))
            new = list(itertools.chain(new.parameters(), new.buffers()))
        else:
            own, new = list(own.parameters()), list(new.parameters())
        pairs = [(mean.detach(), current.detach().to(mean.device)) for mean, current in zip(own, new)]
        if self.n_averaged == 0:
            for mean, current in pairs:
                mean.copy_(current)
        elif self.avg_fn is not None:
            for mean, current in pairs:
                mean.copy_(self.avg_fn(mean, current, self.n_averaged.to(mean.device)))
        else:
            average = self.multi_avg_fn or get_swa_multi_avg_fn()
            average([mean for mean, _ in pairs], [current for _, current in pairs], self.n_averaged)
        if not self.use_buffers:
            # Statistics are not averaged but copied.
            for mean, current in zip(self.module.buffers(), model.buffers()):
                mean.detach().copy_(current.detach().to(mean.device))
        self.n_averaged += 1


@torch.no_grad()
def update_bn(loader, model, device=None):
    """Compute the statistics of batch normalisation anew, over all batches of `loader`.

    loader: batches, or tuples whose first part is one; model: has batch normalisations; device: where batches are moved.

    >>> model = nn.BatchNorm1d(1)
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.], [3.]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    was_training, momenta = model.training, [norm.momentum for norm in norms]
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None      # a plain mean over the batches
    for batch in loader:
        inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(inputs if device is None else inputs.to(device))
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to swa_lr in some epochs, and then constant.

    optimizer: whose rates it changes; last_epoch: the epoch to go on from, or -1; swa_lr: the last rate, or one per group; anneal_epochs: in
    how many epochs; anneal_strategy: "cos" or "linear".

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.)
    >>> schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.1, anneal_epochs=2, anneal_strategy="linear")
    >>> for epoch in range(4):
    ...     print(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step(); schedule.step()
    1.0
    0.55
    0.1
    0.1
    """

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        for lr, group in zip(_format_param("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = lr
        self._set_anneal_func(anneal_strategy)
        self.anneal_epochs = anneal_epochs
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _linear_anneal(t):
        return t

    @staticmethod
    def _cosine_anneal(t):
        return (1 - math.cos(math.pi * t)) / 2

    @staticmethod
    def _get_initial_lr(lr, swa_lr, alpha):
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def _set_anneal_func(self, anneal_strategy):
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy

    def anneal_func(self, t):
        """How far the rate has gone at the share t of the way."""
        return self._cosine_anneal(t) if self._anneal_strategy == "cos" else self._linear_anneal(t)

    def get_lr(self):
        """The rates that come next."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        length = max(1, self.anneal_epochs)
        before = self.anneal_func(max(0, min(1, (step - 1) / length)))
        now = self.anneal_func(max(0, min(1, step / length)))
        groups = self.optimizer.param_groups
        starts = [self._get_initial_lr(group["lr"], group["swa_lr"], before) for group in groups]
        return [group["swa_lr"] * now + lr * (1 - now) for group, lr in zip(groups, starts)]
