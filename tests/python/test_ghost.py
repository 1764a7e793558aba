"""A device that a backend brings: ghost (examples/ghost), whose memory the host cannot touch. Each test is a process of its own."""
import os
import signal
import subprocess
import sys

import pytest
from places import BUILD, ROOT



def ghost(code, mode=""):
    """The process that ran code with the device loaded."""
    env = {**os.environ, "RUSHLIGHT_GHOST": mode, "RUSHLIGHT_GHOST_LIBRARY": str(BUILD / "examples/ghost.so"),
           "PYTHONPATH": os.pathsep.join([str(ROOT / "examples/ghost"), *sys.path])}
    return subprocess.run([sys.executable, "-c", "import rushlight as torch, torch_ghost\n" + code], env=env, capture_output=True, text=True, timeout=600)


def passes(code, mode=""):
    done = ghost(code, mode)
    assert done.returncode == 0, done.stderr[-3000:]


pytestmark = pytest.mark.skipif(not (BUILD / "examples/ghost.so").exists(), reason="there is no build folder that has the device")
both = pytest.mark.parametrize("mode", ["", "lazy"])


@both
def test_first_steps(mode):
    passes("""
x = torch.arange(6., device="ghost").reshape(2, 3)
assert x.device == torch.device("ghost", 0) and x.is_ghost and x.get_device() == 0
assert repr(x + 2) == "tensor([[2., 3., 4.],\\n        [5., 6., 7.]], device='ghost:0')"
assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and x.sum().item() == 15 and bool(x[0, 1] == 1)
assert x.t().to(torch.int64).cpu().tolist() == [[0, 3], [1, 4], [2, 5]]
y = torch.zeros(3, 2); y.copy_(x.t())
assert y.tolist() == [[0, 3], [1, 4], [2, 5]]
assert torch.tensor([1, 2], device="ghost").tolist() == [1, 2]
w = torch.ones(3, 4).ghost().requires_grad_()
(x @ w).square().sum().backward()
assert torch.equal(w.grad.cpu()[:, 0], torch.tensor([72., 102., 132.])) and w.grad.is_ghost
assert (x * torch.tensor(2.)).tolist() == [[0, 2, 4], [6, 8, 10]]  # a number of the CPU
""", mode)


def test_devices_are_not_mixed():
    passes("""
def message(f):
    try: f()
    except (RuntimeError, TypeError) as e: return str(e)
x = torch.ones(2, device="ghost")
assert "at least two devices, ghost:0 and cpu!" in message(lambda: x + torch.ones(2))
assert "at least two devices, ghost:0 and ghost:1!" in message(lambda: x + torch.ones(2, device="ghost:1"))
assert "at least two devices" in message(lambda: torch.add(x, x, out=torch.ones(2)))
assert "can't convert ghost:0 device type tensor to numpy" in message(x.numpy) or "can't convert ghost" in message(x.numpy)
assert x.to("ghost:1").to("ghost").tolist() == [1, 1] and x.to("ghost:0") is x
far = torch.ones(2, device="ghost:1")
assert x.to(far).device == far.device == x.type_as(far).device == torch.asarray(x, device="ghost:1").device and x.type() == "torch.ghost.FloatTensor"
x.requires_grad_()
assert "different device" in message(lambda: setattr(x, "grad", far)) and "at least two" in message(lambda: torch.stack([x, far]))
assert "the number of devices is 2" in message(lambda: torch.ones(2, device="ghost:2"))
assert "Current backend: ghost" in message(lambda: torch.utils.rename_privateuse1_backend("other"))
""")


def test_memory_is_counted():
    passes("""
assert torch.ghost.memory_allocated() == 0
x = torch.ones(1000, device="ghost"); y = x + x
assert torch.ghost.memory_allocated() == 8000 == torch.ghost.max_memory_allocated() and torch.ghost.memory_allocated(1) == 0
del x
assert torch.ghost.memory_allocated() == 4000
torch.ghost.reset_peak_memory_stats()
assert torch.ghost.max_memory_allocated() == 4000
""")


def test_the_host_cannot_touch_its_memory():
    done = ghost("import ctypes\nctypes.c_float.from_address(torch.ones(3, device='ghost').data_ptr()).value")
    assert done.returncode == -signal.SIGSEGV and "ghost: host touched device memory in operation (none)" in done.stderr


