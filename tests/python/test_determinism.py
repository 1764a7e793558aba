"""Results are the same to the last bit from run to run and with one, two, three and seven threads; gradients of large
convolutions, which oneDNN cuts by the number of threads, and on processors without AVX-512 products of matrices, from
run to run with the same number."""
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn

THREADS = (1, 2, 3, 7)
CUTS_PRODUCTS = torch.backends.cpu.get_cpu_capability() != "AVX512"  # oneDNN splits their sums among the threads


def with_threads(n, fn):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        return fn()
    finally:
        torch.set_num_threads(before)


def same_bits(fn, by_threads=False):
    """fn() returns a tensor or a tuple of them. by_threads: its bits may depend on the number of threads."""
    for n in THREADS:
        if n == 1 or by_threads:
            first = with_threads(n, fn)
            first = first if isinstance(first, (tuple, list)) else [first]
        again = with_threads(n, fn)
        for a, b in zip(first, again if isinstance(again, (tuple, list)) else [again]):
            assert a.contiguous().numpy().tobytes() == b.contiguous().numpy().tobytes(), f"{n} threads"


torch.manual_seed(3)
LONG, ROWS = torch.randn(100_003), torch.randn(301, 1001)
IMAGE, FILTERS = torch.randn(3, 24, 33, 35), torch.randn(20, 24, 3, 3)
PLACES = torch.randint(1000, (50_000,))

UNARY = "exp log1p sin tanh erf lgamma digamma sqrt sigmoid expm1 atan asinh".split()


@pytest.mark.parametrize("n", [1 << 17, 3 ** 11, 7 ** 4 * 81, 100_003])
def test_long_transforms(n):
    """Threads share the passes of one transform."""
    x = torch.randn(n, generator=torch.Generator().manual_seed(4))
    same_bits(lambda: torch.view_as_real(torch.fft.fft(x)))
    same_bits(lambda: torch.view_as_real(torch.fft.ifft(torch.complex(x, x.flip(0)).to(torch.complex128))))
    same_bits(lambda: torch.fft.irfft(torch.fft.rfft(x), n))


@pytest.mark.parametrize("name", UNARY)
def test_elementwise(name):
    fn = getattr(torch, name)
    same_bits(lambda: fn(LONG.abs()))
    same_bits(lambda: fn(ROWS.abs()[:, 1:]))
    same_bits(lambda: fn(ROWS.abs().t()))
    same_bits(lambda: fn(LONG.double().abs()))


PLACED = ("exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv sigmoid lgamma "
          "digamma sinc logit i0").split() + [F.gelu, F.silu, F.mish, F.softplus, F.logsigmoid, F.elu, torch.special.ndtr, torch.special.entr]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("fn", PLACED, ids=lambda fn: fn if isinstance(fn, str) else fn.__name__)
def test_place(fn, dtype):
    """The same number gives the same bits wherever it stands: alone, in the rest that fills no vector, between others."""
    run = getattr(torch, fn) if isinstance(fn, str) else fn
    low, high = (1, 8) if fn == "acosh" else (0, 1) if fn in ("asin", "acos", "atanh", "erfinv", "logit") else (-9, 9) if not isinstance(fn, str) or fn[0] in "ect" else (0, 90)
    x = (torch.rand(1 << 12, generator=torch.Generator().manual_seed(6), dtype=torch.float64) * (high - low) + low).to(dtype)
    whole = run(x)
    at = 0
    for n in range(1, 71):
        assert run(x[at:at + n].clone()).equal(whole[at:at + n]), f"{n} elements"
        at += n
    assert run(x[:1000].repeat_interleave(3)[::3]).equal(whole[:1000]), "strided"
    assert run(x[1:1000:2]).equal(whole[1:1000:2]), "every other one"
    assert run(x[:91 * 7].view(91, 7).t()).equal(whole[:91 * 7].view(91, 7).t()), "turned"
    assert run(x[5:].clone()).equal(whole[5:]), "a part"


