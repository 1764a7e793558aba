"""Schedules: in which order a process does the forward and backward passes of its stages' microbatches.

An order is a list of (stage, microbatch, what): "F" forward, "B" backward, or a backward pass in two: "I" the gradient that the stage before waits for,
"W" those of the parameters, for which nobody waits, so that they fill gaps. Messages are tagged and sending does not wait, so any order in which each pass
comes after what it needs is right; the orders differ in how many microbatches are held at once, and in how long processes wait for each other.
"""
import collections

import rushlight as torch

from .microbatch import merge_chunks, split_args_kwargs_into_chunks

__all__ = ["ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble",
           "ScheduleDualPipeV", "PipelineScheduleSingle", "PipelineScheduleMulti", "order", "get_schedule_class"]


def _each(what, stages, microbatches):
    return [(s, m, what) for s in stages for m in microbatches]


def _interleaved(forward, backward, ahead):
    """So many forward passes, then one backward and one forward in turn, then the rest of the backward passes."""
    out = forward[:ahead]
    for f, b in zip(forward[ahead:], backward):
        out += [b, f]
    return out + backward[len(forward) - ahead:]


def _zero_bubble(forward, backward, ahead, late):
    """_interleaved, with weights' gradients `late` passes after those of inputs."""
    weights = [(s, m, "W") for s, m, _ in backward]
    out = forward[:ahead - 1]
    for k, pair in enumerate(backward):
        out += forward[ahead - 1 + k:ahead + k] + [pair] + ([weights[k - late]] if k >= late else [])
    return out + weights[len(backward) - late:]


class _V:
    """An order being written of a process with two stages, one on the way down and one on the way up of a V: passes in turn for each (stage, what)."""

    def __init__(self, down, up, n):
        self.down, self.up, self.n = down, up, n
        self.done, self.waiting, self.out = collections.Counter(), collections.deque(), []

    def left(self, stage, what="F"):
        return self.n - self.done[stage, what]

    def do(self, stage, *passes):
        for what in passes:
            microbatch = self.done[stage, what[0]]
            if microbatch < self.n:
                self.done[stage, what[0]] += 1
                self.out.append((stage, microbatch, what))

    def do_input(self, stage):
        """The input's gradient now, the weights' by a later do_weights()."""
        microbatch = self.done[stage, "B"]
        self.done[stage, "B"] += 1
        self.out.append((stage, microbatch, "I"))
        self.waiting.append((stage, microbatch, "W"))

    def do_weights(self):
        self.out.append(self.waiting.popleft())


def _zbv(down, up, rank, size, n):
    """Section 6 of https://arxiv.org/pdf/2401.10241"""
    v = _V(down, up, n)
    for _ in range(2 * (size - rank) - 1):
        v.do(down, "F")
    for _ in range(rank):
        v.do(up, "F")
        v.do(down, "F")
    for _ in range(size - rank):
        v.do(up, "F", "I", "W")
    while v.left(down) or v.left(up):
        v.do(down, "F", "I", "W")
        v.do(up, "F", "I", "W")
    for _ in range(rank):
        v.do(down, "I")
        v.do(up, "I")
    for _ in range(size - rank):
        v.do(down, "I", "W")
    return v.out + _each("W", [up], range(n - v.left(up, "W"), n)) + _each("W", [down], range(n - v.left(down, "W"), n))


def _dual_pipe(down, up, rank, size, n):
    """DualPipeV of https://github.com/deepseek-ai/DualPipe, the eight steps of its picture."""
    v, after = _V(down, up, n), size - rank - 1
    for _ in range(2 * after):
        v.do(down, "F")
    for _ in range(rank + 1):
        v.do(down, "F")
        v.do(up, "F")
    for _ in range(after):
        v.do_input(up)
        v.do_weights()
        v.do(up, "F")
    for _ in range(n - 2 * size + rank + 1):
        v.do(down, "F")
        v.do(up, "B")
        v.do(up, "F")
        v.do(down, "B")
    for _ in range(after):
        v.do(up, "B")
        v.do(up, "F")
        v.do(down, "B")
    for k in range(2 * (rank + 1)):     # the second half with the weights' gradients put off
        for_this = v.do_input if k > rank else lambda stage: v.do(stage, "B")
        for_this(down if k % 2 else up)
    for _ in range(after):
        v.do_weights()
        v.do_input(down)
    while v.waiting:
        v.do_weights()
    return v.out


