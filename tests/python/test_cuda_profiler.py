"""torch.profiler with the times of devices: emulated, where CUPTI's records are the emulator's. Each test is a process of its own, as in test_cuda.py."""
import pytest

from test_cuda import both, passes, pytestmark  # noqa: F401

WORDS = """
import collections, json, pytest, tempfile, warnings
from rushlight.profiler import profile, ProfilerActivity, record_function, supported_activities
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
def on_device(p):
    return [e for e in p.events() if e.device_type.name == "CUDA"]
def trace_of(p):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        p.export_chrome_trace(f.name)
        return json.load(open(f.name))["traceEvents"]
"""


@both
def test_times_of_devices(order):
    """What ran there, when, and for which operation."""
    passes(WORDS + """
assert ProfilerActivity.CUDA in supported_activities()
x, w = torch.randn(300, 400, device="cuda"), torch.randn(400, 500, device="cuda").requires_grad_()
(x @ w).exp().sum().backward()
x.neg()
with profile(activities=BOTH) as p:
    with record_function("forward"):
        y = x @ w
        z = y.exp()
    z.sum().backward()
    host = z.detach().cpu()
x.sin() # behind it, and so not in it
averages = {(e.key, e.device_type.name): e for e in p.key_averages()}
kernels = [e for e in on_device(p) if e.activity_type == "kernel"]
assert kernels and not any("neg" in e.name or "sin" in e.name for e in kernels)
first = next(e for e in p.events() if e.name == "forward")
assert all(first.time_range.start <= e.time_range.start <= e.time_range.end for e in on_device(p))
# each operation has the times of its own kernels, those around it the sum
assert averages["aten::exp", "CPU"].device_time_total > 0 and averages["forward", "CPU"].self_device_time_total == 0
product, exp = averages["aten::mm", "CPU"], next(e for e in p.events() if e.name == "aten::exp")
assert product.count == 2 and product.self_device_time_total > exp.device_time_total # it computes 400 times as much
told = [k.name for k in exp.kernels if not k.name.startswith("Mem")]
assert len(told) == 1 and "exp" in told[0], told
assert abs(averages["forward", "CPU"].device_time_total - sum(e.device_time_total for e in first.cpu_children)) < 1e-6
copy = averages["Memcpy DtoH (Device -> Pageable)", "CUDA"]
assert copy.count == 1 and copy.cpu_time_total == 0 and copy.device_time_total > 0
assert next(e for e in on_device(p) if "DtoH" in e.name).extra_meta["bytes"] == host.numel() * 4
total = sum(e.self_device_time_total for e in on_device(p))
assert abs(sum(e.self_device_time_total for e in p.events() if e.device_type.name == "CPU") - total) < 1e-3 * total
table = p.key_averages().table(sort_by="cuda_time_total")
assert "Self CUDA %" in table and "CUDA time avg" in table and "Self CUDA time total: " in table and table.index("mm") < table.index("DtoH")
assert p.key_averages().table(sort_by="self_cuda_time_total") and p.key_averages().table(sort_by="device_time_total")
assert max(e.device_time for e in p.key_averages()) > 0
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_a_trace_has_streams_as_rows(order):
    passes(WORDS + """
x, side = torch.ones(1000, device="cuda"), torch.cuda.Stream()
(x + x).mul(2)
torch.cuda.synchronize()
with profile(activities=BOTH) as p:
    y = x + x
    with torch.cuda.stream(side):
        z = y.mul(2)
trace = trace_of(p)
kernels = [e for e in trace if e.get("cat") == "kernel"]
add, mul = (next(e for e in kernels if name in e["name"].lower()) for name in ("add", "mul"))
assert add["pid"] == mul["pid"] == 0 and add["tid"] != mul["tid"] and add["args"]["block"][0] >= 32 and add["args"]["stream"] == add["tid"]
names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
assert names[0, add["tid"]] == "stream %d" % add["tid"] and names[0, mul["tid"]] == "stream %d" % mul["tid"]
assert any(e["name"] == "process_labels" and e["args"]["labels"] == "GPU 0" for e in trace)
calls = [e for e in trace if e.get("cat") == "cuda_driver"]
arrows = collections.Counter(e["ph"] for e in trace if e.get("cat") == "ac2g")
assert len(calls) >= 2 and arrows["s"] == arrows["f"] == len([e for e in trace if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")])
op = next(e for e in trace if e["name"] == "aten::add")
assert any(op["ts"] <= c["ts"] and c["ts"] + c["dur"] <= op["ts"] + op["dur"] for c in calls)
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_a_graph_in_a_profile(order):
    """Its kernels are the launch's."""
    passes(WORDS + """
x = torch.ones(1000, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = (x + 1) * 2
graph.replay()
with profile(activities=BOTH) as p:
    with record_function("twice"):
        graph.replay()
        graph.replay()
    assert y.sum().item() == 4000
twice = next(e for e in p.events() if e.name == "twice")
kernels = collections.Counter(k.name for k in twice.kernels)
assert len(kernels) == 2 and set(kernels.values()) == {2} and twice.self_device_time_total > 0, kernels
""", RUSHLIGHT_CUDA_ORDER=order)


def test_profiles_follow_one_another_emulated():
    passes(WORDS + """
x = torch.ones(10, device="cuda")
seen = []
def ready(p):
    seen.append(sorted(e.name for e in on_device(p) if e.activity_type == "kernel"))
with profile(activities=BOTH, schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as p:
    for step in range(8):
        y = x.exp() if step < 4 else x.neg()
        p.step()
assert seen == [["pw_exp_f32"] * 2, ["pw_neg_f32"] * 2], seen
with profile(activities=[ProfilerActivity.CPU]) as p:
    x.exp()
assert not on_device(p) and "CUDA" not in p.key_averages().table()
with torch.autograd.profiler.profile(use_device="cuda") as p:
    x.exp()
assert any(e.name == "pw_exp_f32" for e in p.function_events) and p.key_averages().table(sort_by="cuda_time_total").index("exp")
with pytest.raises(RuntimeError, match="already"):
    with profile(activities=BOTH):
        torch._C._cuda_trace_begin(False)
""")


@both
def test_memory_of_devices(order):
    """Each operation has what it took, those around it the sum, in the pieces of 512 bytes that the allocator gives; a trace has each change."""
    passes(WORDS + """
x, other = torch.ones(1000, device="cuda"), torch.ones(3, device="cuda:1")
with profile(activities=BOTH, profile_memory=True) as p:
    with record_function("block"):
        y = x.exp()                       # 4096 bytes
        z = torch.zeros(100, device="cuda:1")
        w = (x + 1).sum()
    del y                                 # outside of all
seen = {e.name: e for e in p.events()}
assert seen["aten::exp"].device_memory_usage == seen["aten::exp"].self_device_memory_usage == 4096 and seen["aten::exp"].cpu_memory_usage == 0
block = seen["block"]
assert block.device_memory_usage == sum(c.device_memory_usage for c in block.cpu_children) + block.self_device_memory_usage == 4096 + 512 + 512, block
assert block.self_device_memory_usage == -4096 # x + 1, when the sum is there
assert [e.device_memory_usage for e in p.events() if e.name == "[memory]" and e.device_memory_usage] == [-4096]
table = p.key_averages().table(sort_by="self_cuda_memory_usage", row_limit=1)
assert "Self CUDA Mem" in table and "4.00 KB" in table and "aten::" in table
changes = [e["args"] for e in trace_of(p) if e["name"] == "[memory]" and e["args"]["Device Type"] == 1]
assert sorted((c["Device Id"], c["Bytes"]) for c in changes) == [(0, -4096), (0, -4096), (0, 512), (0, 4096), (0, 4096), (1, 512)], changes
assert changes[-1]["Total Allocated"] == torch.cuda.memory_allocated() and changes[-1]["Total Reserved"] == torch.cuda.memory_reserved()
with profile(activities=BOTH) as p:
    x.exp()
assert not any(e.device_memory_usage for e in p.events()) and "CUDA Mem" not in p.key_averages().table()
""", RUSHLIGHT_CUDA_ORDER=order)


def test_without_a_device():
    passes(WORDS + """
assert supported_activities() == {ProfilerActivity.CPU}
with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
    with profile(activities=BOTH) as p:
        torch.ones(3) + 1
assert "CUDA" not in p.key_averages().table() and any(e.name == "aten::add" for e in p.events())
""", RUSHLIGHT_CUDA="off")
