"""torch.masked: reductions and normalisations that see only where a mask is true.

What is masked out takes the value that changes nothing: 0 in a sum, -inf in a maximum. A slice without any element gives
that value (of means and variances NaN).
"""
import functools
import math
import sys

import rushlight as torch

__all__ = ["amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor", "log_softmax", "logaddexp", "logsumexp",
           "masked_tensor", "MaskedTensor", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]


def _mask(input, mask):
    """The mask in the shape of input; None stands for all."""
    if mask is None:
        return None
    if mask.layout != torch.strided and input.layout == torch.strided:
        mask = mask.to_dense()
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    if mask.shape != input.shape:
        mask = torch.broadcast_to(mask.clone(), input.shape).to(dtype=torch.bool)
    return mask.to(torch.bool)


def _dims(dim, ndim):
    if dim is None or dim == () or dim == []:
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    out = []
    for d in dims:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
        d %= max(ndim, 1)
        if d in out:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        out.append(d)
    return tuple(out)


def _dim(dim, ndim):
    """Of functions along one dim: the first that is named, or the first of all."""
    return (*_dims(dim, ndim), 0)[0]


def _lowest(dtype):
    if dtype.is_floating_point or dtype.is_complex:
        return -math.inf
    return False if dtype == torch.bool else torch.iinfo(dtype).min


def _highest(dtype):
    if dtype.is_floating_point:
        return math.inf
    return True if dtype == torch.bool else torch.iinfo(dtype).max


def _filled(input, mask, value):
    """input with `value` where the mask is false."""
    mask = _mask(input, mask)
    if mask is None:
        return input
    return torch.where(mask, input, torch.tensor(value, dtype=input.dtype, device=input.device))


def _as(input, dtype, integers_widen=False):
    if dtype is None:
        dtype = torch.int64 if integers_widen and not (input.dtype.is_floating_point or input.dtype.is_complex) else input.dtype
    return input.to(dtype)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Sum over dims; 0 of nothing."""
    x = _as(input, dtype, True)
    return torch.sum(_filled(x, mask, 0), _dims(dim, x.ndim), bool(keepdim)) if x.ndim else _filled(x, mask, 0).clone()


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Product over dims; 1 of nothing."""
    x = _filled(_as(input, dtype, True), mask, 1)
    for d in sorted(_dims(dim, x.ndim), reverse=True):
        x = x.prod(dim=d, keepdim=bool(keepdim))
    return x


