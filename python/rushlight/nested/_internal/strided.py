"""Nested tensors of strided layout: a buffer, and for each part its sizes, strides and where it begins in the buffer.

They are what transformers pass between layers, and a list of tensors in the form of one. Elementwise operations run on the
buffer where parts fill it one behind the other; all others run part by part. PyTorch has few operations here, and so has
this file: what is in none of the tables is a NotImplementedError.
"""
import rushlight as torch
from rushlight.nested._internal.base import NestedBase, NestedInt

_DIFFERENT = NestedInt(0)  # the size of a dimension of which parts differ


def _rows(sizes):
    return torch.tensor(sizes, dtype=torch.int64).reshape(len(sizes), -1)


def _compact(sizes):
    """Strides and offsets of parts one behind the other: lists."""
    strides, offsets, at = [], [], 0
    for size in sizes:
        steps, n = [], 1
        for s in reversed(size):
            steps.append(n)
            n *= s
        strides.append(steps[::-1])
        offsets.append(at)
        at += n
    return strides, offsets


class StridedNested(NestedBase):
    """What torch.nested.nested_tensor makes by default; there is no other way to make one."""

    _layout = torch.strided

    @staticmethod
    def __new__(cls, buffer, sizes, strides=None, offsets=None):
        """sizes and strides are lists, one per part."""
        plain = _compact(sizes)
        ndim = len(sizes[0]) if sizes else 0
        common = [sizes[0][d] if len({s[d] for s in sizes}) == 1 else _DIFFERENT for d in range(ndim)]
        first = common.index(_DIFFERENT) if _DIFFERENT in common else ndim  # one ragged size is enough for C, several would be too large a product
        x = NestedBase._make(cls, buffer, [len(sizes), *(1 if s is _DIFFERENT and d != first else s for d, s in enumerate(common))])
        x._sizes = (len(sizes), *common)
        x._part_sizes, x._part_strides, x._part_offsets = sizes, strides or plain[0], plain[1] if offsets is None else offsets
        x._packed = (x._part_strides, x._part_offsets) == plain
        return x

    def _like(self, buffer):
        return StridedNested(buffer, self._part_sizes, self._part_strides, self._part_offsets)

    # ---- what it tells

    @property
    def shape(self):
        return self.size()

    def size(self, dim=None):
        if dim is None:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")
        if not -self.dim() <= dim < self.dim():
            raise IndexError("Dimension out of range (expected to be in range of [%d, %d], but got %d)" % (-self.dim(), self.dim() - 1, dim))
        dim %= self.dim()
        if self._sizes[dim] is _DIFFERENT:
            raise RuntimeError("Given dimension %d is irregular and does not have a size." % dim)
        return self._sizes[dim]

    def stride(self, dim=None):
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")

    def numel(self):
        return sum(int(torch.Size(s).numel()) for s in self._part_sizes)

    def is_contiguous(self, memory_format=torch.contiguous_format):
        return self._packed

    def __len__(self):
        return self.size()

    def __iter__(self):
        return iter(self.unbind())

    def tolist(self):
        return self.stride()

    def numpy(self, *, force=False):
        return self.size()

    def values(self):
        """The buffer."""
        return self._dense.view_as(self._dense) if self._dense.requires_grad else self._dense

    def data_ptr(self):
        return self._dense.data_ptr()

    def _nested_tensor_size(self):
        return _rows(self._part_sizes)

    def _nested_tensor_strides(self):
        return _rows(self._part_strides)

    def _nested_tensor_storage_offsets(self):
        return torch.tensor(self._part_offsets, dtype=torch.int64)

    def __reduce_ex__(self, protocol):
        if getattr(torch.serialization._state, "skip_data", False):
            raise RuntimeError("Cannot serialize nested tensor under skip_data context manager")
        return torch._utils._rebuild_nested_tensor, (self._dense, self._nested_tensor_size(), self._nested_tensor_strides(), self._nested_tensor_storage_offsets())

    @staticmethod
    def _run(func, args, kwargs):
        return run(func, args, kwargs)


