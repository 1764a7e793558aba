"""Helpers of torch._dynamo that packages ask."""
import contextlib
import dataclasses
import functools
import warnings

import rushlight as torch

counters = {}


@functools.lru_cache(None)
def warn_once(msg, stacklevel=1):
    """A warning, the first time that it is given."""
    warnings.warn(msg, stacklevel=stacklevel + 1)


def is_compile_supported(device_type):
    """Whether functions on this device would be compiled: no."""
    return False


@contextlib.contextmanager
def disable_cache_limit():
    """No limit of what is compiled, while the context lasts."""
    yield


def guard_size_oblivious(x):
    return bool(x)


def _same_tensors(ref, res, tol, equal_nan, exact_dtype):
    if not isinstance(res, torch.Tensor) or ref.shape != res.shape or exact_dtype and ref.dtype != res.dtype:
        return False
    if not ref.dtype.is_floating_point and not ref.dtype.is_complex:
        return torch.equal(ref, res.to(ref.dtype))
    return torch.allclose(ref.detach(), res.detach().to(ref.dtype), atol=tol, rtol=tol, equal_nan=equal_nan)


def same(ref, res, fp64_ref=None, cos_similarity=False, tol=1e-4, equal_nan=False, exact_dtype=True, relax_numpy_equality=False, **more):
    """Whether two results are equal, tensors among them up to tol (or, with cos_similarity, up to the angle between them)."""
    options = {"cos_similarity": cos_similarity, "tol": tol, "equal_nan": equal_nan, "exact_dtype": exact_dtype}
    if isinstance(ref, (list, tuple, torch.Size)):
        return isinstance(res, (list, tuple)) and len(ref) == len(res) and all(same(a, b, **options) for a, b in zip(ref, res))
    if isinstance(ref, dict):
        return isinstance(res, dict) and set(ref) == set(res) and all(same(ref[key], res[key], **options) for key in ref)
    if isinstance(ref, torch.Tensor):
        if cos_similarity and isinstance(res, torch.Tensor) and ref.shape == res.shape:
            a, b = ref.detach().flatten().to(torch.float64), res.detach().flatten().to(torch.float64)
            return bool(torch.nn.functional.cosine_similarity(a, b, dim=0) >= 0.99) or bool((a == b).all())
        return _same_tensors(ref, res, tol, equal_nan, exact_dtype)
    if dataclasses.is_dataclass(ref) and not isinstance(ref, type):
        return type(ref) is type(res) and all(same(getattr(ref, f.name), getattr(res, f.name), **options) for f in dataclasses.fields(ref))
    if isinstance(ref, float):
        return isinstance(res, (int, float)) and (ref == res or abs(ref - res) <= tol * abs(ref))
    return bool(ref == res)
