"""Rules of windows over space: pooling, padding, unfolding, and sizes of pictures; dropout of channels."""
import itertools
import math

import rushlight as torch

from . import rule
from .elementwise import wide
from .shapes import count, flat, linspace

aten = torch.ops.aten


# ---- pooling along one dimension: that of two, one of which is of size 1

def _as_plane(x):
    return aten.unsqueeze.default(x, -2)


def _as_line(x):
    return aten.squeeze.dims(x, [-2])


def pair(one, n):
    """The number of a line, which comes as a list or alone, behind that of the other dimension."""
    return [one, *(n if isinstance(n, (list, tuple)) else [n])]


@rule("avg_pool1d")
def avg_pool1d(self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True):
    more = [] if not any(pair(0, padding)) and not ceil_mode and count_include_pad else [pair(0, padding), ceil_mode, count_include_pad]
    return _as_line(aten.avg_pool2d.default(_as_plane(self), pair(1, kernel_size), pair(1, stride or kernel_size), *more))


@rule("adaptive_avg_pool1d")
def adaptive_avg_pool1d(self, output_size):
    return _as_line(aten.adaptive_avg_pool2d.default(_as_plane(self), [1, *output_size]))


@rule("adaptive_max_pool1d")
def adaptive_max_pool1d(self, output_size):
    return tuple(_as_line(x) for x in aten.adaptive_max_pool2d.default(_as_plane(self), [1, *output_size]))


@rule("max_pool1d_with_indices")
def max_pool1d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    window = pair(1, kernel_size), pair(1, stride or kernel_size), pair(0, padding), pair(1, dilation), ceil_mode
    return tuple(_as_line(x) for x in aten.max_pool2d_with_indices.default(_as_plane(self), *window))


rule("max_pool1d")(lambda self, *args, **kwargs: max_pool1d_with_indices(self, *args, **kwargs)[0])
rule("max_pool2d")(lambda self, *args, **kwargs: aten.max_pool2d_with_indices.default(self, *args, **kwargs)[0])
rule("max_pool3d")(lambda self, *args, **kwargs: aten.max_pool3d_with_indices.default(self, *args, **kwargs)[0])


def _unpooled(self, indices, output_size, n):
    """Each number at the place that its index names, in a plane of its own."""
    outer = list(self.shape[:-n])
    planes, size = math.prod(outer), math.prod(output_size)
    starts = aten.view.default(aten.arange.start_step(0, planes, device=self.device), outer + [1] * n) * size
    places = flat(indices + starts, [-1])
    nothing = aten.view.default(self.new_zeros(outer + list(output_size)), [-1])
    return aten.view.default(aten.index_put.default(nothing, [places], flat(self, [-1])), outer + list(output_size))


rule("max_unpool2d")(lambda self, indices, output_size: _unpooled(self, indices, output_size, 2))
rule("max_unpool3d")(lambda self, indices, output_size, stride, padding: _unpooled(self, indices, output_size, 3))


# ---- padding

def _padded(self, padding, places):
    """Along the last dimensions, `places` of the number that stands there: (of where, of size n)."""
    n = len(padding) // 2
    for k in range(n):
        d = self.dim() - n + k
        before, after = padding[2 * (n - 1 - k):2 * (n - 1 - k) + 2]
        where = places(aten.arange.start_step(-before, self.shape[d] + after, device=self.device), self.shape[d])
        self = aten.index.Tensor(self, [where if d == e else None for e in range(self.dim())])
    return self


def _mirrored(where, n):
    return aten.sub.Tensor(n - 1, aten.sub.Tensor(n - 1, where.abs()).abs())


def _clamped(where, n):
    return where.clamp(0, n - 1)


def _unpadded(grad, size, padding, places):
    """The gradient of _padded: what an element showed in several places is summed."""
    n = len(padding) // 2
    for k in reversed(range(n)):
        d = grad.dim() - n + k
        before, after = padding[2 * (n - 1 - k):2 * (n - 1 - k) + 2]
        where = places(aten.arange.start_step(-before, size[d] + after, device=grad.device), size[d])
        nothing = grad.new_zeros([size[e] if e == d else m for e, m in enumerate(grad.shape)])
        grad = aten.index_put.default(nothing, [where if d == e else None for e in range(grad.dim())], grad, True)
    return grad


