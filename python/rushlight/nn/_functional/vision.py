"""Resampling of grids: interpolation, grid sampling, unfolding, padding, and scaled matrix products."""
import math
import warnings

import rushlight as torch
from rushlight.nn._override import handle, overridden
from rushlight.nn._tuples import _pair

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def pad(input, pad, mode="constant", value=None):
    """Add `pad` elements (last dimension first, before and after) by the given rule.

    mode: "constant" with value (0 by default), "reflect", "replicate" or "circular".
    Shapes: any input; dimension -1 grows by pad[0] + pad[1], dimension -2 by pad[2] + pad[3], and so on; negative numbers cut off.

    >>> F.pad(torch.tensor([[1., 2.]]), (1, 2), value=9.)
    tensor([[9., 1., 2., 9., 9.]])
    """
    if overridden(input):
        return handle(_pad, (input,), input, pad, mode=mode, value=value)
    return torch._C._nn.pad(input, pad, mode, value)


_pad = pad


# (mode, spatial dimensions) -> operator; a second name is used when antialiasing.
_RESAMPLERS = {
    ("nearest", 1): "upsample_nearest1d", ("nearest", 2): "upsample_nearest2d", ("nearest", 3): "upsample_nearest3d",
    ("nearest-exact", 1): "_upsample_nearest_exact1d", ("nearest-exact", 2): "_upsample_nearest_exact2d",
    ("nearest-exact", 3): "_upsample_nearest_exact3d",
    ("linear", 1): "upsample_linear1d", ("bilinear", 2): "upsample_bilinear2d",
    ("trilinear", 3): "upsample_trilinear3d", ("bicubic", 2): "upsample_bicubic2d",
}
_ANTIALIASED = {"bilinear": "_upsample_bilinear2d_aa", "bicubic": "_upsample_bicubic2d_aa",
                "lanczos": "_upsample_lanczos2d_aa"}


