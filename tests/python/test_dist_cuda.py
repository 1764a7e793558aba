"""torch.distributed with tensors on devices, emulated ones: each rank is a process that has two of its own."""
import os
import re
import shutil
import subprocess
import sys

import pytest
import rushlight as torch
from places import ROOT
from test_cuda import has_cuda_part
from test_dist import HERE, Ranks, errors, expected

pytestmark = [pytest.mark.skipif(torch._C._dist_missing("libgloo") is not None, reason="no libgloo in this build (libgloo-dev)"),
              pytest.mark.skipif(not has_cuda_part(), reason="the CUDA part was not built (a C++ compiler, x86-64)")]
EMULATED = {"RUSHLIGHT_CUDA": "emulated"}


@pytest.fixture(scope="session")
def nccl(tmp_path_factory):
    """The environment in which a stand-in for NCCL, compiled from tests/cuda/stand_in_nccl.c, serves emulated devices."""
    folder, source = tmp_path_factory.mktemp("nccl"), ROOT / "tests/cuda/stand_in_nccl.c"
    if not source.is_file() or not shutil.which("cc"):
        pytest.skip("the stand-in for NCCL needs its source and a C compiler")
    done = subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "-I", ROOT / "src", source, "-o", folder / "libnccl.so.2", "-ldl", "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {**EMULATED, "RUSHLIGHT_CUDA_LIBRARIES": str(folder)}


@pytest.mark.parametrize("size, env", [(2, {}), (3, {"RUSHLIGHT_CUDA_ORDER": "reverse"}), (2, {"RUSHLIGHT_DIST_SHARED": "0", "RUSHLIGHT_CUDA_ORDER": "random:3"})])
def test_every_collective_of_devices(size, env):
    """As those of the CPU, whether ranks share memory or not."""
    with Ranks(size, os.path.join(HERE, "dist_cases.py"), "rushlight", env={**EMULATED, "DEVICE": "cuda", **env}) as job:
        outputs = job.outputs()
    for rank, want in expected(size).items():
        got = dict(line.split("\t", 1) for line in outputs[rank].splitlines())
        assert {k: v for k, v in got.items() if v != want.get(k)} == {} and set(got) == set(want)


def test_calls_come_behind_the_callers_stream():
    """What the stream was given before, the call reads; what it is given while the call goes on, the call does not; a call on another stream waits for that."""
    program = """
init()
x = torch.zeros(100, device="cuda")
s, works, results = torch.cuda.Stream(), [], []
for i in range(20):
    t = torch.full((1000,), 1., device="cuda")
    for _ in range(4):
        t = t * 2 + rank
    results.append(t)
    works.append(dist.all_reduce(t, async_op=True))
    x = x + 1
with torch.cuda.stream(s):
    u = torch.full((1000,), 3., device="cuda") * 2
    works.append(dist.broadcast(u, 1, async_op=True))
    results.append(u)
for w in works:
    w.wait()
print(torch.stack(results).cpu().unique().tolist(), x.sum().item())
"""
    for order in "forward", "reverse":
        with Ranks(2, program, env={**EMULATED, "RUSHLIGHT_CUDA_ORDER": order}) as job:
            assert job.outputs() == ["[6.0, 47.0] 2000.0\n"] * 2


