"""Rows of bfloat16 times int4 weights, and convolutions of bytes, against plain arithmetic."""
import math

import pytest
import rushlight as torch
import rushlight.nn.functional as F


def weight(n, k, group):
    q = torch.randint(16, (n, k), dtype=torch.int32)
    pairs = torch.stack([torch.rand(k // group, n) + 0.01, torch.randn(k // group, n)], 2).bfloat16()
    scale, zero = pairs.double().repeat_interleave(group, 0).unbind(2)
    return torch._convert_weight_to_int4pack_for_cpu(q, 2), pairs, (q - 8).double() * scale.t() + zero.t()


@pytest.mark.parametrize("m", (1, 2, 3, 5))
@pytest.mark.parametrize("group", (32, 64, 128, 256))
def test_bfloat16_times_int4(m, group):
    torch.manual_seed(m * group)
    for n, k, spread in ((64, 512, 0), (80, 256, 0), (192, 1280, 4), (128, 512, 60)):
        packed, pairs, plain = weight(n, k, group)
        a = (torch.randn(m, k) * 2.0 ** torch.randint(-spread, spread + 1, (m, k))).bfloat16()
        y, want = torch._weight_int4pack_mm_for_cpu(a, packed, group, pairs).double(), a.double() @ plain.t()
        size = a.double().abs() @ plain.abs().t()   # what rounding is in proportion to
        assert ((y - want).abs() <= want.abs() / 256 + size * 2e-6).all()


def test_bfloat16_times_int4_is_exact_where_it_can_be():
    packed, pairs, plain = weight(64, 64, 64)
    pairs[..., 0], pairs[..., 1] = 1, 0
    a = torch.zeros(1, 64).bfloat16()
    a[0, 3], a[0, 60] = 256, 1
    q = torch._weight_int4pack_mm_for_cpu(torch.eye(64).bfloat16(), packed, 64, pairs)
    one = torch.cat([torch._weight_int4pack_mm_for_cpu(row[None], packed, 64, pairs) for row in torch.eye(64).bfloat16()])
    assert torch.equal(q, one) and q.min() == -8 and q.max() == 7
    assert torch.equal(torch._weight_int4pack_mm_for_cpu(a, packed, 64, pairs), (256 * q[3] + q[60]).bfloat16()[None])


@pytest.mark.parametrize("odd", (math.inf, -math.inf, math.nan))
def test_bfloat16_times_int4_of_what_is_no_number(odd):
    packed, pairs, _ = weight(64, 64, 32)
    a = torch.ones(2, 64).bfloat16()
    a[1, 5] = odd
    y = torch._weight_int4pack_mm_for_cpu(a, packed, 32, pairs)
    assert y[0].isfinite().all() and not y[1].isfinite().any()
    assert torch.equal(y[0], torch._weight_int4pack_mm_for_cpu(a[:1], packed, 32, pairs)[0])


@pytest.mark.parametrize("dtype", (torch.uint8, torch.int8))
@pytest.mark.parametrize("zero", (0, 7))
def test_convolution_of_bytes(dtype, zero):
    torch.manual_seed(0)
    low, high = (0, 256) if dtype is torch.uint8 else (-128, 128)
    for size, kernel, groups, window in (((2, 16, 9, 7), (32, 16, 3, 3), 1, ([1, 1], [1, 1], [1, 1])), ((1, 3, 20, 20), (64, 3, 7, 7), 1, ([2, 2], [3, 3], [1, 1])),
                                         ((3, 8, 5, 6), (8, 1, 3, 3), 8, ([1, 2], [0, 1], [1, 1])), ((1, 12, 8, 8), (6, 4, 2, 3), 3, ([1, 1], [2, 1], [2, 1])),
                                         ((1, 64, 1, 1), (10, 64, 1, 1), 1, ([1, 1], [0, 0], [1, 1])), ((1, 4, 3, 6, 5), (8, 4, 2, 3, 3), 1, ([1, 1, 2], [0, 1, 1], [1, 1, 1]))):
        x, w = torch.randint(low, high, size, dtype=dtype), torch.randint(-128, 128, kernel, dtype=torch.int8)
        conv = F.conv3d if len(size) == 5 else F.conv2d
        want = conv((x.double() - zero), w.double(), None, *window, groups).to(torch.int32)
        last = torch.channels_last_3d if len(size) == 5 else torch.channels_last
        for given in (x, x.to(memory_format=last), torch.stack([x, x], -1)[..., 0]):
            y = torch._grid_convolution(given, zero, w, *window, False, [0] * (len(size) - 2), groups)
            assert torch.equal(y, want) and y.is_contiguous(memory_format=last)
            unit, bias = torch.rand(kernel[0]) * 1e-3, torch.randn(kernel[0])
            along = (-1,) + (1,) * (len(size) - 2)
            numbers = y.float() * unit.view(along) + bias.view(along)
            assert torch.equal(torch._grid_finish(y, unit, bias, False, 1.0, 0, torch.float32), numbers)
            assert torch.equal(torch._grid_finish(y, unit, bias, True, 0.25, 100, torch.uint8), (numbers.relu() * 4 + 100).round().clamp(0, 255).to(torch.uint8))


def test_a_packed_weight_is_used_again():
    """What the engine made of it is kept, and no other weight is taken for it."""
    torch.manual_seed(0)
    x = torch.quantize_per_tensor(torch.rand(1, 16, 8, 8), 1 / 64, 0, torch.quint8)
    both = []
    for seed in (1, 2):
        w = torch.quantize_per_tensor(torch.randn(32, 16, 3, 3, generator=torch.Generator().manual_seed(seed)), 1 / 32, 0, torch.qint8)
        packed = torch.ops.quantized.conv2d_prepack(w, None, [1, 1], [1, 1], [1, 1], 1)
        first = torch.ops.quantized.conv2d(x, packed, 0.125, 100)
        assert torch.equal(first.int_repr(), torch.ops.quantized.conv2d(x, packed, 0.125, 100).int_repr())
        both.append(first.dequantize())
        assert (both[-1] - F.conv2d(x.dequantize(), w.dequantize(), padding=1).clamp(-12.5, 19.375)).abs().max() <= 0.07
    assert not torch.equal(*both)


def test_sums_on_a_grid_refuse_what_does_not_fit():
    sums, unit = torch.zeros(2, 3, dtype=torch.int32), torch.tensor([1.0, math.nan, 2.0])
    assert torch._grid_finish(sums, unit, None, True, 1.0, 0, torch.float32).isnan().tolist() == [[False, True, False]] * 2
    for bias in (torch.zeros(2), torch.zeros(3, dtype=torch.float64)):
        with pytest.raises(RuntimeError, match="bias must be a float32 for each channel"):
            torch._grid_finish(sums, unit, bias, True, 1.0, 0, torch.float32)
    x, w = torch.zeros(1, 4, 5, 5, dtype=torch.uint8), torch.ones(2, 4, 3, 3, dtype=torch.int8)
    assert torch._grid_convolution(x, 300, w, [1, 1], [0, 0], [1, 1], False, [0, 0], 1).eq(-300 * 36).all()     # beyond what a byte holds
    q, p = torch.quantize_per_tensor(x.float(), 1.0, 0, torch.quint8), torch.ops.quantized.conv2d_prepack(torch.quantize_per_tensor(w.float(), 1.0, 0, torch.qint8), None, [1, 1], [0, 0], [1, 1], 1)
    with pytest.raises(RuntimeError, match="zero_point 256 is above upper bound"):
        torch.ops.quantized.conv2d(q, p, 1.0, 256)


def test_functions_with_quantized_weights():
    """torch.ao.nn.quantized.functional: (shape, scale, zero point, sum of the whole numbers) that PyTorch gives, and its errors."""
    import rushlight.ao.nn.quantized.functional as functional
    from rushlight.nn.quantized.functional import conv2d
    quantized = torch.quantize_per_tensor
    torch.manual_seed(0)
    x, x3, x1 = (quantized(torch.randn(size), 0.05, 100, torch.quint8) for size in ((2, 3, 8, 8), (1, 3, 4, 4, 4), (2, 3, 8)))
    v = quantized(torch.randn(2, 6), 0.05, 100, torch.quint8)
    w2, w1, w3, w = (quantized(torch.randn(size), 0.02, 0, torch.qint8) for size in ((4, 3, 3, 3), (4, 3, 3), (4, 3, 2, 2, 2), (5, 6)))
    b = torch.randn(4)
    for y, want in (
        (functional.avg_pool2d(x, 2), ((2, 3, 4, 4), 0.05, 100, 9679)), (functional.avg_pool3d(x3, 2), ((1, 3, 2, 2, 2), 0.05, 100, 2453)),
        (functional.adaptive_avg_pool2d(x, (2, 2)), ((2, 3, 2, 2), 0.05, 100, 2419)), (functional.adaptive_avg_pool3d(x3, 2), ((1, 3, 2, 2, 2), 0.05, 100, 2453)),
        (functional.conv1d(x1, w1, b, scale=0.3, zero_point=50), ((2, 4, 6), 0.3, 50, 2533)),
        (conv2d(x, w2, b, stride=2, padding=1, scale=0.3, zero_point=50), ((2, 4, 4, 4), 0.3, 50, 6681)), (conv2d(x, w2, None), ((2, 4, 6, 6), 1.0, 0, 575)),
        (conv2d(x, w2, b, padding=(1, 1), dilation=(2, 2), scale=0.2), ((2, 4, 6, 6), 0.2, 0, 4046)),
        (functional.conv3d(x3, w3, b, scale=0.3, zero_point=50), ((1, 4, 3, 3, 3), 0.3, 50, 5935)),
        (functional.interpolate(x, size=(4, 4), mode="bilinear"), ((2, 3, 4, 4), 0.05, 100, 9679)), (functional.upsample_bilinear(x, scale_factor=2), ((2, 3, 16, 16), 0.05, 100, 155138)),
        (functional.linear(v, w), ((2, 5), 0.05, 100, 830)), (functional.max_pool1d(x1, 2), ((2, 3, 4), 0.05, 100, 2742)), (functional.max_pool2d(x, 2), ((2, 3, 4, 4), 0.05, 100, 11619)),
        (functional.celu(x, 0.07, 20, 1.2), (x.shape, 0.07, 20, 8575)), (functional.leaky_relu(x, 0.2), (x.shape, 0.05, 100, 40933)),
        (functional.leaky_relu(x, 0.2, scale=0.07, zero_point=30), (x.shape, 0.07, 30, 13328)), (functional.hardtanh(x), (x.shape, 0.05, 100, 38611)),
        (functional.threshold(x, 0.12, 0.2), (x.shape, 0.05, 100, 42281)), (functional.clamp(x, -0.5, 0.6), (x.shape, 0.05, 100, 38753)),
        (functional.upsample_nearest(x, size=(4, 4)), ((2, 3, 4, 4), 0.05, 100, 9729)), (functional.hardsigmoid(x), (x.shape, 1 / 256, 0, 49778)),
    ):
        assert (tuple(y.shape), round(y.q_scale(), 8), y.q_zero_point(), int(y.int_repr().long().sum())) == (tuple(want[0]), *want[1:])
    for error, message, wrong in (
        (NotImplementedError, "Only zero-padding is supported!", lambda: conv2d(x, w2, b, padding_mode="reflect")),
        (NotImplementedError, "Only torch.quint8 is supported for activation tensor!", lambda: conv2d(torch.ones(2, 3, 8, 8), w2, b)),
        (NotImplementedError, "Only torch.qint8 is supported for weight tensor!", lambda: conv2d(x, x, b)),
        (ValueError, r"Input shape must be `\(N, C, L\)`!", lambda: functional.conv1d(x, w1, b)),
        (NotImplementedError, "return_indices is not yet implemented!", lambda: functional.max_pool2d(x, 2, return_indices=True)),
        (AssertionError, "Cannot rescale with `inplace`", lambda: functional.leaky_relu(x, 0.2, True, scale=0.1, zero_point=3)),
        (ValueError, "Input to 'quantized.elu' must be quantized!", lambda: functional.elu(torch.ones(2), 0.1, 3)),
    ):
        with pytest.raises(error, match=message):
            wrong()
