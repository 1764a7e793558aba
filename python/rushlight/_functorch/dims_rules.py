"""Batch rules of reductions and of whatever else names dimensions: those of an example, one less than those of the batch."""
import rushlight as torch
from .batched import RULES, BatchedTensor, alone, by_example, name_of, pointwise, rule, shifted, unwrap, wrap

# Where arguments that are dimensions stand: (position, keyword, default) each. Views stay views.
DIMS = {"select": [(1, "dim", None)], "narrow": [(1, "dim", None)], "unflatten": [(1, "dim", None)], "unfold": [(1, "dimension", None)],
        "unbind": [(1, "dim", 0)], "split": [(2, "dim", 0)], "chunk": [(2, "dim", 0)], "tensor_split": [(2, "dim", 0)],
        "diagonal": [(2, "dim1", 0), (3, "dim2", 1)], "movedim": [(1, "source", None), (2, "destination", None)],
        "moveaxis": [(1, "source", None), (2, "destination", None)], "transpose": [(1, "dim0", None), (2, "dim1", None)],
        "swapaxes": [(1, "axis0", None), (2, "axis1", None)], "swapdims": [(1, "dim0", None), (2, "dim1", None)], "permute": [(1, "dims", None)],
        "topk": [(2, "dim", -1)], "kthvalue": [(2, "dim", -1)], "cummax": [(1, "dim", None)], "cummin": [(1, "dim", None)], "logcumsumexp": [(1, "dim", None)],
        "slice": [(1, "dim", 0)], "glu": [(1, "dim", -1)], "diff": [(2, "dim", -1)], "normalize": [(2, "dim", 1)],
        "repeat_interleave": [(2, "dim", None)], "rot90": [(2, "dims", (0, 1))], "linalg_matrix_norm": [(2, "dim", (-2, -1))], "flip": [(1, "dims", None)],
        "fft_fft": [(2, "dim", -1)], "fft_ifft": [(2, "dim", -1)], "fft_rfft": [(2, "dim", -1)], "fft_irfft": [(2, "dim", -1)], "fft_hfft": [(2, "dim", -1)],
        "fft_ihfft": [(2, "dim", -1)], "fft_fft2": [(2, "dim", (-2, -1))], "fft_ifft2": [(2, "dim", (-2, -1))], "fft_rfft2": [(2, "dim", (-2, -1))],
        "fft_irfft2": [(2, "dim", (-2, -1))], "fft_fftshift": [(1, "dim", None)], "fft_ifftshift": [(1, "dim", None)]}


def _names_dims(func, args, kwargs, level):
    """Calls whose dimensions stand where DIMS says."""
    name = name_of(func)
    x = args[0] if args else None
    if name in ("permute", "flip") and len(args) > 2:
        args = (x, args[1:])
    if not alone(x, args, kwargs, level) or func is torch.nn.functional.unfold or kwargs.get("out") is not None:
        return by_example(func, args, kwargs, level)
    args, kwargs = list(args), dict(kwargs)
    for position, key, default in DIMS[name]:
        given = args[position] if position < len(args) else kwargs.get(key, default)
        if not isinstance(given, (int, tuple, list)):
            return by_example(func, args, kwargs, level)
        moved = shifted(given, x.ndim)
        if position < len(args):
            args[position] = (0, *moved) if name == "permute" else moved
        else:
            kwargs[key] = (0, *moved) if name == "permute" else moved
    return wrap(func(x.value, *args[1:], **kwargs), level)


for _n in DIMS:
    RULES[_n] = _names_dims

# What they do without a dimension: of all dimensions as a list or as one row, of the last, or something that only an example knows.
LIST, ROW, LAST, EXAMPLE = "list", "row", -1, None
REDUCTIONS = dict.fromkeys("sum nansum mean nanmean all any amax amin var std var_mean std_mean logsumexp norm linalg_vector_norm count_nonzero squeeze".split(), LIST)
REDUCTIONS |= dict.fromkeys("prod argmax argmin max min median nanmedian".split(), ROW) | dict.fromkeys("sort argsort mode".split(), LAST)
REDUCTIONS |= dict.fromkeys("softmax log_softmax softmin cumsum cumprod".split(), EXAMPLE)
OF_ROW = {"max": "amax", "min": "amin"}  # by what a reduction of everything gives only values


