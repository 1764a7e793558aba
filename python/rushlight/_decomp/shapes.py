"""Rules of operations that make, move, copy and index: views by permute, view and slice, indexing by index, index_put and gather."""
import math

import rushlight as torch

from . import rule
from .elementwise import number, pick, wide

aten = torch.ops.aten
_CONTIGUOUS = torch.contiguous_format


def contiguous_clone(x):
    return aten.clone.default(x, memory_format=_CONTIGUOUS)


def packed(x):
    """A copy, where x does not lie in the order of its dimensions."""
    return x if x.is_contiguous() else contiguous_clone(x)


def flat(x, shape):
    """x as another shape: a view, of a copy where it has to be."""
    shape = list(shape)
    try:
        return aten.view.default(x, shape)
    except RuntimeError:
        return aten.view.default(contiguous_clone(x), shape)


def count(end, device, start=0, step=None, dtype=torch.int64):
    return aten.arange.start_step(start, end, *([] if step is None else [step]), dtype=dtype, device=device)


# ---- tensors of one number, and counting

def _factory(dtype, layout, device, pin_memory):
    return {"dtype": dtype or torch.get_default_dtype(), "layout": layout or torch.strided, "device": device or torch.get_default_device(),
            "pin_memory": bool(pin_memory)}


def _filled(value):
    return lambda size, *, dtype=None, layout=None, device=None, pin_memory=None: \
        aten.full.default(list(size), value, **_factory(dtype, layout, device, pin_memory))


def _filled_like(value):
    def like(self, *, memory_format=torch.preserve_format, **how):
        return aten.full_like.default(self, value, memory_format=memory_format or torch.preserve_format, **{k: v for k, v in how.items() if v is not None})
    return like


def _filled_new(value):
    return lambda self, size, *, dtype=None, layout=None, device=None, pin_memory=None: \
        aten.full.default(list(size), value, **_factory(dtype or self.dtype, layout, device or self.device, pin_memory))


rule("zeros")(_filled(0))
rule("ones")(_filled(1))
rule("zeros_like")(_filled_like(0))
rule("ones_like")(_filled_like(1))
rule("new_zeros")(_filled_new(0))
rule("new_ones")(_filled_new(1))


@rule("new_full")
def new_full(self, size, fill_value, **how):
    return _filled_new(fill_value)(self, size, **how)


