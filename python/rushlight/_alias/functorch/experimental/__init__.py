"""functorch.experimental: vmap in chunks, and names that moved on."""
import torch
from torch.func import functionalize, hessian, jacfwd, jvp, replace_all_batch_norm_modules_

__all__ = ["chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """vmap that runs `chunks` parts of the batch one after the other."""
    def chunked(*args, **kwargs):
        pairs = [(x, d) for x, d in zip(args, in_dims if isinstance(in_dims, tuple) else [in_dims] * len(args)) if d is not None]
        leaf, dim = next((x, d) for x, d in pairs if isinstance(x, torch.Tensor) and isinstance(d, int))
        size = max(1, -(-leaf.shape[dim] // chunks))
        return torch.vmap(func, in_dims, out_dims, randomness, chunk_size=size)(*args, **kwargs)
    return chunked