def _is_integer(x):
    if isinstance(x, torch.Tensor):
        return not x.is_floating_point()
    return isinstance(x, (int, torch.SymInt)) or (type(x).__module__ == "numpy" and hasattr(x, "__index__"))


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """Resize the spatial dimensions to `size`, or by `scale_factor`.

    size: the result's sides, or scale_factor: their ratio to the input's, one number or one per side; mode: "nearest", "nearest-exact",
    "linear" (L), "bilinear" or "bicubic" (H, W), "trilinear" (D, H, W), "area"; align_corners: corner elements keep their places, for the
    linear and cubic modes; recompute_scale_factor: take the ratio of the rounded sizes; antialias: average when shrinking, for bilinear and
    bicubic.
    Shapes: input (N, C, L), (N, C, H, W) or (N, C, D, H, W); result (N, C, *size).

    >>> F.interpolate(torch.tensor([[[1., 2.]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    """
    if overridden(input):
        return handle(interpolate, (input,), input, size=size, scale_factor=scale_factor, mode=mode,
                      align_corners=align_corners, recompute_scale_factor=recompute_scale_factor, antialias=antialias)
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | "
                             "bicubic | trilinear")
    elif align_corners is None:
        align_corners = False
    dims = input.dim() - 2
    sizes = factors = None
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (list, tuple)):
            if len(size) != dims:
                raise ValueError(
                    f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                    f"dimensions of {list(input.shape[2:])} and output size of {size}. Please provide input tensor in "
                    "(N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format.")
            if not all(map(_is_integer, size)):
                raise TypeError("expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, "
                                f"int], but got size with types {[type(x) for x in size]}")
            sizes = list(size)
        else:
            sizes = [size] * dims
    elif scale_factor is not None:
        if isinstance(scale_factor, (list, tuple)):
            if len(scale_factor) != dims:
                raise ValueError(
                    f"Input and scale_factor must have the same number of spatial dimensions, but got input with "
                    f"spatial dimensions of {list(input.shape[2:])} and scale_factor of shape {scale_factor}. Please "
                    "provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) "
                    "format.")
            factors = list(scale_factor)
        else:
            factors = [scale_factor] * dims
    else:
        raise ValueError("either size or scale_factor should be defined")
    if recompute_scale_factor is not None and recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if mode == "area" and sizes is None:
        recompute_scale_factor = True
    if recompute_scale_factor:
        sizes = [n.floor().long() if isinstance(n, torch.Tensor) else math.floor(n) for n in (input.size(i + 2) * factors[i] for i in range(dims))]
        factors = None
    if antialias and not (mode in _ANTIALIASED and input.dim() == 4):
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D "
                         "tensor as input")
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "area" and dims in (1, 2, 3):
        pools = {1: torch.adaptive_avg_pool1d, 2: torch._C._nn.adaptive_avg_pool2d,
                 3: torch._C._nn.adaptive_avg_pool3d}
        return pools[dims](input, sizes)
    if antialias:
        return getattr(torch._C._nn, _ANTIALIASED[mode])(input, sizes, align_corners, factors)
    name = _RESAMPLERS.get((mode, dims))
    if name is None:
        plural = {1: "linear", 2: "bilinear", 3: "trilinear"}
        if mode in plural.values() and dims in plural:
            need = {"linear": 3, "bilinear": 4, "trilinear": 5}[mode]
            raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {need}D input")
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported"
            f" (got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | "
            f"nearest-exact (got {mode})")
    op = getattr(torch._C._nn, name)
    if mode.startswith("nearest"):
        return op(input, sizes, scale_factors=factors)
    return op(input, sizes, align_corners, scale_factors=factors)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The old name of `interpolate`."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """The old name of `interpolate` with mode "nearest"."""
    warnings.warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
                  stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """The old name of `interpolate` with mode "bilinear" and aligned corners."""
    warnings.warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
                  stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _unaligned(name):
    warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
                  f"specify align_corners=True if the old behavior is desired. See the documentation of {name} for "
                  "details.", stacklevel=3)
    return False


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Read the input at the positions that `grid` names, -1 and 1 being the edges.

    mode: "bilinear", "nearest" or "bicubic"; padding_mode: outside is "zeros", "border" or "reflection"; align_corners: -1 and 1 are the
    centres of corner pixels instead of their outer edges.
    Shapes: input (N, C, H, W), grid (N, H', W', 2) of pairs (x, y); result (N, C, H', W'); with three dimensions likewise.

    >>> F.grid_sample(torch.tensor([[[[1., 3.]]]]), torch.tensor([[[[0., 0.]]]]), align_corners=False)
    tensor([[[[2.]]]])
    """
    if overridden(input, grid):
        return handle(grid_sample, (input, grid), input, grid, mode=mode, padding_mode=padding_mode,
                      align_corners=align_corners)
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but "
                         f"got: '{mode}'")
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
                         f"'reflection', but got: '{padding_mode}'")
    if align_corners is None:
        align_corners = _unaligned("grid_sample")
    return torch.grid_sampler(input, grid, GRID_SAMPLE_INTERPOLATION_MODES[mode],
                              GRID_SAMPLE_PADDING_MODES[padding_mode], align_corners)


