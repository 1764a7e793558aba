"""torch.export: programs are captured, vary as they were said to, go into files and come back; PyTorch's files are read."""
import copy
import io
import pathlib
import zipfile

import pytest

import rushlight as torch
from rushlight.export import Dim
from rushlight import nn

PROGRAMS = pathlib.Path(__file__).parents[1] / "data" / "programs"


def through_a_file(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def same(module, program, *args):
    want = module(*args)
    for p in (program, through_a_file(program)):
        torch.testing.assert_close(p.module()(*args), want)


class Several(nn.Module):
    """Changes a buffer, uses a constant, a size, a block without gradients; returns a tree."""

    def __init__(self):
        super().__init__()
        self.a, self.bn = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.register_buffer("scale", torch.ones(4), persistent=False)

    def forward(self, x, *, flag=True):
        t = x.shape[0]
        h = self.bn(self.a(x)) * self.scale + torch.tensor([1., 2., 3., 4.])
        h = h.view(t * 2, 2)
        a, b = h.chunk(2, 1)
        with torch.no_grad():
            z = a.sin() + 1
        return {"o": a * t + z, "p": (b, t // 2)}


def test_a_size_without_bound_ends_at_int_oo():
    from rushlight.utils._sympy.numbers import IntInfinity, int_oo
    from rushlight.utils._sympy.value_ranges import ValueRangeError, ValueRanges
    assert Dim("b").max is int_oo and (2 * Dim("b") + 1).max is int_oo
    program = torch.export.export(nn.ReLU(), (torch.randn(6, 4),), dynamic_shapes=({0: Dim("b")},))
    for p in (program, copy.deepcopy(program), through_a_file(program)):
        ends = p.range_constraints["s0"]
        assert ends == ValueRanges(0, int_oo) and isinstance(ends.upper, IntInfinity) and 7 in ends
    assert str(ends & ValueRanges(-int_oo, 9)) == "VR[0, 9]" and str(ends | ValueRanges(-3, 9)) == "VR[-3, int_oo]"
    assert int_oo + 1 is int_oo and int_oo * -2 is -int_oo and 5 - int_oo is -int_oo and abs(-int_oo) is int_oo and float(-int_oo) == -float("inf")
    assert str(ValueRanges.unknown()) == "VR[-oo, oo]" and ValueRanges.wrap(3).is_singleton() and ends.issubset(ValueRanges.unknown_int())
    with pytest.raises(ValueRangeError, match=r"Invalid ranges \[3:1\]"):
        ValueRanges(3, 1)


def test_a_program_says_what_its_inputs_and_outputs_are():
    program = torch.export.export(Several(), (torch.randn(6, 4),), {"flag": False}, dynamic_shapes={"x": {0: Dim("b", min=2, max=64)}, "flag": None})
    signature = program.graph_signature
    assert signature.parameters == ("a.weight", "a.bias", "bn.weight", "bn.bias") and signature.non_persistent_buffers == ("scale",)
    assert signature.lifted_tensor_constants == ("lifted_tensor_0",) and signature.user_inputs == ("x", False)
    assert str(program.range_constraints) == "{s0: VR[2, 64]}"
    assert "f32[2*s0, 2]" in str(program) and "aten.linear.default" in str(program.graph)
    assert program.module()(torch.ones(5, 4), flag=False)["p"][1] == 2


@pytest.mark.parametrize("rows", [2, 7, 11])
def test_sizes_vary(rows):
    torch.manual_seed(0)
    net = Several()
    program = torch.export.export(net, (torch.randn(6, 4),), dynamic_shapes=({0: Dim("b", max=64)},))
    x = torch.randn(rows, 4)
    before = program.module()(x)["o"]
    for p in (program.module(), through_a_file(program).module()):
        assert p(x)["o"].shape == before.shape
    net.bn.reset_running_stats()
    torch.testing.assert_close(net(x)["o"], before)


def test_capturing_leaves_the_module_as_it_was():
    net, state = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout()), torch.get_rng_state()
    torch.export.export(net, (torch.randn(4, 3),), dynamic_shapes=({0: Dim.AUTO},))
    assert net[0].num_batches_tracked == 0 and torch.equal(net[0].running_mean, torch.zeros(3))
    assert state.shape == torch.get_rng_state().shape


def test_gradients_are_the_modules():
    net, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)), torch.randn(2, 1, 6, 6)
    program = through_a_file(torch.export.export(net, (x,)))
    net(x).square().sum().backward()
    module = program.module()
    module(x).square().sum().backward()
    for name, p in module.named_parameters():
        torch.testing.assert_close(p.grad, net.get_parameter(name).grad)


