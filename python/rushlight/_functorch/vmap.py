"""vmap: run a function written for one example on a batch of them."""
import functools
import itertools

import rushlight as torch
from ..utils._pytree import tree_flatten, tree_unflatten
from . import batch_rules, draw_modes, levels  # noqa: F401 (the rules register themselves)
from .batched import BatchedTensor, unwrap
from .draws import Draws

Tensor = torch.Tensor


def _called(func):
    return getattr(func, "__name__", None) or repr(func)


def _spread(dims, tree):
    """One of dims per leaf of the tree; None where the two don't fit."""
    if not isinstance(dims, (tuple, list, dict)):
        return [dims] * len(tree_flatten(tree)[0])
    if type(dims) is not type(tree) or len(dims) != len(tree) or isinstance(dims, dict) and dims.keys() != tree.keys():
        return None
    parts = [_spread(dims[k], tree[k]) for k in tree] if isinstance(dims, dict) else [_spread(d, x) for d, x in zip(dims, tree)]
    return None if None in parts else list(itertools.chain(*parts))


def _in_dims(in_dims, args, func):
    """(leaves of args, the dimension of each to map over or None, the spec, the size of the batch)"""
    if not args:
        raise ValueError(f"vmap({_called(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
                         "function with no inputs. The latter is unsupported.")
    call = f"vmap({_called(func)}, in_dims={in_dims}, ...)(<inputs>)"
    flat, spec = tree_flatten(args)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}.")
    dims = _spread(in_dims, args)
    if dims is None:
        raise ValueError(f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has structure {tree_flatten(in_dims)[1]} "
                         f"but inputs has structure {spec}.")
    for x, d in zip(flat, dims):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(f"{call}: Got in_dim={d} for an input but in_dim must be either an integer dimension or None.")
        if not isinstance(x, Tensor):
            raise ValueError(f"{call}: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, "
                             "please use None as the respective in_dim")
        if not -x.ndim <= d < x.ndim:
            raise ValueError(f"{call}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {x.ndim} "
                             f"so expected in_dim to satisfy -{x.ndim} <= in_dim < {x.ndim}.")
    sizes = [x.shape[d] for x, d in zip(flat, dims) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension")
    return flat, dims, spec, sizes[0]


def _run_levelled(size, randomness, body):
    levels.append(size)
    draw_modes.append(randomness)
    try:
        if len(levels) > 1:
            return body(len(levels) - 1)
        with Draws():
            return body(0)
    finally:
        levels.pop()
        draw_modes.pop()


def _output_dims(out_dims, out):
    """One of out_dims per leaf of out; a tuple of one serves a single tensor, too."""
    return list(out_dims) if isinstance(out, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1 else _spread(out_dims, out)


def _unwrap_outputs(func, out, out_dims, level, size):
    flat, spec = tree_flatten(out)
    dims = _output_dims(out_dims, out)
    if dims is None:
        raise ValueError(f"vmap({_called(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
                         f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}.")
    results = []
    for x, d in zip(flat, dims):
        if not isinstance(x, Tensor):
            if d is not None:
                raise ValueError(f"vmap({_called(func)}, ...): `{_called(func)}` must only return Tensors, got type {type(x)}. "
                                 "Did you mean to set out_dims= to None for output?")
            results.append(x)
            continue
        value, batched = unwrap(x, level)
        if d is None:
            if batched:
                raise ValueError(f"vmap({_called(func)}, ...): `{_called(func)}` can not return a BatchedTensor when out_dim is None")
            results.append(value)
            continue
        if not batched:
            value = value.unsqueeze(0).expand(size, *value.shape)
        results.append(value.movedim(0, d) if d else value)
    return tree_unflatten(results, spec)


def check_randomness(randomness):
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """`func` for a batch: a positional tensor input is an example per index of its dimension in `in_dims` (None: the same
    for all, as those given by keyword are); the outputs' batch goes to `out_dims`. randomness: "error", "different" or "same" across examples.
    chunk_size: that many examples at a time."""
    check_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def batched(*args, **kwargs):
        if not all(d is None or isinstance(d, int) for d in tree_flatten(out_dims)[0]):
            raise ValueError(f"vmap({_called(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
                             "representing where in the outputs the vmapped dimension should appear.")
        flat, dims, spec, size = _in_dims(in_dims, args, func)

        def run(part, part_size):
            def body(level):
                made = [BatchedTensor(x.movedim(d, 0), level) if d is not None else x for x, d in zip(part, dims)]
                return _unwrap_outputs(func, func(*tree_unflatten(made, spec), **kwargs), out_dims, level, part_size)
            return _run_levelled(part_size, randomness, body)

        if chunk_size is None or chunk_size >= size:
            return run(flat, size)
        outs, state = [], torch.random._states()
        for begin in range(0, size, chunk_size):
            k = min(chunk_size, size - begin)
            if randomness == "same":
                torch.random._go_on_from(state)
            outs.append(run([x.narrow(d, begin, k) if d is not None else x for x, d in zip(flat, dims)], k))
        kinds = _output_dims(out_dims, outs[0])
        leaves = [tree_flatten(o) for o in outs]
        return tree_unflatten([torch.cat(parts, d or 0) for parts, d in zip(zip(*(f for f, _ in leaves)), kinds)], leaves[0][1])
    return batched
