"""torch.utils._debug_mode: lines as PyTorch prints them, but for operations on which autograd's own steps differ (detach)."""
import pytest
import rushlight as torch
from rushlight import nn
from rushlight.utils._debug_mode import DebugMode, get_active_debug_mode


def lines(mode):
    return [line for line in mode.debug_string().splitlines() if "::detach" not in line]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def test_operations(x):
    x, w = x.requires_grad_(), torch.randn(4, 2)
    with DebugMode() as mode:
        assert get_active_debug_mode() is mode
        (x @ w).relu().sum().backward()
    assert get_active_debug_mode() is None
    assert lines(mode) == """\
    aten::mm(t: f32[3, 4], t: f32[4, 2])  ->  t: f32[3, 2]
    aten::relu(t: f32[3, 2])  ->  t: f32[3, 2]
    aten::sum(t: f32[3, 2])  ->  t: f32[]
    aten::ones_like(t: f32[])  ->  t: f32[]
    aten::expand(t: f32[], [3, 2])  ->  t: f32[3, 2]
    aten::threshold_backward(t: f32[3, 2], t: f32[3, 2], 0)  ->  t: f32[3, 2]
    aten::t(t: f32[4, 2])  ->  t: f32[2, 4]
    aten::mm(t: f32[3, 2], t: f32[2, 4])  ->  t: f32[3, 4]""".splitlines()
    with DebugMode() as mode:
        torch.cat([x, x], dim=0)
        torch.topk(x, 2)
        x.to(torch.float64)
        x.mean(dim=1, keepdim=True)
        x.bfloat16() > 0
    assert lines(mode) == """\
    aten::cat(['t: f32[3, 4]', 't: f32[3, 4]'])  ->  t: f32[6, 4]
    aten::topk(t: f32[3, 4], 2)  ->  ('t: f32[3, 2]', 't: i64[3, 2]')
    aten::_to_copy(t: f32[3, 4], dtype=torch.float64)  ->  t: f64[3, 4]
    aten::mean.dim(t: f32[3, 4], [1], True)  ->  t: f32[3, 1]
    aten::_to_copy(t: f32[3, 4], dtype=torch.bfloat16)  ->  t: bf16[3, 4]
    aten::gt.Scalar(t: bf16[3, 4], 0)  ->  t: b8[3, 4]""".splitlines()
    with DebugMode(record_tensor_attributes=["requires_grad"]) as mode:
        x + 1
    assert lines(mode) == ["    aten::add.Tensor(t: f32[3, 4]{requires_grad=True}, 1)  ->  t: f32[3, 4]{requires_grad=False}"]
    with DebugMode(record_output=False, store_original_args=True) as mode:
        x * 2
    assert lines(mode) == ["    aten::mul.Tensor(t: f32[3, 4], 2)"] and mode.logs[0].args[1] == 2 and mode.logs[0].op == torch.ops.aten.mul.Tensor
    with DebugMode(record_realtensor=False) as mode:
        x * 2
    assert mode.debug_string() == ""


def test_functions_modules_and_ranges(x):
    net = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    with DebugMode(record_nn_module=True, record_torchfunction=True, record_ids=True) as mode, torch.no_grad():
        net(x)
        with torch.profiler.record_function("inside"):
            x + 1
    assert [line for line in lines(mode) if "grad_enabled" not in line] == """\
    [nn.Mod] Sequential
      [nn.Mod] Sequential.0
      torch.nn.functional.linear(t$0: f32[3, 4], t$1: f32[2, 4], t$2: f32[2])  ->  t$4: f32[3, 2]
          aten::t(t$1: f32[2, 4])  ->  t$3: f32[4, 2]
          aten::addmm(t$2: f32[2], t$0: f32[3, 4], t$3: f32[4, 2])  ->  t$4: f32[3, 2]
      [nn.Mod] Sequential.1
      torch.nn.functional.relu(t$4: f32[3, 2], inplace=False)  ->  t$5: f32[3, 2]
          aten::relu(t$4: f32[3, 2])  ->  t$5: f32[3, 2]
  [record function] inside
    torch.Tensor.add(t$0: f32[3, 4], 1)  ->  t$6: f32[3, 4]
        aten::add.Tensor(t$0: f32[3, 4], 1)  ->  t$6: f32[3, 4]""".splitlines()


def test_lines_of_the_program(x):
    with DebugMode(record_stack_trace=True) as mode:
        y = x + 1
        y * 2
    first, one, empty, second, two = mode.debug_string().splitlines()
    assert first.startswith("    # File: " + __file__) and first.endswith("in test_lines_of_the_program, code: y = x + 1") and second.endswith("code: y * 2")
    assert mode.debug_string(show_stack_trace=False).splitlines() == [one, two] and not empty


def test_hooks_and_hashes():
    x = torch.tensor([[1., -2.], [0.5, 4.]])

    def run(x):
        with DebugMode() as mode, DebugMode.log_tensor_hashes():
            y = x.sin()
            y.cos()
        return mode.logs
    with DebugMode() as mode, DebugMode.log_tensor_hashes(hash_inputs=True):
        (x + 1).add_(1)
    assert lines(mode) == ["    aten::add.Tensor(t: f32[2, 2], 1)  ->  t: f32[2, 2]  # {'input_hash': ((7.5, None), {}), 'hash': 9.5}",
                           "    aten::add_.Tensor(t: f32[2, 2], 1)  ->  t: f32[2, 2]  # {'input_hash': ((9.5, None), {}), 'hash': 11.5}"]
    with DebugMode() as mode, DebugMode.log_tensor_hashes(["norm", "hash_tensor"]):
        torch.tensor([1, 2]) + 0
    assert mode.logs[-1].log == {"hash": (3.0, 3)}
    with DebugMode() as mode, DebugMode.record_outputs(), DebugMode.dispatch_hooks(log_hook=lambda func, types, args, kwargs, out: {"n": out.numel()}):
        x + 1
    assert lines(mode) == ["    aten::add.Tensor(t: f32[2, 2], 1)  ->  t: f32[2, 2]  # {'n': 4}"] and torch.equal(mode.logs[0].record["output"], x + 1)
    assert DebugMode.check_hash_mismatches(run(x), run(x)) == []
    first, second = DebugMode.check_hash_mismatches(run(x), run(x + 1))
    assert (first["call"], first["call_type"], first["pytree_path"], first["is_input_hash"], second["call"]) == ("aten::sin", "torch op", "", False, "aten::cos")
    assert first["hash1"] == pytest.approx(x.double().sin().abs().sum().item(), rel=1e-6)
    assert first["rel_diff"] == abs(first["hash1"] - first["hash2"]) / max(first["hash1"], first["hash2"])
    with pytest.raises(ValueError, match="lengths"):
        DebugMode.check_hash_mismatches(run(x), [])
