"""Optimizers whose states are spread over processes."""
import collections
import copy
import io

import rushlight as torch
import rushlight.distributed as dist

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(torch.optim.Optimizer):
    """Each process steps some of the parameters, with states of those only, and sends them to the others.

    Parameters are dealt out by size, the largest first, each to the process that has the least.
    """

    def __init__(self, params, optimizer_class, process_group=None, parameters_as_bucket_view=False, overlap_with_ddp=False, **defaults):
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer(overlap_with_ddp=True)")
        self.process_group = process_group if process_group is not None else dist.group.WORLD
        self.rank, self.world_size = dist.get_rank(self.process_group), dist.get_world_size(self.process_group)
        self._optim_constructor, self._optim_defaults, self.optim = optimizer_class, defaults, None
        self._all_states = []
        params = list(params)
        super().__init__(params, defaults)
        self._deal()

    def _deal(self):
        """Which process has which parameters; the optimizer of this one."""
        loads, self._owner = [0] * self.world_size, {}
        for p in sorted((p for group in self.param_groups for p in group["params"]), key=lambda p: -p.numel()):
            rank = loads.index(min(loads))
            self._owner[p] = rank
            loads[rank] += p.numel()
        self._parts = [[{**group, "params": [p for p in group["params"] if self._owner[p] == rank]} for group in self.param_groups]
                       for rank in range(self.world_size)]
        self.optim = self._optim_constructor(self._parts[self.rank], **self._optim_defaults)
        self._copy_options(self.optim.param_groups, self.param_groups)

    @staticmethod
    def _copy_options(source, target):
        for a, b in zip(source, target):
            b.update({k: v for k, v in a.items() if k != "params"})

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        if self.optim is not None:
            kept = dict(self.optim.state)
            self._deal()
            self.optim.state.update({p: s for p, s in kept.items() if self._owner[p] == self.rank})

    @property
    def join_device(self):
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self):
        return self.process_group

    def join_hook(self, **kwargs):
        from ..algorithms.join import JoinHook
        optimizer = self

        class Hook(JoinHook):
            def main_hook(self):
                optimizer.step()
        return Hook()

    def step(self, closure=None, **kwargs):
        """Step the parameters of this process, then share all."""
        joining = getattr(self, "_joining", None)
        if joining is not None:
            joining.notify()
        self._copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        self._copy_options(self.optim.param_groups, self.param_groups)
        works = []
        for rank, groups in enumerate(self._parts):
            by_dtype = collections.defaultdict(list)
            for group in groups:
                for p in group["params"]:
                    by_dtype[p.dtype].append(p.detach())
            for tensors in by_dtype.values():
                works.append(dist.distributed_c10d._begin(dist.distributed_c10d._BROADCAST, self.process_group, outputs=tensors, root=rank))
        for work in works:
            work.wait()
        return loss

    def consolidate_state_dict(self, to=0):
        """Bring all states to one process, whose state_dict() has them then."""
        mine = io.BytesIO()
        torch.save(self.optim.state_dict(), mine)
        gathered = [None] * self.world_size if self.rank == to else None
        dist.gather_object(mine.getvalue(), gathered, group=self.process_group, group_dst=to)
        if self.rank == to:
            self._all_states = [torch.load(io.BytesIO(data), weights_only=False) for data in gathered]

    def _numbers(self):
        return {p: n for n, p in enumerate(p for group in self.param_groups for p in group["params"])}

    def state_dict(self):
        """As the optimizer alone would have it; on a process to which consolidate_state_dict() brought the states."""
        if not self._all_states:
            raise RuntimeError("Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to=%d)` on all ranks beforehand if "
                               "you meant to save the global state." % self.rank)
        whole, numbers = super().state_dict(), self._numbers()
        whole["state"] = {}
        for groups, saved in zip(self._parts, self._all_states):
            own = [p for group in groups for p in group["params"]]
            order = [n for group in saved["param_groups"] for n in group["params"]]
            whole["state"].update({numbers[p]: saved["state"][n] for p, n in zip(own, order) if n in saved["state"]})
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    def load_state_dict(self, state_dict):
        """Of a whole state dict, take what belongs to this process."""
        if len(state_dict["param_groups"]) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        numbers, own = self._numbers(), self.optim.state_dict()
        mine = {"state": {}, "param_groups": []}
        for given, group, saved in zip(state_dict["param_groups"], self._parts[self.rank], own["param_groups"]):
            mine["param_groups"].append({**{k: v for k, v in given.items() if k != "params"}, "params": saved["params"]})
            for p, n in zip(group["params"], saved["params"]):
                if numbers[p] in state_dict["state"]:
                    mine["state"][n] = copy.deepcopy(state_dict["state"][numbers[p]])
        self.optim.load_state_dict(mine)
        self._copy_options(state_dict["param_groups"], self.param_groups)
