"""torch.ops.quantized_decomposed: quantization with plain tensors of integers, scales and zero points.

Each operator is a function here, whose registration says its schema.
"""
import rushlight as torch
from rushlight.library import Library

quantized_decomposed_lib = Library("quantized_decomposed", "DEF")

_BOUNDS = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.uint16: (0, 2 ** 16 - 1), torch.int16: (-2 ** 15, 2 ** 15 - 1), torch.int32: (-2 ** 31, 2 ** 31 - 1),
           torch.float8_e4m3fn: (-448, 448), torch.float8_e5m2: (-57344, 57344)}


def _operator(schema, key="CompositeExplicitAutograd"):
    """A decorator: the function is the operator of that schema."""
    def register(fn):
        quantized_decomposed_lib.define(schema)
        quantized_decomposed_lib.impl(schema.partition("(")[0], fn, key)
        return fn
    return register


def _quant_min_max_bounds_check(quant_min, quant_max, dtype):
    if dtype not in _BOUNDS:
        raise AssertionError("Unsupported dtype: %s" % dtype)
    least, most = _BOUNDS[dtype]
    if quant_min < least:
        raise AssertionError("quant_min out of bounds for dtype, quant_min_lower_bound: %s quant_min: %s" % (least, quant_min))
    if quant_max > most:
        raise AssertionError("quant_max out of bounds for dtype, quant_max_upper_bound: %s quant_max: %s" % (most, quant_max))


def _floats(input):
    """Half types in float32, in which grids are computed."""
    if input.dtype in (torch.float16, torch.bfloat16):
        input = input.to(torch.float32)
    if input.dtype != torch.float32:
        raise AssertionError("Expecting input to have dtype torch.float32, but got dtype: %s" % input.dtype)
    return input


def _has(input, dtype):
    if input.dtype != dtype:
        raise AssertionError("Expecting input to have dtype: %s, but got %s" % (dtype, input.dtype))


def _one(**values):
    for name, value in reversed(values.items()):
        if value.numel() != 1:
            raise AssertionError("Expecting %s tensor to be one element, but received : %d" % (name, value.numel()))
    return [value.item() for value in values.values()]


# ---- one grid for a tensor

@_operator("quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor")
def quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    """round(input / scale) + zero_point, within bounds, as dtype."""
    input = _floats(input)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    return torch.clamp(torch.round(input * (1.0 / scale)) + zero_point, quant_min, quant_max).to(dtype)


@_operator("quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor")
def quantize_per_tensor_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    return quantize_per_tensor(input, *_one(scale=scale, zero_point=zero_point), quant_min, quant_max, dtype)


@_operator("quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype) -> Tensor")
def quantize_per_tensor_tensor2(input, scale, zero_point, quant_min, quant_max, dtype):
    return quantize_per_tensor(input, *_one(scale=scale, zero_point=zero_point, quant_min=quant_min, quant_max=quant_max), dtype)


@_operator("dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor")
def dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    """(input - zero_point) * scale."""
    _has(input, dtype)
    if dtype not in _BOUNDS:
        raise ValueError("Unsupported dtype in dequantize_per_tensor: %s" % dtype)
    return (input.to(out_dtype or torch.float32) - zero_point) * scale


@_operator("dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor")
def dequantize_per_tensor_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    return dequantize_per_tensor(input, *_one(scale=scale, zero_point=zero_point), quant_min, quant_max, dtype, out_dtype=out_dtype)


