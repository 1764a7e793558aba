"""Backends of torch.compile that are functions of (GraphModule, example inputs): _dynamo/capture.py."""
import warnings

import laziness
import pytest
import rushlight as torch
import rushlight._dynamo as dynamo
import rushlight.nn.functional as F
from rushlight import nn
from rushlight._dynamo.backends.common import aot_autograd
from rushlight._dynamo.testing import CompileCounter

Unsupported = dynamo.exc.Unsupported


class Kept:
    """A backend that keeps the graphs that it is given, and runs them."""

    def __init__(self):
        self.graphs, self.inputs = [], []

    def __call__(self, module, inputs):
        self.graphs.append(module)
        self.inputs.append(inputs)
        return module.forward

    def calls(self, which=0):
        return [getattr(n.target, "__name__", n.target) for n in self.graphs[which].graph.nodes if n.op.startswith("call")]


def test_graph_of_a_function():
    kept = Kept()

    def f(x, y):
        a = torch.sin(x) + y
        return a.relu() * 2, F.gelu(a)
    x, y = torch.randn(3), torch.randn(3)
    for _ in range(3):
        assert all(map(torch.equal, torch.compile(f, backend=kept)(x, y), f(x, y)))
    assert len(kept.graphs) == 3  # of three compiled functions
    assert kept.calls() == ["sin", "add", "relu", "mul", "gelu"]
    assert [n.target for n in kept.graphs[0].graph.nodes if n.op == "placeholder"] == ["L_x_", "L_y_"]
    assert kept.inputs[0][0] is x and kept.inputs[0][1] is y
    again = torch.compile(f, backend=kept)
    again(x, y), again(y, x)
    assert len(kept.graphs) == 4


def test_what_the_backend_returns_runs():
    assert torch.compile(lambda x: x + 1, backend=lambda module, inputs: lambda x: (x * 0 + 7,))(torch.ones(2)).tolist() == [7, 7]


def test_branches_on_data_and_side_effects():
    counter, seen = CompileCounter(), []

    @torch.compile(backend=counter)
    def f(x):
        y = x * 2
        seen.append(y)
        if y.sum() > 0:
            return y + 1
        return y - 1
    assert f(torch.ones(2)).tolist() == [3, 3] and f(-torch.ones(2)).tolist() == [-3, -3] and f(torch.ones(2)).tolist() == [3, 3]
    assert counter.frame_count == 3 and [t.tolist() for t in seen] == [[2, 2], [-2, -2], [2, 2]] and type(seen[0]) is torch.Tensor


@pytest.mark.parametrize("backend", ["graph", "aot"])
def test_training(backend):
    def train(compiled):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(.5), nn.ReLU(), nn.Linear(4, 2))
        model = torch.compile(net, backend=compiled) if compiled else net
        opt, losses, x = torch.optim.SGD(net.parameters(), lr=.1), [], torch.randn(5, 3)
        for _ in range(4):
            opt.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        return losses, list(net.state_dict().values())
    backend = Kept() if backend == "graph" else aot_autograd(fw_compiler=lambda g, x: g.forward)
    plain, compiled = train(None), train(backend)
    assert compiled[0] == pytest.approx(plain[0], rel=1e-5) and all(torch.allclose(a, b) for a, b in zip(plain[1], compiled[1]))
    if isinstance(backend, Kept):
        assert len(backend.graphs) == 1 and compiled[0] == plain[0]


def test_aot_graphs_hold_operators():
    seen = {}

    def compiler(what):
        def compile(module, inputs):
            seen[what] = [str(n.target) for n in module.graph.nodes if n.op == "call_function"], len(inputs)
            return torch._functorch.aot_autograd.make_boxed_func(module.forward)
        return compile
    backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"))
    f = torch.compile(lambda x, w: F.relu(x @ w).sum(), backend=backend)
    x, w = torch.randn(2, 3), torch.randn(3, 2, requires_grad=True)
    f(x, w).backward()
    wanted = torch.autograd.grad(F.relu(x @ w).sum(), w)[0]
    assert torch.allclose(w.grad, wanted) and "aten.mm.default" in seen["forward"][0] and "aten.mm.default" in seen["backward"][0]
    with torch.no_grad():
        assert torch.equal(f(x, w), F.relu(x @ w).sum())
    assert seen["inference"][1] == 2


