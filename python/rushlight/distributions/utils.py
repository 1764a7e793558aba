"""Shared by the distributions: broadcasting of parameters, probabilities and logits, lazily computed attributes."""
from numbers import Number
from typing import Generic, TypeVar

import rushlight as torch

__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property",
           "tril_matrix_to_vec", "vec_to_tril_matrix"]

T = TypeVar("T")
R = TypeVar("R")
euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """Numbers and tensors as tensors of one shape; numbers take dtype and device of the tensors among them."""
    for value in values:
        if not (torch.overrides.is_tensor_like(value) or isinstance(value, Number)):
            raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                             "__torch_function__.")
    first = next((v for v in values if torch.is_tensor(v)), None)
    if first is None:
        options = {"dtype": torch.get_default_dtype()}
    else:
        options = {"dtype": first.dtype, "device": first.device}
    made = [v if torch.overrides.is_tensor_like(v) else torch.tensor(v, **options) for v in values]
    return torch.broadcast_tensors(*made)


def _standard_normal(shape, dtype, device):
    return torch.normal(torch.zeros(shape, dtype=dtype, device=device), torch.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value, dim):
    """Sum over the last dim dimensions."""
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits, is_binary=False):
    return torch.sigmoid(logits) if is_binary else torch.nn.functional.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities strictly between 0 and 1."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    safe = clamp_probs(probs)
    return torch.log(safe) - torch.log1p(-safe) if is_binary else torch.log(safe)


class lazy_property(Generic[T, R]):
    """A property computed on first use (with gradients enabled), then kept as an attribute."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance, obj_type=None):
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a lazy_property looks like on the class: documented as a property."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat, diag=0):
    """The lower triangle (up to diagonal diag) as a vector, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError("diag (%d) provided is outside [%d, %d]." % (diag, -n, n - 1))
    rows, cols = torch.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, cols]


def vec_to_tril_matrix(vec, diag=0):
    """The inverse of tril_matrix_to_vec."""
    size = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * size + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    n = n.item() if isinstance(n, torch.Tensor) else n  # a size, while a program is traced
    if round(n) - n > torch.finfo(vec.dtype).eps:
        raise ValueError("The size of last dimension is %d which cannot be expressed as the lower triangular part of a "
                         "square D x D matrix." % size)
    n = round(n)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    rows, cols = torch.tril_indices(n, n, diag, device=vec.device)
    mat[..., rows, cols] = vec
    return mat
