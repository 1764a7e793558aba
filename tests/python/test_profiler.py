"""torch.profiler: tables as PyTorch prints them, the events of a run, traces, schedules."""
import gzip
import json
import os

import pytest

import rushlight as torch
from rushlight.autograd.profiler_util import EventList, FunctionEvent
from rushlight.profiler import profile, record_function, schedule, tensorboard_trace_handler


def events(*rows, **options):
    made = EventList([FunctionEvent(i, name, 1, begin, end, **more) for i, (name, begin, end, more) in enumerate(rows)], **options)
    made._build_tree()
    return made


def test_table():
    """The text is PyTorch 2.13's for the same events."""
    some = events(("a", 0, 100, {"cpu_memory_usage": 1 << 31, "input_shapes": [[1, 2, 3], []]}),
                  ("b" * 60, 10, 60.5, {"cpu_memory_usage": -(1 << 20)}), ("a", 20, 30, {"cpu_memory_usage": 1023}),
                  profile_memory=True)
    wide, cell = 55, "{:>12}  "
    lines = some.key_averages().table(sort_by="cpu_time_total", header="HEAD").splitlines()
    rule = "-" * wide + "  " + 8 * ("-" * 12 + "  ")
    assert lines[0] == "=" * (len(rule) - 2) and lines[1] == "HEAD"
    assert lines[2] == lines[4] == lines[7] == rule
    titles = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "CPU Mem", "Self CPU Mem", "# of Calls")
    assert lines[3] == "{:>55}  ".format("Name") + "".join(cell.format(t) for t in titles)
    row = ("59.50%", "59.500us", "110.00%", "110.000us", "55.000us", "2.00 GB", "2.00 GB", "2")
    assert lines[5] == "{:>55}  ".format("a") + "".join(cell.format(t) for t in row)
    assert lines[6].startswith("b" * 52 + "...  ")
    assert lines[8] == "Self CPU time total: 100.000us"


def test_table_options():
    some = events(("a", 0, 100, {"stack": ["x.py(3): f", "y.py(4): g"], "flops": 1200}), ("b", 10, 60.5, {}), ("c", 200, 1200, {}))
    text = some.table(top_level_events_only=True, row_limit=1, time_unit="ms")
    assert "This report only display top-level ops statistics" in text and "0.100ms" in text and " c " not in text
    assert "Source Location" in text and text.count("y.py(4): g") == 1
    assert "Total KFLOPs" in events(("a", 0, 1, {"flops": 12345}), with_flops=True).table()
    for key in ("cpu_time", "cuda_time_total", "self_cpu_memory_usage", "count", "self_device_time_total", "xpu_time"):
        some.key_averages().table(sort_by=key)
    with pytest.raises(AttributeError):
        some.table(sort_by="nonsense")
    assert EventList([]).table() == ""


def step(x, w):
    with record_function("block"):
        y = torch.nn.functional.relu(x @ w).sum()
        y.backward()
    return torch.add(x.detach(), 1, out=torch.empty(8, 8)).add_(1)


def test_events():
    x, w = torch.randn(8, 8, requires_grad=True), torch.randn(8, 8)
    with profile(record_shapes=True, profile_memory=True, with_flops=True) as p:
        step(x, w)
    found = {event.name: event for event in p.events()}
    for name in ("block", "aten::matmul", "aten::mm", "aten::relu", "aten::sum", "aten::add", "aten::add_",
                 "autograd::engine::evaluate_function: MmBackward0", "MmBackward0", "torch::autograd::AccumulateGrad"):
        assert name in found, name
    assert found["aten::matmul"].cpu_parent.name == "block" and found["aten::matmul"].input_shapes == [[8, 8], [8, 8]]
    assert found["aten::mm"].cpu_parent.name in ("aten::matmul", "MmBackward0") and found["aten::mm"].flops == 1024
    assert found["aten::add"].input_shapes == [[8, 8], [], [], [8, 8]]      # the given result is shown last
    assert found["aten::relu"].cpu_memory_usage == 256
    assert found["block"].is_user_annotation and found["block"].cpu_time_total >= found["aten::matmul"].cpu_time_total
    assert found["MmBackward0"].sequence_nr >= 0 and found["MmBackward0"].scope == 1
    total = p.key_averages().self_cpu_time_total
    assert total == pytest.approx(sum(e.cpu_time_total for e in p.events() if e.cpu_parent is None))
    with profile() as q:
        pass
    assert not [e for e in q.events() if e.name.startswith("aten::")]