@both
def test_results_whose_size_depends_on_data(mode):
    passes("""
x = torch.arange(12.).view(3, 4); m = x % 3 == 0; i = torch.tensor([2, 0])
g, gm, gi = x.ghost(), m.ghost(), i.ghost()
for of in (lambda x, m, i: x[m], lambda x, m, i: x[m[:, 0]], lambda x, m, i: x[i, i], lambda x, m, i: x[:, i], lambda x, m, i: x[..., [0, 3]], lambda x, m, i: m.nonzero(),
           lambda x, m, i: torch.stack(m.nonzero(as_tuple=True)), lambda x, m, i: torch.masked_select(x, m)):
    assert of(g, gm, gi).is_ghost and torch.equal(of(g, gm, gi).cpu(), of(x, m, i))
g[gm] = 0; g[gi] = torch.ones(4).ghost()
assert g.tolist() == [[1, 1, 1, 1], [4, 5, 0, 7], [1, 1, 1, 1]]
assert torch.empty(5, 4, device="meta")[torch.empty(2, dtype=torch.int64, device="meta")].shape == (2, 4)
""", mode)


@both
def test_files_and_copies(mode):
    passes("""
import copy, io, pickle
x = torch.arange(6.).ghost(); b = io.BytesIO()
torch.save({"x": x, "part": x[2:4]}, b); b.seek(0)
d = torch.load(b)
assert d["x"].device == x.device and d["x"].data_ptr() + 8 == d["part"].data_ptr() and d["part"].tolist() == [2, 3]
b.seek(0); assert torch.load(b, map_location="cpu")["part"].device.type == "cpu"
b.seek(0); assert torch.load(b, map_location="ghost:1")["x"].device == torch.device("ghost:1")
for y in copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone():
    assert y.device == x.device and y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()
s = x.untyped_storage()
assert str(s.device) == "ghost:0" and s.cpu().tolist() == s.tolist() and s[6] == 128
s.fill_(0)
assert x.tolist() == [0] * 6
m = torch.nn.Linear(2, 3).ghost()
m.load_state_dict({k: v.cpu() * 0 + 1 for k, v in m.state_dict().items()})
assert m.weight.is_ghost and m(torch.ones(2).ghost()).tolist() == [3] * 3
""", mode)


@both
def test_generators(mode):
    passes("""
def drawn(device, **kw): return torch.randn(3, device=device, **kw).tolist()
torch.manual_seed(3); a = drawn("ghost"), torch.nn.functional.dropout(torch.ones(9).ghost()).tolist()
torch.manual_seed(3); assert a == (drawn("cpu"), torch.nn.functional.dropout(torch.ones(9)).tolist())
g = torch.Generator("ghost").manual_seed(3)
assert drawn("ghost", generator=g) == a[0] and str(g.device) == "ghost:0"
for device, other in (("ghost", torch.Generator()), ("cpu", g), ("ghost:1", g)):
    try: drawn(device, generator=other)
    except RuntimeError as e: assert "device type for generator but found" in str(e)
    else: assert False
state = torch.ghost.get_rng_state(); b = drawn("ghost")
torch.ghost.set_rng_state(state); assert drawn("ghost") == b
with torch.random.fork_rng(devices=[0], device_type="ghost"): drawn("ghost")
torch.ghost.manual_seed(3); assert drawn("ghost") == a[0]
""", mode)


def test_the_accelerator():
    passes("""
a = torch.accelerator
assert a.current_accelerator() == torch.device("ghost") and a.device_count() == 2 and a.current_device_index() == 0
a.set_device_index(1); assert torch.ones(1, device="ghost").device.index == 1 and a.memory_allocated(0) == 0
with torch.ghost.device(0): assert torch.ones(1, device="ghost").device.index == 0
a.synchronize()
with torch.device("ghost:0"): assert torch.zeros(2).device.index == 0 and torch.tensor([1.]).is_ghost
""")


@both
def test_streams_and_events(mode):
    passes("""
lazy = %r == "lazy"
a, b = torch.Stream("ghost"), torch.ghost.Stream()
assert a.stream_id != b.stream_id and a.device == torch.device("ghost:0") and torch.ghost.current_stream().stream_id == 0 == torch.accelerator.current_stream().stream_id
x = torch.zeros(4, device="ghost")
torch.ghost.synchronize()
with a:
    assert torch.ghost.current_stream() == a
    x += 1
    begin = a.record_event(torch.Event("ghost", enable_timing=True))
    x *= 10
    end = a.record_event(torch.ghost.Event(enable_timing=True))
assert torch.ghost.current_stream().stream_id == 0 and a.query() == begin.query() == (not lazy)
begin.synchronize(); assert begin.query() and end.query() == (not lazy)
with torch.ghost.stream(b):
    b.wait_event(end)
    y = x + 5
    if lazy: assert not b.query()
    assert y.tolist() == [15] * 4      # to the host by this stream, which waits for the other
assert a.query() and b.query() and begin.elapsed_time(end) >= 0
a.wait_stream(b); a.synchronize()
for f in (lambda: torch.Event("ghost").elapsed_time(end), lambda: torch.Event("ghost", enable_timing=True).elapsed_time(end), lambda: a.record_event(torch.Event("ghost:1"))):
    try: f()
    except (ValueError, RuntimeError) as e: assert "Both events" in str(e) or "does not match" in str(e)
    else: assert False
assert torch.Event("ghost").query() and "stream_id=0" in repr(torch.Stream("cpu"))
torch.Event("cpu").record(); torch.Stream("cpu").wait_stream(torch.Stream("cpu"))
""" % mode, mode)


