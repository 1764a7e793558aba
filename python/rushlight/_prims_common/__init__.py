"""torch._prims_common: rules of shapes and types."""
import operator
from functools import reduce

import rushlight as torch

# What annotations say
StrideType = DimsSequenceType = list[int] | tuple[int, ...]
ShapeType, DimsType = torch.Size | StrideType, int | StrideType
NumberType = bool | int | float | complex
DeviceLikeType = str | torch.device | int
TensorLikeType = torch.Tensor
TensorOrNumberLikeType = TensorLikeType | NumberType


def is_boolean_dtype(dtype):
    return dtype is torch.bool


def is_float_dtype(dtype):
    return dtype.is_floating_point


def is_complex_dtype(dtype):
    return dtype.is_complex


def is_integer_dtype(dtype):
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def is_contiguous(a, *args):
    return a.is_contiguous()


is_contiguous_or_false = definitely_contiguous = is_contiguous


def corresponding_real_dtype(dtype):
    return dtype.to_real()


def corresponding_complex_dtype(dtype):
    return dtype.to_complex()


def make_contiguous_strides_for(shape, row_major=True):
    result, step = [], 1
    for size in reversed(tuple(shape)):
        result.append(step)
        step *= max(size, 1)
    return tuple(reversed(result))


def canonicalize_dim(rank, idx, wrap_scalar=True):
    """A dimension number counted from the front."""
    if rank == 0 and wrap_scalar:
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError("Dimension out of range (expected to be in range of [%d, %d], but got %d)" % (-rank, rank - 1, idx))
    return idx + rank if idx < 0 else idx


def canonicalize_dims(rank, indices, wrap_scalar=True):
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)


def dtype_to_type(dtype):
    return bool if dtype is torch.bool else complex if dtype.is_complex else float if dtype.is_floating_point else int


def prod(xs):
    return reduce(operator.mul, xs, 1)


def suggest_memory_format(x):
    """The memory format that a tensor's strides are like: channels innermost, or not."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if x.ndim not in formats or x.stride(1) == 0:
        return torch.contiguous_format
    least = 0
    for dim in (1, *range(x.ndim - 1, 1, -1), 0):
        size, step = x.size(dim), x.stride(dim)
        # A batch of one pixel each looks like both: contiguous then.
        if size == 0 or step < least or dim == 0 and least == x.stride(1):
            return torch.contiguous_format
        least = step * max(size, 1)
    return formats[x.ndim]