def test_in_place_views_containers_and_modes():
    def f(d, xs, *, k=2):
        v = xs[0][0]
        xs[0].add_(1)
        v.mul_(k)
        xs[0][1, 1] = 7
        with torch.no_grad():
            w = d["a"] * 2
        return {"s": v + xs[0].sum(0), "t": [torch.max(xs[0], 0), w + d["a"]]}
    kept = Kept()
    given = [({"a": torch.ones(2, requires_grad=True)}, [torch.zeros(2, 2)]) for _ in range(2)]
    plain, compiled = f(*given[0], k=3), torch.compile(f, backend=kept)(*given[1], k=3)
    assert torch.equal(plain["s"], compiled["s"]) and torch.equal(given[0][1][0], given[1][1][0]) and type(compiled["t"][0]) is type(plain["t"][0])
    for d, r in ((given[0][0], plain), (given[1][0], compiled)):
        r["t"][1].sum().backward()
        assert d["a"].grad.tolist() == [1, 1]
    assert len(kept.graphs) == 1 and kept.calls().count("_set_grad_enabled") == 2


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_programs(first):
    """Errors that depend on values come when the graph runs: of those programs nothing but that is compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + 20):
            plain, compiled = laziness.run(seed, 20), torch.compile(lambda seed: laziness.run(seed, 20), backend=Kept())(seed)
            if "ZeroDivision" in str(plain[1]):
                continue
            assert plain[1] == compiled[1], seed
            assert torch.equal(plain[2], compiled[2]), seed
            assert len(plain[0]) == len(compiled[0]) and all(map(laziness.same, plain[0], compiled[0])), seed


def test_random_numbers_are_drawn_in_order():
    def f(x):
        a = torch.rand(2)
        torch.manual_seed(3)
        b = F.dropout(x, .5)
        state = torch.get_rng_state()
        return a, b, torch.randn(1), state
    torch.manual_seed(0)
    plain = f(torch.ones(4))
    torch.manual_seed(0)
    assert all(map(torch.equal, plain, torch.compile(f, backend=Kept())(torch.ones(4))))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


def test_functions_of_ones_own_parameters_and_escapes():
    def f(x):
        y = Square.apply(x + 1)
        p = nn.Parameter(torch.ones(2) * 3)
        grad = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
        return y.sum(), p * 2, torch.vmap(torch.sin)(y), grad, (y * 2).detach().numpy().tolist(), repr(y + 1)
    x = torch.ones(2, requires_grad=True)
    plain, compiled = f(x), torch.compile(f, backend=Kept())(x)
    assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(plain, compiled))
    compiled[0].backward()
    assert x.grad.tolist() == [4, 4]


def test_fullgraph():
    def f(x):
        return x + 1 if x.sum() > 0 else x
    for backend in ("inductor", "eager", "aot_eager", Kept()):
        with pytest.raises(Unsupported, match="reads a value"):
            torch.compile(f, backend=backend, fullgraph=True)(torch.ones(2))
        assert torch.compile(f, backend=backend)(torch.ones(2)).tolist() == [2, 2]
        whole = torch.compile(lambda x: x.sin() + 1, backend=backend, fullgraph=True)
        for _ in range(2):
            assert torch.equal(whole(torch.ones(2)), torch.ones(2).sin() + 1)
    with pytest.raises(Unsupported, match="graph_break"):
        torch.compile(lambda x: (dynamo.graph_break(), x)[1], backend=Kept(), fullgraph=True)(torch.ones(2))


class Own(torch.Tensor):
    pass


exec("def asserted(x):\n    assert x.sum() > 0\n    return x * 2")  # as it is: pytest rewrites the assertions of its files


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y


WHOLE = {
    "a Function of autograd": lambda x: Square.apply(x.sin()) + 1,
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x + 1, use_reentrant=False),
    "reentrant checkpoint": lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x + 1, use_reentrant=True),
    "cond": lambda x: torch.cond(x.sum() > 0, torch.cos, torch.sin, (x * 2,)),
    "while_loop": lambda x: torch._higher_order_ops.while_loop(lambda x: x.sum() < 10, lambda x: (x + 1,), (x,))[0],
    "func.grad": lambda x: torch.func.grad(lambda z: (z ** 3).sum())(x + 1),
    "func.jacrev": lambda x: torch.func.jacrev(lambda z: z ** 2)(x + 1),
    "func.hessian": lambda x: torch.func.hessian(lambda z: (z ** 3).sum())(x + 1),
    "func.jvp": lambda x: torch.func.jvp(torch.sin, (x + 1,), (x,))[1],
    "vmap": lambda x: torch.vmap(lambda z: z * 2)(x + 1),
    "NumPy": lambda x: torch.from_numpy((x.detach() + 1).numpy() * 2),
    "a class of tensors": lambda x: x.as_subclass(Own).sin() * 2,
    "data": lambda x: x.data + 1,
    "grad": lambda x: x * 2 if x.grad is None else x.grad,
    "positions": lambda x: (x + 1).nonzero(),
    "a mask": lambda x: x[x > 1.5] * 2,
    "an assertion": asserted,
    "a hook": hooked,
    "a distribution": lambda x: torch.distributions.Normal(x, 1.).log_prob(x + 1),
}


@pytest.mark.parametrize("what", WHOLE)
@pytest.mark.parametrize("backend", ["inductor", "eager"])
def test_fullgraph_takes_what_can_be_traced(what, backend):
    """As PyTorch's does: where a graph ends here is no error."""
    if what == "NumPy":
        pytest.importorskip("numpy")
    def slopes(f):
        x = torch.tensor([1., 2.], requires_grad=True)
        y = f(x)
        if y.requires_grad:
            y.sum().backward()
        return type(y), y.detach(), x.grad
    plain, whole = slopes(WHOLE[what]), slopes(torch.compile(WHOLE[what], fullgraph=True, backend=backend))
    assert plain[0] is whole[0] and torch.equal(plain[1], whole[1]) and (plain[2] is whole[2] is None or torch.equal(plain[2], whole[2]))