def test_a_missing_synchronisation_shows():
    passes("""
x = torch.zeros(2, device="ghost"); torch.ghost.synchronize()
with torch.Stream("ghost"): x += 1
assert x.tolist() == [0, 0]      # nobody waited
torch.ghost.synchronize(); assert x.tolist() == [1, 1]
late = torch.Stream("ghost")
x.fill_(3)
with late: y = x + 1             # the younger stream runs first
torch.ghost.synchronize(); assert y.tolist() == [2, 2]
""", "lazy")


def test_page_locked_memory():
    passes("""
x = torch.arange(6.).view(2, 3).t()
p = x.pin_memory()
assert p.is_pinned() and not x.is_pinned() and torch.equal(p, x) and p.stride() == x.stride() and p.pin_memory("ghost") is p or p.pin_memory().data_ptr() == p.data_ptr()
assert p[0].is_pinned() and torch.equal(p.ghost(non_blocking=True).cpu(), x) and torch.ones(0).pin_memory().numel() == 0
for t in torch.ones(2).ghost(), torch.ones(2, 2).to_sparse():
    try: t.pin_memory()
    except (RuntimeError, NotImplementedError): pass
    else: assert False
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(4.)), batch_size=2, pin_memory=True)
assert [b[0].is_pinned() for b in loader] == [True, True]
""")


def test_a_failure_is_reported_where_the_queue_runs():
    passes("""
x = torch.arange(3.).ghost(); y = x.gather(0, torch.tensor([7]).ghost())
try: torch.ghost.synchronize()
except (RuntimeError, IndexError) as e: assert "index 7 is out of bounds" in str(e)
else: assert False
assert (x + 1).tolist() == [1, 2, 3]
""", "lazy")


TRAINING = """
from rushlight import nn
F = nn.functional
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.l, self.o = nn.Embedding(20, 8), nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), nn.Linear(32, 10)
    def forward(self, x): return self.o(self.l(self.e(x))[0][:, -1])
class Former(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.p = nn.Embedding(20, 16), nn.Parameter(torch.randn(7, 16))
        self.t = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True), 2)
        self.o = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 10))
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(7, device=x.device)
        return self.o(self.t(self.e(x) + self.p, mask=mask, is_causal=True)).mean(1)
def convolutions():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1), nn.Conv2d(4, 8, 3),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10))
def losses(network, optimizer, device):
    torch.manual_seed(0)
    x = torch.randn(12, 1, 12, 12) if network is convolutions else torch.randint(0, 20, (12, 7))
    y, net = torch.randint(0, 10, (12,)).to(device), network().to(device)
    opt = optimizer(net.parameters(), 0.01)
    torch.manual_seed(5)
    told = []
    for _ in range(3):
        opt.zero_grad()
        loss = F.cross_entropy(net(x.to(device)), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        told.append(loss.detach())
    return [l.item() for l in told], [p.tolist() for p in net.parameters()]
"""


@both
@pytest.mark.parametrize("network", ["convolutions", "Recurrent", "Former"])
def test_training_gives_the_numbers_of_the_cpu(network, mode):
    passes(TRAINING + f"""
for optimizer in torch.optim.SGD, torch.optim.AdamW:
    assert losses({network}, optimizer, "cpu") == losses({network}, optimizer, "ghost"), optimizer
""", mode)


def test_kernels_that_programs_give():
    passes("""
lib = torch.library.Library("aten", "IMPL")
lib.impl("sin", lambda x: x + 10, "PrivateUse1")
assert torch.zeros(2).ghost().sin().tolist() == [10, 10] and torch.zeros(2).sin().tolist() == [0, 0]
""")


