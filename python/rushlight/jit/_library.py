"""Functions and methods of torch.nn as torch.jit.script writes them into programs: typed, and calling nothing but operations.

They say what python/rushlight/nn says in Python, without its dispatch on types. This file is compiled, never called.
"""
# ruff: noqa: F821
import math
from typing import Any, List, Optional, Tuple

import rushlight as torch
from rushlight import Tensor


class no_grad:
    def __init__(self):
        self.before = True

    def __enter__(self) -> None:
        self.before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def __exit__(self, a: Any, b: Any, c: Any) -> None:
        torch._C._set_grad_enabled(self.before)


class enable_grad:
    def __init__(self):
        self.before = True

    def __enter__(self) -> None:
        self.before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(True)

    def __exit__(self, a: Any, b: Any, c: Any) -> None:
        torch._C._set_grad_enabled(self.before)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.relu_(input) if inplace else torch.relu(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    return torch._C._nn.glu(input, dim)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    return torch._C._nn.hardtanh_(input, min_val, max_val) if inplace else torch._C._nn.hardtanh(input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return torch._C._nn.hardtanh_(input, 0.0, 6.0) if inplace else torch._C._nn.hardtanh(input, 0.0, 6.0)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return torch._C._nn.elu_(input, alpha) if inplace else torch._C._nn.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.selu_(input) if inplace else torch.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return torch._C._nn.leaky_relu_(input, negative_slope) if inplace else torch._C._nn.leaky_relu(input, negative_slope)


def rrelu(input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False, inplace: bool = False) -> Tensor:
    return torch.rrelu_(input, lower, upper, training) if inplace else torch.rrelu(input, lower, upper, training)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return torch._C._nn.hardsigmoid_(input) if inplace else torch._C._nn.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return torch._C._nn.hardswish_(input) if inplace else torch._C._nn.hardswish(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return torch._C._nn.silu_(input) if inplace else torch._C._nn.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    return torch._C._nn.mish_(input) if inplace else torch._C._nn.mish(input)


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def logsigmoid(input: Tensor) -> Tensor:
    return torch._C._nn.log_sigmoid(input)


def _softmax_dim(dims: int) -> int:
    if dims == 0 or dims == 1 or dims == 3:
        return 0
    return 1


def softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    along = _softmax_dim(input.dim()) if dim is None else dim
    return torch.softmax(input, along) if dtype is None else torch.softmax(input, along, dtype=dtype)


def softmin(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    along = _softmax_dim(input.dim()) if dim is None else dim
    return torch.softmax(-input, along) if dtype is None else torch.softmax(-input, along, dtype=dtype)


def log_softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    along = _softmax_dim(input.dim()) if dim is None else dim
    return torch.log_softmax(input, along) if dtype is None else torch.log_softmax(input, along, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    noise = -torch.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if hard:
        index = soft.max(dim, keepdim=True)[1]
        return torch.zeros_like(logits).scatter_(dim, index, 1.0) - soft.detach() + soft
    return soft


def _probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    _probability(p)
    return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    _probability(p)
    return torch.alpha_dropout_(input, p, training) if inplace else torch.alpha_dropout(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    _probability(p)
    return torch.feature_alpha_dropout_(input, p, training) if inplace else torch.feature_alpha_dropout(input, p, training)


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool, batched: int) -> Tensor:
    _probability(p)
    if input.dim() == batched:
        return torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)
    if inplace:
        return torch.feature_dropout_(input.unsqueeze_(0), p, training).squeeze_(0)
    return torch.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if input.dim() != 2 and input.dim() != 3:
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input.")
    return _drop_channels(input, p, training, inplace, 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _drop_channels(input, p, training, inplace, input.dim())


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _drop_channels(input, p, training, inplace, 5)


def _several_values(size: List[int], values: int) -> None:
    for k in range(len(size)):
        if k != 1:
            values *= size[k]
    if values == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor], weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    if training:
        _several_values(input.size(), 1)
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None, weight: Optional[Tensor] = None,
                  bias: Optional[Tensor] = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    if use_input_stats:
        count = 1
        for n in input.size()[2:]:
            count *= n
        if count == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None, eps: Optional[float] = None) -> Tensor:
    return torch.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    _several_values([input.size(0) * input.size(1) // num_groups, num_groups] + input.size()[2:], 1)
    return torch.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    squares = input * input
    if input.dim() == 3:
        mean = torch._C._nn.avg_pool2d(torch._C._nn.pad(squares.unsqueeze(1), [0, 0, size // 2, (size - 1) // 2]), [size, 1], stride=1).squeeze(1)
    else:
        n = input.size()
        rows = torch._C._nn.pad(squares.reshape([n[0], 1, n[1], n[2], -1]), [0, 0, 0, 0, size // 2, (size - 1) // 2])
        mean = torch._C._nn.avg_pool3d(rows, [size, 1, 1], stride=1).squeeze(1).view(n)
    return input / (mean * alpha + k).pow(beta)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[Tensor] = None) -> Tensor:
    return input / input.norm(p, [dim], keepdim=True).clamp_min(eps).expand_as(input)


def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    at = -1
    if padding_idx is not None:
        at = padding_idx if padding_idx >= 0 else padding_idx + weight.size(0)
    if max_norm is not None:
        input = input.contiguous()
        with torch.no_grad():
            torch.embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, at, scale_grad_by_freq, sparse)


def embedding_bag(input: Tensor, weight: Tensor, offsets: Optional[Tensor] = None, max_norm: Optional[float] = None, norm_type: float = 2.0,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Optional[Tensor] = None,
                  include_last_offset: bool = False, padding_idx: Optional[int] = None) -> Tensor:
    starts = offsets
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        starts = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input = input.reshape([-1])
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape([-1])
    if starts is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    number = 0
    if mode == "mean":
        number = 1
    elif mode == "max":
        number = 2
    elif mode != "sum":
        raise ValueError("mode has to be one of sum, mean or max")
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding_bag(weight, input, starts, scale_grad_by_freq, number, sparse, per_sample_weights, include_last_offset, padding_idx)[0]


def pad(input: Tensor, pad: List[int], mode: str = "constant", value: Optional[float] = None) -> Tensor:
    return torch._C._nn.pad(input, pad, mode, value)


def unique_with_inverse_counts(input: Tensor, sorted: bool = True, dim: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    if dim is None:
        return torch.ops.aten._unique2(input, sorted, True, True)
    return torch.ops.aten.unique_dim(input, dim, sorted, True, True)


def unique(input: Tensor, sorted: bool = True, dim: Optional[int] = None) -> Tensor:
    return unique_with_inverse_counts(input, sorted, dim)[0]


def unique_with_inverse(input: Tensor, sorted: bool = True, dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    values, inverse, _ = unique_with_inverse_counts(input, sorted, dim)
    return values, inverse


def unique_with_counts(input: Tensor, sorted: bool = True, dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    values, _, counts = unique_with_inverse_counts(input, sorted, dim)
    return values, counts


def unique_consecutive_with_inverse_counts(input: Tensor, dim: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.ops.aten.unique_consecutive(input, True, True, dim)


def unique_consecutive(input: Tensor, dim: Optional[int] = None) -> Tensor:
    return unique_consecutive_with_inverse_counts(input, dim)[0]


def unique_consecutive_with_inverse(input: Tensor, dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    values, inverse, _ = unique_consecutive_with_inverse_counts(input, dim)
    return values, inverse


def unique_consecutive_with_counts(input: Tensor, dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    values, _, counts = unique_consecutive_with_inverse_counts(input, dim)
    return values, counts


def _steps(stride: Optional[List[int]]) -> List[int]:
    return torch.jit.annotate(List[int], []) if stride is None else stride


def max_pool1d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0,), dilation: List[int] = (1,),
               ceil_mode: bool = False) -> Tensor:
    return torch.max_pool1d(input, kernel_size, _steps(stride), padding, dilation, ceil_mode)


def max_pool1d_with_indices(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0,), dilation: List[int] = (1,),
                            ceil_mode: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.max_pool1d_with_indices(input, kernel_size, _steps(stride), padding, dilation, ceil_mode)


def max_pool2d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0, 0), dilation: List[int] = (1, 1),
               ceil_mode: bool = False) -> Tensor:
    return torch.max_pool2d(input, kernel_size, _steps(stride), padding, dilation, ceil_mode)


def max_pool2d_with_indices(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0, 0), dilation: List[int] = (1, 1),
                            ceil_mode: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.max_pool2d_with_indices(input, kernel_size, _steps(stride), padding, dilation, ceil_mode)


def max_pool3d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0, 0, 0), dilation: List[int] = (1, 1, 1),
               ceil_mode: bool = False) -> Tensor:
    return torch.max_pool3d(input, kernel_size, _steps(stride), padding, dilation, ceil_mode)


def max_pool3d_with_indices(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0, 0, 0), dilation: List[int] = (1, 1, 1),
                            ceil_mode: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.max_pool3d_with_indices(input, kernel_size, _steps(stride), padding, dilation, ceil_mode)


def adaptive_max_pool1d(input: Tensor, output_size: List[int]) -> Tensor:
    return torch.ops.aten.adaptive_max_pool1d(input, output_size)[0]


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: List[int]) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d(input: Tensor, output_size: List[int]) -> Tensor:
    return torch.ops.aten.adaptive_max_pool2d(input, output_size)[0]


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: List[int]) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.adaptive_max_pool2d(input, output_size)


def adaptive_max_pool3d(input: Tensor, output_size: List[int]) -> Tensor:
    return torch.ops.aten.adaptive_max_pool3d(input, output_size)[0]


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: List[int]) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.adaptive_max_pool3d(input, output_size)


def _unpooled(input: Tensor, kernel_size: List[int], stride: Optional[List[int]], padding: List[int], output_size: Optional[List[int]]) -> List[int]:
    n = len(kernel_size)
    steps = kernel_size if stride is None else stride
    return [(input.size(i - n) - 1) * steps[i] - 2 * padding[i] + kernel_size[i] for i in range(n)] if output_size is None else output_size[-n:]


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0,),
                 output_size: Optional[List[int]] = None) -> Tensor:
    size = _unpooled(input, kernel_size, stride, padding, output_size)
    return torch.ops.aten.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), size + [1]).squeeze(-1)


def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0, 0),
                 output_size: Optional[List[int]] = None) -> Tensor:
    return torch.ops.aten.max_unpool2d(input, indices, _unpooled(input, kernel_size, stride, padding, output_size))


