"""Parameters averaged over small groups often and over large ones rarely."""
import collections

import rushlight.distributed as dist

from .averagers import ModelAverager, average

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(ModelAverager):
    """period_group_size_dict: {every so many steps: groups of so many processes}, both growing; of what is due the largest group is taken."""

    def __init__(self, period_group_size_dict=None, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        sizes = [0, *period_group_size_dict.values()]
        periods = list(period_group_size_dict)
        if periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if sizes != sorted(sizes) or periods != sorted(periods) or sizes[-1] != dist.get_world_size(self.process_group):
            raise ValueError(f"The last value in arg ``period_group_size_dict`` {sizes[-1]} must be equal to the size of arg ``process_group`` "
                             f"{dist.get_world_size(self.process_group)}, and both have to grow.")
        self.warmup_steps = warmup_steps
        self.period_process_group_dict = collections.OrderedDict(
            (period, self.process_group if size == sizes[-1] else dist.new_subgroups(size, self.process_group)[0]) for period, size in period_group_size_dict.items())

    def average_parameters(self, params):
        if self.step >= self.warmup_steps:
            due = [group for period, group in self.period_process_group_dict.items() if (self.step - self.warmup_steps) % period == 0]
            if due:
                average(params, due[-1])
        self.step += 1
