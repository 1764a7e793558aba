"""Schedules: in which order a process does the forward and backward passes of its stages' microbatches.

An order is a list of (stage, microbatch, backward?). Messages are tagged and sending does not wait, so any order in which each pass comes
after what it needs is right; the orders differ in how many microbatches are held at once, and in how long processes wait for each other.
"""
import rushlight as torch

from .microbatch import merge_chunks, split_args_kwargs_into_chunks

__all__ = ["ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "order", "get_schedule_class"]


def _interleaved(forward, backward, ahead):
    """So many forward passes, then one backward and one forward in turn, then the rest of the backward passes."""
    out = forward[:ahead]
    for f, b in zip(forward[ahead:], backward):
        out += [b, f]
    return out + backward[len(forward) - ahead:]


def order(kind, own, rank, size, stages, n):
    """What process `rank` of `size` does with its stages `own` of `stages` and n microbatches: [(stage, microbatch, backward)]."""
    own, each = sorted(own), range(n)
    if kind in ("GPipe", "LoopedBFS"):
        return [(s, m, False) for s in own for m in each] + [(s, m, True) for s in reversed(own) for m in each]
    if kind == "1F1B":
        return _interleaved([(own[0], m, False) for m in each], [(own[0], m, True) for m in each], min(n, stages - own[0]))
    rounds = [range(first, min(first + size, n)) for first in range(0, n, size)]
    forward = [(s, m, False) for some in rounds for s in own for m in some]
    backward = [(s, m, True) for some in rounds for s in reversed(own) for m in some]
    ahead = min(len(forward), (len(own) - 1) * size + 2 * (size - 1 - rank) + 1)
    if n % size:  # rounds of different lengths: no microbatch may wait for one that comes later
        ahead = len(forward)
    return _interleaved(forward, backward, ahead)


class _Schedule:
    def __init__(self, stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads):
        if n_microbatches < 1:
            raise ValueError(f"Number of microbatches ({n_microbatches}) must be at least 1")
        self._stages = {stage.stage_index: stage for stage in stages}
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._specs, self._merge = (args_chunk_spec, kwargs_chunk_spec), output_merge_spec
        for index, stage in self._stages.items():
            stage._next, stage._previous = self._stages.get(index + 1), self._stages.get(index - 1)
            stage.has_backward = loss_fn is not None
        some = stages[0]
        self._size, self._rank, self._num_stages = some.group_size, some.group_rank, some.num_stages
        self._first, self._last = self._stages.get(0), self._stages.get(some.num_stages - 1)

    def _order(self):
        return order(self._kind, list(self._stages), self._rank, self._size, self._num_stages, self._n_microbatches)

    def step(self, *args, target=None, losses=None, return_outputs=True, loss_kwargs=None, **kwargs):
        """One batch forward and, where there is a loss, backward. args on the first stage, target on the last, whose process gets the outputs."""
        backward = self._loss_fn is not None and torch.is_grad_enabled()
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs or {}, backward)

    def eval(self, *args, target=None, losses=None, **kwargs):
        """One batch forward."""
        with torch.no_grad():
            return self._run(args, kwargs, target, losses, True, {}, False)

    def _run(self, args, kwargs, target, losses, return_outputs, loss_kwargs, backward):
        n = self._n_microbatches
        inputs, named = split_args_kwargs_into_chunks(args, kwargs, n, *self._specs)
        targets = list(target.tensor_split(n)) if isinstance(target, torch.Tensor) else [target] * n
        for stage in self._stages.values():
            stage.clear()
        found = {}
        for index, microbatch, back in self._order():
            stage = self._stages[index]
            if back and backward:
                stage.backward_one(microbatch, found.get(microbatch))
            elif not back:
                out = stage.forward_one(microbatch, inputs[microbatch] if stage.is_first else (), named[microbatch])
                if stage.is_last and self._loss_fn is not None and target is not None:
                    found[microbatch] = self._loss_fn(out, targets[microbatch], **loss_kwargs)
        for stage in self._stages.values():
            stage.finish()
            if backward and self.scale_grads:
                stage.scale_grads(n)
        if losses is not None and found:
            losses.clear()
            losses.extend(found[i] for i in range(n))
        if self._last is None or not return_outputs:
            return None
        return merge_chunks([self._last._results[i] for i in range(n)], self._merge)


class PipelineScheduleSingle(_Schedule):
    """One stage per process."""

    def __init__(self, stage, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None, scale_grads=True):
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self._stage = stage


class PipelineScheduleMulti(_Schedule):
    """Several stages per process."""

    def __init__(self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None, scale_grads=True,
                 backward_requires_autograd=True, defer_pp_recv=False):
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)


class ScheduleGPipe(PipelineScheduleSingle):
    """All forward passes, then all backward passes."""

    _kind = "GPipe"


class Schedule1F1B(PipelineScheduleSingle):
    """After as many forward passes as there are stages to come, one backward pass for each forward pass."""

    _kind = "1F1B"


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through a stage, then the next stage of this process."""

    _kind = "LoopedBFS"


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B over several stages per process: as many microbatches as processes through each stage in turn."""

    _kind = "Interleaved1F1B"


def get_schedule_class(schedule_name):
    """The class of a name, in any case: "1F1B", "gpipe", ..."""
    known = {c._kind.lower(): c for c in (ScheduleGPipe, Schedule1F1B, ScheduleLoopedBFS, ScheduleInterleaved1F1B)}
    found = known.get(schedule_name.lower().removeprefix("schedule"))
    if found is None:
        raise ValueError(f"Unknown schedule '{schedule_name}'. The valid options are {[c._kind for c in known.values()]}")
    return found