def affine_grid(theta, size, align_corners=None):
    """The grid for `grid_sample` that an affine map gives.

    size: of the images, (N, C, H, W) or (N, C, D, H, W); align_corners: -1 and 1 are the centres of corner pixels instead of their outer edges.
    Shapes: theta (N, 2, 3) or (N, 3, 4); result (N, H, W, 2) or (N, D, H, W, 3).

    >>> F.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if overridden(theta):
        return handle(affine_grid, (theta,), theta, size, align_corners=align_corners)
    if align_corners is None:
        align_corners = _unaligned("affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    for rank, rows in ((4, 2), (5, 3)):
        if len(size) == rank:
            if theta.dim() != 3 or theta.shape[-2] != rows or theta.shape[-1] != rows + 1:
                raise ValueError(f"Expected a batch of {rows}D affine matrices of shape Nx{rows}x{rows + 1} for size "
                                 f"{size}. Got {theta.shape}.")
            extents = size[-rows:]
            break
    else:
        raise NotImplementedError("affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
                                  f"respectively. Got size {size}.")
    if align_corners and min(extents) == 1:
        warnings.warn("Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
                      "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
                      "affine_grid for details.", stacklevel=2)
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return torch.affine_grid_generator(theta, size, align_corners)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """All windows of the input as columns.

    kernel_size: the window; dilation: distance of its elements; padding: zeros on both sides; stride: distance of windows; each one number or
    2.
    Shapes: input (N, C, H, W); result (N, C kh kw, windows).

    >>> F.unfold(torch.arange(6.).reshape(1, 1, 2, 3), 2)
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """
    if overridden(input):
        return handle(unfold, (input,), input, kernel_size, dilation=dilation, padding=padding, stride=stride)
    return torch._C._nn.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sum of windows given as columns: the transpose of `unfold`.

    output_size: (H, W) of the result. kernel_size: the window; dilation: distance of its elements; padding: zeros on both sides; stride:
    distance of windows; each one number or 2.
    Shapes: input (N, C kh kw, windows); result (N, C, H, W).

    >>> F.fold(torch.ones(1, 4, 2), (2, 3), 2)
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    if overridden(input):
        return handle(fold, (input,), input, output_size, kernel_size, dilation=dilation, padding=padding,
                      stride=stride)
    return torch._C._nn.col2im(input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding),
                               _pair(stride))


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """A matrix product per group; `offs` says where groups end."""
    if overridden(mat_a, mat_b, offs, bias):
        return handle(grouped_mm, (mat_a, mat_b, offs, bias), mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)
    return torch._grouped_mm(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)


def _listed(x):
    return [] if x is None else [*x] if isinstance(x, (list, tuple)) else [x]


def _numbers(x):
    return [getattr(v, "value", v) for v in _listed(x)]


def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None,
              bias=None, output_dtype=torch.bfloat16, contraction_dim=(), use_fast_accum=False):
    """Product of scaled low-precision matrices.

    mat_a, mat_b: of a float8 dtype; scale_a, scale_b: their scales, scale_recipe_a, scale_recipe_b: how many elements share one, a ScalingType;
    swizzle_a, swizzle_b: how scales lie in memory; bias: added; output_dtype: of the result; contraction_dim: the dimensions that are summed,
    the inner ones by default; use_fast_accum: a hint.
    Shapes: mat_a (M, K), mat_b (K, N), by columns; scales (1), or (M, 1) and (1, N) by rows; result (M, N).

    >>> a = torch.ones(16, 16).to(torch.float8_e4m3fn)
    >>> whole = F.ScalingType.TensorWise
    >>> F.scaled_mm(a, a.t(), torch.tensor(0.5), whole, torch.tensor(1.), whole).shape
    torch.Size([16, 16])
    """
    return torch._scaled_mm_v2(mat_a, mat_b, _listed(scale_a), _numbers(scale_recipe_a), _numbers(swizzle_a),
                               _listed(scale_b), _numbers(scale_recipe_b), _numbers(swizzle_b), bias, output_dtype,
                               contraction_dim, use_fast_accum)


def scaled_grouped_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None,
                      bias=None, offs=None, output_dtype=torch.bfloat16, contraction_dim=(), use_fast_accum=False):
    """`scaled_mm` per group."""
    return torch._scaled_grouped_mm_v2(mat_a, mat_b, _listed(scale_a), _numbers(scale_recipe_a), _numbers(swizzle_a),
                                       _listed(scale_b), _numbers(scale_recipe_b), _numbers(swizzle_b), offs, bias,
                                       output_dtype, contraction_dim, use_fast_accum)