@pytest.mark.parametrize("f", [lambda x: x.backward(), lambda x: x.requires_grad_(), lambda x: x + (x.data_ptr() > 0), lambda x: (x * 2).grad_fn, lambda x: repr(x + 1),
                               lambda x: torch.autograd.grad(x.sum(), x), lambda x: torch.nn.Parameter(x)])
def test_fullgraph_refuses(f):
    with pytest.raises(Unsupported):
        torch.compile(f, fullgraph=True)(torch.ones(2, requires_grad=True))


def test_errors_of_backends():
    def wrong(module, inputs):
        raise ValueError("no")
    with pytest.raises(dynamo.exc.BackendCompilerFailed, match="backend='wrong' raised:\nValueError: no"):
        torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(2))
    with pytest.raises(dynamo.exc.BackendCompilerFailed, match="did not return callable"):
        torch.compile(lambda x: x + 1, backend=lambda module, inputs: 3)(torch.ones(2))
    with dynamo.config.patch(suppress_errors=True):
        assert torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="must match"):
        torch.compile(lambda x: x + torch.ones(3), backend=Kept())(torch.ones(2))


def test_arguments_of_compile():
    given = {}

    def backend(module, inputs, **more):
        given.update(more)
        return module.forward
    torch.compile(lambda x: x + 1, backend=backend, options={"a": 1})(torch.ones(1))
    torch.compile(lambda x: x + 1, backend=backend, mode="reduce-overhead")(torch.ones(1))
    assert given == {"options": {"a": 1}, "mode": "reduce-overhead"}
    for wrong, match in (({"options": {"nope": 1}}, "Unexpected optimization option nope"), ({"options": {"max_autotune": 3}}, "got int should be bool"),
                         ({"mode": "x", "options": {}}, "Either mode or options")):
        with pytest.raises(RuntimeError, match=match):
            torch.compile(lambda x: x, **wrong)
    with pytest.raises(AssertionError, match="to be a bool"):
        torch.compile(lambda x: x, dynamic="yes")


def test_names():
    name = "kept_for_a_test"
    dynamo.register_backend(Kept(), name=name)
    try:
        assert name in dynamo.list_backends() and "eager" in dynamo.list_backends(None) and "eager" not in torch.compiler.list_backends()
        assert torch.compile(lambda x: x + 1, backend=name)(torch.ones(1)).item() == 2
        assert len(dynamo.lookup_backend(name).graphs) == 1
    finally:
        del dynamo.backends.registry._backends[name]


def test_what_stays_out_and_what_stays_whole():
    seen, kept = [], Kept()

    @torch.compiler.disable
    def out(x):
        seen.append(torch.compiler.is_compiling())
        return x * 3

    @dynamo.allow_in_graph
    def inside(x):
        return x.sin().cos()

    @torch.compile(backend=kept)
    def f(x):
        seen.append(torch.compiler.is_compiling())
        return inside(out(x + 1)) - dynamo.assume_constant_result(lambda: 1)()
    assert torch.equal(f(torch.ones(1)), torch.tensor([6.]).sin().cos() - 1) and seen == [True, False] and not torch.compiler.is_compiling()
    assert [kept.calls(i) for i in range(2)] == [["add"], ["inside", "sub"]]


def test_graphs_again():
    counter = CompileCounter()
    f = torch.compile(lambda x, k: x * k, backend=counter)
    assert [f(torch.ones(n), k).tolist() for n, k in ((1, 2), (2, 2), (1, 2), (1, True), (1, 2.5))] == [[2], [2, 2], [2], [1], [2.5]]
    assert counter.frame_count == 4
    torch._dynamo.reset()
    f(torch.ones(1), 2)
    assert counter.frame_count == 5
    limited = torch.compile(lambda x, k: x * k, backend=CompileCounter())
    assert [limited(torch.ones(1), k).item() for k in range(20)] == list(range(20))


def test_old_names():
    kept = Kept()
    assert dynamo.optimize(kept)(lambda x: x + 1)(torch.ones(1)).item() == 2 and len(kept.graphs) == 1
    with pytest.raises(Unsupported):
        dynamo.optimize(kept, nopython=True)(lambda x: x if x > 0 else -x)(torch.ones(1))


def test_operators_of_torch_ops_are_called():
    def f(x, w):
        z = torch.ops.aten.mm.default(x, torch.ops.aten.t(w))
        return torch.ops.aten.add.Tensor(z, z) + torch.ops.aten.relu(z)
    kept, x = Kept(), torch.ones(2, 3)
    assert torch.compile(f, backend=kept)(x, x).equal(f(x, x)) and len(kept.graphs) == 1
    assert "torch.ops.aten.add.Tensor(" in kept.graphs[0].code and "torch.ops.aten.t(" in kept.graphs[0].code
