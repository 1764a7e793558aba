"""Elementwise calls that a compiled function puts off on a device, and one kernel does: emulated, and on real devices. Each test is a process of its own, as in
test_cuda.py; kernels are kept in a folder of the run."""
import glob
import os
import pathlib

import pytest

from places import ROOT
from test_cuda import both, emulated, passes, pytestmark  # noqa: F401

ROWS = """
UNARY = '''abs acos acosh angle asin asinh atan atanh ceil conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac i0 isfinite isinf isnan isneginf isposinf lgamma log
log10 log1p log2 logit neg positive rad2deg reciprocal relu round rsqrt selu sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc'''.split()
SPECIAL = "bessel_j0 bessel_y1 entr erfcx i0e i1 i1e log_ndtr modified_bessel_k0 ndtri ndtr airy_ai spherical_bessel_j0".split()
NN = "elu celu gelu silu mish softplus softsign hardtanh hardswish hardsigmoid leaky_relu logsigmoid relu6 tanhshrink hardshrink softshrink".split()
BINARY = '''add sub mul div pow remainder fmod floor_divide maximum minimum fmax fmin atan2 copysign hypot logaddexp logaddexp2 heaviside nextafter xlogy lt le gt ge eq ne logical_and
ldexp'''.split()
def rows(x, y):
    made = {name: getattr(torch, name)(x) for name in UNARY} | {name: getattr(torch.special, name)(x) for name in SPECIAL} | {name: getattr(F, name)(x) for name in NN}
    made |= {name: getattr(torch, name)(x, y) for name in BINARY}
    made |= {"alpha": torch.add(x, y, alpha=2.5), "rsub": torch.rsub(x, 3, alpha=.5), "addcmul": torch.addcmul(x, y, y, value=.3), "addcdiv": torch.addcdiv(x, y, y, value=.3),
             "lerp": torch.lerp(x, y, .7), "clamp": x.clamp(-.5, .7), "numbers": torch.nan_to_num(x / 0), "cube": x.pow(3), "powers": x.pow(-2) + x.pow(.5), "threshold": F.threshold(x, .1, 20),
             "decimals": x.round(decimals=2)}
    return made
def equal(a, b):
    a, b = a.cpu(), b.cpu()
    return a.dtype == b.dtype and a.stride() == b.stride() and (torch.equal(a, b) if a.dtype == torch.bool else torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)))
def check(dtype, lines=5):
    torch.manual_seed(0)
    x, y = ((torch.randn(lines, 41) * 2).to(dtype).cuda() for _ in range(2))
    plain, fused = rows(x, y), torch.compile(rows)(x, y)
    assert not [name for name in plain if not equal(plain[name], fused[name])], dtype
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return {"PYTORCH_KERNEL_CACHE_PATH": str(tmp_path_factory.mktemp("kernels"))}


@both
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_rows_have_the_same_bits(dtype, order, kept):
    passes(ROWS + f"check(torch.{dtype})", RUSHLIGHT_CUDA_ORDER=order, **kept)


def libraries_with_nvrtc():
    found = glob.glob("/usr/local/cuda*/lib*/libnvrtc.so.13") + [path for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder for path in glob.glob(folder + "/libnvrtc.so.13")]
    return os.path.dirname(found[0]) if found else None


def test_nvrtc_compiles_what_is_written_emulated(kept):
    """For the architectures that the emulated device may have; what is wrong there is told when the device is waited for."""
    folder = libraries_with_nvrtc()
    if not folder:
        pytest.skip("NVRTC 13 is not installed here")
    for capability, dtype in ("8", "float32"), ("9", "bfloat16"), ("12", "float64"):
        passes(ROWS + f"check(torch.{dtype}); torch.cuda.synchronize()", RUSHLIGHT_CUDA_LIBRARIES=folder, RUSHLIGHT_CUDA_MAJOR=capability, **kept)


@both
def test_programs(order, kept):
    """Random programs of test_laziness.py, on a device."""
    passes(f"""
import sys, warnings
sys.path.insert(0, {str(ROOT / "tests/python")!r})
import laziness
warnings.simplefilter("ignore")
torch.set_default_device("cuda")
for seed in range(2):
    plain, compiled = laziness.run(seed), torch.compile(laziness.run)(seed)
    assert plain[1] == compiled[1] and len(plain[0]) == len(compiled[0]) and all(map(laziness.same, plain[0], compiled[0])), seed
""", RUSHLIGHT_CUDA_ORDER=order, **kept)


@both
def test_what_waits_and_what_does_not(order, kept):
    passes("""