def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = (0, 0, 0),
                 output_size: Optional[List[int]] = None) -> Tensor:
    size = _unpooled(input, kernel_size, stride, padding, output_size)
    return torch.ops.aten.max_unpool3d(input, indices, size, kernel_size if stride is None else stride, padding)


def adaptive_avg_pool2d(input: Tensor, output_size: List[int]) -> Tensor:
    return torch._C._nn.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: List[int]) -> Tensor:
    return torch._C._nn.adaptive_avg_pool3d(input, output_size)


def interpolate(input: Tensor, size: Optional[List[int]] = None, scale_factor: Optional[List[float]] = None, mode: str = "nearest", align_corners: Optional[bool] = None,
                recompute_scale_factor: Optional[bool] = None, antialias: bool = False) -> Tensor:
    if mode == "nearest" or mode == "area" or mode == "nearest-exact":
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    corners = False if align_corners is None else align_corners
    dims = input.dim() - 2
    factors = scale_factor
    if factors is not None and len(factors) == 1 and dims > 1:
        factors = [factors[0] for _ in range(dims)]
    if size is not None and len(size) == 1 and dims > 1:
        size = [size[0] for _ in range(dims)]
    if size is not None and factors is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and factors is None:
        raise ValueError("either size or scale_factor should be defined")
    if factors is not None and recompute_scale_factor is not None and recompute_scale_factor:
        size = [int(math.floor(float(input.size(k + 2)) * factors[k])) for k in range(dims)]
        factors = None
    if mode == "area":
        out = size
        if out is None:
            assert factors is not None
            out = [int(math.floor(float(input.size(k + 2)) * factors[k])) for k in range(dims)]
        if dims == 1:
            return torch.adaptive_avg_pool1d(input, out)
        return torch._C._nn.adaptive_avg_pool2d(input, out) if dims == 2 else torch._C._nn.adaptive_avg_pool3d(input, out)
    if mode == "nearest":
        if dims == 1:
            return torch._C._nn.upsample_nearest1d(input, size, factors)
        return torch._C._nn.upsample_nearest2d(input, size, factors) if dims == 2 else torch._C._nn.upsample_nearest3d(input, size, factors)
    if mode == "nearest-exact":
        if dims == 1:
            return torch._C._nn._upsample_nearest_exact1d(input, size, factors)
        return torch._C._nn._upsample_nearest_exact2d(input, size, factors) if dims == 2 else torch._C._nn._upsample_nearest_exact3d(input, size, factors)
    if mode == "linear" and dims == 1:
        return torch._C._nn.upsample_linear1d(input, size, corners, factors)
    if mode == "bilinear" and dims == 2:
        return torch._C._nn._upsample_bilinear2d_aa(input, size, corners, factors) if antialias else torch._C._nn.upsample_bilinear2d(input, size, corners, factors)
    if mode == "bicubic" and dims == 2:
        return torch._C._nn._upsample_bicubic2d_aa(input, size, corners, factors) if antialias else torch._C._nn.upsample_bicubic2d(input, size, corners, factors)
    if mode == "trilinear" and dims == 3:
        return torch._C._nn.upsample_trilinear3d(input, size, corners, factors)
    raise NotImplementedError(f"interpolation of {input.dim()}D input by {mode}")


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Optional[bool] = None) -> Tensor:
    how, beyond = 0, 0
    if mode == "nearest":
        how = 1
    elif mode == "bicubic":
        how = 2
    if padding_mode == "border":
        beyond = 1
    elif padding_mode == "reflection":
        beyond = 2
    return torch.grid_sampler(input, grid, how, beyond, False if align_corners is None else align_corners)


