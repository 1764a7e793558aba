"""Processes with different numbers of batches: those that are done shadow the collectives of the others until all are."""
import abc
import warnings

import rushlight as torch
import rushlight.distributed as dist

__all__ = ["JoinHook", "Joinable", "Join"]


class JoinHook:
    """What a process that is done does: main_hook() for each step of the others, post_hook(is_last_joiner) at the end."""

    def _attach(self, context):
        """The Join that calls this hook."""
        self._context = context

    def main_hook(self):
        """Shadow the collectives of one step."""

    def post_hook(self, is_last_joiner):
        """All are done."""


class _JoinConfig:
    def __init__(self, enable=False, throw_on_early_termination=False, first=False):
        self.enable, self.throw_on_early_termination, self.is_first_joinable = enable, throw_on_early_termination, first

    @staticmethod
    def construct_disabled_join_config():
        return _JoinConfig()


class Joinable(abc.ABC):
    """What can be given to Join: it calls Join.notify_join_context(self) before the collectives of each step."""

    @abc.abstractmethod
    def __init__(self):
        super().__init__()
        self._join_config = _JoinConfig()

    @abc.abstractmethod
    def join_hook(self, **kwargs):
        """A JoinHook."""

    @property
    @abc.abstractmethod
    def join_device(self):
        """Where its tensors are."""

    @property
    @abc.abstractmethod
    def join_process_group(self):
        """The processes."""


class Join:
    """with Join([model, optimizer]): a loop over batches, of which processes may have different numbers."""

    def __init__(self, joinables, enable=True, throw_on_early_termination=False, **kwargs):
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throw = list(joinables), enable, throw_on_early_termination
        self._group = joinables[0].join_process_group
        if any(j.join_process_group is not self._group for j in joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self.flags = None
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        self.running = dist.get_world_size(self._group)
        for hook in self._hooks:
            hook._attach(self)

    def __enter__(self):
        if self._enable:
            for j in self._joinables:
                j._joining = self if j is self._joinables[0] else None
        return self

    def _count(self, running, flags=(True, True)):
        """How many processes still have batches, and what they will do."""
        n = torch.tensor([1.0 if running else 0.0] + [1.0 if running and flag else 0.0 for flag in flags],
                         device=self._joinables[0].join_device)
        dist.all_reduce(n, group=self._group)
        self.flags = [v > 0 for v in n[1:].tolist()]
        return int(n[0].item())

    def notify(self, flags=(True, True)):
        """Before a step of this process: tell those that are done that there is one; whether gradients and buffers are shared in it."""
        n = self.running = self._count(True, flags)
        if n < dist.get_world_size(self._group) and self._throw:
            raise RuntimeError(f"Rank {dist.get_rank(self._group)} has not exhausted its inputs, but another has. To ignore uneven inputs, set "
                               "`throw_on_early_termination=False`")

    @staticmethod
    def notify_join_context(joinable):
        """What a Joinable calls before the collectives of a step."""
        context = getattr(joinable, "_joining", None)
        if context is not None:
            context.notify()
        return None

    def __exit__(self, kind, value, trace):
        for j in self._joinables:
            j._joining = None
        if not self._enable or kind is not None:
            return
        steps, last = 0, True
        while True:
            if self._count(False) == 0:
                break
            last = False
            if self._throw:
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
            steps += 1
            if steps == 1000:
                warnings.warn("Detected uneven input skew of greater than 1000. This means that rank %d has at least 1000 fewer inputs than other currently-active "
                              "ranks." % dist.get_rank(self._group), stacklevel=2)
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)


class _DDPJoinHook(JoinHook):
    """Buffers, then the gradients of each bucket, as zeros."""

    def __init__(self, ddp, divide_by_initial_world_size=True, **kwargs):
        self.ddp, self.divide, self.own = ddp, divide_by_initial_world_size, None

    def _attach(self, context):
        super()._attach(context)
        if not self.divide and self.ddp._hook is None:  # a hook of the program's divides as it likes
            self.ddp._average_over_running(context)

    def main_hook(self):
        if self.own is None:
            self.own = [p.grad for p in self.ddp._parameters_of_ddp]
        self.ddp._shadow_step(*self._context.flags)

    def post_hook(self, is_last_joiner):
        """The weights of a process that was the last to be done, for all. Gradients of steps that were not its own go."""
        for p, grad in zip(self.ddp._parameters_of_ddp, self.own or ()):
            p.grad = grad
        group = self.ddp.process_group
        rank = torch.tensor([float(dist.get_rank(group)) if is_last_joiner else -1.0], device=self.ddp.join_device)
        dist.all_reduce(rank, dist.ReduceOp.MAX, group)
        self.ddp._broadcast(list(self.ddp.module.state_dict(keep_vars=True).values()), int(rank.item()))