def test_sizes_that_change_the_program_are_refused():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] > 5 else x

    from rushlight._dynamo.exc import UserError
    with pytest.raises(UserError, match="Constraints violated"):
        torch.export.export(Branch(), (torch.randn(8),), dynamic_shapes=({0: Dim("n", min=3, max=20)},))
    program = torch.export.export(Branch(), (torch.randn(8),), dynamic_shapes=({0: Dim.DYNAMIC},))
    assert program.range_constraints["s0"].lower == 6
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.randn(4))


def test_values_that_change_the_program_are_refused():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(RuntimeError, match="data-dependent"):
        torch.export.export(Branch(), (torch.randn(8),))


class Body(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, *args):
        return self.body(*args)


def _rows(n, low=0, high=3):
    """n, said to be within."""
    torch._check(n >= low)
    torch._check(n <= high)
    return n


# x: 3 x 4 numbers, b: 3 truth values, k: a whole number, f: a number, i: 3 whole numbers
FROM_DATA = {
    "a number": lambda x, b, k, f, i: (x * f.item() + k.item(), torch.full((2,), f.item()), x ** k.item(), k.item() - x, x.masked_fill(x > k.item(), f.item())),
    "arithmetic": lambda x, b, k, f, i: x * (k.item() * k.item() - 2 * k.item() + (k.item() + 7) // 2 + k.item() % 2) + 1 / (k.item() + 1),
    "returned": lambda x, b, k, f, i: k.item() + 1,
    "a list": lambda x, b, k, f, i: sum(x[n] * v for n, v in enumerate(i.tolist())),
    "sizes": lambda x, b, k, f, i: (torch.ones(_rows(k.item()) + 1, 2).cumsum(0), torch.arange(k.item() * 2), x.narrow(1, k.item(), 1)),
    "a slice": lambda x, b, k, f, i: x[:_rows(k.item())].sum(0),
    "an index": lambda x, b, k, f, i: (x[k], x[_rows(k.item(), 0, 2), 1:]),
    "a mask": lambda x, b, k, f, i: (x[b], x[b] * 2 + x[b].shape[0], x / x[b].numel(), torch.cat([x[b], x])),
    "places": lambda x, b, k, f, i: (b.nonzero(), x[b.nonzero()[:, 0]], torch.zeros(3, 4).index_add(0, b.nonzero()[:, 0], x[b])),
    "shapes": lambda x, b, k, f, i: (x[b].reshape(-1) * 2, x[b].flatten(), x[b].view(-1, 2, 2).sum(1), torch.arange(4.).expand_as(x[b]), x[b].T @ x[b]),
    "layers": lambda x, b, k, f, i: (nn.functional.linear(x[b], torch.ones(5, 4)), x[b].softmax(0), nn.functional.layer_norm(x[b], (4,)), nn.functional.pad(x[b], (1, 1, 0, 2))),
    "others": lambda x, b, k, f, i: (torch.unique(i), x.masked_select(x > 0), torch.repeat_interleave(i), x.repeat_interleave(i, 0), torch.where(b)[0]),
    "boxes": lambda x, b, k, f, i: (lambda keep: (x[b][keep], x * keep.shape[0]))(torch.ops.torchvision.nms(torch.cat([x[b, :2], x[b, :2] + 1], 1), x[b, 2], 0.3)),
}


@pytest.mark.parametrize("name", FROM_DATA)
def test_numbers_follow_from_data(name):
    body = FROM_DATA[name]
    program = torch.export.export(Body(body), (torch.randn(3, 4), torch.tensor([True, False, True]), torch.tensor(2), torch.tensor(2.5), torch.tensor([1, 0, 3])))
    for p in (program, through_a_file(program), program.run_decompositions()):
        for b, k in (([True, True, True], 0), ([False, False, True], 1), ([True, True, False], 2)):
            args = torch.randn(3, 4), torch.tensor(b), torch.tensor(k), torch.randn(()), torch.randint(0, 3, (3,))
            torch.testing.assert_close(p.module()(*args), body(*args))


def test_what_was_said_of_numbers_is_asserted():
    def body(x, k):
        n = k.item()
        torch._check(n >= 1)
        torch._check(n <= x.shape[0])
        return x[:n].sum()

    program = torch.export.export(Body(body), (torch.ones(6), torch.tensor(2)), dynamic_shapes={"args": ({0: Dim("n", min=2, max=9)}, None)})
    said = [n.args[1] for n in program.graph.nodes if "_assert_scalar" in str(n.target)]
    assert said == ["Runtime assertion failed for expression u0 >= 1 on node 'ge'", "Runtime assertion failed for expression u0 <= s0 on node 'le'"]
    assert str(program.range_constraints) == "{s0: VR[2, 9], u0: VR[1, int_oo]}"
    for p in (program, through_a_file(program), program.run_decompositions()):
        assert p.module()(torch.ones(5), torch.tensor(4)) == 4
        for x, k in ((torch.ones(5), 0), (torch.ones(3), 4)):
            with pytest.raises((RuntimeError, AssertionError), match="Runtime assertion failed for expression u0"):
                p.module()(x, torch.tensor(k))


@pytest.mark.parametrize("body", [lambda x: x * float(x.sum()), lambda x: sum(range(x.argmax().item())) + x, lambda x: x if x.sum().item() > 3 else -x,
                                  lambda x: x if torch.equal(x, x + 1) else -x, lambda x: x + len(x[x > 0]), lambda x: x if x[x > 0].shape[0] else -x,
                                  lambda x: [1, 2, 3, 4][x.argmax().item()] + x, lambda x: x + float(x.numpy().sum()), lambda x: x if x.sum().item() else -x])
def test_python_does_not_go_on_by_data(body):
    with pytest.raises((RuntimeError, TypeError), match="data-dependent|numpy"):
        torch.export.export(Body(body), (torch.arange(4.),))


def test_conversions_are_written_whether_they_change_anything_or_not():
    def body(x):
        return x.half(), x.float(), x.to("cpu"), x.to("cpu", torch.float64), x.to(torch.float32, copy=True), x.to(x.half())

    program = torch.export.export(Body(body), (torch.ones(2),))
    calls = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert [c for c in calls if "assert" not in c] == ["aten.to.dtype", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.dtype", "aten.to.device"]
    assert sum("_assert_tensor_metadata" in c for c in calls) == 7
    same(Body(body), program, torch.ones(2))
    assert "_to_copy" in {n.target._opname for n in program.run_decompositions().graph.nodes if n.op == "call_function"}


def test_other_sizes_than_captured_are_refused():
    module = torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),)).module()
    with pytest.raises(AssertionError, match=r"Guard failed: input\w*.size\(\)\[0\] == 4"):
        module(torch.randn(5, 3))
    with pytest.raises(RuntimeError, match="exported_program.module"):
        torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),))(torch.randn(4, 3))