rule("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")(lambda self, padding: _padded(self, padding, _mirrored))
rule("replication_pad1d", "replication_pad2d", "replication_pad3d")(lambda self, padding: _padded(self, padding, _clamped))
rule(*("reflection_pad%dd_backward" % n for n in (1, 2, 3)))(lambda grad_output, self, padding: _unpadded(grad_output, self.shape, padding, _mirrored))
rule(*("replication_pad%dd_backward" % n for n in (1, 2, 3)), table="asked")(
    lambda grad_output, self, padding: _unpadded(grad_output, self.shape, padding, _clamped))


@rule("_pad_backward")
def _pad_backward(grad, input_sizes, padding, mode):
    """The library's own name for what is common to borders that reflect, repeat and go round."""
    return _unpadded(grad, input_sizes, padding, (_mirrored, _clamped, lambda where, n: where % n)[mode])


@rule("_pad_circular")
def _pad_circular(self, pad):
    """The end in front of the beginning, and the beginning behind the end."""
    n = len(pad) // 2
    for k in range(n):
        d, size = self.dim() - n + k, self.shape[self.dim() - n + k]
        before, after = pad[2 * (n - 1 - k):2 * (n - 1 - k) + 2]
        if max(before, after) > size:
            return NotImplemented
        self = aten.slice.Tensor(self, d, max(0, -before), size - max(0, -after))
        size = self.shape[d]
        parts = [aten.slice.Tensor(self, d, size - before, size)] if before > 0 else []
        parts += [self] + ([aten.slice.Tensor(self, d, 0, after)] if after > 0 else [])
        self = aten.cat.default(parts, d) if len(parts) > 1 else self
    return self


# ---- patches as columns

def _patches(size, kernel, dilation, padding, stride, device):
    """(kernel, patches): the place of each element of each patch along one dimension."""
    starts = count(size + 2 * padding - dilation * (kernel - 1), device, step=stride if stride != 1 else None)
    inside = count(kernel * dilation, device, step=dilation if dilation != 1 else None)
    return starts.unsqueeze(0) + inside.unsqueeze(-1)


@rule("im2col")
def im2col(self, kernel_size, dilation, padding, stride):
    x = self if self.dim() == 4 else aten.unsqueeze.default(self, 0)
    rows, columns = (_patches(x.shape[2 + k], kernel_size[k], dilation[k], padding[k], stride[k], x.device) for k in range(2))
    x = aten.constant_pad_nd.default(x, [padding[1], padding[1], padding[0], padding[0]], 0.0)
    out = aten.index.Tensor(x, [None, None, rows.unsqueeze(-1).unsqueeze(-1), columns]).permute([0, 1, 2, 4, 3, 5])
    out = flat(out, [x.shape[0], x.shape[1] * kernel_size[0] * kernel_size[1], rows.shape[1] * columns.shape[1]])
    return out if self.dim() == 4 else aten.squeeze.dims(out, [0])


@rule("col2im")
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    x = self if self.dim() == 3 else aten.unsqueeze.default(self, 0)
    rows, columns = (_patches(output_size[k], kernel_size[k], dilation[k], padding[k], stride[k], x.device) for k in range(2))
    n, c = x.shape[0], x.shape[1] // (kernel_size[0] * kernel_size[1])
    x = flat(x, [n, c, *kernel_size, rows.shape[1], columns.shape[1]]).permute([0, 1, 2, 4, 3, 5])
    out = x.new_zeros([n, c, output_size[0] + 2 * padding[0], output_size[1] + 2 * padding[1]])
    out = aten.index_put.default(out, [None, None, rows.unsqueeze(-1).unsqueeze(-1), columns], x, True)
    out = aten.constant_pad_nd.default(out, [-padding[1], -padding[1], -padding[0], -padding[0]], 0.0)
    return out if self.dim() == 3 else aten.squeeze.dims(out, [0])


# ---- pictures of another size

