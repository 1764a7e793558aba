"""CUDA devices, emulated on the CPU: the kernels of src/cuda run by fibres. Each test is a process of its own; what is emulated says so."""
import os
import subprocess
import sys

import pytest

from rushlight import _C

PRELUDE = """
import rushlight as torch, rushlight.nn.functional as F
def same(f, *args, rtol=1e-4, atol=1e-5):
    want, got = f(*args), f(*(a.cuda() if isinstance(a, torch.Tensor) else a for a in args))
    for w, g in zip(*((r if isinstance(r, (tuple, list)) else (r,)) for r in (want, got))):
        assert g.is_cuda and g.dtype == w.dtype and g.shape == w.shape, (w, g)
        torch.testing.assert_close(g.cpu(), w, rtol=rtol, atol=atol, equal_nan=True)
"""


def emulated(code, **env):
    """The process that ran code with emulated devices."""
    env = {**os.environ, "RUSHLIGHT_CUDA": "emulated", **env, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", PRELUDE + code], env=env, capture_output=True, text=True, timeout=120)


def passes(code, **env):
    done = emulated(code, **env)
    assert done.returncode == 0, done.stderr[-3000:]


def has_cuda_part():
    done = emulated("print(torch.cuda.device_count())")
    return done.stdout.strip() == "2"


pytestmark = pytest.mark.skipif(not has_cuda_part(), reason="the CUDA part was not built (a C++ compiler, x86-64)")
orders = pytest.mark.parametrize("order", ["forward", "reverse", "random:7"])


def test_without_a_device():
    """Nothing is emulated that was not asked for."""
    passes("""
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and torch.cuda.memory_allocated() == 0
torch.manual_seed(3); torch.cuda.manual_seed_all(3)
for f in torch.cuda.init, torch.ones(1).cuda, lambda: torch.ones(1, device="cuda"):
    try: f()
    except AssertionError as e: assert str(e).startswith("Torch not compiled with CUDA enabled")
    else: assert False
""", RUSHLIGHT_CUDA="off")
    assert not hasattr(_C, "no_such_name")


def test_first_steps_emulated():
    passes("""
assert torch.cuda.is_available() and torch.cuda.get_device_name() == "emulated on the CPU" and torch.cuda.get_device_properties(1).is_emulated
x = torch.arange(6., device="cuda").reshape(2, 3)
assert x.device == torch.device("cuda:0") and x.is_cuda and repr(x + 2) == "tensor([[2., 3., 4.],\\n        [5., 6., 7.]], device='cuda:0')"
assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and x.sum().item() == 15 and x.t().to(torch.int64).cpu().tolist() == [[0, 3], [1, 4], [2, 5]]
assert x.to("cuda:1").device.index == 1 and x.to("cuda:1").cuda(0).tolist() == x.tolist() and x.cuda() is x
y = torch.zeros(3, 2); y.copy_(x.t())
assert y.tolist() == [[0, 3], [1, 4], [2, 5]] and torch.tensor([1, 2]).cuda().tolist() == [1, 2]
w = torch.ones(3, 4).cuda().requires_grad_()
(x @ w).square().sum().backward()
assert w.grad.cpu()[:, 0].tolist() == [72, 102, 132]
try: x + torch.ones(2, 3)
except RuntimeError as e: assert "at least two devices, cuda:0 and cpu!" in str(e)
try: torch.special.airy_ai(torch.ones(2).cuda()), torch.histc(x)
except NotImplementedError as e: assert "aten::histc" in str(e) and "'cuda'" in str(e)
else: assert False
""")


@orders
def test_kernels_emulated(order):
    """Every kind of kernel, in three orders of the threads of a block."""
    passes("""
torch.manual_seed(0)
x, y = torch.randn(37, 19), torch.randn(37, 19); big = torch.randn(3, 70000)
for f in (torch.exp, torch.tanh, F.gelu, F.silu, lambda t: t.t() * 2 + t.t().abs(), lambda t: t[::3, 1:] + t[0, 1:], lambda t: t.half() * t.half(), lambda t: t.bfloat16().exp(),
          lambda t: (t * 9).to(torch.int8) // 3, lambda t: t > 0, lambda t: torch.complex(t, -t) * torch.complex(t, t), lambda t: t.to(torch.float64).digamma(),
          lambda t: t.sum(), lambda t: t.sum(0), lambda t: t.mean(1), lambda t: t.prod(1), lambda t: t.max(1), lambda t: t.argmin(), lambda t: t.var(0), lambda t: t.norm(dim=1),
          lambda t: t.logsumexp(0), lambda t: (t > 0).any(0), lambda t: t.std(), lambda t: t.softmax(1), lambda t: t.log_softmax(0), lambda t: t.cumsum(1), lambda t: t.cummax(0),
          lambda t: F.layer_norm(t, (19,)), lambda t: F.group_norm(t.view(1, 37, 19), 37), lambda t: F.batch_norm(t, None, None, training=True), lambda t: t[t > 0],
          lambda t: t[[3, 1], :5], lambda t: t.nonzero(), lambda t: t.index_select(1, torch.tensor([2, 0], device=t.device)), lambda t: t.masked_fill(t < 0, 1),
          lambda t: torch.cat([t, t], 1), lambda t: t.roll(3, 0), lambda t: t.flip(1), lambda t: F.pad(t, (1, 2)), lambda t: t.tril(), lambda t: t.sort(1), lambda t: t @ t.t()):
    same(f, x)
same(lambda t: (t.sum(), t.sum(1), t.amax(1), t.argmax(1), t.mean()), big)
same(lambda a, b: torch.where(a > b, a, b), x, y)
same(lambda a, b: a.scatter_add(1, (b.abs() * 5).long() % 19, b), x, y)
same(lambda a, b: F.embedding((b.abs() * 5).long(), a), x, y)
same(lambda a, b: F.cross_entropy(a, (b[:, 0].abs() * 5).long()), x, y)
""", RUSHLIGHT_CUDA_ORDER=order)


def test_training_emulated():
    """A perceptron, a convolutional network and one with embeddings, norms and attention: the losses of the CPU."""
    passes("""
import copy
class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.n, self.a, self.o = torch.nn.Embedding(20, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 24), torch.nn.Linear(8, 20)
    def forward(self, x):
        h = self.n(self.e(x)); q, k, v = self.a(h).chunk(3, -1)
        return self.o(h + torch.softmax(q @ k.transpose(1, 2) / 3, -1) @ v).flatten(0, 1)
torch.manual_seed(1)
mlp = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
cnn = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.SiLU(), torch.nn.Flatten(), torch.nn.Linear(64, 4))
jobs = [(mlp, torch.randn(16, 12), torch.randint(0, 4, (16,))), (cnn, torch.randn(8, 1, 6, 6), torch.randint(0, 4, (8,))),
        (Words(), torch.randint(0, 20, (4, 6)), torch.randint(0, 20, (24,)))]
for model, x, y in jobs:
    for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=0.01)):
        losses = []
        for device in "cpu", "cuda":
            m = copy.deepcopy(model).to(device); opt = make(m.parameters()); losses.append([])
            for step in range(6):
                opt.zero_grad(); loss = F.cross_entropy(m(x.to(device)), y.to(device)); loss.backward(); opt.step()
                losses[-1].append(loss.item())
        assert max(abs(a - b) for a, b in zip(*losses)) < 1e-5, losses
        assert losses[1][-1] < losses[1][0]
""")


def test_streams_and_events_emulated():
    """Queues run late and the youngest first: what nobody waits for is not there yet, what an event orders is."""
    passes("""
x = torch.zeros(4, device="cuda"); torch.cuda.synchronize()
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    assert torch.cuda.current_stream() == s
    y = x + 1
assert not s.query() and torch.cuda.default_stream().query()
e = s.record_event(); torch.cuda.current_stream().wait_event(e)
assert (y * 2).tolist() == [2] * 4 and e.query()
a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
a.record(); z = x.exp().sum(); b.record(); b.synchronize()
assert a.elapsed_time(b) >= 0 and z.item() == 4
torch.cuda.synchronize(); assert torch.cuda.current_stream().query()
""")


def test_memory_emulated():
    """Counts, reuse, the limit, and what is said when there is no more."""
    passes("""
assert torch.cuda.memory_allocated() == 0
x = torch.ones(1000, device="cuda"); first = x.data_ptr()
assert torch.cuda.memory_allocated() == 4000 and torch.cuda.memory_reserved() == 2 << 20
del x; assert torch.ones(900, device="cuda").data_ptr() == first and torch.cuda.max_memory_allocated() >= 4000
held = [torch.empty(8 << 20, dtype=torch.uint8, device="cuda") for _ in range(6)]
try: torch.empty(40 << 20, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as e: assert "Tried to allocate 40.00 MiB" in str(e) and "by empty.memory_format" in str(e), e
else: assert False
del held; assert torch.empty(40 << 20, dtype=torch.uint8, device="cuda").numel() == 40 << 20  # life goes on
torch.cuda.empty_cache(); assert torch.cuda.memory_reserved() == 0 and torch.cuda.mem_get_info() == (64 << 20, 64 << 20)
torch.cuda.set_per_process_memory_fraction(0.25)
try: torch.empty(20 << 20, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError: pass
else: assert False
""", RUSHLIGHT_CUDA_MEMORY=str(64 << 20))


def test_random_numbers_emulated():
    """Philox4x32-10: the kernel's first word for counter 0 and key 0 is the known answer of its authors' Random123."""
    passes("""
torch.manual_seed(0)
x = torch.empty(1, dtype=torch.int64, device="cuda")
def word(seed): # the first word of the first thread's first draw: counter 0, key = seed
    torch.cuda.manual_seed(seed); return x.random_(0, 1 << 27).item()
assert word(0) == 0x6627e8d5 % (1 << 27)
torch.cuda.manual_seed(5); a = torch.randn(1000, device="cuda"), torch.rand(9, device="cuda")
state = torch.cuda.get_rng_state(); b = torch.rand(9, device="cuda")
torch.cuda.set_rng_state(state); assert torch.equal(torch.rand(9, device="cuda"), b) and not torch.equal(b, a[1])
torch.manual_seed(5); assert torch.equal(torch.randn(1000, device="cuda"), a[0])
assert abs(a[0].mean().item()) < 0.1 and abs(a[0].std().item() - 1) < 0.1 and 0 <= a[1].min().item() < a[1].max().item() < 1
d = F.dropout(torch.ones(4000, device="cuda"), 0.25)
assert set(d.cpu().tolist()) == {0, torch.tensor(4 / 3).item()} and 900 < (d == 0).sum().item() < 1100
""")


def test_amp_emulated():
    passes("""
m = torch.nn.Linear(8, 4).cuda(); opt = torch.optim.SGD(m.parameters(), lr=0.1); scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(5, 8).cuda(), torch.randn(5, 4).cuda()
losses = []
for step in range(5):
    with torch.autocast("cuda", dtype=torch.float16):
        out = m(x); assert out.dtype == torch.float16
        loss = F.mse_loss(out.float(), y)
    opt.zero_grad(); scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); losses.append(loss.item())
assert losses[-1] < losses[0] and 1024 <= scaler.get_scale() <= 65536
""")


def test_the_host_cannot_touch_its_memory_emulated():
    done = emulated("import ctypes\nx = torch.ones(3, device='cuda'); torch.cuda.synchronize()\nctypes.c_float.from_address(x.data_ptr()).value")
    assert done.returncode < 0 and "cuda (emulated): the host touched device memory" in done.stderr


def test_faults_are_found_emulated():
    """What kernels find is said when they are waited for; nothing is read before it was written."""
    passes("""
x = torch.ones(3, device="cuda"); i = torch.tensor([0, 7], device="cuda")
y = x[i]
try: torch.cuda.synchronize()
except IndexError as e: assert "index 7 is out of bounds for dimension with size 3" in str(e)
else: assert False
torch.cuda.synchronize(); assert (x + 1).tolist() == [2, 2, 2]
assert torch.empty(4, device="cuda").isnan().all()
""")