@pytest.mark.parametrize("expression", ["x.reshape(-1)[:(x.shape[0] - 1) // 2]", "x[:, :1].expand(x.shape[0], x.shape[1] + 3)", "x.flatten() * x.shape[0] * 2",
                                        "x / x.shape[1] ** 0.5", "torch.nn.functional.pad(x, (x.shape[1] // 2, 1))", "torch.arange(x.shape[0] * x.shape[1])",
                                        "x.new_zeros(x.shape[0] + 2 * x.shape[1])", "torch.nn.functional.max_pool1d(x, 2).repeat(2, 1)"])
def test_numbers_follow_from_sizes(expression):
    net = type("Net", (nn.Module,), {"forward": eval("lambda self, x: " + expression, {"torch": torch})})()
    program = torch.export.export(net, (torch.randn(6, 8),), dynamic_shapes=({0: Dim("a", max=50), 1: Dim("b", max=50)},))
    for size in ((6, 8), (3, 5), (9, 4)):
        same(net, program, torch.randn(*size))


class Loops(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.part, self.call = nn.Linear(3, 3), call

    def forward(self, *x):
        return self.call(self, *x)


def test_functions_become_graphs():
    from rushlight._higher_order_ops import map as torch_map
    from rushlight._higher_order_ops import scan, while_loop
    cond = Loops(lambda s, x: torch.cond(x.sum() > 0, lambda x: s.part(x), lambda x: x + 1, (x,)))
    same(cond, torch.export.export(cond, (torch.ones(2, 3),)), -torch.ones(2, 3))
    loop = Loops(lambda s, x, n: while_loop(lambda i, x: i < n, lambda i, x: (i + 1, s.part(x) + x), (torch.zeros((), dtype=torch.int64), x)))
    same(loop, torch.export.export(loop, (torch.ones(2, 3), torch.tensor(2))), torch.ones(2, 3), torch.tensor(5))
    walk = Loops(lambda s, h, x: scan(lambda h, x: (torch.tanh(s.part(h) + x), h * 2), h, x, dim=0))
    same(walk, torch.export.export(walk, (torch.ones(3), torch.ones(5, 3))), torch.randn(3), torch.randn(5, 3))
    rows = Loops(lambda s, x, y: torch_map(lambda x, y: s.part(x) + y, x, y))
    same(rows, torch.export.export(rows, (torch.ones(5, 3), torch.ones(3))), torch.randn(5, 3), torch.randn(3))


@pytest.mark.parametrize("name", ["mlp", "cnn", "masked", "control", "dynamic"])
def test_programs_of_pytorch_are_read(name):
    np = pytest.importorskip("numpy")
    given, want = np.load(PROGRAMS / (name + "_in.npz")), np.load(PROGRAMS / (name + "_out.npz"))
    out = torch.export.load(PROGRAMS / (name + ".pt2")).module()(*(torch.from_numpy(given["in%d" % i]) for i in range(len(given.files))))
    for i, y in enumerate(out if isinstance(out, tuple) else (out,)):
        assert np.abs(y.detach().numpy() - want["out%d" % i]).max() < 1e-5


def test_a_program_survives_being_read_and_written():
    program = torch.export.load(PROGRAMS / "dynamic.pt2")
    again = through_a_file(program)
    assert str(again.graph) == str(program.graph) and again.range_constraints == program.range_constraints


def test_a_file_that_is_no_program():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("a/b", "c")
    file.seek(0)
    with pytest.raises(RuntimeError, match="no program"):
        torch.export.load(file)


def test_decompositions_open_composites():
    net, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)).eval(), torch.randn(2, 1, 6, 6)
    program = torch.export.export(net, (x,), dynamic_shapes=({0: Dim("b", max=50)},)).run_decompositions()
    called = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert {"aten.convolution.default", "aten.addmm.default"} <= called and "aten.linear.default" not in called
    same(net, program, torch.randn(5, 1, 6, 6))