def test_backends_of_devices(tmp_path):
    program = """
def told(f):
    try:
        return f()
    except Exception as e:
        return f"{type(e).__name__}: {e}"
at = 0
for backend in None, "gloo", "cpu:gloo", "cuda:gloo", "cpu:gloo,cuda:gloo", "nccl", "cpu:gloo,cuda:nccl", "cuda:nccl":
    at += 1
    dist.init_process_group(backend, init_method=f"{url}/{at}", rank=rank, world_size=size)
    group, said = dist.group.WORLD, []
    for device in "cpu", f"cuda:{rank}":
        t = torch.full((3,), rank + 1., device=device)
        said.append(told(lambda: dist.all_reduce(t)) or t.tolist()[0])
    torch.cuda.set_device(rank)
    told(dist.barrier)
    box = [None] * 2
    dist.all_gather_object(box, {"rank": rank})
    inner = dist.new_group()
    print(dist.get_backend(), dist.get_backend_config(), [d.type for d in group._device_types], group.name(), *said, box[1], dist.get_backend(inner), dist.get_backend_config(inner), sep="; ")
    dist.destroy_process_group()
dist.init_process_group(init_method=f"{url}/more", rank=rank, world_size=size, device_id=rank)
print(dist.get_backend(), dist.group.WORLD.bound_device_id, told(dist.monitored_barrier))
"""
    missing = "RuntimeError: No backend type associated with device type "
    want = [("undefined; cuda:nccl; ['cuda']; nccl", "cuda"), ("gloo; cpu:gloo,cuda:gloo; ['cuda', 'cpu']; gloo", "both"), ("cpu:gloo; cpu:gloo; ['cpu']; gloo", "cpu"),
            ("cuda:gloo; cuda:gloo; ['cuda']; gloo", "cuda"), ("cpu:gloo,cuda:gloo; cpu:gloo,cuda:gloo; ['cuda', 'cpu']; gloo", "both"), ("nccl; cuda:nccl; ['cuda']; nccl", "cuda"),
            ("cpu:gloo,cuda:nccl; cpu:gloo,cuda:nccl; ['cuda', 'cpu']; nccl", "both"), ("cuda:nccl; cuda:nccl; ['cuda']; nccl", "cuda")]
    with Ranks(2, program, env=EMULATED, url=f"file://{tmp_path}") as job:
        for rank, out in enumerate(job.outputs()):
            *lines, last = out.splitlines()
            for line, (begin, serves) in zip(lines, want):
                said = [3.0 if serves in (kind, "both") else missing + kind for kind in ("cpu", "cuda")]
                backend, config = begin.split("; ")[:2]
                assert line == f"{begin}; {said[0]}; {said[1]}; {{'rank': 1}}; {backend}; {config}"
            assert len(lines) == len(want) and last == f"nccl cuda:{rank} ValueError: monitored_barrier is only implemented for GLOO backend."


def test_tensors_of_several_devices():
    program = """
init()
a, b = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1") * rank
dist.all_reduce(a); dist.all_reduce(b)
print(a.tolist(), b.tolist(), flush=True)
dist.all_gather([a, torch.ones(2)], torch.ones(2))
"""
    with Ranks(2, program, env=EMULATED) as job:
        done = job.ends()
    assert [d[0] for d in done] == ["[2.0, 2.0] [1.0, 1.0]\n"] * 2 and all("tensors of different devices, cuda:0 and cpu" in d[1] for d in done)


def test_messages_and_sparse_tensors_of_devices():
    program = """
init()
if rank:
    dist.send(torch.arange(6., device="cuda").view(2, 3).t(), 0)
    dist.send_object_list([{"a": 1}], 0, device=torch.device("cuda"))
else:
    t, box = torch.zeros(3, 2, device="cuda"), [None]
    dist.recv(t, 1)
    dist.recv_object_list(box, 1, device=torch.device("cuda"))
    print(t.tolist(), box)
s = torch.sparse_coo_tensor([[rank, 2]], [1., 2.], (4,)).to("cuda")
dist.all_reduce(s)
print(s.to_dense().tolist())
"""
    with Ranks(2, program, env=EMULATED) as job:
        outs = job.outputs()
    assert outs[0] == "[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] [{'a': 1}]\n" + outs[1] and outs[1] == "[1.0, 1.0, 4.0, 0.0]\n"


def numbers(text, name):
    return [[float(v) for v in line.split("\t")[1].split()] for line in text.splitlines() if line.startswith(name)]


@pytest.mark.parametrize("case, size, backend", [("mlp", 2, "nccl"), ("norm", 2, "gloo"), ("unused", 3, "nccl"), ("hook", 2, "cpu:gloo,cuda:nccl"), ("no_sync", 2, "gloo"), ("cnn", 2, "nccl")])
def test_training_on_devices_is_that_on_the_cpu(case, size, backend):
    program = os.path.join(HERE, "ddp_cases.py")
    with Ranks(size, program, "rushlight", case) as plain, Ranks(size, program, "rushlight", case, env={**EMULATED, "DEVICE": "cuda", "BACKEND": backend}) as job:
        want, got = plain.outputs(), job.outputs()
    for name, n in ("loss", 20), ("weights", 1):
        assert len({tuple(map(tuple, numbers(out, name))) for out in got}) == 1
        a, b = numbers(want[0], name), numbers(got[0], name)
        assert len(a) == n and max(abs(x - y) for p, q in zip(a, b) for x, y in zip(p, q)) < 1e-5


