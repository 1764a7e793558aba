"""torch.distributed with tensors on devices, emulated ones: each rank is a process that has two of its own."""
import os

import pytest
import rushlight.distributed as dist
from test_cuda import has_cuda_part
from test_dist import HERE, Ranks, errors, expected

pytestmark = [pytest.mark.skipif(not dist.is_gloo_available(), reason="no gloo in this build (libgloo-dev)"),
              pytest.mark.skipif(not has_cuda_part(), reason="the CUDA part was not built (a C++ compiler, x86-64)")]
EMULATED = {"RUSHLIGHT_CUDA": "emulated"}


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
