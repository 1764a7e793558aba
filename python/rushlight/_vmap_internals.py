"""vmap under its address before torch.func."""
import warnings

from ._functorch.vmap import vmap as _vmap


def vmap(func, in_dims=0, out_dims=0):
    """Please use torch.vmap instead of this API."""
    warnings.warn("Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)