def from_list(parts, dtype=None, device=None, name="nested_tensor"):
    """Of tensors with as many dims each. dtype and device are the first one's, if they are not given."""
    for i, t in enumerate(parts):
        if t.is_nested:
            raise RuntimeError("%s(): parts are dense tensors" % name)
        if t.dim() != parts[0].dim():
            raise RuntimeError("All Tensors given to nested_tensor must have the same dimension. Found dimension %d for Tensor at index %d and dimension %d for "
                               "Tensor at index 0." % (t.dim(), i, parts[0].dim()))
    kind = dict(dtype=dtype or (parts[0].dtype if parts else None), device=device or (parts[0].device if parts else None))
    flat = [t.to(**kind).reshape(-1) for t in parts]
    return StridedNested(torch.cat(flat) if flat else torch.empty(0, **kind), [list(t.shape) for t in parts])


def padded(x, padding, output_size=None):
    if not x._part_sizes:
        raise RuntimeError("to_padded_tensor(): a nested tensor without parts has no size")
    batch = len(x._part_sizes)
    longest = [batch] + [max(s) for s in zip(*x._part_sizes)]
    if output_size is not None:
        if len(output_size) != len(longest):
            raise RuntimeError("Length of output_size does not match NestedTensor dims. Broadcasting is not supported.")
        if any(a < b for a, b in zip(output_size, longest)):
            raise RuntimeError("Value in output_size is less than NestedTensor padded size. Truncation is not supported.")
        longest = list(output_size)
    if x._packed and x.dim() > 1 and longest[0] == batch and all(size[1:] == longest[2:] for size in x._part_sizes):  # lengths alone differ
        lengths = [size[0] for size in x._part_sizes]
        values = x._dense.view(sum(lengths), *longest[2:])
        offsets = torch.tensor([0, *lengths], device=x._dense.device).cumsum(0)
        return torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets], [longest[1]], padding)
    rows = []
    for part in _parts(x):
        pad = [n for d in reversed(range(part.dim())) for n in (0, longest[d + 1] - part.size(d))]
        rows.append(torch.constant_pad_nd(part, pad, padding))
    rows += [rows[0].new_full(rows[0].shape, padding)] * (longest[0] - len(rows))
    return torch.stack(rows)


# ---- functions of torch by their own names


def _nested_view_from_buffer(self, nested_size, nested_strides, offsets):
    """A nested tensor over the buffer self; all else are matrices of a row per part."""
    if self.dim() != 1:
        raise RuntimeError("buffer is not 1-dimensional")
    return StridedNested(self.view_as(self) if self.requires_grad else self, nested_size.tolist(), nested_strides.tolist(), offsets.tolist())


def _nested_view_from_buffer_copy(self, nested_size, nested_strides, offsets):
    return _nested_view_from_buffer(self.clone(), nested_size, nested_strides, offsets)


def _nested_compute_contiguous_strides_offsets(nested_size):
    strides, offsets = _compact(nested_size.tolist())
    return _rows(strides).reshape(nested_size.shape), torch.tensor(offsets, dtype=torch.int64)


def _nested_tensor_from_tensor_list(list, dtype=None, layout=None, device=None, pin_memory=None):
    return from_list(list, dtype, device)


def _nested_from_padded(padded, cpu_nested_shape_example, fuse_transform_0213=False):
    """The corners of a padded tensor of these sizes; fused, (batch, heads, length, width) gives (length, heads * width)."""
    if fuse_transform_0213:
        rows = padded.transpose(1, 2).flatten(2)
        return from_list([row[:int(size[0])] for row, size in zip(rows.unbind(), cpu_nested_shape_example)])
    corners = cpu_nested_shape_example.tolist()
    return from_list([row[tuple(map(slice, size))] for row, size in zip(padded.unbind(), corners)])


def _nested_tensor_from_mask_left_aligned(t, mask):
    """Is every row of the mask true first, then false?"""
    lengths = mask.sum(1)
    return bool((mask == (torch.arange(mask.size(1), device=mask.device) < lengths.unsqueeze(1))).all())


