"""What operations do with nested tensors of jagged layout: a rule per kind of operation, and tables of who follows which.

A rule gets the operation and its arguments, and runs it on values (total, ...), where the dims of the nested tensor (batch,
..., ragged, ...) are one less: the batch is in the ragged one. What has to see parts as wholes goes through the padded
tensor, with what changes nothing (0 of a sum, -inf of a maximum) where no part is. BELOW are operations as
__torch_dispatch__ sees them; ABOVE are functions that must not be taken to pieces before, by their Python names.
"""
import math

import rushlight as torch
from rushlight.nested._internal.base import NestedInt, code, is_ragged
from rushlight.nested._internal.nested_tensor import NestedTensor

aten = torch.ops.aten


def extract_kwargs(nested):
    """What makes a nested tensor of the same structure from other values."""
    return {"offsets": nested._offsets, "lengths": nested._lengths, "_metadata_cache": nested._metadata_cache, "_ragged_idx": nested._ragged_idx}


def _is(x):
    return isinstance(x, NestedTensor)


def _nested_in(args):
    """The nested tensors among arguments, those in lists too."""
    for a in args:
        if _is(a):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from _nested_in(a)


def _name(func):
    return func._opname if isinstance(func, torch._ops.OpOverload) else func.__name__


def _wrap_dim(x, dim):
    if not -x.dim() <= dim < x.dim():
        raise IndexError("Dimension out of range (expected to be in range of [%d, %d], but got %d)" % (-x.dim(), x.dim() - 1, dim))
    return dim % x.dim()


def _inner(x, dim, name, ragged_too=False):
    """The dim of values that is this dim of x; an error where a part would have to be looked at."""
    dim = _wrap_dim(x, dim)
    if dim == 0:
        raise RuntimeError("%s(): not supported for NestedTensor on dim=0" % name)
    if dim == x._ragged_idx and not ragged_too:
        raise RuntimeError("%s(): not supported for NestedTensor on ragged dim" % name)
    return dim - 1


# ---- padded and back


def padded(x, padding=0.0, longest=None):
    """(batch, ..., longest, ...): the ragged dim as long as its longest part."""
    if x._lengths is not None:
        raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
    at = x._ragged_idx - 1
    exact = x.dtype.is_floating_point or abs(padding) < 2**53  # the operation takes a float
    rows = aten._jagged_to_padded_dense_forward(x._dense.movedim(at, 0), [x._offsets], [x._max_seqlen if longest is None else longest],
                                                padding if exact else 0.0)
    if not exact:
        inside = torch.arange(rows.size(1), device=rows.device) < x._part_lengths().unsqueeze(1)
        rows = rows.masked_fill(~inside.reshape(inside.shape + (1,) * (rows.dim() - 2)), padding)
    return rows.movedim(1, at + 1)


def unpadded(dense, like, ragged_idx=None):
    """The parts of a padded tensor, as long as those of `like`."""
    at = like._ragged_idx if ragged_idx is None else ragged_idx
    total = like._dense.size(like._ragged_idx - 1)
    values = aten._padded_dense_to_jagged_forward(dense.movedim(at, 1), [like._offsets], total)
    return like._like(values.movedim(0, at - 1), at)


# ---- elementwise


def _shape_error(func, a, b):
    return RuntimeError("cannot call binary pointwise function %s with inputs of shapes %s and %s"
                        % (str(func)[5:], *(t._sizes if _is(t) else t.shape for t in (a, b))))


_LIKE_ALIKE = ("cat", "stack", "copy_")  # whose operands need the same lengths only, not the same offsets object