def _reduction(func, args, kwargs, level):
    """Argument 1 (of norms: 2) or dim= names dimensions of an example."""
    name, args, kwargs = name_of(func), list(args), dict(kwargs)
    x, place = args[0] if args else None, 2 if name in ("norm", "linalg_vector_norm") else 1
    if name in ("max", "min") and len(args) + len(kwargs) == 2 and isinstance((*args, *kwargs.values())[1], torch.Tensor):
        return pointwise(torch.maximum if name == "max" else torch.minimum, (*args, *kwargs.values()), {}, level)
    if kwargs.get("out") is not None or not isinstance(x, BatchedTensor):
        return by_example(func, args, kwargs, level)
    if place < len(args) and isinstance(args[place], bool) and name in ("std", "var", "std_mean", "var_mean"):
        kwargs["unbiased"] = args.pop(place)
    key = next((k for k in ("dim", "axis") if k in kwargs), None)
    dim = kwargs[key] if key else args[place] if place < len(args) else None
    if dim is None or isinstance(dim, (tuple, list)) and not len(dim) and REDUCTIONS[name] == LIST and name != "squeeze":
        whole = _of_all(func, name, x, args[1:place], args[place + 1:], {k: v for k, v in kwargs.items() if k != key}, level)
        return by_example(func, args, kwargs, level) if whole is None else whole
    if not alone(x, args, kwargs, level):
        return by_example(func, args, kwargs, level)
    dim = shifted(tuple(dim) if isinstance(dim, list) else dim, x.ndim)
    if key or place >= len(args):
        kwargs[key or "dim"] = dim
    else:
        args[place] = dim
    return wrap(func(x.value, *args[1:], **kwargs), level)


def _of_all(func, name, x, before, after, kwargs, level):
    """Without a dimension; `before` and `after` stand on either side of where it would. None where only an example knows."""
    func = getattr(func, "overloadpacket", func)  # another overload than the one that was called
    how = REDUCTIONS[name]
    if how == EXAMPLE or before and before[0] == "nuc" or kwargs.get("p") == "nuc" or after:
        return None
    if how == LAST:
        return wrap(func(x.value, **kwargs, dim=-1), level) if x.ndim else None
    if name == "squeeze":
        return BatchedTensor(x.value.squeeze(tuple(range(1, x.ndim + 1))), level) if x.ndim else x
    if kwargs.get("keepdim") and (how == ROW or not x.ndim):
        return None
    if how == ROW or not x.ndim:
        row = x.value.flatten(1) if x.ndim else x.value.unsqueeze(1)
        if name in OF_ROW:
            return BatchedTensor(getattr(torch, OF_ROW[name])(row, 1), level)
        out = func(row, *before, **kwargs, dim=1)
        return BatchedTensor(out[0], level) if name in ("median", "nanmedian") else wrap(out, level)
    return wrap(func(x.value, *before, **kwargs, dim=tuple(range(1, x.ndim + 1))), level)


for _n in REDUCTIONS:
    RULES[_n] = _reduction


@rule("linalg_norm")
def _linalg_norm(func, args, kwargs, level):
    given = dict(zip(("A", "ord", "dim", "keepdim"), args), **kwargs)
    x, order, dim = given.get("A", given.get("input")), given.get("ord"), given.get("dim")
    if not alone(x, args, kwargs, level) or dim is None and (given.get("keepdim") or order is not None and x.ndim > 2):
        return by_example(func, args, kwargs, level)
    value = x.value.flatten(1) if dim is None and order is None else x.value
    given = {k: v for k, v in given.items() if k not in ("A", "input")}
    return BatchedTensor(func(value, **given | {"dim": tuple(range(1, value.ndim)) if dim is None else shifted(dim, x.ndim)}), level)


@rule("fliplr", "flipud")
def _flip(func, args, kwargs, level):
    return args[0].flip(1 if name_of(func) == "fliplr" else 0)


@rule("roll")
def _roll(func, args, kwargs, level):
    """Without dimensions the elements of an example are one row."""
    given = dict(zip(("input", "shifts", "dims"), args), **kwargs)
    x, shifts, dims = given.get("input", given.get("self")), given["shifts"], given.get("dims")
    if not alone(x, args, kwargs, level):
        return by_example(func, args, kwargs, level)
    if dims is None or isinstance(dims, (tuple, list)) and not dims:
        return BatchedTensor(x.value.flatten(1).roll(shifts, 1).reshape(x.value.shape), level)
    return BatchedTensor(x.value.roll(shifts, shifted(dims, x.ndim)), level)


@rule("aminmax")
def _aminmax(func, args, kwargs, level):
    x, dim = args[0], kwargs.get("dim")
    if not alone(x, args, kwargs, level) or dim is None and kwargs.get("keepdim"):
        return by_example(func, args, kwargs, level)
    return wrap(func(x.value.flatten(1), dim=1) if dim is None else func(x.value, **kwargs | {"dim": shifted(dim, x.ndim)}), level)


@rule("repeat", "tile")
def _repeat(func, args, kwargs, level):
    """One count per dimension, of which there may be more than the example has, or (tile) fewer."""
    x, counts = args[0], args[1:] or tuple(kwargs.values())
    counts = tuple(counts[0]) if len(counts) == 1 and isinstance(counts[0], (tuple, list)) else tuple(counts)
    if not unwrap(x, level)[1] or not all(isinstance(n, int) for n in counts):
        return by_example(func, args, kwargs, level)
    if name_of(func) == "tile":
        counts = (1,) * (x.ndim - len(counts)) + counts
    value = x.value.reshape(x.value.shape[:1] + (1,) * (len(counts) - x.ndim) + x.value.shape[1:])
    return BatchedTensor(value.repeat((1, *counts)), level)
