"""make_tensor: random tensors of any type."""
import math
import warnings

import rushlight as torch

_RANGES = {torch.uint8: (0, 10), torch.int8: (-9, 10), torch.int16: (-9, 10), torch.int32: (-9, 10), torch.int64: (-9, 10)}


def make_tensor(*shape, dtype, device, low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False, memory_format=None):
    """A tensor of uniform values in [low, high)."""
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = shape[0]
    shape = tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got noncontiguous=%s "
                         "and memory_format=%s" % (noncontiguous, memory_format))

    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError("`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype=%s" % dtype)

    def bounds(lowest, highest, low_default, high_default):
        lo = low_default if low is None else low
        hi = high_default if high is None else high
        for value in (lo, hi):
            if isinstance(value, float) and math.isnan(value):
                raise ValueError("`low` and `high` cannot be NaN, but got low=%s and high=%s" % (lo, hi))
        if lo == hi and (dtype.is_floating_point or dtype.is_complex):
            warnings.warn("Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated; use torch.full() for a constant tensor.", FutureWarning, stacklevel=3)
        elif lo >= hi:
            raise ValueError("`low` must be less than `high`, but got %s >= %s" % (lo, hi))
        elif hi < lowest or lo > highest:
            raise ValueError("The value interval specified by `low` and `high` is [%s, %s), but %s only supports [%s, %s)" % (lo, hi, dtype, lowest, highest))
        return max(lowest, min(lo, highest)), max(lowest, min(hi, highest))

    if noncontiguous and math.prod(shape) > 1:
        shape = shape[:-1] + (2 * shape[-1],)
    if dtype is torch.bool:
        lo, hi = bounds(0, 2, 0, 2)
        result = torch.randint(int(lo), int(math.ceil(hi)), shape, device=device, dtype=dtype)
    elif dtype.is_complex:
        info = torch.finfo(dtype.to_real())
        lo, hi = bounds(info.min, info.max, -9, 9)
        result = torch.empty(shape, device=device, dtype=dtype)
        torch.view_as_real(result).uniform_(lo, hi)
    elif dtype.is_floating_point:
        info = torch.finfo(dtype)
        lo, hi = bounds(info.min, info.max, -9, 9)
        if str(dtype).startswith("torch.float8"):
            result = torch.empty(shape, device=device, dtype=torch.float32).uniform_(lo, hi).to(dtype)
        else:
            result = torch.empty(shape, device=device, dtype=dtype).uniform_(lo, hi)
    elif dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64):
        info = torch.iinfo(dtype)
        default = _RANGES.get(dtype, (0, 10))
        lo, hi = bounds(info.min, info.max + 1 if dtype is not torch.int64 else info.max, *default)
        result = torch.randint(int(math.ceil(lo)), int(math.ceil(hi)), shape, device=device, dtype=dtype)
    else:
        raise TypeError("The requested dtype '%s' is not supported by torch.testing.make_tensor(). To request support, file "
                        "an issue at: https://github.com/pytorch/pytorch/issues" % dtype)
    if noncontiguous and math.prod(shape) > 1:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        one = torch.finfo(result.dtype).tiny if result.is_floating_point() or result.is_complex() else 1
        result[result == 0] = one
    if requires_grad:
        result.requires_grad = True
    return result
