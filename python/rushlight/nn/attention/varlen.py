"""Attention over sequences of several lengths that lie packed, one after the other, in one tensor."""
from typing import NamedTuple

import rushlight as torch

__all__ = ["varlen_attn", "AuxRequest"]


class AuxRequest(NamedTuple):
    """What varlen_attn returns beside its result: `lse`, the logarithm of the sum of exponentials of the scores."""
    lse: bool = False


def _window(length_q, length_k, window_size, device):
    """Which keys a query sees; the last query stands at the last key. None: all."""
    left, right = window_size
    if left < 0 and right < 0:
        return None
    offset = torch.arange(length_k, device=device) - torch.arange(length_q, device=device)[:, None] - (length_k - length_q)
    seen = torch.ones(length_q, length_k, dtype=torch.bool, device=device)
    if left >= 0:
        seen &= offset >= -left
    if right >= 0:
        seen &= offset <= right
    return seen


def _scores(q, k, seen, scale):
    """Of one sequence, in float32: (heads, queries, keys)."""
    scores = q.float() @ k.float().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return scores if seen is None else scores.masked_fill(~seen, float("-inf"))


def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None, window_size=(-1, -1), enable_gqa=False,
                seqused_k=None, block_table=None, num_splits=None):
    """scaled_dot_product_attention for each of N packed sequences.

    query: (all queries, heads, D); key, value: (all keys, heads, D), or pages (pages, tokens, heads, D) with `block_table`;
    cu_seq_q, cu_seq_k: (N + 1) where sequences begin and end; max_q, max_k: the longest; window_size: how many keys to the left
    and right of its own a query sees, -1 all: (-1, 0) is causal; enable_gqa: several heads of the query share one of the keys;
    seqused_k: (N) how many keys of each sequence count; block_table: (N, pages) where a sequence's keys lie; scale: of the
    scores, 1 / sqrt(D) by default; num_splits: a hint for devices. Returns (all queries, heads, D), with return_aux=AuxRequest(lse=True)
    also (all queries, heads). PyTorch has it for CUDA alone.

    >>> q, ends = torch.randn(5, 2, 8), torch.tensor([0, 2, 5], dtype=torch.int32)
    >>> torch.nn.attention.varlen.varlen_attn(q, q, q, ends, ends, 3, 3).shape
    torch.Size([5, 2, 8])
    """
    if query.dim() != 3:
        raise ValueError("varlen_attn: query must have 3 dims (queries, heads, D), not %d" % query.dim())
    if block_table is not None and seqused_k is None:
        raise ValueError("varlen_attn: block_table needs seqused_k")
    if not enable_gqa and query.shape[1] != key.shape[-2]:
        raise ValueError("varlen_attn: query has %d heads and key %d: several that share one need enable_gqa=True" % (query.shape[1], key.shape[-2]))
    ends_q = cu_seq_q.tolist()
    ends_k = cu_seq_k.tolist() if cu_seq_k is not None and block_table is None else None
    used = seqused_k.tolist() if seqused_k is not None else None
    results, sums = [], []
    for n in range(len(ends_q) - 1):
        q = query[ends_q[n]:ends_q[n + 1]].transpose(0, 1)
        if block_table is not None:
            pages = block_table[n, :-(-used[n] // key.shape[1])].long()
            k, v = (x[pages].flatten(0, 1)[:used[n]].transpose(0, 1) for x in (key, value))
        else:
            begin, end = ends_k[n:n + 2]
            end = end if used is None else begin + used[n]
            k, v = (x[begin:end].transpose(0, 1) for x in (key, value))
        seen = _window(q.shape[1], k.shape[1], window_size, query.device)
        results.append(torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=seen, scale=scale, enable_gqa=enable_gqa)[0].transpose(0, 1))
        if return_aux is not None and return_aux.lse:
            shared = k.repeat_interleave(q.shape[0] // k.shape[0], 0)
            sums.append(_scores(q, shared, seen, scale).logsumexp(-1).transpose(0, 1))
    out = torch.cat(results) if results else torch.zeros_like(query)
    return (out, torch.cat(sums)) if sums else out