def test_tied_weights_stay_tied_and_named():
    net = nn.ModuleDict({"a": nn.Embedding(5, 3), "b": nn.Linear(3, 5, bias=False)})
    net["b"].weight = net["a"].weight
    whole = type("Net", (nn.Module,), {"forward": lambda self, x: self.parts["b"](self.parts["a"](x))})()
    whole.parts = net
    module = through_a_file(torch.export.export(whole, (torch.tensor([1, 2]),))).module()
    assert sorted(module.state_dict()) == ["parts.a.weight", "parts.b.weight"]
    assert len(list(module.parameters())) == 1


class Halves(torch.nn.Module):
    def forward(self, x):
        return x / x.mean(0)


@pytest.mark.parametrize("least, told, taken", [({}, 0, 1), ({"min": 1}, 1, 1), ({"min": 2}, 2, 1), ({"min": 3}, 3, 3)])
def test_sizes_of_one(least, told, taken, tmp_path):
    """PyTorch says 2 of sizes that may not be special, and asks for what is above it alone: an exported model takes a batch of one."""
    program = torch.export.export(Halves(), (torch.ones(4, 3),), dynamic_shapes=({0: torch.export.Dim("n", **least)},))
    assert [r.lower for r in program.range_constraints.values()] == [told]
    torch.export.save(program, tmp_path / "net.pt2")
    for run in program.module(), torch.export.load(tmp_path / "net.pt2").module():
        assert run(torch.ones(taken, 3)).shape == (taken, 3)
        if taken > 1:
            with pytest.raises(AssertionError, match="Guard failed: x.size"):
                run(torch.ones(taken - 1, 3))