def _beside(func, like, t):
    """A tensor as an operand beside like's values."""
    if _is(t):
        same = t._sizes[t._ragged_idx] == like._sizes[like._ragged_idx] or (_name(func) in _LIKE_ALIKE and torch.equal(t._part_lengths(), like._part_lengths()))
        if t._ragged_idx != like._ragged_idx or not same:
            raise _shape_error(func, like, t)
        return t._dense
    if t.dim() == 0 or t.dim() < like.dim() - like._ragged_idx:
        return t
    sizes, at = (1,) * (like.dim() - t.dim()) + tuple(t.shape), like._ragged_idx
    if t.dim() > like.dim() or sizes[0] not in (1, like._sizes[0]) or (sizes[at] != 1 and (t.dim() != like.dim() or sizes[at] != like._max_seqlen)):
        raise _shape_error(func, like, t)
    t = t.reshape(sizes)
    if sizes[0] == 1 and sizes[at] == 1:
        return t.squeeze(0)
    if sizes[at] == 1:
        lengths = like._part_lengths() if like._lengths is None else like._offsets.diff()
        return t.movedim(at, 1).squeeze(1).repeat_interleave(lengths, 0, output_size=like._dense.size(at - 1)).movedim(0, at - 1)
    return unpadded(t.expand(like._sizes[0], *t.shape[1:]), like)._dense


def elementwise(func, *args, **kwargs):
    """Values with values. Dense operands are broadcast; in place, the first argument is what comes back."""
    like = max(_nested_in((*args, *kwargs.values())), key=lambda x: x.dim())
    tensors = lambda a: _beside(func, like, a) if isinstance(a, torch.Tensor) else a
    if any(isinstance(a, NestedInt) for a in args):
        raise RuntimeError("NestedTensor %s: invalid argument %s" % (str(func)[5:], next(a for a in args if isinstance(a, NestedInt))))
    if any(t.dim() != like.dim() for t in _nested_in(args)):
        raise _shape_error(func, *list(_nested_in(args))[:2])
    if kwargs.get("layout") is torch.jagged:
        kwargs = {k: v for k, v in kwargs.items() if k != "layout"}
    result = func(*map(tensors, args), **{k: tensors(v) for k, v in kwargs.items()})
    if _is(args[0]) and _name(func).endswith("_"):
        return args[0]
    return tuple(map(like._like, result)) if isinstance(result, tuple) else like._like(result)


# ---- reductions

def _bottom(dtype):
    return False if dtype is torch.bool else (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).min


def _top(dtype):
    return True if dtype is torch.bool else (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).max


_NEUTRAL = {"sum": lambda d: 0, "mean": lambda d: 0, "any": lambda d: 0, "prod": lambda d: 1, "all": lambda d: 1, "amax": _bottom, "max": _bottom,
            "argmax": _bottom, "amin": _top, "min": _top, "argmin": _top}


def _without(x, dims, keepdim, values):
    """The result of reducing dims (of x) of values, nested again."""
    gone = 0 if keepdim else sum(d < x._ragged_idx for d in dims)
    return x._like(values, x._ragged_idx - gone)


def _each(func, results, make):
    """make of each result; pairs keep their class."""
    if isinstance(results, torch.Tensor):
        return make(results)
    return type(results)(map(make, results)) if hasattr(results, "values") else tuple(map(make, results))


def _over_parts(func, x, dim, keepdim, kwargs):
    """The ragged dim alone: of the padded tensor."""
    name = _name(func)
    if x._lengths is not None:
        raise RuntimeError("%s(): reducing across the ragged dimension is not supported for non-contiguous nested tensors with holes" % name)
    filled = padded(x, _NEUTRAL[name](x.dtype))
    if name == "mean":
        lengths = x._part_lengths().reshape((-1,) + (1,) * (x.dim() - 1 if keepdim else x.dim() - 2))
        return aten.sum.dim_IntList(filled, dim, keepdim, **kwargs) / lengths
    return func(filled, dim, keepdim, **kwargs)


