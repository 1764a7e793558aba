"""Batches cut into microbatches, and results put together."""
import rushlight as torch

__all__ = ["TensorChunkSpec", "split_args_kwargs_into_chunks", "merge_chunks"]


class TensorChunkSpec:
    """The dimension along which a tensor is cut."""

    def __init__(self, split_dim):
        self.split_dim = split_dim

    def __repr__(self):
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims):
        return tuple(TensorChunkSpec(d) for d in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims):
        return {k: TensorChunkSpec(d) for k, d in chunk_dims.items()}


class _Replicate:
    """Not cut: every microbatch gets all of it."""


def _pieces(x, n, spec):
    if not isinstance(x, torch.Tensor) or spec is _Replicate or isinstance(spec, _Replicate):
        return [x] * n
    d = spec.split_dim if spec is not None else 0
    if x.size(d) < n:
        raise ValueError(f"a batch of {x.size(d)} cannot be cut into {n} microbatches")
    return list(x.tensor_split(n, d))


def split_args_kwargs_into_chunks(args, kwargs, chunks, args_chunk_spec=None, kwargs_chunk_spec=None):
    """([args of each microbatch], [kwargs of each])"""
    kwargs = kwargs or {}
    cut = [_pieces(a, chunks, args_chunk_spec[i] if args_chunk_spec else None) for i, a in enumerate(args)]
    named = {k: _pieces(v, chunks, kwargs_chunk_spec.get(k) if kwargs_chunk_spec else None) for k, v in kwargs.items()}
    return [tuple(c[i] for c in cut) for i in range(chunks)], [{k: v[i] for k, v in named.items()} for i in range(chunks)]


def merge_chunks(chunks, chunk_spec=None):
    """The results of microbatches as one."""
    first = chunks[0]
    if isinstance(first, torch.Tensor):
        if not first.dim():
            return torch.stack(list(chunks))
        spec = chunk_spec[0] if isinstance(chunk_spec, (tuple, list)) and chunk_spec else chunk_spec
        return torch.cat(list(chunks), spec.split_dim if isinstance(spec, TensorChunkSpec) else 0)
    if isinstance(first, (tuple, list)):
        return type(first)(merge_chunks([c[i] for c in chunks], chunk_spec[i] if isinstance(chunk_spec, (tuple, list)) and chunk_spec else None)
                           for i in range(len(first)))
    if isinstance(first, dict):
        return {k: merge_chunks([c[k] for c in chunks]) for k in first}
    return first