def test_spread_on_devices():
    """Each way trains as one device alone."""
    cases = ["sync-bn", "powersgd-mlp", "joined-mlp", "zero-mlp", "fsdp2-mlp", "full-cnn", "original-mlp", "noshard-mlp", "fsdp2clip-mlp", "fullclip-mlp", "tp-mlp", "sp-mlp",
             "pipe1f1b-mlp", "fp16-mlp"]
    with Ranks(2, os.path.join(HERE, "sharded_cases.py"), "rushlight", ",".join(cases), env={**EMULATED, "DEVICE": "cuda", "BACKEND": "nccl"}) as job:
        for out in job.outputs():
            lines = [line.split("\t") for line in out.splitlines()]
            assert [case for case, _, _ in lines] == cases
            assert {case: worst for case, _, worst in lines if not float(worst) < (5e-6 if case not in ("powersgd-mlp", "joined-mlp", "fp16-mlp") else 0.1)} == {}


def test_arguments_of_distributed_data_parallel():
    program = """
import warnings
init()
nn, DDP = torch.nn, torch.nn.parallel.DistributedDataParallel
def told(f):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            made = f()
        except Exception as e:
            return f"{type(e).__name__} {e}"
    return [str(w.message)[:60] for w in seen if w.category is FutureWarning], made
net = lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(f"cuda:{rank}")
print(told(lambda: DDP(net(), device_ids=[0, 1]))); print(told(lambda: DDP(nn.Linear(2, 2), device_ids=[0]))[:60])
both = nn.Sequential(nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1"))
print(told(lambda: DDP(both, device_ids=[0]))[:60]); print(told(lambda: DDP(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).to("cuda:1"))))[:60])
for options in {}, {"broadcast_buffers": False}, {"forward_sync_buffers": False}, {"broadcast_buffers": True, "forward_sync_buffers": False}, {"forward_sync_buffers": True, "batched_grad_copy": True}:
    m = net()
    m[1].running_mean.fill_(rank + 1.)
    said, ddp = told(lambda: DDP(m, device_ids=[rank], **options))
    at_init = m[1].running_mean[0].item()
    m[1].running_mean.fill_(rank + 1.)
    m[1].momentum = 0.
    ddp([torch.ones(2, 2)][0])
    print(said, at_init, m[1].running_mean[0].item(), ddp.broadcast_buffers, ddp.device_ids, ddp.output_device, ddp.device_type, ddp.device)
two = DDP(both)  # on both devices of each process
two.module.forward = lambda x: two.module[1](two.module[0](x.cuda(0)).cuda(1))
two(torch.full((3, 2), rank + 1.)).sum().backward()
print(*(p.grad.device.index for p in two.parameters()), two.module[1].bias.grad.tolist(), len(two._reducer.buckets()))
"""
    with Ranks(2, program, env=EMULATED) as job:
        outs = [out.splitlines() for out in job.outputs()]
    older, ignored = "`broadcast_buffers` is deprecated. Use `forward_sync_buffers`", "Both `broadcast_buffers` and `forward_sync_buffers` were spe"
    for rank, lines in enumerate(outs):
        own, where = rank + 1.0, f"[{rank}] {rank} cuda cuda:{rank}"
        assert lines[0] == "ValueError device_ids can only be None or contain a single element."
        assert lines[1].startswith("ValueError DistributedDataParallel device_ids and output") and lines[2].startswith("ValueError DistributedDataParallel device_ids and output")
        assert lines[3].startswith("ValueError DistributedDataParallel's input module must be on")
        assert lines[4:9] == [f"[] 1.0 1.0 True {where}", f"{[older[:60]]} {own} {own} False {where}", f"[] 1.0 {own} False {where}", f"{[ignored[:60]]} 1.0 {own} False {where}",
                              f"[] 1.0 1.0 True {where}"]
        assert lines[9] == "0 0 1 1 [3.0, 3.0] 2"


