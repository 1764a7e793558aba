"""Batch rules of indexing, and of gathering and scattering: places of an example as places of the batch."""
import rushlight as torch
from . import levels
from .batched import RULES, BatchedTensor, by_example, lift, name_of, rule, shifted, tensors_in, unwrap, whole, wrap


def _examples(rank, level, device):
    """The number of each example, in the shape of indices that have `rank` dimensions in an example."""
    return torch.arange(levels[level], device=device).reshape(-1, *[1] * rank)


def _aligned(indices, level):
    """(indices of the whole batch, whose batches line up; the rank that they have together in an example)"""
    return lift(*zip(*(unwrap(i, level) for i in indices))), max(i.ndim for i in indices)


def _placed(x, index, level):
    """(index for the whole batch of x, where an example's indexed dimensions go) for an index with batched tensors in it; None where that is not told here."""
    index = index if isinstance(index, tuple) else (index,)
    kinds = [i if i is None or i is ... or isinstance(i, slice) else "place" if isinstance(i, torch.Tensor) and i.dtype in (torch.int64, torch.int32) else
             "number" if type(i) is int else "other" for i in index]
    places = [k for k, kind in enumerate(kinds) if kind == "place"]
    if "other" in kinds or "number" in kinds or places[-1] - places[0] != len(places) - 1 or any(kind is ... for kind in kinds[:places[0]]):
        return None
    aligned, rank = _aligned([index[k] for k in places], level)
    index = [*index[:places[0]], *aligned, *index[places[-1] + 1:]]
    if unwrap(x, level)[1]:
        return (_examples(rank, level, x.device), *index), rank, places[0]
    return tuple(index), rank, places[0]


@rule("getitem")
def _getitem(func, args, kwargs, level):
    x, index = args
    if any(isinstance(i, BatchedTensor) and i.dtype in (torch.bool, torch.uint8) and i.ndim for i in tensors_in(index)):
        raise RuntimeError("vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing "
                           "with a boolean mask.")
    if any(unwrap(i, level)[1] for i in tensors_in(index)):
        placed = _placed(x, index, level)
        if placed is None:
            return by_example(func, args, kwargs, level)
        places, rank, at = placed
        value, batched = unwrap(x, level)
        out = value[places]
        if not batched:  # the batch is the first of the indexed dimensions
            return BatchedTensor(out.movedim(at, 0), level)
        # with the examples' numbers in front, dimensions between these and the others send all indexed ones to the front
        return BatchedTensor(out.movedim(tuple(range(1, rank + 1)), tuple(range(at + 1, at + 1 + rank))) if at and rank else out, level)
    if not unwrap(x, level)[1]:
        return by_example(func, args, kwargs, level)
    index = index if isinstance(index, tuple) else (index,)
    kinds = [None if i is None or i is ... or isinstance(i, slice) else "place" for i in index if type(i) is not int]
    if sum(kind is not None and before is None for before, kind in zip([None] + kinds, kinds)) > 1:
        return by_example(func, args, kwargs, level)  # places apart from each other: their dimensions would go before the batch's
    return BatchedTensor(x.value[(slice(None),) + index], level)


@rule("index")
def _index(func, args, kwargs, level):
    """As the library calls it: None for dimensions that are whole."""
    if not isinstance(func, torch._ops.OpOverload):
        return by_example(func, args, kwargs, level)
    return _getitem(func, (args[0], tuple(slice(None) if i is None else i for i in args[1])), {}, level)


# What takes a dimension, an index of as many dimensions as x and (scattering) a source: the names of what follows x.
ALONG = {"gather": ("dim", "index"), "take_along_dim": ("indices", "dim"), "scatter": ("dim", "index", "src"), "scatter_add": ("dim", "index", "src"),
         "scatter_reduce": ("dim", "index", "src", "reduce")}


def _along(func, args, kwargs, level):
    names = ALONG[name_of(func)]
    if "value" in kwargs:
        kwargs = dict(kwargs)
        names = ("dim", "index", "value")
    given = dict(zip(("input", *names), args), **kwargs)
    if "self" in given:
        given["input"] = given.pop("self")
    x, dim = given.pop("input", None), given.get("dim")
    index = given.get("index", given.get("indices"))
    if not isinstance(dim, int) or given.get("out") is not None or x.ndim == 0 or index.ndim != x.ndim:
        return by_example(func, args, kwargs, level)
    given["dim"] = shifted(dim, x.ndim)
    for k, v in given.items():
        if isinstance(v, torch.Tensor):
            if v.ndim != x.ndim:
                return by_example(func, args, kwargs, level)
            given[k] = whole(v, level)
    if "src" in given and not isinstance(given["src"], torch.Tensor):
        given["value"] = given.pop("src")
    return wrap(getattr(func, "overloadpacket", func)(whole(x, level), **given), level)


for _n in ALONG:
    RULES[_n] = _along


