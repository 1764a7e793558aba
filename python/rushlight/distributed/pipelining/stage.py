"""One stage: a part of the model, with what comes in and goes out of it for each microbatch.

Tensors go as messages, tagged by stage, microbatch and direction; the shapes go before the first forward. Sending does not wait.
"""
import rushlight as torch
import rushlight.distributed as dist

from ._split import SplitBackward

__all__ = ["PipelineStage"]


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


class PipelineStage:
    """A part of the model, number stage_index of num_stages. The schedule says on which process a stage is."""

    def __init__(self, submodule, stage_index, num_stages, device, input_args=None, output_args=None, output_grads=None, input_grads=None, group=None,
                 dw_builder=None, get_mesh=None):
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.group = group if group is not None else dist.group.WORLD
        self.group_rank, self.group_size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.group_size > num_stages:
            raise RuntimeError(f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}")
        self.submod, self.stage_index, self.num_stages, self.device = submodule, stage_index, num_stages, device
        self.is_first, self.is_last, self.has_backward = stage_index == 0, stage_index == num_stages - 1, True
        self._next, self._previous = None, None  # stages of this process whose neighbour this is
        self._v = False
        self._shapes, self._told = None, False
        self.clear()

    def clear(self):
        """Forget a batch."""
        self._inputs, self._outputs, self._results, self._kwargs, self._here, self._works = {}, {}, {}, {}, {}, []
        self._put_off = {}

    def place(self, v):
        """v: stages go over the processes and back; else round and round."""
        self._v = v
        if self._rank_of(self.stage_index) != self.group_rank:
            raise ValueError(f"stage {self.stage_index} belongs to rank {self._rank_of(self.stage_index)} of the group, and this is rank {self.group_rank}")

    def _rank_of(self, stage):
        turn, at = divmod(stage, self.group_size)
        return self.group_size - 1 - at if self._v and turn % 2 else at

    # ---- messages

    def _tag(self, stage, microbatch, backward):
        return (stage * 65536 + microbatch) * 2 + backward

    def _send(self, tensors, stage, microbatch, backward):
        """To the neighbour `stage`, which asks for it by the same tag."""
        to = self._rank_of(stage)
        if to == self.group_rank:
            neighbour = self._next if stage > self.stage_index else self._previous
            neighbour._here[microbatch, backward] = tensors
            return
        if not backward and not self._told:
            self._told = True
            dist.send_object_list([[(tuple(t.shape), t.dtype) for t in tensors]], group=self.group, group_dst=to)
        for t in tensors:
            self._works.append(dist.isend(t.detach().contiguous(), group=self.group, group_dst=to, tag=self._tag(stage, microbatch, backward)))

    def _receive(self, stage, microbatch, backward):
        """What the neighbour `stage` sends to this one: gradients of what went there, or its outputs, of which the first ones come with their shapes."""
        source = self._rank_of(stage)
        if source == self.group_rank:
            return self._here.pop((microbatch, backward))
        if not backward and self._shapes is None:
            box = [None]
            dist.recv_object_list(box, group=self.group, group_src=source)
            self._shapes = box[0]
        out = []
        for shape, dtype in [(t.shape, t.dtype) for t in self._outputs[microbatch] if t.is_floating_point()] if backward else self._shapes:
            t = torch.empty(shape, dtype=dtype, device=self.device)
            dist.recv(t, group=self.group, group_src=source, tag=self._tag(self.stage_index, microbatch, backward))
            out.append(t)
        return out

    def finish(self):
        """All messages have gone."""
        works, self._works = self._works, []
        for work in works:
            work.wait()

    # ---- microbatches

    def forward_one(self, microbatch, args, kwargs):
        if not self.is_first:
            args = tuple(t.detach().requires_grad_(t.is_floating_point() and torch.is_grad_enabled())
                         for t in self._receive(self.stage_index - 1, microbatch, False))
        out = self.submod(*args, **kwargs)
        outputs = _tuple(out)
        self._inputs[microbatch], self._outputs[microbatch], self._results[microbatch] = args, outputs, out
        if not self.is_last:
            self._send(outputs, self.stage_index + 1, microbatch, False)
        return out

    def _roots(self, microbatch, loss):
        """(what the backward pass of a microbatch starts from, their gradients)"""
        if self.is_last:
            del self._outputs[microbatch]
            return [loss], [None]
        grads, outputs = self._receive(self.stage_index + 1, microbatch, True), self._outputs.pop(microbatch)
        pairs = [(o, g) for o, g in zip([o for o in outputs if o.is_floating_point()], grads) if o.requires_grad]
        self._results.pop(microbatch)
        return [o for o, _ in pairs], [g for _, g in pairs]

    def _send_grads(self, microbatch, inputs, grads):
        self._send([torch.zeros_like(t) if g is None else g for t, g in zip(inputs, grads) if t.is_floating_point()], self.stage_index - 1, microbatch, True)

    def backward_one(self, microbatch, loss=None):
        inputs, (roots, grads) = self._inputs.pop(microbatch), self._roots(microbatch, loss)
        if roots:
            torch.autograd.backward(roots, grads)
        if not self.is_first:
            self._send_grads(microbatch, inputs, [t.grad for t in inputs])

    def backward_input_one(self, microbatch, loss=None):
        """The half of backward_one that the stage before waits for."""
        inputs, (roots, grads) = self._inputs.pop(microbatch), self._roots(microbatch, loss)
        split = self._put_off[microbatch] = SplitBackward(roots, grads, () if self.is_first else inputs)
        if not self.is_first:
            self._send_grads(microbatch, inputs, split.input_grads)

    def backward_weight_one(self, microbatch):
        """The other half: gradients of parameters."""
        self._put_off.pop(microbatch).accumulate()

    def scale_grads(self, factor):
        for p in self.submod.parameters():
            if p.grad is not None:
                p.grad.div_(factor)