def _along(index, d, n):
    """A row of indices in the place of dimension d of n."""
    for _ in range(n - 1 - d):
        index = index.unsqueeze(-1)
    return index


def _nearest(self, output_size, scales, middle):
    """`middle`: elements are where their middles are."""
    n, index = len(output_size), []
    for d in range(n):
        size, out = self.shape[2 + d], output_size[d]
        step = size / out if scales[d] is None else 1 / scales[d]
        where = (aten.arange.start_step(0, out, dtype=torch.float32, device=self.device) + (0.5 if middle else 0.0)) * step
        index.append(_along(where.to(torch.int64), d, n))
    return aten.index.Tensor(self, [None, None, *index])


def _given(size, scales, self, n):
    """(output size, scales) of a call that gives one of them."""
    if size is not None:
        return list(size), [None] * n
    return [int(math.floor(self.shape[2 + d] * scales[d])) for d in range(n)], list(scales)


for _n in (1, 2, 3):
    for _name, _middle in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
        rule("%s%dd" % (_name, _n))(lambda self, output_size, *scales, middle=_middle, n=_n: _nearest(self, output_size, scales or [None] * n, middle))
        rule("%s%dd.vec" % (_name, _n), table="core" if (_name, _n) != ("upsample_nearest", 2) else "asked")(
            lambda input, output_size, scale_factors, middle=_middle, n=_n: _nearest(input, *_given(output_size, scale_factors, input, n), middle))


def _wanted(self, size, out, align_corners, scale):
    """Where between `size` elements the `out` of the result lie."""
    where = aten.arange.start_step(0, out, device=self.device).to(self.dtype)
    if align_corners:
        return where * ((size - 1) / (out - 1) if out > 1 else 0.0)
    return (where + 0.5) * (size / out if scale is None else 1 / scale) - 0.5


@wide
def _interpolated(self, output_size, align_corners, scales):
    """Between the two nearest of each dimension, one dimension after the other, the last first."""
    n, places, shares = len(output_size), [], []
    for d in range(n):
        size, out = self.shape[2 + d], output_size[d]
        where = aten.clamp.default(_wanted(self, size, out, align_corners, scales[d]), 0.0)
        where = aten.view.default(where, [out] + [1] * (n - 1 - d))
        low = where.to(torch.int64)
        places.append((low, aten.clamp.default(low + 1, None, size - 1)))
        shares.append(aten.clamp.default(where - low, 0.0, 1.0))
    corners = [aten.index.Tensor(self, [None, None, *corner]) for corner in itertools.product(*places)]
    for share in reversed(shares):
        corners = [a + (b - a) * share for a, b in zip(corners[::2], corners[1::2])]
    return corners[0]


def _linear(self, *how):
    return _interpolated(self, *how) if self.is_floating_point() else NotImplemented


def _linear_of(input, size, scales, align_corners):
    return _linear(input, size, align_corners, scales)


for _n, _name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    rule("upsample_" + _name, table="core" if _n == 1 else "asked")(
        lambda self, output_size, align_corners, *scales, n=_n: _linear(self, output_size, align_corners, scales or [None] * n))
    rule("upsample_%s.vec" % _name, table="core" if _n != 2 else "asked")(
        lambda input, output_size, align_corners, scale_factors, n=_n: _linear_of(input, *_given(output_size, scale_factors, input, n), align_corners))


def _cubic_shares(t, a=-0.75):
    """Of the four neighbours of a place that is t behind the second one (Keys, 1981)."""
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return far(t + 1.0), near(t), near(aten.sub.Tensor(1.0, t)), far(aten.sub.Tensor(2.0, t))


@wide
def _cubic(self, output_size, align_corners, scales):
    index, shares = [], []
    for d in range(2):
        size = self.shape[2 + d]
        where = _along(_wanted(self, size, output_size[d], align_corners, scales[d]), d, 2)
        low = where.floor()
        shares.append(_cubic_shares(aten.clamp.default(where - low, 0.0, 1.0)))
        low = low.to(torch.int64)
        index.append([aten.clamp.default(x, 0, size - 1) for x in (low - 1, low, low + 1, low + 2)])
    mixed = lambda parts, s: parts[0] * s[0] + parts[1] * s[1] + parts[2] * s[2] + parts[3] * s[3]
    rows = [mixed([aten.index.Tensor(self, [None, None, y, x]) for x in index[1]], shares[1]) for y in index[0]]
    return mixed(rows, shares[0])