def test_stacks_and_errors():
    with profile(with_stack=True) as p:
        step(torch.randn(8, 8, requires_grad=True), torch.randn(8, 8))
        with pytest.raises(RuntimeError):
            torch.ones(2, 3) @ torch.ones(2, 3)
    sums = [e for e in p.events() if e.name == "aten::sum"]
    assert sums[0].stack[0].endswith(": step") and any(": test_stacks_and_errors" in line for line in sums[0].stack)
    with pytest.raises(RuntimeError, match="already enabled"), torch.autograd.profiler.profile():
        with torch.autograd.profiler.profile():
            pass
    with profile():     # the failed one left nothing running
        pass


def test_traces(tmp_path):
    with profile(record_shapes=True, profile_memory=True) as p:
        step(torch.randn(8, 8, requires_grad=True), torch.randn(8, 8))
    path = tmp_path / "trace.json"
    p.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms"
    entries = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    product = next(e for e in entries if e["name"] == "aten::mm")
    assert product["cat"] == "cpu_op" and product["dur"] > 0
    assert product["args"]["Input Dims"] == [[8, 8], [8, 8]] and product["args"]["Input type"] == ["float", "float"]
    assert any(e["cat"] == "user_annotation" and e["name"] == "block" for e in entries)
    assert {e["ph"] for e in trace["traceEvents"]} >= {"M", "X", "i", "s", "f"}
    p.export_chrome_trace(str(path) + ".gz")
    assert len(json.loads(gzip.open(str(path) + ".gz").read())["traceEvents"]) == len(trace["traceEvents"])
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "logs"), worker_name="w")):
        torch.ones(1)
    assert [name.split(".")[0] for name in os.listdir(tmp_path / "logs")] == ["w"]


def test_schedule():
    ready = []
    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
                 on_trace_ready=lambda p: ready.append((p.step_num, [e.count for e in p.key_averages() if e.key == "ProfilerStep*"]))) as p:
        for _ in range(9):
            torch.ones(2) + 1
            p.step()
    assert ready == [(4, [2]), (8, [2])]
    with pytest.raises(AssertionError, match="Got wait=-1"):
        schedule(wait=-1, warmup=0, active=1)


def test_other_threads_and_functions():
    import threading

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def work():
        with record_function("elsewhere"):
            torch.ones(3) + 1
    with torch.autograd.profiler.profile() as p:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        Double.apply(torch.ones(2, requires_grad=True)).sum().backward()
    names = {e.key for e in p.key_averages()}
    assert {"elsewhere", "DoubleBackward"} <= names


def test_operations_of_layers_have_their_flops():
    x, linear = torch.ones(2, 3, 4), torch.nn.Linear(4, 8)
    with profile(record_shapes=True, with_flops=True) as p:
        linear(x)
        linear(x[0, 0])
        torch.nn.functional.scaled_dot_product_attention(x, x, x)
    assert [e.flops for e in p.events() if e.flops] == [384, 64, 288]


def test_operators_open_and_close_ranges():
    ops = torch.ops.profiler
    with profile() as p:
        handle = ops._record_function_enter("by_tensor", "x")
        record = ops._record_function_enter_new("by_record")
        torch.ones(2)
        ops._record_function_exit(record)
        ops._record_function_exit(handle)
    assert handle.dtype == torch.uint8 and {"by_tensor", "by_record"} <= {e.key for e in p.key_averages()}
    with pytest.raises(RuntimeError, match="no range with this handle"):
        ops._record_function_exit(handle)
