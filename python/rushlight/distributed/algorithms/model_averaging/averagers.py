"""Parameters averaged over processes from time to time, instead of gradients at each step."""
import abc

import rushlight as torch
import rushlight.distributed as dist

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(abc.ABC):
    """`step` counts the calls."""

    def __init__(self, process_group=None):
        self.process_group = process_group if process_group is not None else dist.group.WORLD
        self.step = 0

    @abc.abstractmethod
    def average_parameters(self, params):
        """Called after each step of an optimizer."""


def tensors_of(params):
    """Of parameters, or of an optimizer's groups, those that have a gradient."""
    for p in params:
        for t in p["params"] if isinstance(p, dict) else [p]:
            if t.grad is not None:
                yield t


@torch.no_grad()
def average(params, group):
    """The mean over the group, in place: one collective per dtype."""
    kinds = {}
    for t in tensors_of(params):
        kinds.setdefault(t.dtype, []).append(t.detach())
    for tensors in kinds.values():
        flat = torch.cat([t.reshape(-1) for t in tensors]).div_(dist.get_world_size(group))
        dist.all_reduce(flat, group=group)
        for t, mean in zip(tensors, flat.split([t.numel() for t in tensors])):
            t.copy_(mean.view(t.shape))


class PeriodicModelAverager(ModelAverager):
    """Every `period` steps, after the first warmup_steps."""

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params):
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average(params, self.process_group)
        self.step += 1