def reduction(func, x, dim=None, keepdim=False, **kwargs):
    """Over all; over the batch with the ragged dim; over the ragged dim alone; over dims that every element of values has."""
    if dim is None or dim == []:
        return func(x._dense, **kwargs)
    listed = isinstance(dim, (list, tuple))
    dims = sorted({_wrap_dim(x, d) for d in (dim if listed else [dim])})
    again = (lambda d: list(d)) if listed else (lambda d: d[0])
    name = _name(func)
    if 0 in dims:
        if x._ragged_idx not in dims:
            raise RuntimeError("%s(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors" % name)
        result = func(x._dense, again([d - 1 for d in dims[1:]]), keepdim, **kwargs)
        return _each(func, result, lambda r: r.unsqueeze(0)) if keepdim else result
    if x._ragged_idx in dims:
        if len(dims) > 1:
            raise RuntimeError("%s(): reducing along a ragged and non-batch dimension is not supported for nested tensors" % name)
        return _over_parts(func, x, again(dims), keepdim, kwargs)
    result = func(x._dense, again([d - 1 for d in dims]), keepdim, **kwargs)
    return _each(func, result, lambda r: _without(x, dims, keepdim, r))


def softmax(func, x, dim, *rest):
    name = _name(func).lstrip("_")
    dim = _wrap_dim(x, dim)
    if dim == 0:
        raise RuntimeError("%s(): not supported when reducing across the batch dimension for NestedTensor" % name)
    if dim != x._ragged_idx:
        return x._like(func(x._dense, dim - 1, *rest))
    if name != "softmax":
        raise RuntimeError("%s(): not supported when reducing along the ragged dimension for NestedTensor" % name)
    if dim > 1:
        raise RuntimeError("softmax(): not supported when reducing along the ragged dimension for ragged_idx > 1 for NestedTensor")
    if x._lengths is not None:
        raise RuntimeError("softmax(): not supported where lengths is not None if reducing across the ragged dimension for NestedTensor")
    return unpadded(func(padded(x, -math.inf), dim, *rest), x)


def trailing(func, x, *args, **kwargs):
    """Over the last dims of values, which are named by their sizes: normalisation. Only the first result is nested."""
    result = func(x._dense, *args, **kwargs)
    return (x._like(result[0]), *result[1:]) if isinstance(result, tuple) else x._like(result)


def layer_norm(func, x, normalized_shape, *args, weight=None, bias=None, eps=1e-5):
    """With the ragged dim among those of normalized_shape each part is one row."""
    if not any(is_ragged(code(s)) for s in normalized_shape):
        return func(x, normalized_shape, *args, **({} if args else {"weight": weight, "bias": bias, "eps": eps}))
    weight, bias, eps = (*args[:3], *(weight, bias, eps)[len(args[:3]):])
    if len(normalized_shape) == x.dim():
        raise RuntimeError("layer_norm(): not supported when normalizing over the batch dimension for NestedTensor")
    if x._ragged_idx != 1 or [code(s) for s in normalized_shape] != [code(s) for s in x._sizes[1:]]:
        raise RuntimeError("layer_norm(): Given normalized_shape=%s, expected input with shape [*, %s], but got input of size %s"
                           % (list(normalized_shape), ", ".join(map(str, normalized_shape)), x._sizes))
    values = torch.cat([torch.layer_norm(t, t.shape, eps=eps) for t in x.unbind()])
    if len(values) != len(x._dense):
        raise NotImplementedError("layer_norm(): over the ragged dimension of a nested tensor with holes it is not supported: see contiguous()")
    values = values if weight is None else values * weight
    return x._like(values if bias is None else values + bias)


# ---- products


def _no_product(a, b):
    return RuntimeError("matmul(): not supported between inputs of shapes %s and %s" % tuple(t._sizes if _is(t) and t is a else t.shape for t in (a, b)))