@pytest.mark.parametrize("fn", [
    lambda: ROWS ** 2.5, lambda: torch.atan2(ROWS, ROWS[:1]), lambda: torch.hypot(ROWS[:, ::2], ROWS[:, 1::2][:, :1]), lambda: F.gelu(ROWS),
    lambda: LONG.sum(), lambda: LONG.mean(), lambda: ROWS.sum(0), lambda: ROWS.sum(1), lambda: ROWS.var(0), lambda: ROWS.norm(),
    lambda: torch.logsumexp(ROWS, 0), lambda: ROWS.softmax(0), lambda: ROWS.softmax(1), lambda: LONG.cumsum(0), lambda: ROWS.cumprod(1),
    lambda: LONG.sort(), lambda: ROWS.topk(5), lambda: LONG @ LONG, lambda: F.layer_norm(ROWS, (1001,)),
    lambda: torch.zeros(1000).index_add_(0, PLACES, LONG[:50_000]), lambda: torch.zeros(1000).scatter_add_(0, PLACES, LONG[:50_000]),
    lambda: torch.bincount(PLACES, LONG[:50_000]), lambda: torch.fft.rfft(LONG[:65536]), lambda: F.interpolate(IMAGE, scale_factor=1.7, mode="bilinear"),
    lambda: F.avg_pool2d(IMAGE, 3), lambda: torch.linalg.inv(ROWS[:200, :200]),
])
def test_operation(fn):
    same_bits(fn)


@pytest.mark.parametrize("fn", [
    lambda: ROWS @ ROWS.t(), lambda: ROWS[:1] @ ROWS.t(), lambda: ROWS.double() @ ROWS.double().t(),
    lambda: torch.bmm(IMAGE[0], IMAGE[0].transpose(1, 2)), lambda: torch.cdist(ROWS, ROWS[:50]),
])
def test_product(fn):
    same_bits(fn, CUTS_PRODUCTS)


def gradients(fn, *tensors):
    def run():
        leaves = [t.clone().requires_grad_() for t in tensors]
        fn(*leaves).square().sum().backward()
        return [leaf.grad for leaf in leaves]
    return run


def test_gradients():
    same_bits(gradients(lambda x, w: F.conv2d(x, w, padding=1), IMAGE, FILTERS))
    same_bits(gradients(lambda x, w: F.conv2d(x, w, padding=1), torch.randn(32, 32, 8, 8), torch.randn(64, 32, 3, 3)))
    same_bits(gradients(lambda x, w: F.conv2d(x, w, padding=1), torch.randn(8, 32, 28, 28), torch.randn(64, 32, 3, 3)), True)
    same_bits(gradients(lambda x, w: F.conv2d(x, w, stride=2), IMAGE[:, :3], FILTERS[:, :3]), True)
    same_bits(gradients(lambda x, w: F.conv2d(x, w, groups=24), IMAGE, FILTERS[:1].transpose(0, 1)), True)
    same_bits(gradients(lambda x: F.batch_norm(x, None, None, training=True), IMAGE))
    same_bits(gradients(lambda w: F.embedding(PLACES, w), torch.randn(1000, 16)))
    q = torch.randn(2, 3, 70, 16)
    same_bits(gradients(lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True), q, q + 1, q - 1))


def network(kind):
    if kind == "cnn":
        net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2), nn.Flatten(), nn.Linear(16 * 49, 10))
        return net, lambda: torch.randn(8, 3, 16, 16), lambda y: y
    if kind == "transformer":
        return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), lambda: torch.randn(4, 20, 32), lambda y: y
    return nn.LSTM(12, 24, 2, batch_first=True), lambda: torch.randn(6, 15, 12), lambda y: y[0]


@pytest.mark.parametrize("kind", ["cnn", "transformer", "lstm"])
def test_training(kind):
    def run():
        torch.manual_seed(5)
        net, batch, result = network(kind)
        opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
        for _ in range(8):
            opt.zero_grad()
            result(net(batch())).square().mean().backward()
            opt.step()
        return [p.detach().clone() for p in net.parameters()]
    same_bits(run, kind == "cnn" or CUTS_PRODUCTS)