def unfold(input: Tensor, kernel_size: List[int], dilation: List[int] = (1, 1), padding: List[int] = (0, 0), stride: List[int] = (1, 1)) -> Tensor:
    return torch._C._nn.im2col(input, kernel_size, dilation, padding, stride)


def fold(input: Tensor, output_size: List[int], kernel_size: List[int], dilation: List[int] = (1, 1), padding: List[int] = (0, 0), stride: List[int] = (1, 1)) -> Tensor:
    return torch._C._nn.col2im(input, output_size, kernel_size, dilation, padding, stride)


def _number(reduction: str) -> int:
    if reduction == "none":
        return 0
    if reduction == "mean":
        return 1
    if reduction == "sum":
        return 2
    raise ValueError(f"{reduction} is not a valid value for reduction")


def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, ignore_index: int = -100,
                  reduce: Optional[bool] = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    return torch._C._nn.cross_entropy_loss(input, target, weight, _number(reduction), ignore_index, label_smoothing)


def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, ignore_index: int = -100,
             reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch._C._nn.nll_loss_nd(input, target, weight, _number(reduction), ignore_index)


def kl_div(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", log_target: bool = False) -> Tensor:
    loss = torch.kl_div(input, target, _number("sum" if reduction == "batchmean" else reduction), log_target=log_target)
    return loss / input.size(0) if reduction == "batchmean" and input.dim() != 0 else loss


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                         reduction: str = "mean") -> Tensor:
    return torch._C._nn.binary_cross_entropy(input, target, weight, _number(reduction))


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                                     reduction: str = "mean", pos_weight: Optional[Tensor] = None) -> Tensor:
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _number(reduction))