def test_a_fallback_that_a_program_gives():
    passes("""
def message(f):
    try: f()
    except (RuntimeError, NotImplementedError) as e: return type(e).__name__ + ": " + str(e)
x = torch.tensor([0., 1.]).ghost()
assert "NotImplementedError: sin: Could not run 'aten::sin' on device 'ghost'" in message(lambda: x.sin())
seen = []
def on_the_cpu(func, *args, **kwargs):
    seen.append(str(func))
    home, away = (lambda t: t.cpu()), (lambda t: t.ghost())
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, home, (args, kwargs))
    return torch.utils._pytree.tree_map_only(torch.Tensor, away, func(*args, **kwargs))
lib = torch.library.Library("_", "IMPL")
lib.fallback(on_the_cpu, "PrivateUse1")
assert x.sin().is_ghost and torch.equal(x.sin().cpu(), torch.tensor([0., 1.]).sin()) and torch.add(x, x, alpha=2).tolist() == [0, 3] and x.sin().cpu().sin().shape == (2,)
assert seen[0] == "aten.sin.default" and "aten.add.Tensor" in seen and not any("clone" in s or "copy" in s for s in seen)
w = torch.tensor([2., 3.]).ghost().requires_grad_()
(w * x).sum().backward()
assert w.grad.tolist() == [0, 1] and w.grad.is_ghost
assert [t.tolist() for t in x.max(0)] == [1, 1] and [t.tolist() for t in torch.ops.aten.unbind(x)] == [0, 1]
mine = torch.library.Library("of_mine", "DEF")
mine.define("twice(Tensor x, *, int by=2) -> Tensor")
mine.impl("twice", lambda x, by=2: x * by, "CPU")
assert torch.ops.of_mine.twice(x, by=3).tolist() == [0, 3] and seen[-1] == "of_mine.twice.default"
own = torch.library.Library("aten", "IMPL")
own.impl("cos", lambda x: x + 10, "PrivateUse1")
assert x.cos().cpu().tolist() == [10, 11]
assert "Tried to register multiple backend fallbacks for the same dispatch key PrivateUse1" in message(lambda: torch.library.Library("_", "IMPL").fallback(on_the_cpu, "PrivateUse1"))
lib._destroy()
assert "NotImplementedError" in message(lambda: x.sin())
again = torch.library.Library("_", "IMPL", "PrivateUse1")
again.fallback(lambda keys, func, *args: torch.full_like(args[0].cpu(), keys.has(torch._C.DispatchKey.PrivateUse1)).ghost(), with_keyset=True)
assert x.sin().tolist() == [1, 1]
""", "bare")


@both
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_tensors(layout, mode):
    passes(f"""
x = torch.tensor([[0., 1, 0], [2, 0, 3]])
c, s = x.{layout}(), x.ghost().{layout}()
dense = lambda t: t.to_dense().cpu() if t.layout != torch.strided else t.cpu()
for f in (lambda t: t, lambda t: t.cpu(), lambda t: t.ghost(), lambda t: t @ torch.ones(3, 2, device=t.device), lambda t: t + t, lambda t: t * t, lambda t: t.sin(),
          lambda t: t.t(), lambda t: t.to_sparse(), lambda t: t[1], lambda t: t.to_sparse() @ t.to_sparse().t(), lambda t: torch.sparse.sum(t.to_sparse(), 0),
          lambda t: torch.sparse.softmax(t.to_sparse(), 1), lambda t: torch.cat([t.to_sparse()] * 2), lambda t: t.to_sparse().index_select(0, torch.tensor([1, 0], device=t.device)),
          lambda t: torch.zeros_like(t), lambda t: t.to_sparse().narrow_copy(1, 1, 2), lambda t: torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]], device=t.device),
          torch.ones(2, device=t.device)).coalesce()):
    assert torch.equal(dense(f(s)), dense(f(c))), f.__code__.co_firstlineno
assert s.device == torch.device("ghost:0") and "ghost:0" in repr(s) and s.values().is_ghost and c.ghost().is_ghost and not s.cpu().is_ghost
def gradients(device):
    a, b = x.to(device).to_sparse().requires_grad_(), torch.ones(3, 2, device=device, requires_grad=True)
    torch.sparse.mm(a, b).square().sum().backward()
    return a.grad.to_dense().tolist(), b.grad.tolist()
assert gradients("ghost") == gradients("cpu")
""", mode)


def test_files_are_the_hosts():
    passes("""
x = torch.arange(12.).view(1, 12) / 20
assert torch.equal(torch.ops.sound.encode(x.ghost(), 8000), torch.ops.sound.encode(x, 8000))
data = torch.ops.sound.encode(x, 8000)
assert torch.equal(torch.ops.sound.decode(data.ghost())[0], torch.ops.sound.decode(data)[0])
""")


@both
def test_lengths_and_indices_may_come_from_the_host(mode):
    passes("""
nn, lengths = torch.nn, torch.tensor([5, 4])
ctc = lambda at: nn.functional.ctc_loss(torch.arange(40.).view(5, 2, 4).div(7).sin().to(at).log_softmax(-1), torch.tensor([[1, 2], [2, 3]]).to(at), lengths, lengths - 3)
assert ctc("ghost").item() == ctc("cpu").item()
x = torch.arange(48.).view(4, 6, 2)
packed = lambda at: nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_padded_sequence(x.to(at), torch.tensor([6, 5, 5, 1]), batch_first=True))[0]
assert torch.equal(packed("ghost").cpu(), packed("cpu"))
assert torch.arange(6., device="ghost")[[0, 2]].tolist() == [0, 2]
""", mode)