def _bicubic(self, *how):
    return _cubic(self, *how) if self.is_floating_point() else NotImplemented


rule("upsample_bicubic2d", table="asked")(lambda self, output_size, align_corners, *scales: _bicubic(self, output_size, align_corners, scales or [None] * 2))


@rule("upsample_bicubic2d.vec")
def upsample_bicubic2d_vec(input, output_size, align_corners, scale_factors):
    size, scales = _given(output_size, scale_factors, input, 2)
    return _bicubic(input, size, align_corners, scales)


for _name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    rule(_name + ".vec")(lambda input, output_size, align_corners, scale_factors, op=getattr(aten, _name).default: op(
        input, _given(output_size, scale_factors, input, 2)[0], align_corners, *(scale_factors or [])))


@rule("affine_grid_generator")
def affine_grid_generator(theta, size, align_corners):
    """theta times (x, y, 1) of each place, or (x, y, z, 1)."""
    sizes, n = list(size[2:]), len(size) - 2
    dtype, device, parts = theta.dtype, theta.device, []
    for k, s in enumerate(reversed(sizes)):
        end = 1 if align_corners else (s - 1) / s
        row = torch.zeros([1], dtype=dtype, device=device) if s == 1 else linspace(-end, end, s, dtype=dtype, device=device)
        row = aten.view.default(row, [s if d == n - 1 - k else 1 for d in range(n)] + [1])
        parts.append(aten.constant_pad_nd.default(row, [k, n - k], 0.0))
    parts.append(aten.constant_pad_nd.default(torch.ones([1] * (n + 1), dtype=dtype, device=device), [n, 0], 0.0))
    grid = parts[0]
    for part in parts[1:]:
        grid = grid + part
    grid = aten.view.default(grid, [-1, n + 1, 1])
    out = (grid * aten.permute.default(theta, [0, 2, 1]).unsqueeze(1)).sum([-2])
    return aten.view.default(out, [theta.shape[0], *sizes, n])


# ---- dropout of channels, and of numbers with their mean kept

def _kept(x, p, channels):
    """1 with probability 1 - p, else 0: of each element, or of each channel."""
    if channels:
        like = torch.empty([*x.shape[:2], *[1] * (x.dim() - 2)], dtype=x.dtype, device=x.device)
    else:
        like = torch.empty_like(x)
    return aten.bernoulli.p(like, 1 - p)


@rule("feature_dropout", table="always")
def feature_dropout(input, p, train):
    if not train or p == 0 or not input.numel():
        return input
    return input * (aten.div.Scalar(_kept(input, p, True), 1 - p) if p < 1 else torch.zeros([], dtype=input.dtype, device=input.device))


def _alpha_dropout(input, p, train, channels):
    """What is dropped becomes the least value of SELU; mean and variance are kept (Klambauer et al., 2017)."""
    if not train or p == 0 or not input.numel():
        return input
    if p == 1:
        return input * torch.zeros([], dtype=input.dtype, device=input.device)
    alpha = 1.7580993408473766
    scale = 1 / math.sqrt((alpha ** 2 * p + 1) * (1 - p))
    kept = _kept(input, p, channels)
    shift = aten.add.Scalar(aten.mul.Scalar(aten.add.Scalar(kept, -1), alpha * scale), alpha * scale * p)
    return input * aten.mul.Scalar(kept, scale) + shift


rule("alpha_dropout", table="always")(lambda input, p, train: _alpha_dropout(input, p, train, False))
rule("feature_alpha_dropout", table="always")(lambda input, p, train: _alpha_dropout(input, p, train, True))


@rule("rrelu", table="always")
def rrelu(self, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    if not training:
        return aten.leaky_relu.default(self, (lower + upper) / 2)
    slopes = aten.uniform.default(torch.empty_like(self), lower, upper)
    return torch.where(self <= 0, self * slopes, self)