def mse_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return torch._C._nn.mse_loss(a, b, _number(reduction))


def l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return torch._C._nn.l1_loss(a, b, _number(reduction))


def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return torch._C._nn.l1_loss(a, b, _number(reduction)) if beta == 0.0 else torch._C._nn.smooth_l1_loss(a, b, _number(reduction), beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Optional[Tensor] = None) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return torch._C._nn.huber_loss(a, b, _number(reduction), delta)


def norm(input: Tensor, p: Optional[float] = 2.0, dim: Optional[List[int]] = None, keepdim: bool = False) -> Tensor:
    if dim is None:
        return torch.norm(input, p)
    return torch.norm(input, p, dim, keepdim)


def _mask(mask: Optional[Tensor], dtype: int) -> Optional[Tensor]:
    """A boolean mask as numbers to add."""
    if mask is not None and mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))
    return mask


def _heads(x: Tensor, batch: int, heads: int) -> Tensor:
    return x.contiguous().view([x.size(0), batch * heads, -1]).transpose(0, 1)


def multi_head_attention(query: Tensor, key: Tensor, value: Tensor, num_heads: int, in_weight: Optional[Tensor], q_weight: Optional[Tensor], k_weight: Optional[Tensor],
                         v_weight: Optional[Tensor], in_bias: Optional[Tensor], bias_k: Optional[Tensor], bias_v: Optional[Tensor], add_zero_attn: bool, dropout_p: float,
                         out_weight: Tensor, out_bias: Optional[Tensor], training: bool, key_padding_mask: Optional[Tensor], need_weights: bool,
                         attn_mask: Optional[Tensor], average_attn_weights: bool, is_causal: bool) -> Tuple[Tensor, Optional[Tensor]]:
    batched = query.dim() == 3
    padding = _mask(key_padding_mask, query.dtype)
    mask = _mask(attn_mask, query.dtype)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if padding is not None:
            padding = padding.unsqueeze(0)
    length, batch, width = query.size(0), query.size(1), query.size(2)
    if is_causal and mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if in_weight is not None:
        weights = in_weight.chunk(3)
        wq, wk, wv = weights[0], weights[1], weights[2]
    else:
        assert q_weight is not None and k_weight is not None and v_weight is not None
        wq, wk, wv = q_weight, k_weight, v_weight
    if in_bias is not None:
        biases = in_bias.chunk(3)
        q, k, v = torch._C._nn.linear(query, wq, biases[0]), torch._C._nn.linear(key, wk, biases[1]), torch._C._nn.linear(value, wv, biases[2])
    else:
        q, k, v = torch._C._nn.linear(query, wq), torch._C._nn.linear(key, wk), torch._C._nn.linear(value, wv)
    if mask is not None and mask.dim() == 2:
        mask = mask.unsqueeze(0)
    if bias_k is not None and bias_v is not None:
        k, v = torch.cat([k, bias_k.repeat([1, batch, 1])]), torch.cat([v, bias_v.repeat([1, batch, 1])])
        if mask is not None:
            mask = torch._C._nn.pad(mask, [0, 1])
        if padding is not None:
            padding = torch._C._nn.pad(padding, [0, 1])
    q, k, v = _heads(q, batch, num_heads), _heads(k, batch, num_heads), _heads(v, batch, num_heads)
    if add_zero_attn:
        k = torch.cat([k, torch.zeros([k.size(0), 1, k.size(2)], dtype=k.dtype, device=k.device)], 1)
        v = torch.cat([v, torch.zeros([v.size(0), 1, v.size(2)], dtype=v.dtype, device=v.device)], 1)
        if mask is not None:
            mask = torch._C._nn.pad(mask, [0, 1])
        if padding is not None:
            padding = torch._C._nn.pad(padding, [0, 1])
    source = k.size(1)
    if padding is not None:
        wide = padding.view([batch, 1, 1, source]).expand([-1, num_heads, -1, -1]).reshape([batch * num_heads, 1, source])
        mask = wide if mask is None else mask + wide
    p = dropout_p if training else 0.0
    if need_weights:
        scaled = q * math.sqrt(1.0 / float(q.size(2)))
        scores = torch.bmm(scaled, k.transpose(-2, -1)) if mask is None else torch.baddbmm(mask, scaled, k.transpose(-2, -1))
        scores = torch.softmax(scores, -1)
        if p > 0.0:
            scores = torch.dropout(scores, p, True)
        out = torch.bmm(scores, v).transpose(0, 1).contiguous().view([length * batch, width])
        out = torch._C._nn.linear(out, out_weight, out_bias).view([length, batch, -1])
        shown = scores.view([batch, num_heads, length, source])
        if average_attn_weights:
            shown = shown.mean([1])
        return (out, shown) if batched else (out.squeeze(1), shown.squeeze(0))
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.size(0) == 1 else mask.view([batch, num_heads, -1, source])
    out = torch._C._nn.scaled_dot_product_attention(q.view([batch, num_heads, length, -1]), k.view([batch, num_heads, source, -1]), v.view([batch, num_heads, source, -1]),
                                                    mask, p, False)
    out = out.permute([2, 0, 1, 3]).contiguous().view([length * batch, width])
    out = torch._C._nn.linear(out, out_weight, out_bias).view([length, batch, -1])
    return (out if batched else out.squeeze(1)), None