def matmul(func, a, b):
    """Where the ragged dim is no dim of the product, values do; elsewhere parts, padded with zeros."""
    if _is(a) and _is(b):
        if a._sizes[a._ragged_idx] != b._sizes[b._ragged_idx] or a.dim() != b.dim() or a.dim() < 3:
            raise _no_product(a, b)
        if a._ragged_idx == a.dim() - 1 and b._ragged_idx == b.dim() - 2:
            return torch.matmul(padded(a), padded(b))
        if a._ragged_idx == b._ragged_idx < a.dim() - 2:
            return a._like(torch.matmul(a._dense, b._dense))
        raise _no_product(a, b)
    x, dense, first = (a, b, True) if _is(a) else (b, a, False)
    summed = x.dim() - (1 if first else 2)  # the dim that disappears
    if dense.dim() < 2 or x._ragged_idx == summed or x.dim() < 3:
        raise _no_product(a, b)
    if dense.dim() == 2:
        return x._like(torch.matmul(x._dense, dense) if first else torch.matmul(dense, x._dense))
    if dense.dim() != x.dim() or dense.size(0) != x._sizes[0]:
        raise _no_product(a, b)
    return unpadded(torch.matmul(padded(x), dense) if first else torch.matmul(dense, padded(x)), x)


def linear(func, input, weight, bias=None):
    if not _is(input) or _is(weight) or input._ragged_idx == input.dim() - 1:
        raise ValueError("NestedTensor linear_default(input: jt, weight: t, bias: t?): expected input to be a contiguous jagged layout NestedTensor")
    return input._like(torch.nn.functional.linear(input._dense, weight, bias))


def embedding(func, weight, indices, *args, **kwargs):
    return indices._like(func(weight, indices._dense, *args, **kwargs))