class Cast(torch.nn.Module):
    def __init__(self, run, *parts):
        super().__init__()
        self.run, self.parts = run, torch.nn.ModuleList(parts)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.run(x, *self.parts)


@pytest.mark.parametrize("run, shape, parts", [
    (lambda x: x @ x.T, (2, 4), ()), (lambda x: torch.einsum("ij,kj->ik", x, x), (2, 4), ()), (lambda x: torch.linalg.multi_dot([x, x.T, x]), (2, 4), ()),
    (lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), (1, 2, 4, 8), ()), (lambda x, m: m(x), (2, 4), (torch.nn.Linear(4, 3),)),
    (lambda x, m: m(x, x, x)[0], (3, 2, 8), (torch.nn.MultiheadAttention(8, 2),)), (lambda x, m: m(x), (2, 4), (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU()),)),
    (lambda x: torch.nn.functional.cross_entropy(x @ x.T, torch.tensor([0, 1])), (2, 4), ())])
def test_autocast_is_part_of_the_program(run, shape, parts):
    """Also where a composite was called, whose parts are what is cast."""
    module, x = Cast(run, *parts), torch.randn(shape)
    want = module(x)
    for made in torch.export.export(module, (x,)).module()(x), torch.jit.trace(module, x, check_trace=False)(x):
        assert made.dtype is want.dtype and torch.equal(made, want)


class Taking(torch.nn.Module):
    def forward(self, a, b):
        return a["k"] + b[0]


@pytest.mark.parametrize("shapes, error, told", [
    (({"k": {0: Dim("n")}},), "UserError", "`inputs` has 2 elements, but `dynamic_shapes` has 1 elements"),
    (({"q": {0: Dim("n")}}, [None]), "UserError", r"`inputs\[0\]` has keys \['k'\], but `dynamic_shapes\[0\]` has keys \['q'\]"),
    ((None, {"z": {0: Dim("n")}}), "UserError", r"`inputs\[1\]` is a <class 'list'>, but `dynamic_shapes\[1\]` is a <class 'dict'>"),
    ((None, [None, None]), "UserError", r"`inputs\[1\]` has 1 elements, but `dynamic_shapes\[1\]` has 2 elements"),
    ((None, [3]), "UserError", r"Unexpected input tensor shape 3 specified at `dynamic_shapes\[1\]\[0\]`"),
    ((None, [{0: "n"}]), "UserError", "Unexpected dimension mapped to index 0"),
    ((None, [(None,)]), "UserError", "expected 2, but got 1 instead"),
    ((None, [{2: Dim("n")}]), "IndexError", "dimension 2 of a tensor of 2 dimensions"),
    ({"c": None}, "UserError", r"must be the arg names \['a', 'b'\]")])
def test_shapes_that_do_not_fit_the_arguments(shapes, error, told):
    with pytest.raises(Exception, match=told) as caught:
        torch.export.export(Taking(), ({"k": torch.ones(2, 3)}, [torch.ones(2, 3)]), dynamic_shapes=shapes)
    assert caught.type.__name__ == error


def test_strides_of_empty_tensors_are_no_sizes_of_their_own():
    program = torch.export.export(nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=({1: Dim("n")},))
    assert list(program.range_constraints) == ["s0"] and program.module()(torch.ones(2, 0)).shape == (2, 0)


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, pair, scale=1.0, *, y):
        self.seen.add_(1)
        return {"a": self.lin(pair[0]) * scale + self.seen, "n": (pair[1] * y).sum()}