@rule("index_select")
def _index_select(func, args, kwargs, level):
    given = dict(zip(("input", "dim", "index"), args), **kwargs)
    x, dim, index = given.get("input", given.get("self")), given["dim"], given["index"]
    if x.ndim == 0 or index.ndim != 1 or "out" in given:
        return by_example(func, args, kwargs, level)
    (value, of_x), (places, of_index) = unwrap(x, level), unwrap(index, level)
    if not of_index:
        return BatchedTensor(value.index_select(shifted(dim, x.ndim), places), level)
    at = shifted(dim, x.ndim) - 1
    if not of_x:
        return BatchedTensor(value[(*[slice(None)] * at, places)].movedim(at, 0), level)
    return BatchedTensor(value.movedim(at + 1, 1)[_examples(1, level, x.device), places].movedim(1, at + 1), level)


@rule("index_add", "index_copy")
def _index_add(func, args, kwargs, level):
    """With an index that is the same for all."""
    given = dict(zip(("input", "dim", "index", "source"), args), **kwargs)
    x, index, source = given.pop("input", None), given["index"], given["source"]
    if x is None or unwrap(index, level)[1] or x.ndim == 0 or source.ndim != x.ndim or "out" in given:
        return by_example(func, args, kwargs, level)
    given |= {"dim": shifted(given["dim"], x.ndim), "source": whole(source, level)}
    return BatchedTensor(func(whole(x, level), **given), level)


@rule("index_fill")
def _index_fill(func, args, kwargs, level):
    """A value of each example's own is not one number."""
    given = dict(zip(("input", "dim", "index", "value"), args), **kwargs)
    x = given.pop("input", None)
    if x is None or x.ndim == 0 or unwrap(given["index"], level)[1] or isinstance(given["value"], BatchedTensor):
        return by_example(func, args, kwargs, level)
    return BatchedTensor(func(x.value, **given | {"dim": shifted(given["dim"], x.ndim)}), level)


@rule("index_put")
def _index_put(func, args, kwargs, level):
    """On the whole batch where the indexed dimensions are an example's first."""
    given = dict(zip(("input", "indices", "values", "accumulate"), args), **kwargs)
    x, index, values = given.get("input", given.get("self")), given["indices"], given["values"]
    index = tuple(slice(None) if i is None else i for i in index)
    tensors = [i for i in index if isinstance(i, torch.Tensor)]
    if not tensors or any(i.dtype not in (torch.int64, torch.int32) for i in tensors) or len(tensors) != len(index):
        return by_example(func, args, kwargs, level)
    places, rank = _aligned(tensors, level)
    value, batched = unwrap(values, level)
    inner = rank + x.ndim - len(index)
    if values.ndim > inner:
        return by_example(func, args, kwargs, level)
    value = value.reshape(*value.shape[:1], *[1] * (inner - values.ndim), *value.shape[1:]) if batched else value
    return BatchedTensor(torch.index_put(whole(x, level), (_examples(rank, level, x.device), *places), value, given.get("accumulate", False)), level)


@rule("embedding")
def _embedding(func, args, kwargs, level):
    """F.embedding(input, weight, ...) with a weight that is the same for all; the operation has them the other way round."""
    if isinstance(func, torch._ops.OpOverload):
        return by_example(func, args, kwargs, level)
    given = dict(zip(("input", "weight", "padding_idx"), args), **kwargs)
    index, weight = given.pop("input"), given["weight"]
    (places, of_index), (rows, of_rows) = unwrap(index, level), unwrap(weight, level)
    if given.get("max_norm") is not None:
        return by_example(func, args, kwargs, level)
    if not of_rows:
        return BatchedTensor(func(places, **given), level)
    if given.get("padding_idx") is not None or given.get("scale_grad_by_freq") or given.get("sparse"):
        return by_example(func, args, kwargs, level)
    return BatchedTensor(rows[_examples(index.ndim, level, weight.device), places], level) if of_index else BatchedTensor(rows[:, places], level)


@rule("one_hot")
def _one_hot(func, args, kwargs, level):
    """The number of classes must be told, or it would be of all examples."""
    given = dict(zip(("tensor", "num_classes"), args), **kwargs)
    if given.get("num_classes", -1) == -1:
        raise RuntimeError("When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument.")
    return BatchedTensor(func(args[0].value, given["num_classes"]), level) if args else by_example(func, args, kwargs, level)


@rule("searchsorted")
def _searchsorted(func, args, kwargs, level):
    given = dict(zip(("sorted_sequence", "input"), args), **kwargs)
    row, x = given.pop("sorted_sequence"), given.pop("input", None)
    if not isinstance(x, torch.Tensor) or given.get("sorter") is not None or row.ndim != x.ndim or x.ndim == 0:
        return by_example(func, args, kwargs, level)
    if unwrap(row, level)[1] or row.ndim > 1:
        return BatchedTensor(func(whole(row, level).contiguous(), whole(x, level).contiguous(), **given), level)
    return BatchedTensor(func(row, x.value, **given), level)