def transposed_padding(input: Tensor, output_size: Optional[List[int]], given: List[int], stride: List[int], padding: List[int], kernel: List[int], dilation: List[int]) -> List[int]:
    """The output padding that gives `output_size`."""
    if output_size is None:
        return given
    n = len(kernel)
    plain = input.dim() - n
    wanted = output_size[plain:] if len(output_size) == plain + n else output_size
    if len(wanted) != n:
        raise ValueError(f"output_size must have {n} or {plain + n} elements (got {len(output_size)})")
    return [wanted[d] - ((input.size(d + plain) - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel[d] - 1) + 1) for d in range(n)]


class modules:
    """Methods of layers whose Python says it with tables of functions."""

    class _InplaceActivation:
        def forward(self, input):
            return self._function(input, self.inplace)

    class _PlainActivation:
        def forward(self, input):
            return self._function(input)

    class Sigmoid:
        def forward(self, input):
            return torch.sigmoid(input)

    class Tanh:
        def forward(self, input):
            return torch.tanh(input)

    class LogSigmoid:
        def forward(self, input):
            return torch._C._nn.log_sigmoid(input)

    class _AlphaActivation:
        def forward(self, input):
            return self._function(input, self.alpha, self.inplace)

    class _AlongDim:
        def forward(self, input):
            return self._function(input, self.dim)

    class Softmax2d:
        def forward(self, input):
            return torch.softmax(input, -3)

    class Conv1d:
        def _conv_forward(self, input, weight, bias: Optional[Tensor]):
            if self.padding_mode != "zeros":
                return torch.conv1d(torch._C._nn.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), weight, bias, self.stride, [0], self.dilation, self.groups)
            return torch.conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    class Conv2d:
        def _conv_forward(self, input, weight, bias: Optional[Tensor]):
            if self.padding_mode != "zeros":
                return torch.conv2d(torch._C._nn.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), weight, bias, self.stride, [0, 0], self.dilation, self.groups)
            return torch.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    class Conv3d:
        def _conv_forward(self, input, weight, bias: Optional[Tensor]):
            if self.padding_mode != "zeros":
                return torch.conv3d(torch._C._nn.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), weight, bias, self.stride, [0, 0, 0], self.dilation, self.groups)
            return torch.conv3d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    class ConvTranspose1d:
        def forward(self, input, output_size: Optional[List[int]] = None):
            extra = transposed_padding(input, output_size, self.output_padding, self.stride, self.padding, self.kernel_size, self.dilation)
            return torch.conv_transpose1d(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    class ConvTranspose2d:
        def forward(self, input, output_size: Optional[List[int]] = None):
            extra = transposed_padding(input, output_size, self.output_padding, self.stride, self.padding, self.kernel_size, self.dilation)
            return torch.conv_transpose2d(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    class ConvTranspose3d:
        def forward(self, input, output_size: Optional[List[int]] = None):
            extra = transposed_padding(input, output_size, self.output_padding, self.stride, self.padding, self.kernel_size, self.dilation)
            return torch.conv_transpose3d(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    class _NormBase:
        def _check_input_dim(self, input):
            pass

    class BatchNorm1d:
        def _check_input_dim(self, input):
            if input.dim() != 2 and input.dim() != 3:
                raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")

    class BatchNorm2d:
        def _check_input_dim(self, input):
            if input.dim() != 4:
                raise ValueError(f"expected 4D input (got {input.dim()}D input)")

    class BatchNorm3d:
        def _check_input_dim(self, input):
            if input.dim() != 5:
                raise ValueError(f"expected 5D input (got {input.dim()}D input)")

    class _BatchNorm:
        def forward(self, input):
            self._check_input_dim(input)
            factor = 0.0 if self.momentum is None else self.momentum
            if self.training and self.track_running_stats and self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                if self.momentum is None:
                    factor = 1.0 / float(self.num_batches_tracked)
            if self.running_mean is None:
                return batch_norm(input, None, None, self.weight, self.bias, True, factor, self.eps)
            if self.training and not self.track_running_stats:
                return batch_norm(input, None, None, self.weight, self.bias, True, factor, self.eps)
            return batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training, factor, self.eps)

    class _InstanceNorm:
        def forward(self, input):
            use = self.training or not self.track_running_stats
            factor = 0.0 if self.momentum is None else self.momentum
            if input.dim() == self._get_no_batch_dim():
                return instance_norm(input.unsqueeze(0), self.running_mean, self.running_var, self.weight, self.bias, use, factor, self.eps).squeeze(0)
            return instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias, use, factor, self.eps)

    class MaxUnpool1d:
        def forward(self, input, indices, output_size: Optional[List[int]] = None):
            return max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    class MaxUnpool2d:
        def forward(self, input, indices, output_size: Optional[List[int]] = None):
            return max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    class MaxUnpool3d:
        def forward(self, input, indices, output_size: Optional[List[int]] = None):
            return max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    class MaxPool1d:
        def forward(self, input):
            if self.return_indices:
                return torch.max_pool1d_with_indices(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
            else:
                return torch.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    class MaxPool2d:
        def forward(self, input):
            if self.return_indices:
                return torch._C._nn.max_pool2d_with_indices(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
            else:
                return torch.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    class MaxPool3d:
        def forward(self, input):
            if self.return_indices:
                return torch._C._nn.max_pool3d_with_indices(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
            else:
                return torch.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    class AdaptiveMaxPool2d:
        def forward(self, input):
            if self.return_indices:
                return torch._C._nn.adaptive_max_pool2d(input, self.output_size)
            else:
                return torch._C._nn.adaptive_max_pool2d(input, self.output_size)[0]

    class _ConstantPadNd:
        def forward(self, input):
            return torch._C._nn.pad(input, self.padding, "constant", float(self.value))

    class _RulePadNd:
        def forward(self, input):
            return torch._C._nn.pad(input, self.padding, self._rule)

    class _CircularPadNd:
        def forward(self, input):
            return torch._C._nn.pad(input, self.padding, "circular")

    class Upsample:
        def forward(self, input):
            return interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)

    class Unflatten:
        def forward(self, input):
            return input.unflatten(self.dim, self.unflattened_size)

    class Sequential:
        def forward(self, input):
            for module in self:
                input = module(input)
            return input

    class MultiheadAttention:
        def forward(self, query, key, value, key_padding_mask: Optional[Tensor] = None, need_weights: bool = True, attn_mask: Optional[Tensor] = None,
                    average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
            swapped = self.batch_first and query.dim() == 3
            if swapped:
                query, key, value = query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
            out, weights = multi_head_attention(query, key, value, self.num_heads, self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight,
                                                self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
                                                self.training, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
            return (out.transpose(1, 0) if swapped else out), weights

    class TransformerEncoderLayer:
        def forward(self, src, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, is_causal: bool = False):
            x = src
            if self.norm_first:
                x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
                return x + self._ff_block(self.norm2(x))
            else:
                x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
                return self.norm2(x + self._ff_block(x))

        def _sa_block(self, x, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor], is_causal: bool = False):
            return self.dropout1(self.self_attn(x, x, x, key_padding_mask, False, attn_mask, True, is_causal)[0])

        def _ff_block(self, x):
            return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    class TransformerEncoder:
        def forward(self, src, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, is_causal: Optional[bool] = None):
            causal = False if is_causal is None else is_causal
            output = src
            for layer in self.layers:
                output = layer(output, mask, src_key_padding_mask, causal)
            if self.norm is not None:
                output = self.norm(output)
            return output

    class TransformerDecoderLayer:
        def forward(self, tgt, memory, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
                    memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False, memory_is_causal: bool = False):
            x = tgt
            if self.norm_first:
                x = x + self._sa_block(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
                x = x + self._mha_block(self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal)
                return x + self._ff_block(self.norm3(x))
            else:
                x = self.norm1(x + self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
                x = self.norm2(x + self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
                return self.norm3(x + self._ff_block(x))

        def _sa_block(self, x, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor], is_causal: bool = False):
            return self.dropout1(self.self_attn(x, x, x, key_padding_mask, False, attn_mask, True, is_causal)[0])

        def _mha_block(self, x, mem, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor], is_causal: bool = False):
            return self.dropout2(self.multihead_attn(x, mem, mem, key_padding_mask, False, attn_mask, True, is_causal)[0])

        def _ff_block(self, x):
            return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    class TransformerDecoder:
        def forward(self, tgt, memory, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
                    memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False):
            output = tgt
            for layer in self.layers:
                output = layer(output, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                               False if tgt_is_causal is None else tgt_is_causal, memory_is_causal)
            if self.norm is not None:
                output = self.norm(output)
            return output

    class RNNBase:
        def _weights(self) -> List[Tensor]:
            return [getattr(self, name) for name in self._flat_weights_names]

        def _zeros(self, input, width: int) -> Tensor:
            return torch.zeros([self.num_layers * (2 if self.bidirectional else 1), input.size(0) if self.batch_first else input.size(1), width],
                               dtype=input.dtype, device=input.device)

    class LSTM:
        def forward(self, input, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
            alone = input.dim() == 2
            x = input.unsqueeze(0 if self.batch_first else 1) if alone else input
            if hx is None:
                h = self._zeros(x, self.proj_size if self.proj_size > 0 else self.hidden_size)
                c = self._zeros(x, self.hidden_size)
            else:
                h, c = (hx[0].unsqueeze(1), hx[1].unsqueeze(1)) if alone else hx
            y, h, c = torch.lstm(x, [h, c], self._weights(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first)
            if alone:
                return y.squeeze(0 if self.batch_first else 1), (h.squeeze(1), c.squeeze(1))
            return y, (h, c)

    class GRU:
        def forward(self, input, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
            alone = input.dim() == 2
            x = input.unsqueeze(0 if self.batch_first else 1) if alone else input
            if hx is None:
                h = self._zeros(x, self.hidden_size)
            else:
                h = hx.unsqueeze(1) if alone else hx
            y, h = torch.gru(x, h, self._weights(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first)
            return (y.squeeze(0 if self.batch_first else 1), h.squeeze(1)) if alone else (y, h)

    class RNN:
        def forward(self, input, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
            alone = input.dim() == 2
            x = input.unsqueeze(0 if self.batch_first else 1) if alone else input
            if hx is None:
                h = self._zeros(x, self.hidden_size)
            else:
                h = hx.unsqueeze(1) if alone else hx
            if self.mode == "RNN_TANH":
                y, h = torch.rnn_tanh(x, h, self._weights(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first)
            else:
                y, h = torch.rnn_relu(x, h, self._weights(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first)
            return (y.squeeze(0 if self.batch_first else 1), h.squeeze(1)) if alone else (y, h)

    class LSTMCell:
        def forward(self, input, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
            x = input if input.dim() == 2 else input.unsqueeze(0)
            if hx is None:
                h = torch.zeros([x.size(0), self.hidden_size], dtype=x.dtype, device=x.device)
                c = h
            else:
                h, c = hx if input.dim() == 2 else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
            h, c = torch.lstm_cell(x, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
            return (h, c) if input.dim() == 2 else (h.squeeze(0), c.squeeze(0))

    class GRUCell:
        def forward(self, input, hx: Optional[Tensor] = None) -> Tensor:
            x = input if input.dim() == 2 else input.unsqueeze(0)
            if hx is None:
                h = torch.zeros([x.size(0), self.hidden_size], dtype=x.dtype, device=x.device)
            else:
                h = hx if input.dim() == 2 else hx.unsqueeze(0)
            h = torch.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
            return h if input.dim() == 2 else h.squeeze(0)
