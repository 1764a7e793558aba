"""Context parallel: attention over a sequence of which each process has a part.

Queries stay, keys and values go around the ring of processes, one step ahead of what is computed; results of the steps are put together by
the logarithms of their rows' sums, so that no process ever holds the scores of the whole sequence. Balanced: a sequence is cut into 2n pieces and
process r has the pieces r and 2n - 1 - r, so that under a causal mask all have as much to do. See arXiv 2310.01889.
"""
import contextlib

import rushlight as torch
import rushlight.distributed as dist
from rushlight.nn import functional as F

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


class _Options:
    """enable_load_balance: cut sequences into 2n pieces."""

    def __init__(self):
        self.enable_load_balance, self.rotate_method = True, "alltoall"


_cp_options = _Options()


def set_rotate_method(rotate_method):
    """How keys and values come to a process: one by one ("alltoall"), or all before the first step ("allgather")."""
    if rotate_method not in ("alltoall", "allgather"):
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    _cp_options.rotate_method = rotate_method


# ---- which elements a process has

def _order(n, balanced):
    """The pieces of a sequence in the order in which the processes have them."""
    return [p for r in range(n) for p in (r, 2 * n - 1 - r)] if balanced else list(range(n))


def _own(x, dim, n, rank, balanced):
    pieces = 2 * n if balanced else n
    if x.size(dim) % pieces:
        raise ValueError(f"context_parallel: dimension {dim} of {tuple(x.shape)} is not a multiple of {pieces}, {'twice ' if balanced else ''}the number of processes")
    parts = x.chunk(pieces, dim)
    return torch.cat([parts[rank], parts[pieces - 1 - rank]], dim) if balanced else parts[rank].clone()


def _seq_mesh(mesh):
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel takes a mesh of one dimension, not {mesh}")
    return mesh.get_group(0), mesh.size(0), mesh.get_local_rank(0)


@torch.no_grad()
def context_parallel_unshard(mesh, buffers, seq_dims, load_balancer=None):
    """Whole tensors of the parts that the processes have."""
    group, n, rank = _seq_mesh(mesh)
    whole = []
    for x, dim in zip(buffers, seq_dims):
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(n)]
        dist.all_gather(parts, x.detach().contiguous(), group)
        order = _order(n, _cp_options.enable_load_balance)
        pieces = torch.cat(parts, dim).chunk(len(order), dim)
        whole.append(torch.cat([pieces[order.index(i)] for i in range(len(order))], dim))
    return whole


# ---- the ring

class _Rotation:
    """Tensors that go to the next process at each step; wait() returns those that came."""

    def __init__(self, group, n, rank):
        self.group, self.next, self.last = group, (rank + 1) % n, (rank - 1) % n

    def start(self, tensors):
        self.came = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors]
        ops = [dist.P2POp(dist.isend, t.contiguous(), group=self.group, group_peer=self.next) for t in tensors]
        ops += [dist.P2POp(dist.irecv, t, group=self.group, group_peer=self.last) for t in self.came]
        self.kept, self.works = ops, dist.batch_isend_irecv(ops)

    def wait(self):
        for work in self.works:
            work.wait()
        self.kept = None
        return self.came


def _half(x, which):
    return x.chunk(2, 2)[which]


def _step(step, rank, n, causal, balanced):
    """What of the queries (None: all, 1: the second half) sees what of the keys (None, 0), and whether causally. None: nothing."""
    if not causal or step == 0:
        return None, None, causal
    from_before = step <= rank  # the keys are those of process rank - step
    if balanced:
        return (None, 0, False) if from_before else (1, None, False)
    return (None, None, False) if from_before else None