class Nest(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.unused = Cell(), nn.Linear(2, 2)
        norm = nn.LayerNorm(3)
        self.tail = nn.Sequential(norm, nn.ReLU(), norm)
        self.tail[1].bias = self.bias = nn.Parameter(torch.ones(3))

    def forward(self, x, *, y):
        first = self.cell([x, x + 1], 2.0, y=y)
        second = self.cell([first["a"], y * x.shape[0]], 2.0, y=y)
        return self.tail(second["a"]) + first["n"] * second["n"] + self.bias + torch.tensor([1., 2., 3.])


@pytest.mark.parametrize("kept", [(), ("cell",), ("cell", "tail.2")])
@pytest.mark.parametrize("way", [lambda p: p, through_a_file, torch.export.ExportedProgram.run_decompositions])
def test_programs_have_their_modules_again(kept, way):
    module, x, y = Nest(), torch.randn(4, 3), torch.randn(3)
    program = way(torch.export.export(module, (x,), {"y": y}, dynamic_shapes={"x": {0: Dim("n")}, "y": None}, preserve_module_call_signature=kept))
    if kept and way is torch.export.ExportedProgram.run_decompositions:     # the buffer's value goes from call to call
        with pytest.raises(RuntimeError, match="a module whose signature is preserved"):
            torch.export.unflatten(program)
        return
    made = torch.export.unflatten(program)
    assert [n for n, _ in made.named_modules(remove_duplicate=False) if "@" not in n] == [n for n, _ in module.named_modules(remove_duplicate=False)]
    assert made.bias is getattr(made.tail, "1").bias
    for n in (4, 6):
        x = torch.randn(n, 3)
        torch.testing.assert_close(made(x, y=y), module(x, y=y))
    torch.testing.assert_close(made.cell.seen, module.cell.seen)
    assert made.cell.seen is not module.cell.seen
    if kept:
        made.cell = module.cell
        want = module(x, y=y)
        module.cell.seen.sub_(2)
        torch.testing.assert_close(made(x, y=y), want)
        inputs = program.module_call_graph[1].signature.inputs
        assert [type(a).__name__ for a in inputs] == ["TensorArgument", "TensorArgument", "ConstantArgument", "TensorArgument"] and inputs[2].value == 2.0
    with pytest.raises(RuntimeError, match=r"Expected input at \*args\[0\].shape\[1\] to be equal to 3, but got 5"):
        made(torch.ones(4, 5), y=y)
    with pytest.raises(RuntimeError, match=r"Expected input at \*kwargs\['y'\].shape\[0\] to be equal to 3, but got 4"):
        made(x, y=torch.ones(4))
    with pytest.raises(ValueError, match=r"Got the following keywords \['z'\] but expected \['y'\]"):
        made(x, z=y)
    with pytest.raises(TypeError, match="There is no flat args adapter specified"):
        made(x, y)


class Branching(nn.Module):
    class Inner(nn.Module):
        def forward(self, x, up):
            return x + 1 if up else x * 3

    def __init__(self):
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x):
        return self.inner(self.inner(x, True), False) + self.inner(x, True)


def test_a_module_runs_another_graph_with_each_call():
    x = torch.randn(3)
    plain, kept = (torch.export.unflatten(torch.export.export(Branching(), (x,), preserve_module_call_signature=names)) for names in ((), ("inner",)))
    assert [n for n, _ in plain.named_modules()] == ["", "inner", "inner@1"]
    assert len(kept.inner.call_modules()) == 3 and kept.inner.call_modules()[0] is kept.inner.call_modules()[2]
    for _ in range(2):
        torch.testing.assert_close(plain(x), Branching()(x))
        torch.testing.assert_close(kept(x), Branching()(x))
    kept.inner = Branching.Inner()
    torch.testing.assert_close(kept(x), Branching()(x))


