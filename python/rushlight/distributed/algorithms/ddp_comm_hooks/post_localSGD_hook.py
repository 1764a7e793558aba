"""Gradients averaged over all processes at first, then over small groups only (post-local SGD, arXiv 1808.07217)."""
import rushlight.distributed as dist
from rushlight.futures import Future

from .default_hooks import allreduce_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """From step start_localSGD_iter on gradients are averaged over `subgroup`, or not at all."""

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        self.process_group, self.subgroup, self.start_localSGD_iter = process_group, subgroup, start_localSGD_iter
        self.post_local_gradient_allreduce, self.iter = post_local_gradient_allreduce, 0

    def maybe_increase_iter(self, bucket):
        self.iter += bucket.is_last()


def post_localSGD_hook(state, bucket):
    """For DistributedDataParallel.register_comm_hook(); parameters are averaged by a ModelAverager."""
    early = state.iter < state.start_localSGD_iter
    if early or state.post_local_gradient_allreduce:
        if not early and state.subgroup is None:
            state.subgroup, _ = dist.new_subgroups()
        future = allreduce_hook(state.process_group if early else state.subgroup, bucket)
    else:
        future = Future()
        future.set_result(bucket.buffer())
    state.maybe_increase_iter(bucket)
    return future