class _Merged:
    """Results over some of the keys, and the logarithms of their rows' sums, added up."""

    def __init__(self, query):
        self.out, self.lse = None, None
        self.query = query

    def add(self, out, lse, half):
        if self.out is None:  # the first step has all queries
            self.out, self.lse = out.to(lse.dtype), lse
            return
        mine, sums = (self.out, self.lse) if half is None else (_half(self.out, half), _half(self.lse, half))
        total = torch.logaddexp(sums, lse)
        mine.mul_(torch.exp(sums - total).unsqueeze(-1)).add_(out * torch.exp(lse - total).unsqueeze(-1))
        sums.copy_(total)


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, causal, scale, group, n, rank):
        balanced, merged, ring = _cp_options.enable_load_balance, _Merged(query), _Rotation(group, n, rank)
        held = key, value
        for step in range(n):
            if step + 1 < n:
                ring.start(held)
            does = _step(step, rank, n, causal, balanced)
            if does is not None:
                rows, columns, diagonal = does
                q = query if rows is None else _half(query, rows)
                k, v = held if columns is None else (_half(t, columns) for t in held)
                merged.add(*_flash(q.contiguous(), k.contiguous(), v.contiguous(), 0.0, diagonal, scale=scale), rows)
            if step + 1 < n:
                held = ring.wait()
        out = merged.out.to(query.dtype)
        ctx.save_for_backward(query, key, value, out, merged.lse)
        ctx.how = causal, scale, group, n, rank, balanced
        return out

    @staticmethod
    def backward(ctx, grad):
        query, key, value, out, lse = ctx.saved_tensors
        causal, scale, group, n, rank, balanced = ctx.how
        dq, there, back = torch.zeros_like(query), _Rotation(group, n, rank), _Rotation(group, n, rank)
        held, grads = (key, value), [torch.zeros_like(key), torch.zeros_like(value)]  # the gradients go around with what they are of
        for step in range(n):
            if step + 1 < n:
                there.start(held)
            does, made = _step(step, rank, n, causal, balanced), None
            if does is not None:
                rows, columns, diagonal = does
                q, g, o, s = (t if rows is None else _half(t, rows) for t in (query, grad, out, lse))
                k, v = held if columns is None else (_half(t, columns) for t in held)
                made = _flash_backward(g.contiguous(), q.contiguous(), k.contiguous(), v.contiguous(), o.contiguous(), s.contiguous(), 0.0, diagonal, scale=scale)
            if step:
                grads = back.wait()
            if made is not None:
                (dq if rows is None else _half(dq, rows)).add_(made[0])
                for total, part in zip(grads, made[1:]):
                    (total if columns is None else _half(total, columns)).add_(part)
            back.start(grads)
            if step + 1 < n:
                held = there.wait()
        grads = back.wait()
        return dq, grads[0], grads[1], None, None, None, None, None


def _gathered_attention(query, key, value, causal, scale, group, n, rank):
    """All keys and values at once, with a mask of positions."""
    from ...nn.functional import all_gather
    balanced, length = _cp_options.enable_load_balance, key.size(2)
    keys, values = (torch.cat(all_gather(t.contiguous(), group), 2) for t in (key, value))
    mask = None
    if causal:
        pieces = torch.arange(n * length, device=query.device).chunk(2 * n if balanced else n)
        at = torch.cat([pieces[p] for p in _order(n, balanced)])
        mask = at[rank * length:(rank + 1) * length, None] >= at[None, :]
    return _plain(query, keys, values, attn_mask=mask, scale=scale)


_plain = F.scaled_dot_product_attention
_ways = {"alltoall": _RingAttention.apply, "allgather": _gathered_attention}


def _attention_over(group, n, rank):
    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if attn_mask is not None or dropout_p:
            raise NotImplementedError("context_parallel: attention with attn_mask or dropout_p is not supported")
        if query.size(2) != key.size(2):
            raise NotImplementedError(f"context_parallel: {query.size(2)} queries and {key.size(2)} keys; both have to be parts of one sequence")
        if enable_gqa:
            key, value = (t.repeat_interleave(query.size(1) // key.size(1), 1) for t in (key, value))
        if n == 1:
            return _plain(query, key, value, is_causal=is_causal, scale=scale)
        return _ways[_cp_options.rotate_method](query, key, value, is_causal, scale, group, n, rank)
    return scaled_dot_product_attention


@contextlib.contextmanager
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
    """Inside, `buffers` are this process's parts of sequences (cut in place), and scaled_dot_product_attention is over the whole ones.

    Afterwards buffers are whole again, but for no_restore_buffers. Backward passes of what is computed inside belong inside, too.
    """
    buffers, dims, lost = list(buffers or []), list(buffer_seq_dims or []), no_restore_buffers or set()
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if any(not any(b is known for known in buffers) for b in lost):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    group, n, rank = _seq_mesh(mesh)
    kept = [None if any(b is other for other in lost) else b.detach().clone() for b in buffers]
    with torch.no_grad():
        for b, dim in zip(buffers, dims):
            part = _own(b, dim, n, rank, _cp_options.enable_load_balance)
            b.resize_(part.shape).copy_(part)
    before, F.scaled_dot_product_attention = F.scaled_dot_product_attention, _attention_over(group, n, rank)
    try:
        yield
    finally:
        F.scaled_dot_product_attention = before
        with torch.no_grad():
            for b, whole in zip(buffers, kept):
                if whole is not None:
                    b.resize_(whole.shape).copy_(whole)
