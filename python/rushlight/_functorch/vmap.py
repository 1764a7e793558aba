"""vmap: run a function written for one example on a batch of them."""
import functools

import rushlight as torch
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from . import batch_rules, dims_rules, draw_modes, levels, place_rules, whole_rules  # noqa: F401 (the rules register themselves)
from .batched import BatchedTensor, unwrap
from .draws import Draws

Tensor = torch.Tensor


def _get_name(func):
    return getattr(func, "__name__", None) or repr(func)


# ---- the steps, under PyTorch's names: tensordict puts its own in their places ----


def _process_batched_inputs(in_dims, args, func):
    """(the size of the batch, the dimension of each leaf to map over or None, the leaves of args, their spec)"""
    if not args:
        raise ValueError(f"vmap({_get_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
                         "function with no inputs. The latter is unsupported.")
    call = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    flat, spec = tree_flatten(args)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}.")
    dims = _broadcast_to_and_flatten(in_dims, spec)
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
    return sizes[0], dims, flat, spec


def _add_batch_dim(x, in_dim, level):
    return BatchedTensor(x.movedim(in_dim, 0), level)


def _create_batched_inputs(dims, flat, level, spec):
    return tree_unflatten([x if d is None else _add_batch_dim(x, d, level) for x, d in zip(flat, dims)], spec)


def _remove_batch_dim(x, level, batch_size, out_dim):
    """The whole batch of x, which is repeated if it is the same for all examples."""
    value, batched = unwrap(x, level)
    if not batched:
        value = value.unsqueeze(0).expand(batch_size, *value.shape)
    return value.movedim(0, out_dim) if out_dim else value


def _maybe_remove_batch_dim(name, x, level, batch_size, out_dim):
    """An output of the function of this name."""
    if not isinstance(x, Tensor):
        if out_dim is not None:
            raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set out_dims= to None for output?")
        return x
    if out_dim is not None:
        return _remove_batch_dim(x, level, batch_size, out_dim)
    if unwrap(x, level)[1]:
        raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
    return x


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


def _output_dims(out_dims, out, spec):
    """One of out_dims per leaf of out; a tuple of one serves a single tensor, too."""
    return list(out_dims) if isinstance(out, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1 else _broadcast_to_and_flatten(out_dims, spec)


def _unwrap_batched(out, out_dims, level, size, func):
    flat, spec = tree_flatten(out)
    dims = _output_dims(out_dims, out, spec)
    if dims is None:
        raise ValueError(f"vmap({_get_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
                         f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}.")
    return tree_unflatten([_maybe_remove_batch_dim(_get_name(func), x, level, size, d) for x, d in zip(flat, dims)], spec)


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
            raise ValueError(f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
                             "representing where in the outputs the vmapped dimension should appear.")
        size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)

        def run(part, part_size):
            def body(level):
                return _unwrap_batched(func(*_create_batched_inputs(dims, part, level, spec), **kwargs), out_dims, level, part_size, func)
            return _run_levelled(part_size, randomness, body)

        if chunk_size is None or chunk_size >= size:
            return run(flat, size)
        outs, state = [], torch.random._states()
        for begin in range(0, size, chunk_size):
            k = min(chunk_size, size - begin)
            if randomness == "same":
                torch.random._go_on_from(state)
            outs.append(run([x.narrow(d, begin, k) if d is not None else x for x, d in zip(flat, dims)], k))
        leaves = [tree_flatten(o) for o in outs]
        kinds = _output_dims(out_dims, outs[0], leaves[0][1])
        return tree_unflatten([torch.cat(parts, d or 0) for parts, d in zip(zip(*(f for f, _ in leaves)), kinds)], leaves[0][1])
    return batched