def _nested_tensor_from_mask(t, mask, mask_check=True):
    """Of row b of t (batch, length, width) what the mask (batch, length) has."""
    if mask.dtype is not torch.bool or mask.dim() != 2 or t.dim() != 3 or t.shape[:2] != mask.shape:
        raise RuntimeError("_nested_tensor_from_mask: a boolean mask (batch, length) and a tensor (batch, length, width) were expected, but got %s and %s"
                           % (tuple(mask.shape), tuple(t.shape)))
    if mask_check and not _nested_tensor_from_mask_left_aligned(t, mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    return from_list([row[:n] for row, n in zip(t.unbind(), mask.sum(1).tolist())])


def nested_to_padded_tensor(self, padding, output_size=None):
    return padded(self, padding, output_size)


# ---- operations


def _parts(x):
    return tuple(x._dense.as_strided(size, stride, x._dense.storage_offset() + at)
                 for size, stride, at in zip(x._part_sizes, x._part_strides, x._part_offsets))


def _is(x):
    return isinstance(x, StridedNested)


def unbind(func, x, dim=0):
    if dim not in (0, -x.dim()):
        raise RuntimeError("NestedTensor can only be unbound along dimension 0 got dimension %d instead." % (dim % x.dim()))
    return _parts(x)


def elementwise(func, *args, **kwargs):
    """On the buffer, where all nested operands are packed alike."""
    like = next(a for a in (*args, *kwargs.values()) if _is(a))
    name = func._opname
    for a in args:
        if not isinstance(a, torch.Tensor) or _is(a) or name.startswith("copy") or name == "masked_fill":
            continue
        if a.dim() == 0 and a.numel() == 1:
            continue
        if name.rstrip("_") in ("add", "mul") and a is args[1] and (embeds := _last_dims(like, a)) is not None:
            args = (args[0], embeds, *args[2:])
            continue
        raise RuntimeError("Expected both self and other to be nested, but got a %s self and %snested other"
                           % (("nested", "non-") if _is(args[0]) else ("non-nested", "")))
    if any(_is(a) and a._part_sizes != like._part_sizes for a in args):
        raise RuntimeError("%s does not support broadcasting when given a NestedTensor" % name)
    if kwargs.get("layout") is torch.strided:
        kwargs = {k: v for k, v in kwargs.items() if k != "layout"}
    inplace = _is(args[0]) and name.endswith("_")
    if not all(a._part_strides == like._part_strides and a._part_offsets == like._part_offsets and a._dense.numel() == a.numel() for a in args if _is(a)):
        results = rows(func, *args, **kwargs)
        return args[0] if inplace else collected(results)
    result = func(*(a._dense if _is(a) else a for a in args), **kwargs)
    if inplace:
        return args[0]
    return tuple(map(like._like, result)) if isinstance(result, tuple) else like._like(result)


def _last_dims(x, dense):
    """A dense (batch, 1, width) or (batch, longest, width) operand of parts (length, width), as a buffer; None where it is none."""
    if dense.dim() != x.dim() or x.dim() != 3 or dense.size(0) != len(x._part_sizes) or dense.size(1) != 1:
        return None
    return torch.cat([row.expand(size).reshape(-1) for row, size in zip(dense.unbind(), x._part_sizes)])


def rows(func, *args, **kwargs):
    """What the operation makes of each part with each part."""
    count = next(len(a._part_sizes) for a in args if _is(a))
    columns = [_parts(a) if _is(a) else (a,) * count for a in args]
    return [func(*row, **kwargs) for row in zip(*columns)]


def collected(results):
    return tuple(map(from_list, zip(*results))) if results and isinstance(results[0], tuple) else from_list(results)


def by_part(func, *args, **kwargs):
    return collected(rows(func, *args, **kwargs))


def seen(x, parts):
    """The views `parts` of x's, as one view of x."""
    return StridedNested(x._dense, [list(t.shape) for t in parts], [list(t.stride()) for t in parts], [t.storage_offset() - x._dense.storage_offset() for t in parts])


def view_by_part(f, x):
    return seen(x, list(map(f, _parts(x))))


def by_row(f, x):
    """f of the matrix of all rows, where parts are packed and their rows are of one size; else of each part."""
    width = x._sizes[-1]
    if not x._packed or x.dim() < 2 or width is _DIFFERENT or not width:
        return by_part(f, x)
    rows = f(x._dense.view(-1, width))
    return StridedNested(rows.reshape(-1), [[*size[:-1], rows.size(-1)] for size in x._part_sizes])


def _part_dim(x, dim, name):
    if not -x.dim() <= dim < x.dim():
        raise IndexError("Dimension out of range (expected to be in range of [%d, %d], but got %d)" % (-x.dim(), x.dim() - 1, dim))
    return dim % x.dim() - 1


def reduce_last(func, x, dim=None, keepdim=False, *, dtype=None):
    if dim is None:
        raise NotImplementedError(str(func))
    at = [_part_dim(x, d, "sum") for d in dim]
    if at != [x.dim() - 2]:
        raise RuntimeError("NestedTensor can only be reduced across the last dimension for now got dimension %d instead." % (at[0] + 1))
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    return by_row(lambda t: t.sum(-1, keepdim=True, dtype=dtype), x)


def softmax(func, x, dim, *rest):
    at = _part_dim(x, dim, "softmax")
    if at < 0:
        raise RuntimeError("Cannot apply softmax across nested dimension 0")
    return by_row(lambda t: func(t, -1, *rest), x) if at == x.dim() - 2 else by_part(lambda t: func(t, at, *rest), x)


def layer_norm(func, x, normalized_shape, weight=None, bias=None, eps=1e-5, *rest):
    if weight is None or bias is None:
        raise ValueError("NestedTensor layer_norm requires weight and bias")
    each = by_row if len(normalized_shape) == 1 else by_part
    return each(lambda t: torch.layer_norm(t, normalized_shape, weight, bias, eps), x)


def native_layer_norm(func, x, *args):
    result = layer_norm(func, x, *args)
    return result, torch.empty(0), torch.empty(0)


def linear(func, x, weight, bias=None):
    if not _is(x) or _is(weight):
        raise RuntimeError("linear(): of nested tensors the input only may be one")
    return by_row(lambda t: torch.nn.functional.linear(t, weight, bias), x)


def matmul(func, a, b):
    if not (_is(a) and _is(b)):
        if _is(a) and b.dim() == 2 and _packed_rows(a):
            raise RuntimeError("Expected both to be nested, but got a nested self and non-nested other")
        raise RuntimeError("Expected both to be nested, but got a %s self and %snested other" % (("nested", "non-") if _is(a) else ("non-nested", "")))
    if len(a._part_sizes) != len(b._part_sizes):
        raise RuntimeError("matmul: Expected size for the 1st dimension of 2nd input tensor to be: %d but got: %d." % (len(a._part_sizes), len(b._part_sizes)))
    return by_part(torch.matmul, a, b)


def _packed_rows(x):
    return x._packed


def transpose(func, x, dim0, dim1):
    a, b = _part_dim(x, dim0, "transpose"), _part_dim(x, dim1, "transpose")
    if -1 in (a, b) and a != b:
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")

    def swapped(row):
        row = list(row)
        row[a], row[b] = row[b], row[a]
        return row
    return StridedNested(x._dense, list(map(swapped, x._part_sizes)), list(map(swapped, x._part_strides)), x._part_offsets)


def select(func, x, dim, index):
    at = _part_dim(x, dim, "select")
    if at < 0:
        if not -len(x._part_sizes) <= index < len(x._part_sizes):
            raise IndexError("index %d is out of bounds for dimension 0 with size %d" % (index, len(x._part_sizes)))
        return _parts(x)[index]
    return view_by_part(lambda t: t.select(at, index), x)


def unsqueeze(func, x, dim):
    dim = dim + x.dim() + 1 if dim < 0 else dim
    if dim == 0:
        raise RuntimeError("unsqueeze: For nested tensors, dim cannot be 0")
    return view_by_part(lambda t: t.unsqueeze(dim - 1), x)


def squeeze(func, x, dim=None):
    if dim is None or _part_dim(x, dim, "squeeze") < 0:
        raise RuntimeError("squeeze: For nested tensors, a dim other than 0 must be given")
    return view_by_part(lambda t: t.squeeze(_part_dim(x, dim, "squeeze")), x)


def join(func, tensors, dim=0):
    if not all(map(_is, tensors)):
        raise RuntimeError("cat(): expected all tensors to be nested")
    if dim in (0, -tensors[0].dim()):
        return from_list([part for x in tensors for part in _parts(x)])
    at = _part_dim(tensors[0], dim, "cat")
    return from_list([torch.cat(parts, at) for parts in zip(*map(_parts, tensors))])


def chunk(func, x, chunks, dim=0):
    if _part_dim(x, dim, "chunk") != x.dim() - 2:
        raise RuntimeError("Chunk for nested tensors is currently only supported for the last dimension.")
    width = _width(x)
    if chunks > 0 and width % chunks:
        raise RuntimeError("Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible by chunks, got: %d %% %d != 0" % (width, chunks))
    return tuple(seen(x, parts) for parts in zip(*(t.chunk(chunks, -1) for t in _parts(x))))


def split_with_sizes(func, x, split_sizes, dim=0):
    if _part_dim(x, dim, "split_with_sizes") != x.dim() - 2:
        raise RuntimeError("split_with_sizes for nested tensors is currently only supported for the last dimension.")
    if sum(split_sizes) != _width(x):
        raise RuntimeError("split_with_sizes expects split_sizes to sum exactly to %d (input tensor's size at dimension %d), but got split_sizes=%s"
                           % (_width(x), x.dim() - 1, list(split_sizes)))
    return tuple(seen(x, parts) for parts in zip(*(t.split_with_sizes(split_sizes, -1) for t in _parts(x))))


def _width(x):
    if x._sizes[-1] is _DIFFERENT:
        raise RuntimeError("Expected all tensors in nested tensor to have the same trailing dimension, instead last dimension equals: %s" % [s[-1] for s in x._part_sizes])
    return x._sizes[-1]


def narrow(func, x, dim, start, length):
    if _part_dim(x, dim, "narrow") >= 0:
        return view_by_part(lambda t: t.narrow(_part_dim(x, dim, "narrow"), start, length), x)
    parts = slice(start, start + length)
    return StridedNested(x._dense, x._part_sizes[parts], x._part_strides[parts], x._part_offsets[parts])


def view(func, x, *sizes):
    """-1 of a dimension whose size is not given stays what it is in each part."""
    sizes = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else list(sizes)
    if not sizes or sizes[0] not in (-1, len(x._part_sizes)):
        raise RuntimeError("view: For now nested view cannot change or infer the implicit batch dimension")
    ndim = x.dim() - 1

    def shaped(t):
        target = list(sizes[1:])
        for d, s in enumerate(target):
            if s == -1 and target.count(-1) + (d < ndim) > 1 and d < ndim:
                target[d] = t.size(d)
        return t.reshape(target)
    parts = list(map(shaped, _parts(x)))
    return seen(x, parts) if all(torch._C._is_alias_of(t, x._dense) for t in parts) else from_list(parts)


def attention(func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: masks of nested tensors are not supported")
    return by_part(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa),
                   query, key, value)


def same_size(func, x, other):
    return _is(other) and x._part_sizes == other._part_sizes


def contiguous(func, x, memory_format=torch.contiguous_format):
    return x if x._packed else from_list(_parts(x))


def clone(func, x, *, memory_format=torch.preserve_format):
    if memory_format is torch.contiguous_format or x._dense.numel() != x.numel():
        return from_list(_parts(x))
    return x._like(func(x._dense))


BELOW = {}
for _rule, _words in {
    elementwise: "add mul sub div relu gelu silu tanh neg abs sin cos logical_not isnan isinf isposinf isneginf sgn sqrt gt ge eq fill fill_ zero_ copy_ "
                 "zeros_like ones_like empty_like full_like _to_copy detach alias add_ mul_ sub_ div_ relu_ gelu_ silu_ tanh_ neg_ abs_ sin_ cos_ sgn_ "
                 "masked_fill native_dropout threshold_backward bernoulli_ normal_ randn_like conj _conj lift_fresh",
    reduce_last: "sum", softmax: "_softmax softmax", native_layer_norm: "native_layer_norm", layer_norm: "layer_norm", linear: "linear",
    matmul: "matmul bmm", transpose: "transpose", select: "select", unbind: "unbind", unsqueeze: "unsqueeze", squeeze: "squeeze", join: "cat", chunk: "chunk",
    split_with_sizes: "split_with_sizes",
    view: "view _unsafe_view reshape", same_size: "is_same_size", clone: "clone", by_part: "embedding",
}.items():
    for _word in _words.split():
        BELOW[_word] = _rule

ABOVE = {"view": view, "reshape": view, "linear": linear, "matmul": matmul, "__matmul__": matmul, "bmm": matmul, "narrow": narrow, "contiguous": contiguous,
         "scaled_dot_product_attention": attention, "__rmatmul__": lambda func, a, b: matmul(func, b, a)}
StridedNested._above = ABOVE


def run(func, args, kwargs):
    """What __torch_dispatch__ answers."""
    rule = BELOW.get(func._opname)
    if rule is None:
        raise NotImplementedError("Could not run '%s' with arguments from the 'NestedTensorCPU' backend: the operation has no form for nested tensors of "
                                  "strided layout" % func._schema.name + ("." + func._overloadname if func._overloadname != "default" else ""))
    return rule(func, *args, **kwargs)