C, seen = torch._C, []
def waits():
    seen.append(C._later_waiting())
x, w, bias = torch.randn(40, 30, device="cuda"), torch.randn(30, 30, device="cuda"), torch.randn(30, device="cuda")
@torch.compile
def f(x):
    y = (x * 2).tanh_() + bias   # a row of another shape, a change in place
    waits()
    z = y @ w                    # reads what waits
    waits()
    z = z.relu() + 1
    waits()
    s = z.sum()                  # so does this
    t = z * 3 + s                # one number for all
    waits()
    t.tolist()
    waits()
    return t
want = (((x.cpu() * 2).tanh() + bias.cpu()) @ w.cpu()).relu() + 1
got = f(x)
torch.testing.assert_close(got.cpu(), want * 3 + want.sum(), rtol=1e-4, atol=1e-3)
assert seen == [3, 0, 2, 2, 0], seen

@torch.compile
def memory(x):
    for _ in range(20): x = x * 1.5 + 1   # what is read by the next call only has no memory
    return x
big = torch.randn(1 << 20, device="cuda"); torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats(); before = torch.cuda.memory_allocated()
memory(big)
assert torch.cuda.max_memory_allocated() - before <= 4 * big.nbytes

half = torch.randn(6, 8, dtype=torch.float16, device="cuda", requires_grad=True)
def loss(t): return (F.gelu(t.t()[1:] * 2) * t.t()[:-1].sigmoid()).float().square().sum()
loss(half).backward(); plain, half.grad = half.grad, None
torch.compile(loss)(half).backward()
assert torch.equal(plain, half.grad)
""", RUSHLIGHT_CUDA_ORDER=order, **kept)


@both
def test_streams_events_and_graphs(order, kept):
    """What was put off is given to the stream of the call before anybody waits for it, records it or changes streams."""
    passes("""
x = torch.arange(8., device="cuda"); torch.cuda.synchronize()
s, e = torch.cuda.Stream(), torch.cuda.Event()
@torch.compile
def f():
    with torch.cuda.stream(s):
        y = x * 2 + 1
        e.record(s)
    torch.cuda.current_stream().wait_event(e)
    return y + x
assert f().tolist() == [3 * i + 1 for i in range(8)]
@torch.compile
def recorded():
    y = x + 1                      # before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = (x * 3 - 1).abs()
    x.add_(1)                      # waits when the graph is launched
    graph.replay()
    return y, z
y, z = recorded()
assert y.tolist() == [i + 1 for i in range(8)] and z.tolist() == [abs(3 * (i + 1) - 1) for i in range(8)]
import threading
made = []
@torch.compile
def handed(): made.append(x * 2); made.append(x + made[0]); t = threading.Thread(target=lambda: made.append(made[1].sum().item())); t.start(); t.join()
handed(); torch.cuda.synchronize()
assert made[2] == sum(3 * (i + 1) for i in range(8)), made
""", RUSHLIGHT_CUDA_ORDER=order, **kept)


CHAIN = "x = torch.ones(3, device='cuda'); y = torch.compile(lambda x: x * 2 + 1)(x); torch.cuda.synchronize(); assert y.tolist() == [3] * 3"


def test_kernels_are_kept_emulated(tmp_path):
    kept = {"PYTORCH_KERNEL_CACHE_PATH": str(tmp_path / "deep" / "kernels")}
    done = emulated(CHAIN, CXX="no-such-compiler", **kept)
    assert done.returncode == 1 and "RuntimeError: cuda:0: the C++ compiler 'no-such-compiler' cannot be started" in done.stderr
    passes(CHAIN, **kept)
    made = list((tmp_path / "deep/kernels").iterdir())
    assert len(made) == 1 and pathlib.Path(kept["PYTORCH_KERNEL_CACHE_PATH"]).stat().st_mode & 0o777 == 0o700
    passes(CHAIN, CXX="no-such-compiler", **kept)
    made[0].write_bytes(b"not a kernel")
    passes(CHAIN, **kept)
    passes(CHAIN, CXX="no-such-compiler", **kept)
    made[0].parent.chmod(0o777) # others could put their own kernels there
    assert emulated(CHAIN, CXX="no-such-compiler", **kept).returncode == 1
    passes(CHAIN, **kept)
    made[0].parent.chmod(0o700)
    assert emulated(CHAIN, CXX="no-such-compiler", USE_PYTORCH_KERNEL_CACHE="0", **kept).returncode == 1