def _rounds(size, n, who):
    """Microbatches go through the stages in rounds of at least as many as there are processes, all of one length."""
    count = max(1, n // size)
    if n % count:
        raise ValueError(f"{who} requires the number of microbatches to be a multiple of the number of rounds ({count}), but got {n}.")
    return [range(first, first + n // count) for first in range(0, n, n // count)]


def order(kind, own, rank, size, stages, n):
    """What process `rank` of `size` does with its stages `own` of `stages` and n microbatches: [(stage, microbatch, what)]."""
    own, each = sorted(own), range(n)
    if kind in ("GPipe", "LoopedBFS"):
        return _each("F", own, each) + _each("B", reversed(own), each)
    if kind == "1F1B":
        return _interleaved(_each("F", own, each), _each("B", own, each), min(n, stages - own[0]))
    if kind == "ZBVZeroBubble":
        return _zbv(*own, rank, size, n)
    if kind == "DualPipeV":
        return _dual_pipe(*own, rank, size, n)
    if kind == "InterleavedZeroBubble":
        rounds = _rounds(size, n, "Zero bubble")
        forward = [step for some in rounds for step in _each("F", own, some)]
        backward = [step for some in rounds for step in _each("I", own[::-1], some)]
        return _zero_bubble(forward, backward, min(len(forward), (len(own) - 1) * len(rounds[0]) + size - rank), rank)
    rounds = [range(first, min(first + size, n)) for first in range(0, n, size)]
    forward = [step for some in rounds for step in _each("F", own, some)]
    backward = [step for some in rounds for step in _each("B", own[::-1], some)]
    ahead = min(len(forward), (len(own) - 1) * size + 2 * (size - 1 - rank) + 1)
    if n % size:  # rounds of different lengths: no microbatch may wait for one that comes later
        ahead = len(forward)
    return _interleaved(forward, backward, ahead)


class _PipelineSchedule:
    _v = False  # stages go over the processes and back, instead of round and round

    def __init__(self, stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads):
        if n_microbatches < 1:
            raise ValueError(f"Number of microbatches ({n_microbatches}) must be at least 1")
        self._stages = {stage.stage_index: stage for stage in stages}
        for stage in stages:
            stage.place(self._v)
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
        for index, microbatch, what in self._order():
            stage = self._stages[index]
            if what == "F":
                out = stage.forward_one(microbatch, inputs[microbatch] if stage.is_first else (), named[microbatch])
                if stage.is_last and self._loss_fn is not None and target is not None:
                    found[microbatch] = self._loss_fn(out, targets[microbatch], **loss_kwargs)
            elif backward and what == "B":
                stage.backward_one(microbatch, found.get(microbatch))
            elif backward and what == "I":
                stage.backward_input_one(microbatch, found.get(microbatch))
            elif backward:
                stage.backward_weight_one(microbatch)
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


class PipelineScheduleSingle(_PipelineSchedule):
    """One stage per process."""

    def __init__(self, stage, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None, scale_grads=True):
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self._stage = stage


class PipelineScheduleMulti(_PipelineSchedule):
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


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """1F1B over several stages per process, with the gradients of weights where it would wait (ZB1P of https://arxiv.org/pdf/2401.10241)."""

    _kind = "InterleavedZeroBubble"

    def __init__(self, stages, n_microbatches, *args, **kwargs):
        _rounds(stages[0].group_size, n_microbatches, "Zero bubble")
        super().__init__(stages, n_microbatches, *args, **kwargs)


class _ScheduleV(PipelineScheduleMulti):
    _v = True

    def __init__(self, stages, n_microbatches, *args, **kwargs):
        if len(stages) != 2:
            raise ValueError(f"ZBV requires exactly 2 stages per rank, but got {len(stages)}.")
        super().__init__(stages, n_microbatches, *args, **kwargs)


class ScheduleZBVZeroBubble(_ScheduleV):
    """Two stages per process, the second ones in the other direction, with the gradients of weights where it would wait: no gaps, where forward passes
    and both halves of backward passes take the same time (https://arxiv.org/pdf/2401.10241, section 6)."""

    _kind = "ZBVZeroBubble"


class ScheduleDualPipeV(_ScheduleV):
    """As ZBV, where forward and backward passes of two microbatches go together (https://github.com/deepseek-ai/DualPipe)."""

    _kind = "DualPipeV"

    def __init__(self, stages, n_microbatches, *args, **kwargs):
        super().__init__(stages, n_microbatches, *args, **kwargs)
        if n_microbatches < self._num_stages:
            raise ValueError(f"DualPipeV requires at least as many microbatches as stages, but got {n_microbatches} microbatches and {self._num_stages} stages.")


def get_schedule_class(schedule_name):
    """The class of a name, in any case: "1F1B", "gpipe", ..."""
    known = {c.__name__.removeprefix("Schedule"): c for c in (
        Schedule1F1B, ScheduleInterleaved1F1B, ScheduleGPipe, ScheduleLoopedBFS, ScheduleInterleavedZeroBubble, PipelineScheduleSingle, PipelineScheduleMulti,
        ScheduleZBVZeroBubble, ScheduleDualPipeV)}
    found = {name.lower(): c for name, c in known.items()}.get(schedule_name.lower())
    if found is None:
        raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(known)}")
    return found
