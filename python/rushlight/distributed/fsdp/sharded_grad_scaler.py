"""Gradient scaling of sharded parameters."""
import rushlight.distributed as dist
from rushlight.amp.grad_scaler import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A GradScaler whose processes leave out a step together: each sees only its pieces of the gradients."""

    def __init__(self, device="cuda", init_scale=2.0 ** 16, backoff_factor=0.5, growth_factor=2.0, growth_interval=2000, enabled=True, process_group=None):
        super().__init__(device, init_scale=init_scale, backoff_factor=backoff_factor, growth_factor=growth_factor,
                         growth_interval=growth_interval, enabled=enabled)
        self.process_group = process_group

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        for found in super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16).values():
            found_inf += found.to(found_inf.device)
        # Also by a process without gradients: the others wait for it.
        dist.all_reduce(found_inf, group=self.process_group)
        return {found_inf.device: found_inf}