def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sum; what is masked out adds nothing."""
    x = _as(input, dtype)
    return torch.cumsum(_filled(x, mask, 0), _dim(dim, x.ndim), dtype=x.dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running product; what is masked out is 1."""
    x = _as(input, dtype)
    return torch.cumprod(_filled(x, mask, 1), _dim(dim, x.ndim), dtype=x.dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Maximum over dims; the lowest number of nothing."""
    x = _as(input, dtype)
    return torch.amax(_filled(x, mask, _lowest(x.dtype)), _dims(dim, x.ndim), bool(keepdim))


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Minimum over dims; the highest number of nothing."""
    x = _as(input, dtype)
    return torch.amin(_filled(x, mask, _highest(x.dtype)), _dims(dim, x.ndim), bool(keepdim))


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the maximum is, along one dim or of all elements, in input's dtype as PyTorch gives it."""
    x = _as(input, dtype)
    return torch.argmax(_filled(x, mask, _lowest(x.dtype)), dim, bool(keepdim)).to(x.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the minimum is."""
    x = _as(input, dtype)
    return torch.argmin(_filled(x, mask, _highest(x.dtype)), dim, bool(keepdim)).to(x.dtype)


def _count(x, dims, keepdim, mask):
    mask = _mask(x, mask)
    ones = torch.ones(x.shape, dtype=torch.int64, device=x.device) if mask is None else mask.to(torch.int64)
    return torch.sum(ones, dims, keepdim) if x.ndim else ones


def _wants_floats(name, dtype):
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"{name}(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {dtype}")


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Mean over dims; NaN of nothing."""
    x = _as(input, dtype)
    _wants_floats("mean", x.dtype)
    dims, keepdim = _dims(dim, x.ndim), bool(keepdim)
    if mask is None:
        return torch.mean(x, dims, keepdim) if x.ndim else x.clone()
    return sum(x, dims, keepdim=keepdim, mask=mask) / _count(x, dims, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median along dim of what is in the mask and not NaN; with a NaN among it, NaN."""
    x = _as(input, dtype)
    mask, dim = _mask(x, mask), _dim(dim, x.ndim)
    if mask is None:
        return torch.median(x, dim, bool(keepdim)).values
    if not x.dtype.is_floating_point:
        if not mask.any(dim).all():
            raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
        x = x.to(torch.float64)
        return torch.nanmedian(_filled(x, mask, math.nan), dim, bool(keepdim)).values.to(input.dtype)
    return torch.nanmedian(_filled(x, mask, math.nan), dim, bool(keepdim)).values


def _variance(name, input, dim, unbiased, correction, keepdim, dtype, mask, root):
    if unbiased is not None and correction is not None:
        raise RuntimeError(f"{name}: only one of unbiased and correction can be given")
    correction = float(unbiased is None or bool(unbiased)) if correction is None else float(correction)
    x = input.to(dtype) if dtype is not None else input
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        x = x.to(torch.float32)
    dims, keepdim = _dims(dim, x.ndim), bool(keepdim)
    count = _count(x, dims, True, mask)
    middle = torch.sum(_filled(x, mask, 0), dims, True) / count
    away = _filled(x - middle, mask, 0)
    squares = torch.sum((away * away.conj()).real if x.dtype.is_complex else away * away, dims, keepdim)
    if not keepdim:
        count = count.reshape(squares.shape)
    out = squares / torch.clamp((count - correction).to(squares.dtype), min=0)
    out = out.sqrt() if root else out
    return out.to(x.dtype) if x.dtype.is_complex else out


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Variance over dims."""
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask, False)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Standard deviation over dims."""
    return _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask, True)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Vector norm over dims."""
    x = _as(input, dtype)
    rest = math.inf if ord == -math.inf else 0
    return torch.linalg.vector_norm(_filled(x, mask, rest), ord, _dims(dim, x.ndim), bool(keepdim))


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """input over its norm along dim, the norm not below eps."""
    x = _as(input, dtype)
    bottom = norm(x, ord, dim, keepdim=True, mask=mask)
    return _filled(x, mask, 0) / torch.maximum(bottom, torch.full_like(bottom, eps))


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Logarithm of the sum of exponentials; -inf of nothing."""
    x = input.to(dtype) if dtype is not None else input
    return torch.logsumexp(_filled(x, mask, _lowest(x.dtype)), _dims(dim, x.ndim), bool(keepdim)).to(x.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), each where its mask is true."""
    x, y = _as(input, dtype), _as(other, dtype)
    return torch.logaddexp(_filled(x, input_mask, -math.inf), _filled(y, other_mask, -math.inf)).to(x.dtype)


def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax along dim of what is in the mask; NaN of nothing."""
    x = _as(input, dtype)
    return torch.nn.functional.softmax(_filled(x, mask, _lowest(x.dtype)), _dim(dim, x.ndim), dtype=x.dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """Logarithm of softmax."""
    x = _as(input, dtype)
    return torch.nn.functional.log_softmax(_filled(x, mask, _lowest(x.dtype)), _dim(dim, x.ndim), dtype=x.dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of -input."""
    x = _as(input, dtype)
    return torch.nn.functional.softmin(_filled(x, mask, _highest(x.dtype)), _dim(dim, x.ndim), dtype=x.dtype)


_ops = sys.modules[__name__]  # where PyTorch keeps them
from rushlight.masked.maskedtensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor  # noqa: E402


def _of_masked(f):
    """f, which takes a MaskedTensor for data and mask, too."""
    @functools.wraps(f)
    def function(input, *args, **kwargs):
        if is_masked_tensor(input):
            mask, more = input.get_mask(), kwargs.get("mask")
            kwargs["mask"] = mask if more is None else mask & _mask(mask, more)
            input = input.get_data()
        return f(input, *args, **kwargs)
    return function


def _of_sparse(f):
    """f of a sparse input, too: what it does not specify is zero where the mask is true; the result specifies the slices with any element."""
    name = f.__name__

    @functools.wraps(f)
    def function(input, *args, **kwargs):
        if input.layout == torch.strided:
            return f(input, *args, **kwargs)
        layouts = {"sum": (torch.sparse_coo, torch.sparse_csr), "mean": (torch.sparse_csr,)}
        if input.layout not in layouts.get(name, layouts["sum"] if name in ("prod", "amax", "amin") else ()):
            raise ValueError(f"masked {name} expects strided{' or sparse_csr' if name == 'mean' else ''} tensor (got {input.layout} tensor)")
        mask, csr = kwargs.pop("mask", None), input.layout == torch.sparse_csr
        if mask is None and name != "sum":
            raise ValueError(f"masked {name} expects explicit mask for {str(input.layout)[6:]} tensor input")
        if csr and not kwargs.get("keepdim"):
            raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
        dense = input.to_dense()
        pattern = input.detach().to_sparse() if mask is None else None
        mask = torch.sparse_coo_tensor(pattern._indices(), torch.ones_like(pattern._values(), dtype=torch.bool), pattern.shape) if mask is None else mask
        mask = _mask(dense, mask)
        some = mask.any(_dims(args[0] if args else kwargs.get("dim"), input.ndim), bool(kwargs.get("keepdim")))
        return f(dense, *args, mask=mask, **kwargs).sparse_mask(some.to_sparse_csr() if csr else some.to_sparse())
    return function


for _name in ("sum", "prod", "cumsum", "cumprod", "amax", "amin", "argmax", "argmin", "mean", "median", "var", "std", "norm", "normalize", "logsumexp", "softmax",
              "log_softmax", "softmin"):
    globals()[_name] = _of_masked(_of_sparse(globals()[_name]))