@_operator("dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor")
def dequantize_per_tensor_tensor2(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    return dequantize_per_tensor(input, *_one(scale=scale, zero_point=zero_point, quant_min=quant_min, quant_max=quant_max), dtype, out_dtype=out_dtype)


def _choose(input, quant_min, quant_max, eps, dtype, qscheme):
    from rushlight.ao.quantization.observer import MinMaxObserver
    if input.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise AssertionError("Expecting input to have dtype torch.float32/16/b16, but got dtype: %s" % input.dtype)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")
    least, most = torch.aminmax(input)
    observer = MinMaxObserver(dtype=torch.qint8, qscheme=qscheme, eps=eps)
    observer.quant_min, observer.quant_max = quant_min, quant_max
    observer.dtype = {torch.uint8: torch.quint8, torch.int8: torch.qint8}.get(dtype, dtype)
    scale, zero_point = observer._calculate_qparams(least, most)
    return scale.to(torch.float64), zero_point.to(torch.int64)


@_operator("choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_tensor(input, quant_min, quant_max, eps, dtype):
    """The grid from the least to the largest element."""
    return _choose(input, quant_min, quant_max, eps, dtype, torch.per_tensor_affine)


@_operator("choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_symmetric_tensor(input, quant_min, quant_max, eps, dtype):
    """The grid around zero that reaches the largest size of an element."""
    return _choose(input, quant_min, quant_max, eps, dtype, torch.per_tensor_symmetric)


# ---- a grid for each slice along an axis

def _along(x, axis, ndim):
    return x.reshape([-1 if d == axis % ndim else 1 for d in range(ndim)])


@_operator("quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor")
def quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype):
    """quantize_per_tensor of each slice along the axis."""
    input = _floats(input)
    if axis >= input.dim():
        raise AssertionError("Expecting axis to be < %d" % input.dim())
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    steps = torch.round(input * (1.0 / _along(scales, axis, input.dim())))
    return torch.clamp(steps + _along(zero_points, axis, input.dim()), quant_min, quant_max).to(dtype)


@_operator("dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, "
           "ScalarType? out_dtype=None) -> Tensor")
def dequantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype, *, out_dtype=None):
    """dequantize_per_tensor of each slice along the axis."""
    _has(input, dtype)
    if axis >= input.dim():
        raise AssertionError("Expecting axis to be < %d" % input.dim())
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    numbers = input.to(torch.float32)
    if zero_points is not None:
        numbers = numbers - _along(zero_points, axis, input.dim())
    return (numbers * _along(scales, axis, input.dim())).to(out_dtype or torch.float32)


@_operator("fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max) -> Tensor", "CompositeImplicitAutograd")
def fake_quant_per_channel(input, scales, zero_points, axis, quant_min, quant_max):
    """The numbers of the grid that are next to the elements."""
    input = _floats(input)
    return torch.fake_quantize_per_channel_affine(input, scales, zero_points.to(torch.int32), axis, quant_min, quant_max)


# ---- a grid for each row, or for each group of elements of a row

def _per_token_quant_qparam_dim_check(input, scales, zero_points):
    tokens = input.numel() // input.size(-1)
    for what, x in (("scales", scales), ("zero_points", zero_points)):
        if tokens != x.numel():
            raise AssertionError("num_tokens: %d %s: %s" % (tokens, what, x.size()))


@_operator("choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token(input, dtype):
    """For each row the grid around zero."""
    most = input.abs().amax(dim=-1, keepdim=True)
    if most.dtype == torch.float16:
        most = most.float()  # where 1e-5 is next to nothing
    if dtype != torch.int8:
        raise Exception("unsupported dtype in choose_qparams_per_token: %s" % dtype)
    scales = most.clamp(min=1e-5).div(127)
    return scales, torch.zeros_like(scales)


def _choose_per_token(input, dtype):
    least, most = input.amin(dim=-1, keepdim=True), input.amax(dim=-1, keepdim=True)
    least, most = torch.min(least, torch.zeros_like(least)), torch.max(most, torch.zeros_like(most))
    scale = ((most - least) / 255.0).clamp(min=torch.finfo(torch.float32).eps)
    low, high = least / scale, most / scale
    zero_point = torch.where(-128 + low + 127 + high > 0, -128 - low, 127 - high)
    return scale.to(torch.float64), torch.clamp(zero_point, -128, 127).round().to(torch.int64)


@_operator("_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def _choose_qparams_per_token_asymmetric_impl(input, dtype):
    return _choose_per_token(input, dtype)


@_operator("choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token_asymmetric(input, dtype):
    """For each row the grid of int8 from its least to its largest element."""
    return _choose_per_token(input, dtype)


@_operator("quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor")
def quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype):
    """Each row on its grid."""
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    _per_token_quant_qparam_dim_check(input, scales, zero_points)
    return input.mul(1.0 / scales).add(zero_points).round().clamp(quant_min, quant_max).to(dtype)


@_operator("dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor")
def dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype=torch.float32):
    """The numbers of rows that are each on a grid."""
    return ((input - zero_points) * scales).to(output_dtype)


def _groups(input, scales, zero_points, group_size):
    """Rows of a group each, and their grids as columns."""
    if group_size <= 1:
        raise AssertionError("group_size must be > 1")
    if group_size > input.shape[-1] and scales.shape[-1] == 1:  # one group for a row that is shorter
        group_size = input.shape[-1]
    if input.shape[-1] % group_size:
        raise AssertionError("input.shape[-1] must be divisible by group_size")
    if input.dim() != 2:
        raise AssertionError("input must be 2-dimensional")
    zero_points = zero_points.reshape(-1, 1) if zero_points is not None else 0
    return input.reshape(-1, group_size), scales.reshape(-1, 1), zero_points


@_operator("quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor")
def quantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size=128):
    """Each group of elements of a row on its grid."""
    numbers, scales, zero_points = _groups(input, scales, zero_points, group_size)
    if torch.isnan(numbers).sum() != 0:
        raise AssertionError("to_quant must not contain NaNs")
    return numbers.mul(1.0 / scales).add(zero_points).round().clamp(quant_min, quant_max).to(dtype).reshape_as(input)


@_operator("dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, "
           "ScalarType output_dtype) -> Tensor")
def dequantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size=128, output_dtype=torch.float32):
    """The numbers of groups that are each on a grid."""
    numbers, scales, zero_points = _groups(input, scales, zero_points, group_size)
    return numbers.sub(zero_points).mul(scales).reshape_as(input).to(output_dtype)


@_operator("convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor")
def convert_element_type(input, dtype):
    """input.to(dtype), which compilers leave alone."""
    return input.to(dtype)
