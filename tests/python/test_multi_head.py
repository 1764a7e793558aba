"""Layers of attention in one call, as PyTorch's traces have them: beside the modules, which compute the same by operations."""
import pytest
import rushlight as torch
from rushlight import nn

WIDTH, HEADS, LENGTH = 8, 2, 5


def parts(m):
    return m.in_proj_weight, m.in_proj_bias, m.out_proj.weight, m.out_proj.bias


@pytest.mark.parametrize("dtype, bound", [(torch.float32, 1e-6), (torch.float64, 1e-14), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("mask_type", [None, 0, 1, 2])
@pytest.mark.parametrize("weights, average", [(False, True), (True, True), (True, False)])
def test_attention(dtype, bound, mask_type, weights, average):
    torch.manual_seed(0)
    m = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype)
    nn.init.normal_(m.in_proj_bias)
    q, v = torch.randn(3, LENGTH, WIDTH, dtype=dtype), torch.randn(3, LENGTH, WIDTH, dtype=dtype)
    causal, padding = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1), torch.arange(LENGTH) >= torch.tensor([[5], [2], [3]])
    each = torch.rand(3, HEADS, LENGTH, LENGTH) > 0.7
    each[..., 0] = False
    mask = {None: None, 0: causal, 1: padding, 2: each}[mask_type]
    given = {None: {}, 0: {"attn_mask": causal}, 1: {"key_padding_mask": padding}, 2: {"attn_mask": each.view(-1, LENGTH, LENGTH)}}[mask_type]
    with torch.no_grad():
        for query, value in ((q, q), (q, v)):
            want, shares = m(query, q, value, need_weights=weights, average_attn_weights=average, **given)
            y, w = torch._native_multi_head_attention(query, q, value, WIDTH, HEADS, *parts(m), mask, weights, average, mask_type)
            assert y.dtype == dtype and (y - want).abs().max() <= bound
            assert (w is None) == (not weights) and (w is None or (w.shape == shares.shape and (w - shares).abs().max() <= bound))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_layer_of_an_encoder(first, activation):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, batch_first=True, norm_first=first, activation=activation).eval()
    for p in layer.parameters():
        nn.init.normal_(p, std=0.5)
    rest = (activation == "gelu", first, 1e-5, layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias, layer.linear1.weight, layer.linear1.bias,
            layer.linear2.weight, layer.linear2.bias)
    x, padding = torch.randn(3, LENGTH, WIDTH), torch.arange(LENGTH) >= torch.tensor([[5], [2], [3]])
    for mask in (None, padding):
        y = torch._transformer_encoder_layer_fwd(x, WIDTH, HEADS, *parts(layer.self_attn), *rest, mask, None if mask is None else 1)
        assert torch.allclose(y, layer(x, src_key_padding_mask=mask), atol=1e-5)
    names = ["qw", "qb", "pw", "pb"], [f"n{k}" for k in range(8)]
    code = ("def f(x, keep, " + ", ".join(names[0] + names[1]) + f"):\n  y = torch._nested_tensor_from_mask(x, keep)\n  y = torch._transformer_encoder_layer_fwd(y, {WIDTH}, {HEADS}, "
            + ", ".join(names[0]) + f", {rest[0]}, {rest[1]}, 1e-5, " + ", ".join(names[1]) + ")\n  return torch.to_padded_tensor(y, 7.), torch.to_padded_tensor(y, 0., [3, 6, 9])")
    x, padding = x[1:], padding[1:]
    short, wide = torch.jit.CompilationUnit(code).f(x, ~padding, *parts(layer.self_attn), *rest[3:])
    want = layer(x, src_key_padding_mask=padding).masked_fill(padding[..., None], 7.)
    assert short.shape == (2, 3, WIDTH) and torch.allclose(short, want[:, :3], atol=1e-5)
    assert wide.shape == (3, 6, 9) and torch.allclose(wide[:2, :3, :WIDTH], short.masked_fill(padding[:, :3, None], 0.), atol=1e-5)
    assert wide.count_nonzero() == (2 + 3) * WIDTH
    made = torch.jit.CompilationUnit("def f(x: Tensor, size: List[int]):\n  return torch.to_padded_tensor((x, torch.zeros([2, 5]) > 0), 0., size)").f     # any pair is one
    assert made(x, [2, 5, WIDTH]).equal(x)
    for size in ([2, 4, WIDTH], [-2**63, 5, WIDTH], [2, 5, WIDTH - 1]):
        with pytest.raises(RuntimeError, match="less than what is there"):
            made(x, size)
    for pair in ("(x, 1)", "(1, 2)", "(x, x)", "(x, torch.zeros([2, 4]) > 0)", "x"):
        with pytest.raises((RuntimeError, TypeError)):
            torch.jit.CompilationUnit(f"def f(x: Tensor):\n  return torch.to_padded_tensor({pair}, 0.)").f(x)


def test_what_does_not_fit_is_said():
    m, x = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), torch.randn(3, LENGTH, WIDTH)
    call, mask = torch._native_multi_head_attention, torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    for args, why in [((x[0], x, x, WIDTH, HEADS), "expected 3-D `query`, got 2-D tensor"), ((x, x, x, 4, HEADS), "passed-in embed_dim 4 didn't match last dim of query 8"),
                      ((x, x[:2], x, WIDTH, HEADS), "expected `query`/`key`/`value` shapes to match"), ((x, x, x, WIDTH, 3), "`embed_dim` must divide evenly by `num_heads`")]:
        with pytest.raises(RuntimeError, match=why):
            call(*args, *parts(m))
    for mask_type, why in [(None, "Mask Type should be defined"), (1, r"mask shape should be \(B, L\)"), (2, "mask shape should match input shape"), (3, "Mask Type should be 0")]:
        with pytest.raises(RuntimeError, match=why):
            call(x, x, x, WIDTH, HEADS, *parts(m), mask, True, True, mask_type)
    assert call(x[:0], x[:0], x[:0], WIDTH, HEADS, *parts(m))[0].shape == (0, LENGTH, WIDTH)
    q, k, v = torch._transform_bias_rescale_qkv(torch.randn(3, LENGTH, 3 * WIDTH), torch.zeros(3 * WIDTH), HEADS)
    assert q.shape == k.shape == v.shape == (3, HEADS, LENGTH, WIDTH // HEADS)
    with pytest.raises(RuntimeError, match="5 heads do not divide"):
        torch._transform_bias_rescale_qkv(torch.randn(3, LENGTH, 3 * WIDTH), torch.zeros(3 * WIDTH), 5)
