"""One stage: a part of the model, with what comes in and goes out of it for each microbatch.

Tensors go as messages, tagged by stage, microbatch and direction; before the first of a kind their shapes go. Sending does not wait.
"""
import rushlight as torch
import rushlight.distributed as dist

__all__ = ["PipelineStage"]


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


class PipelineStage:
    """A part of the model, number stage_index of num_stages. Stage s is on process s modulo the group's size."""

    def __init__(self, submodule, stage_index, num_stages, device, input_args=None, output_args=None, output_grads=None, input_grads=None, group=None,
                 dw_builder=None, get_mesh=None):
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.group = group if group is not None else dist.group.WORLD
        self.group_rank, self.group_size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.group_size > num_stages:
            raise RuntimeError(f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}")
        if stage_index % self.group_size != self.group_rank:
            raise ValueError(f"stage {stage_index} belongs to rank {stage_index % self.group_size} of the group, and this is rank {self.group_rank}")
        self.submod, self.stage_index, self.num_stages, self.device = submodule, stage_index, num_stages, device
        self.is_first, self.is_last, self.has_backward = stage_index == 0, stage_index == num_stages - 1, True
        self._next, self._previous = None, None  # stages of this process whose neighbour this is
        self._shapes, self._told = {}, set()
        self.clear()

    def clear(self):
        """Forget a batch."""
        self._inputs, self._outputs, self._results, self._kwargs, self._here, self._works = {}, {}, {}, {}, {}, []

    # ---- messages

    def _tag(self, stage, microbatch, backward):
        return (stage * 65536 + microbatch) * 2 + backward

    def _send(self, tensors, stage, microbatch, backward):
        """To the neighbour `stage`, which asks for it by the same tag."""
        to = stage % self.group_size
        if to == self.group_rank:
            neighbour = self._next if stage > self.stage_index else self._previous
            neighbour._here[microbatch, backward] = tensors
            return
        if (to, backward) not in self._told:
            self._told.add((to, backward))
            dist.send_object_list([[(tuple(t.shape), t.dtype, t.requires_grad) for t in tensors]], group=self.group, group_dst=to)
        for t in tensors:
            self._works.append(dist.isend(t.detach().contiguous(), group=self.group, group_dst=to, tag=self._tag(stage, microbatch, backward)))

    def _receive(self, stage, microbatch, backward):
        """What the neighbour `stage` sends to this one."""
        if stage % self.group_size == self.group_rank:
            return self._here.pop((microbatch, backward))
        source = stage % self.group_size
        if backward not in self._shapes:
            box = [None]
            dist.recv_object_list(box, group=self.group, group_src=source)
            self._shapes[backward] = box[0]
        out = []
        for shape, dtype, requires_grad in self._shapes[backward]:
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

    def backward_one(self, microbatch, loss=None):
        inputs, outputs = self._inputs.pop(microbatch), self._outputs.pop(microbatch)
        if self.is_last:
            loss.backward()
        else:
            grads = self._receive(self.stage_index + 1, microbatch, True)
            pairs = [(o, g) for o, g in zip([o for o in outputs if o.is_floating_point()], grads) if o.requires_grad]
            if pairs:
                torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
            self._results.pop(microbatch)
        if not self.is_first:
            self._send([torch.zeros_like(t) if t.grad is None else t.grad for t in inputs if t.is_floating_point()], self.stage_index - 1, microbatch, True)

    def scale_grads(self, factor):
        for p in self.submod.parameters():
            if p.grad is not None:
                p.grad.div_(factor)