def test_a_program_of_the_launcher(tmp_path):
    """DistributedDataParallel, mixed precision and checkpoints, as such programs are written: on devices as on the CPU."""
    program = tmp_path / "train.py"
    program.write_text("""
import os, sys
import torch, torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

kind, folder = sys.argv[1], sys.argv[2]
dist.init_process_group("nccl" if kind == "cuda" else "gloo")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
device = torch.device("cpu")
if kind == "cuda":
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler, pin_memory=kind == "cuda")

def made():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).to(device)
    model = DDP(model, device_ids=[local] if kind == "cuda" else None)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)

def epoch(n):
    sampler.set_epoch(n)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=n > 1):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        total = loss.detach().clone()
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        if rank == 0:
            print("loss", n, total.item(), norm.item(), flush=True)

model, optimizer = made()
scaler = torch.amp.GradScaler(kind, init_scale=1024.0)
epoch(0), epoch(1)
if rank == 0:
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, folder + "/one.pt")
state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
dcp.save(state, checkpoint_id=folder + "/pieces")
dist.barrier(device_ids=[local] if kind == "cuda" else None)
epoch(2)
model, optimizer = made()
state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
dcp.load(state, checkpoint_id=folder + "/pieces")
set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
epoch(2)
one = torch.load(folder + "/one.pt", map_location=device)
model.module.load_state_dict(one["model"]); optimizer.load_state_dict(one["optimizer"])
epoch(2)
with torch.no_grad():  # infinities of one rank are everyone's
    model.module[0].weight.grad = None
optimizer.zero_grad()
before = model.module[0].weight.detach().clone()
scaler.scale((model(torch.full((2, 6), float("inf") if rank else 1.0, device=device))).sum()).backward()
scaler.step(optimizer); scaler.update()
print("scale", scaler.get_scale(), torch.equal(before, model.module[0].weight), flush=True)
dist.destroy_process_group()
""")
    outs = {}
    for kind in "cpu", "cuda":
        (tmp_path / kind).mkdir()
        done = subprocess.run([sys.executable, "-m", "rushlight.distributed.run", "--nproc_per_node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", str(program), kind, str(tmp_path / kind)],
                              capture_output=True, text=True, env={**os.environ, **EMULATED, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        outs[kind] = [line.split() for line in done.stdout.splitlines()]
    losses = {kind: [[float(v) for v in line[1:]] for line in out if line[0] == "loss"] for kind, out in outs.items()}
    assert len(losses["cpu"]) == len(losses["cuda"]) == 20
    assert max(abs(a - b) for p, q in zip(losses["cpu"][:8], losses["cuda"][:8]) for a, b in zip(p, q)) < 1e-5
    assert max(abs(p[1] - q[1]) for p, q in zip(losses["cpu"][8:], losses["cuda"][8:])) < 2e-2  # bfloat16
    for kind in losses:
        assert losses[kind][8:12] == losses[kind][12:16] == losses[kind][16:] and [line for line in outs[kind] if line[0] == "scale"] == [["scale", "512.0", "True"]] * 2


BY_NCCL = """all_reduce_ops all_reduce_complex all_reduce_strided all_reduce_large all_reduce_coalesced broadcast reduce_ all_gather gather_scatter reduce_scatter all_to_all lists batch
objects groups"""


@pytest.mark.parametrize("size, order", [(2, "forward"), (3, "reverse"), (2, "random:3")])
def test_every_collective_by_nccl(nccl, size, order):
    """By the functions of the library, on streams of their own."""
    with Ranks(size, os.path.join(HERE, "dist_cases.py"), "rushlight", env={**nccl, "DEVICE": "cuda", "BACKEND": "nccl", "RUSHLIGHT_CUDA_ORDER": order, "CASES": BY_NCCL}) as job:
        outputs = job.outputs()
    for rank, want in expected(size).items():
        got = dict(line.split("\t", 1) for line in outputs[rank].splitlines())
        assert {k: v for k, v in got.items() if v != want.get(k)} == {} and sorted(got) == sorted(BY_NCCL.split())


STREAMS = """
import ctypes
if "RUSHLIGHT_CUDA_LIBRARIES" in os.environ:
    assert torch.cuda.nccl.version() == (2, 28, 3)
torch.cuda.set_device(rank % 2)
dist.init_process_group("nccl", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))
def counted():
    if "RUSHLIGHT_CUDA_LIBRARIES" not in os.environ:
        return ()
    library = ctypes.CDLL(os.environ["RUSHLIGHT_CUDA_LIBRARIES"] + "/libnccl.so.2")
    return [ctypes.c_int.in_dll(library, "stand_in_nccl_" + name).value for name in ("calls", "steps", "live", "aborted")]
def same(what, t, want):
    got = t.unique().tolist()
    assert got == [want], (what, got, want)
t = torch.full((1000,), 1., device="cuda")
for i in range(3):
    t = t * 2 + rank
work = dist.all_reduce(t, async_op=True)
u = torch.ones(1000, device="cuda") * 5
work.wait()
v = t + u                                # behind the call
same("all_reduce", v, 8*size + 7*sum(range(size)) + 5.)
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    a = torch.full((500,), rank + 1., device="cuda") * 3
    dist.broadcast(a, 1)
    b = a + 1
s.synchronize()
same("broadcast", b, 7.)
o = torch.empty(size * 300, device="cuda")
dist.all_gather_into_tensor(o, torch.full((300,), 2., device="cuda") * (rank + 1))
same("all_gather", o.view(size, 300)[1] + 0, 4.)
x = torch.zeros(20, 30, device="cuda").t()
x += rank + 1
dist.all_reduce(x[:, ::2])
same("strided", x[:, ::2] * 1, float(sum(range(1, size + 1))))
r = [torch.full((50,), float(10 * rank + i), device="cuda") * 2 for i in range(size)]
got = [torch.zeros(50, device="cuda") for _ in range(size)]
dist.all_to_all(got, r)
for i in range(size): same("all_to_all", got[i] + 0, 2. * (10 * i + rank))
nxt, prv = (rank + 1) % size, (rank - 1) % size
big, into = torch.full((300000,), rank + 1., device="cuda") * 2, torch.zeros(300000, device="cuda")
for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, big, nxt), dist.P2POp(dist.irecv, into, prv)]): w.wait()
same("batch", into + 0, 2. * (prv + 1))
st = torch.zeros(6, 4, device="cuda").t()
for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, (torch.full((6, 4), rank + 1., device="cuda") * 2).t(), nxt), dist.P2POp(dist.irecv, st, prv), dist.P2POp(dist.isend, big[:7], nxt), dist.P2POp(dist.irecv, (q := torch.zeros(7, device="cuda")), prv)]): w.wait()
same("batch with gaps", st + 0, 2. * (prv + 1)); same("second", q + 0, 2. * (prv + 1))
with dist.distributed_c10d._coalescing_manager(async_ops=True) as cm:
    c1, c2 = torch.full((9,), rank + 1., device="cuda") * 2, torch.full((9, 2), 1., device="cuda").t()
    dist.all_reduce(c1); dist.all_reduce(c2)
cm.wait()
same("coalesced", c1 + 0, 2. * sum(range(1, size + 1))); same("coalesced with gaps", c2 + 0, float(size))
p = torch.full((4,), 2., device="cuda")
dist.all_reduce(p, dist.distributed_c10d._make_nccl_premul_sum(0.5 * (rank + 1)))
same("premul", p, 1. * sum(range(1, size + 1)))
for dtype in torch.float16, torch.bfloat16, torch.float64:
    p = torch.full((4,), 2., device="cuda", dtype=dtype)
    dist.all_reduce(p, dist.distributed_c10d._make_nccl_premul_sum(0.5)); same(dtype, p, 1. * size)
bb = torch.tensor([rank == 0, False], device="cuda"); dist.all_reduce(bb)
assert bb.tolist() == [True, False]
for f in (lambda: dist.all_reduce(torch.ones(2, device="cuda", dtype=torch.int32), dist.ReduceOp.BAND), lambda: dist.all_reduce(torch.ones(2, device="cuda", dtype=torch.int16)),
          lambda: dist.recv(torch.ones(2, device="cuda")), lambda: dist.all_reduce(torch.ones(2))):
    try:
        f()
    except Exception as e:
        print(type(e).__name__, str(e))
dist.barrier()
works = [dist.isend(torch.full((5,), 3. + rank, device="cuda"), nxt)] if rank % 2 == 0 and nxt % 2 == 1 else []  # of three ranks the last has nobody who receives
if rank % 2 == 1:
    into = torch.zeros(5, device="cuda")
    dist.recv(into, prv)
    same("message", into, 3. + prv)
for w in works:
    w.wait(timeout=datetime.timedelta(seconds=20))
torch.cuda.synchronize()
print(*counted())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("size, order", [(2, "forward"), (2, "reverse"), (3, "random:3"), (2, "host")])
def test_calls_of_nccl_are_in_the_order_of_streams(nccl, size, order):
    """A call sees what its stream was given before, and what is given later sees the call; emulated streams run late, so what is not ordered shows."""
    with Ranks(size, STREAMS, env=EMULATED if order == "host" else {**nccl, "RUSHLIGHT_CUDA_ORDER": order}) as job:
        for out in job.outputs():
            lines = out.splitlines()
            assert lines[:4] == ["ValueError all_reduce: Cannot use ReduceOp.BAND with NCCL", "TypeError all_reduce: Input tensor data type is not supported for NCCL process group: int16",
                                 "RuntimeError ProcessGroupNCCL does not support recvAnysource", "RuntimeError No backend type associated with device type cpu"]
            if order != "host":
                calls, steps, live, aborted = map(int, lines[4].split())
                assert steps < calls and live >= 2 and aborted == 0  # batches are one step each


def test_training_by_nccl(nccl):
    for case in "norm", "unused":
        program = os.path.join(HERE, "ddp_cases.py")
        with Ranks(2, program, "rushlight", case) as plain, Ranks(2, program, "rushlight", case, env={**nccl, "DEVICE": "cuda", "BACKEND": "nccl"}) as job:
            want, got = plain.outputs()[0], job.outputs()
        assert got[0].splitlines()[-1] == got[1].splitlines()[-1]
        assert max(abs(x - y) for name in ("loss", "weights") for p, q in zip(numbers(want, name), numbers(got[0], name)) for x, y in zip(p, q)) < 1e-5
    cases = ["zero-mlp", "fsdp2-mlp", "full-cnn", "tp-mlp", "pipe1f1b-mlp"]
    with Ranks(2, os.path.join(HERE, "sharded_cases.py"), "rushlight", ",".join(cases), env={**nccl, "DEVICE": "cuda", "BACKEND": "cpu:gloo,cuda:nccl"}) as job:
        for out in job.outputs():
            lines = [line.split("\t") for line in out.splitlines()]
            assert [case for case, _, _ in lines] == cases and all(float(worst) < 1e-6 for _, _, worst in lines)


LOST = """
torch.cuda.set_device(rank % 2)
how = os.environ["HOW"]
dist.init_process_group("nccl", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=3 if how == "late" else 60))
t = torch.ones(4, device="cuda")
dist.all_reduce(t); torch.cuda.synchronize()
if rank == 1:
    if how == "die": os._exit(3)
    if how == "late": time.sleep(6)
    if how == "leave": sys.exit(0)
    if how == "differ": dist.all_reduce(torch.ones(5, device="cuda"))
def told(f):
    try: return f()
    except Exception as e: return f"{type(e).__name__}: {e}"
w = told(lambda: dist.all_reduce(t, async_op=True))
print(told(lambda: w.wait()) if not isinstance(w, str) else w)
print(told(lambda: (t + 1).sum().item()))
print(told(lambda: w.wait()) if not isinstance(w, str) else w)
until = time.monotonic() + 20  # a call that is begun before the error is known goes on
while (said := told(lambda: dist.all_reduce(t))) is None and time.monotonic() < until:
    time.sleep(0.1)
print(said)

"""


@pytest.mark.parametrize("silent", [{}, {"STAND_IN_NCCL_SILENT": "1"}], ids=["", "silent"])
def test_a_call_of_nccl_that_cannot_end(nccl, silent):
    """The device is let go, who waits for it is told, and so is each later call: who is gone or late, and in which call."""
    words = {"die": "rank 1 on host .* is gone", "leave": "rank 1 on host .* has left the group", "late": "not done after 3.0 s", "differ": "the ranks do not agree"}
    for how, words in words.items():
        with Ranks(2, LOST, env={**nccl, **silent, "HOW": how}) as job:
            lines = job.ends(60)[0][0].splitlines()
        said = words if silent else f"{words}|remote process exited"
        assert len(lines) == 4 and re.search(said + "|aborted", lines[3]), (how, lines)
        if how != "differ" and not re.search(said, lines[0]):  # which was begun before anything was known of it
            assert lines[0] == "True" and re.search(f"DistBackendError: cuda:0: all_reduce.* void: .*({said})", lines[1]), (how, lines)


def test_programs_that_set_no_device(nccl):
    """The parameters' device is used for all that DistributedDataParallel says, and for a barrier; the current one is not of this job."""
    program = """
dist.init_process_group("nccl", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2).to(rank), device_ids=[rank])
ddp(torch.full((2, 3), rank + 1.)).sum().backward()
dist.barrier()
print(ddp.module.weight.grad.tolist(), torch.cuda.current_device(), [torch.cuda.memory_reserved(i) > 0 for i in range(2)])
dist.destroy_process_group()
"""
    with Ranks(2, program, env=nccl) as job:
        assert job.outputs() == [f"[[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]] 0 [{rank == 0}, {rank == 1}]\n" for rank in range(2)]


def test_options_of_nccl(nccl):
    """Streams that come before others (of the second pool), and what cannot be told to NCCL."""
    program = """
import warnings
torch.cuda.set_device(rank)
def streams(options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        group = dist.new_group(pg_options=options)
    dist.barrier(group)
    torch.cuda.synchronize()
    return sorted({s["stream"] > 32 for s in torch.cuda.memory_snapshot() if s["stream"]}), [str(w.message)[:35] for w in said if "backend_options" in str(w.message)]
dist.init_process_group("nccl", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))
print(streams(None), streams(dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)))
for wrong in "urgent", dist.ProcessGroupNCCL.Options():
    if wrong != "urgent":
        wrong.config.max_ctas = 4
    try:
        dist.new_group(pg_options=wrong)
    except (AssertionError, NotImplementedError) as e:
        print(e)
dist.destroy_process_group()
"""
    with Ranks(2, program, env=nccl) as job:
        assert job.outputs() == ["([False], []) ([False, True], ['backend_options._timeout was specif'])\nExpected backend_options argument to be of type ProcessGroupNCCL.Options\n"
                                 "ProcessGroupNCCL.Options: config.max_ctas is not told to NCCL\n"] * 2


def test_groups_are_split_off_by_nccl(nccl):
    """Communicators of groups of a world that was made for one device are parts of the world's; who is in no part has a say, too."""
    program = """
import ctypes
def splits():
    return ctypes.c_int.in_dll(ctypes.CDLL(os.environ["RUSHLIGHT_CUDA_LIBRARIES"] + "/libnccl.so.2"), "stand_in_nccl_splits").value
def told(f):
    try:
        return f()
    except Exception as e:
        return f"{type(e).__name__} {e}"
def summed(group):
    if group is None or group is dist.GroupMember.NON_GROUP_MEMBER:
        return None
    t = torch.full((5,), rank + 1., device=device) * 2
    dist.all_reduce(t, group=group)
    return (t + 0).tolist()[4], dist.get_rank(group), group.group_desc
device = torch.device("cuda", rank % 2)
torch.cuda.set_device(device)
dist.init_process_group("nccl", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60), device_id=device)
dist.all_reduce(torch.ones(1000, device=device)) # is under way, or has not begun
print(summed(dist.new_group([0, 2])), summed(dist.new_group([1])), splits())
half = dist.split_group(split_ranks=[[1, 0], [2]])
print(summed(half), summed(dist.split_group(split_ranks=[[2, 0]], group_desc="ends")), summed(dist.group.WORLD), splits())
print(summed(dist.split_group(half, [[0]])), summed(dist.new_group([0, 1], use_local_synchronization=True)), splits())
for ranks in None, [[]], [[0, 0]], [[3]]:
    print(told(lambda: dist.split_group(split_ranks=ranks)))
print(told(lambda: dist.new_group([0], device_id=torch.device("cuda", 1 - rank % 2))))
dist.destroy_process_group()
"""
    errors = ["ValueError split_ranks cannot be None or empty", "ValueError the split group cannot be empty", "ValueError the split group cannot have duplicate ranks",
              "ValueError a split group has ranks that its parent has not", "AssertionError Mismatched bound device between new pg and the default pg."]
    rows = [["(8.0, 0, 'undefined') None 2", "(6.0, 0, 'default_pg:split:0') (8.0, 0, 'ends') (12.0, 0, 'default_pg') 4", "(2.0, 0, 'default_pg:split:0:split:0') (6.0, 0, 'undefined') 5"],
            ["None (4.0, 0, 'undefined') 2", "(6.0, 1, 'default_pg:split:0') None (12.0, 1, 'default_pg') 4", "None (6.0, 1, 'undefined') 5"],
            ["(8.0, 1, 'undefined') None 2", "(6.0, 0, 'default_pg:split:0') (8.0, 1, 'ends') (12.0, 2, 'default_pg') 4", "(6.0, 0, 'default_pg:split:0:split:0') None 5"]]
    for order in "forward", "reverse":
        with Ranks(3, program, env={**nccl, "RUSHLIGHT_CUDA_ORDER": order}) as job:
            assert [out.splitlines() for out in job.outputs()] == [row + errors for row in rows]


DEVICES = """
import pytest, warnings
import rushlight as torch
from rushlight.cuda import nccl
def spread(*rows, dtype=torch.float32):
    return [torch.tensor(row, dtype=dtype, device=f"cuda:{i}") for i, row in enumerate(rows)]
def lists(tensors):
    return [t.tolist() for t in tensors]
a = spread([1, 2, 3, 4], [10, 20, 30, 40])
for _ in range(3): # what the streams have to do before comes first
    a[1] = a[1] + 0
assert nccl.is_available(a) and not nccl.is_available([a[0], a[0]]) and not nccl.is_available([a[0].cpu()]) and not nccl.is_available([a[0][::2]])
out = spread([0] * 4, [0] * 4)
nccl.all_reduce(a, out)
assert lists(out) == [[11, 22, 33, 44]] * 2 and lists(a) == [[1, 2, 3, 4], [10, 20, 30, 40]]
for op, want in (1, [10, 40, 90, 160]), (2, [10, 20, 30, 40]), (3, [1, 2, 3, 4]), (4, [5.5, 11, 16.5, 22]):
    nccl.all_reduce(a, out, op)
    assert lists(out) == [want] * 2, (op, lists(out))
nccl.reduce(a, output=out[1], root=1)
assert lists(out) == [[5.5, 11, 16.5, 22], [11, 22, 33, 44]]
with pytest.warns(FutureWarning, match="single output tensor"):
    nccl.reduce(a, spread([0] * 4, [0] * 4))
parts = spread([0] * 2, [0] * 2)
nccl.reduce_scatter(a, parts)
assert lists(parts) == [[11, 22], [33, 44]]
all = spread([0] * 8, [0] * 8)
nccl.all_gather(a, all)
assert lists(all) == [[1, 2, 3, 4, 10, 20, 30, 40]] * 2
b = spread([1, 2], [3, 4], dtype=torch.int64)
nccl.all_reduce(b)
assert lists(b) == [[4, 6]] * 2
side = [torch.cuda.Stream(0), torch.cuda.Stream(1)]
c = spread([1.], [2.])
torch.cuda.synchronize(0); torch.cuda.synchronize(1)
for s, t in zip(side, c):
    with torch.cuda.stream(s):
        t.mul_(3)
nccl.broadcast(c, root=1, streams=side)
for s in side:
    s.synchronize()
assert lists(c) == [[6.], [6.]]
for wrong in (lambda: nccl.all_reduce(a[0]), lambda: nccl.all_reduce([a[0].cpu()])), (lambda: nccl.all_reduce([a[0], a[0]]),), (lambda: nccl.all_reduce([a[0][::2], a[1][::2]]),), (lambda: nccl.all_reduce(a, a[:1]),):
    for f in wrong:
        with pytest.raises((TypeError, RuntimeError)):
            f()
"""


@pytest.mark.parametrize("library", [False, True], ids=["by copies", "by a stand-in"])
@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_devices_of_one_process(nccl, library, order):
    """torch.cuda.nccl, each call behind what its streams were given before."""
    done = subprocess.run([sys.executable, "-c", DEVICES], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **(nccl if library else EMULATED), "RUSHLIGHT_CUDA_ORDER": order, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr[-3000:]