def test_an_adapter_fits_arguments():
    class First(torch.export.FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[:target_spec.num_leaves]
    made = torch.export.unflatten(torch.export.export(nn.ReLU(), (torch.ones(2),)), First())
    assert torch.equal(made(torch.tensor([-1., 2.]), 7), torch.tensor([0., 2.]))


class Named(nn.Module):
    """Inputs, tensors and calls that would have one name."""

    def __init__(self):
        super().__init__()
        self.param, self.alpha, self.gamma = nn.Parameter(torch.randn(4)), nn.Buffer(torch.randn(4)), torch.randn(4, requires_grad=True)
        self.inner = nn.ReLU()
        self.inner.weight = torch.randn(4)

    def forward(self, p, b_alpha, p_param, c_gamma, add):
        return p["param"] + self.param, b_alpha + self.alpha, c_gamma + self.gamma + self.inner.weight + torch.tensor([1., 2., 3., 4.]), add + p_param[0]


@pytest.mark.parametrize("way", [lambda p: p, torch.export.ExportedProgram.run_decompositions])
def test_names_are_not_taken_twice(way):
    module, x = Named(), [torch.randn(4) for _ in range(5)]
    args = ({"param": x[0]}, x[1], (x[2],), x[3], x[4])
    program = way(torch.export.export(module, args))
    assert [(s.arg.name, s.target) for s in program.graph_signature.input_specs] == [
        ("p_param_1", "param"), ("b_alpha_1", "alpha"), ("c_gamma_1", "gamma"), ("c_inner_weight", "inner.weight"), ("c_lifted_tensor_0", "lifted_tensor_0"),
        ("p_param", None), ("b_alpha", None), ("p_param_0", None), ("c_gamma", None), ("add", None)]
    assert torch.equal(program.constants["inner.weight"], module.inner.weight) and list(program.constants) == ["gamma", "inner.weight", "lifted_tensor_0"]
    same(module, program, *args)
    made = program.module()
    assert list(made.state_dict()) == ["param", "alpha"] and [n for n, _ in made.named_buffers()] == ["alpha"] and not made.gamma.requires_grad


def test_state_dict_hooks_do_not_rename_what_a_program_has():
    module = nn.Sequential(nn.Linear(2, 2))
    module._register_state_dict_hook(lambda m, state, prefix, *rest: state.update({"other." + k: state.pop(k) for k in list(state)}))
    program = torch.export.export(module, (torch.ones(2),))
    assert list(program.state_dict) == ["0.weight", "0.bias"]
    torch.testing.assert_close(program.module()(torch.ones(2)), module(torch.ones(2)))


def test_one_name_is_one_dimension():
    with pytest.raises(Exception, match=r"Found different definitions Dim\('C', min=3\) and Dim\('C', min=0, max=12\) for the same symbolic dimension"):
        torch.export.export(nn.ReLU(), (torch.ones(10, 10),), dynamic_shapes=((Dim("C", min=3), Dim("C", max=12)),))


def test_example_inputs_fit_the_program():
    program = torch.export.export(nn.ReLU(), (torch.ones(2),))
    for value, told in (((torch.ones(2),), "Example inputs should be a tuple"), (((torch.ones(2),), {"a": 1}), "Ran into a kwarg keyword mismatch"), (((), {}), "Trying to flatten user inputs")):
        with pytest.raises(ValueError, match=told):
            program.example_inputs = value
    program.example_inputs = ((torch.zeros(2),), {})
    assert torch.equal(program.example_inputs[0][0], torch.zeros(2))


def test_operations_of_the_user_write_and_give_several_results():
    torch.library.define("exported::both", "(Tensor(a!) x, Tensor(b!) y) -> (Tensor, Tensor, Tensor)")

    @torch.library.impl("exported::both", "cpu")
    def both(x, y):
        return x.add_(5), y.mul_(2), x + y
    torch.library.register_fake("exported::both", lambda x, y: (x, y, x + y))

    class Both(nn.Module):
        def forward(self, x, y):
            a, b, c = torch.ops.exported.both(x, y)
            return a * 2, b + 1, c

    def given():
        return torch.ones(3), torch.full((3,), 4.)
    program = torch.export.export(Both(), given())
    for p in program, program.run_decompositions():
        here, there = given(), given()
        torch.testing.assert_close(p.module()(*here), Both()(*there))
        torch.testing.assert_close(here, there)


class Writing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.ones(3), persistent=False)

    def forward(self, x, y):
        x.add_(5)
        return x + y + self.kept


def test_examples_stay_as_they_were():
    x, y = torch.ones(3), torch.ones(1).expand(3)
    program = torch.export.export(Writing(), (x, y))
    assert torch.equal(x, torch.ones(3)) and torch.equal(y, torch.ones(3))
    assert list(program.module().state_dict()) == [] and [n for n, _ in program.module().named_buffers()] == ["kept"]
