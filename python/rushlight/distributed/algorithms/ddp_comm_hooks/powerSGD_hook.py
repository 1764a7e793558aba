"""Gradients as products of thin matrices: P Q^T in the place of M, of which P and Q are sent (PowerSGD, arXiv 1905.13727)."""
import math

import rushlight as torch
import rushlight.distributed as dist
from rushlight.futures import Future

from . import default_hooks

__all__ = ["PowerSGDState", "powerSGD_hook", "batched_powerSGD_hook"]


class PowerSGDState:
    """Settings, and what is kept from step to step: the errors that were made, and the last P and Q."""

    def __init__(self, process_group, matrix_approximation_rank=1, start_powerSGD_iter=1000, min_compression_rate=2, use_error_feedback=True, warm_start=True,
                 orthogonalization_epsilon=0, random_seed=0, compression_stats_logging_frequency=10_000, batch_tensors_with_same_shape=False):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError("Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can only be applied after the "
                             "first two iterations in DDP.")
        self.process_group, self.matrix_approximation_rank, self.start_powerSGD_iter = process_group, matrix_approximation_rank, start_powerSGD_iter
        self.min_compression_rate, self.use_error_feedback, self.warm_start = min_compression_rate, use_error_feedback, warm_start
        self.orthogonalization_epsilon, self.random_seed = orthogonalization_epsilon, random_seed
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.generator = torch.Generator().manual_seed(random_seed)
        self.error_dict, self.p_memory_dict, self.q_memory_dict, self.iter = {}, {}, {}, 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("process_group", "generator")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.process_group, self.generator = dist.group.WORLD, torch.Generator().manual_seed(self.random_seed)

    def compression_stats(self):
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after else 0.0, before, after


def _done(value):
    future = Future()
    future.set_result(value)
    return future


class _Random:
    """Numbers of the first Q of one bucket, the same on all processes and as PyTorch draws them."""

    def __init__(self, state):
        self.state, self.generator = state, None

    def draw(self, rows, columns, dtype, device):
        if self.generator is None:
            seed = 10 ** 9
            while seed >= 10 ** 9:  # NumPy's randint(10 ** 9)
                seed = torch.empty((), dtype=torch.int32, device="cpu").random_(generator=self.state.generator).item() % 2 ** 30
            self.generator = torch.Generator("cpu").manual_seed(seed)
        return torch.randn(rows, columns, generator=self.generator, dtype=dtype, device="cpu").to(device)


def _compressed(state, key, m, group, random):
    """The mean of a matrix over the processes, approximately."""
    rows, columns = m.shape
    rank = min(rows, columns, state.matrix_approximation_rank)
    q = state.q_memory_dict.get(key) if state.warm_start else None
    if q is None or q.shape != (columns, rank):
        q = random.draw(columns, rank, m.dtype, m.device)
    q = torch.linalg.qr(q + state.orthogonalization_epsilon)[0]
    p = m @ q
    dist.all_reduce(p, group=group)
    p = torch.linalg.qr(p)[0]
    q = m.t() @ p
    dist.all_reduce(q, group=group)
    q.div_(group.size())
    state.p_memory_dict[key], state.q_memory_dict[key] = p, q
    state.total_numel_before_compression += m.numel()
    state.total_numel_after_compression += p.numel() + q.numel()
    return p @ q.t()


def _with_error(state, index, flat):
    """The gradients and what was lost of earlier ones."""
    if state.use_error_feedback and index in state.error_dict:
        flat.add_(state.error_dict[index])
    return flat.clone() if state.use_error_feedback else None


def _warming_up(state, bucket):
    if bucket.is_last():
        state.iter += 1
    return state.iter < state.start_powerSGD_iter + bucket.is_last()


def powerSGD_hook(state, bucket):
    """Each gradient by itself; those of one dimension, and those that would not become smaller, are sent whole."""
    group = state.process_group if state.process_group is not None else dist.group.WORLD
    if _warming_up(state, bucket):
        return default_hooks.allreduce_hook(group, bucket)
    flat, index = bucket.buffer(), bucket.index()
    before, whole, random = _with_error(state, index, flat), [], _Random(state)
    for k, g in enumerate(bucket.gradients()):
        m = g.view(g.size(0), -1) if g.dim() > 1 else None
        rank = 0 if m is None else min(*m.shape, state.matrix_approximation_rank)
        if m is None or (m.size(0) + m.size(1)) * rank * state.min_compression_rate >= m.numel():
            whole.append(g)
        else:
            m.copy_(_compressed(state, (index, k), m, group, random))
    if whole:
        together = torch.cat([g.reshape(-1) for g in whole])
        dist.all_reduce(together, group=group)
        for g, mean in zip(whole, together.div_(group.size()).split([g.numel() for g in whole])):
            g.copy_(mean.view(g.shape))
    _remember(state, index, before, flat, whole)
    return _done(flat)


def _remember(state, index, before, flat, whole):
    """What was lost; nothing of what was sent whole."""
    if before is None:
        return
    error = before.sub_(flat)
    for g in whole:
        first = g.storage_offset() - flat.storage_offset()
        error[first:first + g.numel()] = 0
    state.error_dict[index] = error


def batched_powerSGD_hook(state, bucket):
    """All gradients of a bucket as one square matrix."""
    group = state.process_group if state.process_group is not None else dist.group.WORLD
    if _warming_up(state, bucket):
        return default_hooks.allreduce_hook(group, bucket)
    flat, index = bucket.buffer(), bucket.index()
    before = _with_error(state, index, flat)
    side = math.ceil(math.sqrt(flat.numel()))
    square = torch.cat([flat, flat.new_zeros(side * side - flat.numel())]).view(side, side)
    flat.copy_(_compressed(state, index, square, group, _Random(state)).view(-1)[:flat.numel()])
    _remember(state, index, before, flat, [])
    return _done(flat)
