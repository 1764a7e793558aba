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