def attention(func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Part by part, (batch, heads, ragged, width): parts see themselves only."""
    if not (_is(query) and _is(key) and _is(value)):
        raise ValueError("Expected query, key, and value to all be nested tensors of jagged layout, or none of them")
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    if not query.dim() == key.dim() == value.dim() == 4 or {query._ragged_idx, key._ragged_idx, value._ragged_idx} != {2}:
        raise ValueError("Expected query, key, and value to be of size (batch, heads, ragged, width), but got %s, %s and %s"
                         % (query._sizes, key._sizes, value._sizes))
    if not query._sizes[0] == key._sizes[0] == value._sizes[0]:
        raise ValueError("Expected query, key, and value to have as many parts each, but got %s, %s and %s"
                         % (query._sizes, key._sizes, value._sizes))
    one = lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    parts = [one(*qkv).transpose(0, 1) for qkv in zip(_parts(query), _parts(key), _parts(value))]
    offsets = query._offsets if query._lengths is None else torch.cat([query._offsets[:1] * 0, query._lengths.cumsum(0)])
    return NestedTensor(torch.cat(parts).transpose(0, 1), offsets, _ragged_idx=2)


# ---- parts


def _parts(x):
    begins, at = x._offsets.tolist(), x._ragged_idx - 1
    lengths = x._part_lengths().tolist()
    total = x._dense.size(at)
    if any(b < 0 or n < 0 or b + n > total for b, n in zip(begins, lengths)):
        raise RuntimeError("unbind(): nested tensor offsets and lengths do not match ragged_idx dimension")
    return tuple(x._dense.narrow(at, b, n) for b, n in zip(begins, lengths))


def unbind(func, x, dim=0):
    if _wrap_dim(x, dim):
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return _parts(x)


def select(func, x, dim, index):
    if _wrap_dim(x, dim) == 0:
        return _parts(x)[index]
    values = func(x._dense, _inner(x, dim, "select"), index)
    return _without(x, [_wrap_dim(x, dim)], False, values)


def along(func, x, *args, **kwargs):
    """Within a dim that is not ragged: slices. The argument dim is of x."""
    name = _name(func)
    at = _DIM_AT.get(name, 0)
    args = list(args)
    if len(args) > at:
        args[at] = _inner(x, args[at], name)
    else:
        kwargs["dim"] = _inner(x, kwargs.get("dim", 0), name)
    result = func(x._dense, *args, **kwargs)
    return x._like(result) if isinstance(result, torch.Tensor) else tuple(map(x._like, result))


_DIM_AT = {"split": 1, "split_with_sizes": 1, "unsafe_split": 1}


def chunk(func, x, chunks, dim=0):
    dim = _wrap_dim(x, dim)
    if dim:
        return tuple(map(x._like, x._dense.chunk(chunks, _inner(x, dim, "chunk"))))
    if x._lengths is not None:
        raise RuntimeError("chunk(): not supported for nested tensors with holes on dim=0")
    each, batch, result = -(-x._sizes[0] // chunks), x._sizes[0], []
    for begin in range(0, batch, each):
        offsets = x._offsets[begin:min(begin + each, batch) + 1]
        values = x._dense.narrow(x._ragged_idx - 1, int(offsets[0]), int(offsets[-1] - offsets[0]))
        result.append(NestedTensor(values, offsets - offsets[0], _ragged_idx=x._ragged_idx))
    return tuple(result)


def join(func, tensors, dim=0):
    """cat and stack along a dim that is not ragged."""
    like = next(_nested_in(tensors))
    new = _name(func) == "stack"
    dim = dim % (like.dim() + new) if -like.dim() - new <= dim < like.dim() + new else _wrap_dim(like, dim)
    if dim == 0 or dim == like._ragged_idx:
        raise RuntimeError("%s(): not supported for NestedTensor on %s" % (_name(func), "ragged dim" if dim else "dim=0"))
    values = func([_beside(func, like, t) for t in tensors], dim - 1)
    return like._like(values, like._ragged_idx + (new and dim < like._ragged_idx))


def index_put(func, x, indices, value, accumulate=False):
    """Indices into batch and ragged dim are places of values."""
    if len(indices) < 2 or x._ragged_idx != 1 or any(i is None for i in indices[:2]):
        raise RuntimeError("index_put(): indices of the batch and the ragged dim are needed for NestedTensor")
    batch, row = indices[0], indices[1]
    if bool((row >= x._part_lengths()[batch]).any()) or bool((row < 0).any()):
        raise RuntimeError("Some indices in the ragged dimension are out of bounds!")
    values = func(x._dense, [x._offsets[batch] + row, *indices[2:]], value, accumulate)
    return x if _name(func).endswith("_") else x._like(values)


# ---- views


def unsqueeze(func, x, dim):
    dim = dim % (x.dim() + 1) if -x.dim() - 1 <= dim <= x.dim() else _wrap_dim(x, dim)
    if dim == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return x._like(func(x._dense, dim - 1), x._ragged_idx + (dim <= x._ragged_idx))


def squeeze(func, x, dim):
    inner = _inner(x, dim, "squeeze")
    values = func(x._dense, inner)
    return x._like(values, x._ragged_idx - (values.dim() < x._dense.dim() and inner < x._ragged_idx - 1))


def transpose(func, x, dim0, dim1):
    order = list(range(x.dim()))
    a, b = _wrap_dim(x, dim0), _wrap_dim(x, dim1)
    if a != b and 0 in (a, b):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    order[a], order[b] = b, a
    return permute(None, x, order)


def permute(func, x, *dims):
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    order = [_wrap_dim(x, d) for d in dims]
    if sorted(order) != list(range(x.dim())):
        raise ValueError("permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions")
    if order[0]:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return x._like(x._dense.permute([d - 1 for d in order[1:]]), order.index(x._ragged_idx))


def _sizes(sizes):
    return list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else list(sizes)


def view(func, x, *sizes, size=None):
    """Batch and ragged dim stay what they are; -1 may stand for either."""
    sizes = list(size) if size is not None else _sizes(sizes)
    if len(sizes) == 1 and isinstance(sizes[0], torch.dtype):
        raise NotImplementedError("aten.view.dtype")
    at, codes, own = x._ragged_idx, [code(s) for s in sizes], [code(s) for s in x._sizes]
    if codes == own:
        return x._like(x._dense.view_as(x._dense))
    if at != 1:
        raise RuntimeError("view(): does not support ragged_idx != 1 except when inp._size == size. inp._size is (%s) and size is (%s)." % (x._sizes, sizes))
    if len(codes) < 2 or codes[0] not in (-1, own[0]) or codes[1] not in (-1, own[1]) or any(is_ragged(s) for s in codes[2:]):
        raise RuntimeError("view(): cannot view shape %s as %s" % (x._sizes, sizes))
    inner = [x._dense.size(0), *codes[2:]]
    reshaped = func is not None and _name(func) in ("reshape", "reshape_as")
    return x._like(x._dense.reshape(inner) if reshaped else x._dense.view(inner))


def view_as(func, x, other):
    return view(func, x, *other._sizes) if _is(other) else view(func, x, *other.shape)


def flatten(func, x, start_dim=0, end_dim=-1):
    start, end = _wrap_dim(x, start_dim), _wrap_dim(x, end_dim)
    if start == 0:
        raise RuntimeError("flatten(): not supported for NestedTensor on dim=0")
    if start <= x._ragged_idx <= end and start != end:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    gone = end - start if end < x._ragged_idx else 0
    return x._like(x._dense.flatten(start - 1, end - 1), x._ragged_idx - gone)


def unflatten(func, x, dim, sizes):
    inner = _inner(x, dim, "unflatten")
    return x._like(x._dense.unflatten(inner, sizes), x._ragged_idx + (len(sizes) - 1 if inner < x._ragged_idx - 1 else 0))


def expand(func, x, *sizes, size=None, implicit=False):
    sizes = list(size) if size is not None else _sizes(sizes)
    want = [own if s == -1 else s for s, own in zip(sizes, x._sizes)]
    if _is(x) and len(sizes) == x.dim() and all(code(w) == code(own) or (own == 1 and d) for d, (w, own) in enumerate(zip(want, x._sizes))):
        return x._like(x._dense.expand([x._dense.size(d) if d == x._ragged_idx - 1 else want[d + 1] for d in range(x.dim() - 1)]))
    raise RuntimeError("expand(): cannot expand shape %s -> %s" % (x._sizes, sizes))


def expand_as(func, x, other):
    if not _is(x):
        raise RuntimeError("expand_as(): a dense tensor has no expanded form of ragged size %s" % (other._sizes,))
    return expand(func, x, *(other._sizes if _is(other) else other.shape))


def contiguous(func, x, memory_format=torch.contiguous_format):
    if x.is_contiguous():
        return x
    return _compact(x) if x._lengths is not None else x._like(x._dense.contiguous())


def _compact(x):
    """Without holes."""
    lengths = x._lengths
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64, device=lengths.device), lengths.cumsum(0)])
    return NestedTensor(torch.cat(_parts(x), x._ragged_idx - 1), offsets, _ragged_idx=x._ragged_idx)


# ---- others


def lists(func, *args, **kwargs):
    """Of lists of tensors, in place: optimizers' steps, and _foreach functions."""
    below = lambda a: [below(x) for x in a] if isinstance(a, (list, tuple)) else a._dense if _is(a) else a
    result = func(*map(below, args), **kwargs)
    if not isinstance(result, (list, tuple)):
        return result
    return [x._like(r) if _is(x) and x._dense.shape == r.shape else r for x, r in zip(args[0], result)]


def same_size(func, x, other):
    return _is(x) and _is(other) and tuple(map(code, x._sizes)) == tuple(map(code, other._sizes))


def new_empty(func, x, size, *args, **kwargs):
    if len(size):
        raise RuntimeError("new_empty() not supported for NJT with shape != ()")
    return func(x._dense, size, *args, **{k: v for k, v in kwargs.items() if k != "layout"})


def all_equal(func, x, other):
    return same_size(func, x, other) and torch.equal(x._dense, other._dense)


def masked_select(func, x, mask):
    raise RuntimeError("masked_select only support 2-D selections currently") if x.dim() != 2 else NotImplementedError(str(func))


def one_hot(func, x, num_classes=-1):
    return x._like(func(x._dense, num_classes))


BELOW = {}
for _rule, _words in {
    elementwise: "_to_copy clone alias detach lift_fresh zeros_like ones_like empty_like full_like rand_like randn_like randint_like bernoulli bernoulli_ "
                 "normal_ uniform_ random_ exponential_ fill fill_ zero_ copy copy_ native_dropout clamp nan_to_num round isclose conj conj_physical real imag "
                 "_conj where masked_fill logical_not to isfinite isinf isposinf isneginf isreal softplus prelu _prelu_kernel pow float_power div "
                 "log_sigmoid_forward floor_divide remainder rsub resolve_conj resolve_neg positive view_as_real view_as_complex _fw_primal gelu celu selu "
                 "rrelu_with_noise hardtanh lerp add sub mul",
    reduction: "sum mean prod amax amin max min argmax argmin all any",
    softmax: "_softmax _log_softmax softmax log_softmax",
    trailing: "native_layer_norm _fused_rms_norm rms_norm layer_norm",
    matmul: "matmul bmm", linear: "linear", embedding: "embedding", one_hot: "one_hot", attention: "scaled_dot_product_attention",
    unbind: "unbind", select: "select", along: "slice narrow split split_with_sizes unsafe_split", chunk: "chunk unsafe_chunk", join: "cat stack",
    index_put: "index_put index_put_", unsqueeze: "unsqueeze", squeeze: "squeeze", transpose: "transpose", permute: "permute",
    view: "view _unsafe_view reshape", expand: "expand", new_empty: "new_empty new_zeros new_ones new_full", same_size: "is_same_size", all_equal: "equal",
    masked_select: "masked_select", contiguous: "contiguous",
}.items():
    for _word in _words.split():
        BELOW[_word] = _rule

# Composites, whose pieces would be about sizes.
ABOVE = {"layer_norm": layer_norm, "reshape": view, "view": view, "reshape_as": view_as, "view_as": view_as, "flatten": flatten, "unflatten": unflatten, "expand": expand,
         "expand_as": expand_as, "broadcast_to": expand, "narrow": along, "linear": linear, "matmul": matmul, "__matmul__": matmul, "bmm": matmul,
         "__rmatmul__": lambda func, a, b: matmul(func, b, a), "scaled_dot_product_attention": attention, "contiguous": contiguous, "masked_select": masked_select,
         "stack": join, "rms_norm": trailing, "permute": permute, "numel": lambda func, x: x.numel()}


def run(func, args, kwargs):
    """What __torch_dispatch__ answers."""
    name = func._opname
    if name.startswith(("_foreach_", "_fused_")):
        return lists(func, *args, **kwargs)
    rule = BELOW.get(name) or BELOW.get(_row_name(func).split(".")[0]) or (elementwise if torch._C._op_effects(_row_name(func)) & 8 else None)
    if rule is None or (name == "squeeze" and len(args) < 2) or (rule is reduction and name in ("max", "min") and "other" in func._overloadname):
        raise NotImplementedError("%s: there is no rule for nested tensors of jagged layout" % func)
    return rule(func, *args, **kwargs)


def _row_name(func):
    """The record's name: in-place forms are records of the operation without the underscore."""
    name = func._opname[:-1] if func._opname.endswith("_") and not func._opname.endswith("__") else func._opname
    return name if func._overloadname == "default" else name + "." + func._overloadname


def _method(name):
    def method(self, *args, **kwargs):
        with torch._C.DisableTorchFunctionSubclass():
            return ABOVE[name](getattr(torch.Tensor, name), self, *args, **kwargs)
    return method


NestedTensor._above = ABOVE
for _word in ("view", "reshape", "expand", "broadcast_to", "unflatten"):  # nested ints are among their sizes, and the extension takes ints alone
    setattr(NestedTensor, _word, _method(_word))