@rule("new_empty")
def new_empty(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return aten.empty.memory_format(list(size), dtype=dtype or self.dtype, device=device or self.device)


@rule("empty_like")
def empty_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    if memory_format not in (None, torch.preserve_format):
        return aten.empty.memory_format(list(self.shape), dtype=dtype or self.dtype, device=device or self.device, memory_format=memory_format)
    order = sorted(range(self.dim()), key=lambda d: -self.stride(d)) if not self.is_contiguous() else list(range(self.dim()))
    return aten.empty_permuted.default(list(self.shape), order, dtype=dtype or self.dtype, device=device or self.device)


rule("arange")(lambda end, **how: aten.arange.start_step(0, end, **how))
rule("arange.start")(lambda start, end, **how: aten.arange.start_step(start, end, **how))


@rule("linspace", "linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def linspace(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    """From the nearer end, so that both ends are met."""
    dtype = dtype or torch.get_default_dtype()
    if dtype.is_complex:
        return NotImplemented
    if steps < 2:
        return torch.full([steps], start, dtype=dtype, device=device) if not isinstance(start, torch.Tensor) else start.to(dtype).expand([steps])
    step = (end - start) / (steps - 1)
    places = aten.arange.start_step(0, steps, device=device)
    as_number = (lambda x: x.to(dtype)) if dtype.is_floating_point else lambda x: x
    up = as_number(places) * step + start
    down = aten.sub.Tensor(end, as_number(aten.sub.Tensor(steps - 1, places)) * step)
    out = aten.where.self(places < steps / 2, up, down)
    return out if out.dtype == dtype else out.to(dtype)


@rule("logspace", "logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor")
def logspace(start, end, steps, base=10.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    dtype = dtype or torch.get_default_dtype()
    if dtype.is_complex or base < 0:
        return NotImplemented
    powers = linspace(start, end, steps, dtype=torch.float64, device=device)
    out = aten.pow.Scalar(int(base) if base == int(base) else base, powers)
    return out if out.dtype == dtype else out.to(dtype)


@rule("eye.m")
def eye_m(n, m, *, dtype=None, layout=None, device=None, pin_memory=None):
    short = torch.uint8 if max(n, m) < 256 else torch.int64
    equal = count(n, device, dtype=short).unsqueeze(-1) == count(m, device, dtype=short)
    return equal.to(dtype or torch.get_default_dtype())


rule("eye")(lambda n, **how: eye_m(n, n, **how))


@rule("hann_window.periodic")
def hann_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    if window_length < 2:
        return NotImplemented
    n = window_length + 1 if periodic else window_length
    places = aten.arange.start_step(0, n, dtype=dtype or torch.get_default_dtype(), device=device)
    out = (places * (2 * math.pi / (n - 1))).cos() * -0.5 + 0.5
    return aten.slice.Tensor(out, 0, 0, window_length) if periodic else out


rule("hann_window")(lambda window_length, **how: hann_window_periodic(window_length, True, **how))


# ---- views

def _permuted(x, a, b):
    order = list(range(x.dim()))
    if order:
        a, b = a % x.dim(), b % x.dim()
        order[a], order[b] = order[b], order[a]
    return aten.permute.default(x, order)


rule("transpose.int")(_permuted)
rule("t")(lambda self: aten.permute.default(self, [1, 0]) if self.dim() == 2 else self)
rule("squeeze")(lambda self: aten.squeeze.dims(self, list(range(self.dim()))))
rule("squeeze.dim")(lambda self, dim: aten.squeeze.dims(self, [dim]))
rule("detach")(lambda self: aten.alias.default(self))
rule("lift_fresh_copy")(lambda self: self.clone())
rule("_unsafe_view", "_reshape_alias")(lambda self, size, stride=None: flat(self, size))


def _parts(self, sizes, dim):
    return aten.split_with_sizes.default(self, list(sizes), *([dim] if dim else []))


def _sizes_of(total, each):
    return [each] * (total // each) + ([total % each] if total % each else []) if total else [0]


rule("split.Tensor", "unsafe_split.Tensor")(lambda self, split_size, dim=0: _parts(self, _sizes_of(self.shape[dim], split_size) if split_size else [0], dim))
rule("unsafe_split_with_sizes")(lambda self, split_sizes, dim=0: _parts(self, split_sizes, dim))


@rule("chunk", "unsafe_chunk")
def chunk(self, chunks, dim=0):
    each = -(-self.shape[dim] // chunks)
    return _parts(self, _sizes_of(self.shape[dim], each) if each else [0] * chunks, dim)


@rule("unbind.int")
def unbind(self, dim=0):
    dim = dim % self.dim()
    slices = [aten.slice.Tensor(self, dim, i, i + 1) for i in range(self.shape[dim])]
    return [aten.squeeze.dims(x, [dim]) for x in slices]


@rule("stack")
def stack(tensors, dim=0):
    first = tensors[0]
    dim = dim % (first.dim() + 1)
    if dim == first.dim():
        return aten.cat.default([aten.unsqueeze.default(t, dim) for t in tensors], dim)
    shape = list(first.shape)
    return aten.view.default(aten.cat.default(list(tensors), dim), shape[:dim] + [len(tensors)] + shape[dim:])


def _into_zeros(scatter):
    """The gradient of a view: nothing around what the view showed."""
    return lambda grad_output, input_sizes, *where: scatter(grad_output.new_zeros(list(input_sizes)), grad_output, *where)


rule("select_backward")(_into_zeros(aten.select_scatter.default))
rule("slice_backward")(_into_zeros(aten.slice_scatter.default))
rule("diagonal_backward")(_into_zeros(aten.diagonal_scatter.default))


@rule("unfold_backward")
def unfold_backward(grad_in, input_sizes, dim, size, step):
    dim = dim % len(input_sizes) if input_sizes else 0
    places = aten.arange.start_step(0, input_sizes[dim] if input_sizes else 1, device=grad_in.device).unfold(0, size, step)
    grad = grad_in.movedim(-1, dim + 1) if input_sizes else grad_in
    return _of_a_row(grad_in.new_zeros(list(input_sizes)), lambda x: aten.index_put.default(x, _at(dim, places), grad, True))


@rule("select_scatter")
def select_scatter(self, src, dim, index):
    dim = dim % self.dim()
    index = index % self.shape[dim]
    places = aten.view.default(aten.arange.start_step(0, self.shape[dim], device=self.device), [-1 if d == dim else 1 for d in range(self.dim())])
    src = aten.expand.default(aten.unsqueeze.default(src, dim), list(self.shape))
    return aten.where.self(places == index, src if src.dtype == self.dtype else src.to(self.dtype), self)


# ---- copies of views

def _copies(name, overload="default"):
    view = getattr(getattr(aten, name), overload)

    def copy(self, *args, **kwargs):
        return contiguous_clone(view(self, *args, **kwargs))
    return copy


for _name, _overload in (("alias", ""), ("expand", ""), ("diagonal", ""), ("t", ""), ("transpose", "int"), ("squeeze", ""), ("squeeze", "dim"),
                         ("squeeze", "dims"), ("unsqueeze", ""), ("unfold", "")):
    rule(_name + "_copy" + (_overload and "." + _overload))(_copies(_name, _overload or "default"))
for _name, _overload in (("permute", ""), ("view", ""), ("view", "dtype")):
    rule(_name + "_copy" + (_overload and "." + _overload), table="asked")(_copies(_name, _overload or "default"))
rule("split_with_sizes_copy")(lambda self, split_sizes, dim=0: [contiguous_clone(x) for x in _parts(self, split_sizes, dim)])
rule("narrow_copy", table="asked")(lambda self, dim, start, length: contiguous_clone(self.narrow(dim, start, length)))
rule("linalg_diagonal")(lambda A, *, offset=0, dim1=-2, dim2=-1: aten.diagonal.default(A, offset, dim1, dim2))


# ---- rearranging

@rule("roll")
def roll(self, shifts, dims=()):
    shifts, dims = list(shifts), list(dims)
    if not self.numel():
        return self.clone()
    if not dims:
        return aten.view.default(_rolled(flat(self, [self.numel()]), shifts[0], 0), list(self.shape))
    for shift, dim in zip(shifts, dims):
        self = _rolled(self, shift, dim)
    return self


def _rolled(x, shift, dim):
    n = x.shape[dim]
    places = aten.fmod.Scalar(aten.arange.start_step(0, n, device=x.device) + (n - shift) % n, n)
    return aten.index_select.default(x, dim, places)


@rule("rot90")
def rot90(self, k=1, dims=(0, 1)):
    a, b = dims
    if k % 4 == 0:
        return contiguous_clone(self)
    if k % 4 == 2:
        return self.flip([a, b])
    return _permuted(self.flip([b]), a, b) if k % 4 == 1 else _permuted(self.flip([a]), a, b)


@rule("pixel_shuffle")
def pixel_shuffle(self, upscale_factor):
    *batch, c, h, w = self.shape
    r, n = upscale_factor, len(batch)
    x = self.view([*batch, c // r ** 2, r, r, h, w]).permute([*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return contiguous_clone(flat(x, [*batch, c // r ** 2, h * r, w * r]))


@rule("pixel_unshuffle")
def pixel_unshuffle(self, downscale_factor):
    *batch, c, h, w = self.shape
    r, n = downscale_factor, len(batch)
    x = self.view([*batch, c, h // r, r, w // r, r]).permute([*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return contiguous_clone(flat(x, [*batch, c * r ** 2, h // r, w // r]))


@rule("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(self, groups):
    n, c, *rest = self.shape
    return flat(self.view([n, groups, c // groups, *rest]).permute([0, 2, 1, *range(3, len(rest) + 3)]), [n, c, *rest])


@rule("block_diag")
def block_diag(tensors):
    blocks = [t if t.dim() == 2 else aten.view.default(t, [1, -1]) for t in tensors]
    width, before, rows = sum(b.shape[1] for b in blocks), 0, []
    dtype = blocks[0].dtype
    for b in blocks:
        dtype = torch.promote_types(dtype, b.dtype)
    for b in blocks:
        left, right = (torch.zeros([b.shape[0], n], dtype=dtype, device=b.device) for n in (before, width - before - b.shape[1]))
        rows.append(torch.cat([left, b, right], 1))
        before += b.shape[1]
    return torch.cat(rows)


@rule("diag_embed")
def diag_embed(self, offset=0, dim1=-2, dim2=-1):
    ndim = self.dim() + 1
    dim1, dim2 = dim1 % ndim, dim2 % ndim
    if dim1 > dim2:
        dim1, dim2, offset = dim2, dim1, -offset
    n, x = self.shape[-1] + abs(offset), self
    if offset:
        nothing = self.new_zeros([*self.shape[:-1], abs(offset)])
        x = torch.cat([nothing, self] if offset > 0 else [self, nothing], -1)
    x = x.unsqueeze(dim1)
    order = list(range(ndim - 1))
    order.insert(dim2, ndim - 1)
    x = aten.permute.default(x, order)
    across, down = count(n, self.device), count(n + offset, self.device, start=offset)
    mask = (across == down.unsqueeze(-1)).view([n if d in (dim1, dim2) else 1 for d in range(ndim)])
    out = pick(mask, x, 0)
    return packed(out)


@rule("tril")
def tril(self, diagonal=0):
    return _where(_beyond(self) <= diagonal, self)


@rule("triu")
def triu(self, diagonal=0):
    return _where(_beyond(self) >= diagonal, self)


def _where(mask, x):
    return aten.logical_and.default(mask, x) if x.dtype == torch.bool else pick(mask, x, 0)


def _beyond(x):
    """How far an element is to the right of the main diagonal."""
    return aten.arange.start_step(0, x.shape[-1], device=x.device).unsqueeze(-2) - aten.arange.start_step(0, x.shape[-2], device=x.device).unsqueeze(-1)


@rule("trace")
def trace(self):
    return contiguous_clone(self.diagonal()).sum()


# ---- indexing

def _at(dim, index):
    return [None] * dim + [index]


def _dim(self, dim):
    return dim % self.dim() if self.dim() else 0


def _of_a_row(x, fn):
    """fn(x); a single number is a row of one."""
    return fn(x) if x.dim() else aten.squeeze.dims(fn(aten.unsqueeze.default(x, 0)), [0])


@rule("index_add")
@wide
def index_add(self, dim, index, source, *, alpha=1):
    source = source if alpha == 1 else source * alpha
    return _of_a_row(self, lambda x: aten.index_put.default(x, _at(_dim(x, dim), index), source, True))


@rule("index_copy")
def index_copy(self, dim, index, source):
    return _of_a_row(self, lambda x: aten.index_put.default(x, _at(_dim(x, dim), index), source))


@rule("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(self, dim, index, value):
    dim = _dim(self, dim)
    value = value if isinstance(value, torch.Tensor) else number(value, self)
    value = value if value.dtype == self.dtype else value.to(self.dtype)
    shape = [index.numel() if d == dim else n for d, n in enumerate(self.shape or [1])]
    return _of_a_row(self, lambda x: aten.index_put.default(x, _at(dim, index), aten.expand.default(value, shape)))


rule("_unsafe_index.Tensor")(lambda self, indices: aten.index.Tensor(self, list(indices)))
rule("_unsafe_index_put")(lambda self, indices, values, accumulate=False: aten.index_put.default(self, list(indices), values, accumulate))


@rule("_unsafe_masked_index")
def _unsafe_masked_index(self, mask, indices, fill):
    inside = [i if i is None else i.clamp(0, n - 1) for i, n in zip(indices, self.shape)]
    return _masked(aten.index.Tensor(self, inside), mask, fill)


@rule("_unsafe_masked_index_put_accumulate")
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    inside = [i if i is None else i.clamp(-n, n - 1) for i, n in zip(indices, self.shape)]
    return aten.index_put.default(self, inside, _masked(values, mask, 0.0), True)


def _masked(x, mask, fill):
    return aten.where.self(aten.bitwise_not.default(mask), number(fill, x), x)


@rule("take")
def take(self, index):
    return aten.index.Tensor(flat(self, [-1]), [index])


@rule("take_along_dim")
def take_along_dim(self, indices, dim=None):
    if dim is None:
        return aten.gather.default(flat(self, [-1]), 0, flat(indices, [-1]))
    dim = dim % self.dim()
    shape = [n if d == dim else max(n, m) if n and m else 0 for d, (n, m) in enumerate(zip(indices.shape, self.shape))]
    own = [m if d == dim else n for d, (n, m) in enumerate(zip(shape, self.shape))]
    indices = aten.remainder.Scalar(aten.expand.default(indices, shape), self.shape[dim])
    return aten.gather.default(aten.expand.default(self, own), dim, indices)


@rule("one_hot")
def one_hot(self, num_classes=-1):
    if num_classes < 0 or not self.numel():
        return NotImplemented
    aten._assert_async.msg((self >= 0).all(), "one_hot: Class values must be non-negative.")
    aten._assert_async.msg((self < num_classes).all(), "one_hot: Class values must be smaller than num_classes.")
    return (self.unsqueeze(-1) == count(num_classes, self.device)).to(torch.int64)


@rule("combinations")
def combinations(self, r=2, with_replacement=False):
    """Of the grid of all tuples those whose places rise."""
    if r == 0:
        return NotImplemented
    n = self.shape[0]
    place, mask = count(n, self.device), torch.ones([n] * r, dtype=torch.bool, device=self.device)
    for a, b in zip(torch.meshgrid(*[place] * r, indexing="ij"), torch.meshgrid(*[place] * r, indexing="ij")[1:]):
        mask = aten.logical_and.default(mask, a <= b if with_replacement else a < b)
    return torch.stack([x.masked_select(mask) for x in torch.meshgrid(*[self] * r, indexing="ij")], 1)


@rule("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    if not isinstance(test_elements, torch.Tensor):
        return elements != test_elements if invert else elements == test_elements
    if not isinstance(elements, torch.Tensor):
        elements = number(elements, test_elements)
    shape = list(elements.shape)
    found = aten.view.default(elements, shape + [1] * test_elements.dim()) == test_elements
    out = aten.any.dims(found, [d - test_elements.dim() for d in range(test_elements.dim())]) if test_elements.dim() else found
    return out.logical_not() if invert else out


@rule("argwhere")
def argwhere(self):
    return self.nonzero()


@rule("embedding_dense_backward")
@wide
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    indices = indices.to(torch.int64)
    if scale_grad_by_freq:
        ones = torch.ones_like(indices)
        counts = aten.index_put.default(indices.new_zeros([num_weights]), [indices], ones, True)
        grad_output = grad_output / aten.index.Tensor(counts, [indices]).unsqueeze(-1)
    mask = (indices == padding_idx).unsqueeze(-1)
    grad = _masked_zero(grad_output, mask)
    return aten.index_put.default(grad_output.new_zeros([num_weights, *grad_output.shape[indices.dim():]]), [indices], grad, True)


def _masked_zero(x, mask):
    return aten.where.self(mask, number(0, x), x)
