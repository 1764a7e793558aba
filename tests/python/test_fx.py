"""Graphs: tracing, running, rewriting, saving."""
import copy
import io

import pytest
import rushlight as torch
from rushlight import fx
from rushlight.fx.experimental.proxy_tensor import make_fx


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.p = torch.nn.Linear(2, 3), torch.nn.Parameter(torch.ones(3))

    def forward(self, x, y=1):
        a = self.linear(x)
        b = torch.relu(a) + self.p
        return {"sum": b.sum(-1, keepdim=True), "cat": torch.cat([a, b], dim=1), "first": a[:, 0], "n": x.shape[0]}


def test_trace_runs_copies_and_saves():
    net, x = Net(), torch.randn(4, 2)
    traced = fx.symbolic_trace(net)
    f = io.BytesIO()
    torch.save(traced, f)
    f.seek(0)
    for module in (traced, copy.deepcopy(traced), torch.load(f, weights_only=False)):
        assert torch.equal(module(x)["cat"], net(x)["cat"])
    assert torch.equal(fx.Interpreter(traced).run(x)["sum"], net(x)["sum"])
    assert "torch.relu(linear)" in traced.code and "%add : [num_users=2]" in str(traced.graph)


def test_rewriting():
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + torch.neg(x))
    assert len(fx.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.sigmoid(x) * 2)) == 1
    x = torch.randn(3)
    assert torch.allclose(traced(x), torch.sigmoid(x) * 2 - x)
    traced.graph.lint()


def test_values_cannot_decide():
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)


def test_names_of_nodes():
    graph = fx.Graph()
    names = [graph.create_node("call_function", torch.relu, (), name=name).name for name in ("a_1", "a", "a", "a_01", "a_1", "a_01", "2a", "a-b", "a.b", "len")]
    assert names == ["a_1", "a", "a_2", "a_01", "a_3", "a_4", "_2a", "a_b", "a_b_1", "len_1"]


def test_tracers_of_packages_find_their_names():
    import rushlight.fx._symbolic_trace as trace
    assert not isinstance(torch.ones(1), trace.ScriptObject) and isinstance(trace.symbolic_trace, trace.FunctionType)
    assert trace.compatibility(is_backward_compatible=True)(len) is len


def test_containers_of_registered_classes_are_inputs():
    """Without a function of torch.fx._pytree they must be as the example was."""
    from rushlight.utils import _pytree

    class Boxed:
        def __init__(self, **parts):
            self.parts = parts
    _pytree.register_pytree_node(Boxed, lambda b: (list(b.parts.values()), tuple(b.parts)), lambda values, names: Boxed(**dict(zip(names, values))))
    for mode in "real", "fake":
        graph = make_fx(lambda b: b.parts["x"].sin() + b.parts["y"], tracing_mode=mode)(Boxed(x=torch.ones(2), y=torch.ones(1)))
        assert graph(Boxed(x=torch.zeros(2), y=torch.ones(1))).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="another than the one that is expected"):
        graph(Boxed(y=torch.ones(1)))


def test_vmap_is_traced_without_data():
    def f(x):
        return torch.vmap(lambda a: torch.kron(a, torch.eye(2)))(x)
    x = torch.randn(3, 2, 2)
    assert make_fx(f, tracing_mode="fake")(torch.randn(3, 2, 2))(x).equal(f(x))


def test_pooling_is_traced_so_that_it_has_a_gradient():
    for pool, shape in ((torch.nn.functional.max_pool1d, (1, 2, 4)), (torch.nn.functional.max_pool2d, (1, 2, 4, 4)), (torch.nn.functional.max_pool3d, (1, 2, 4, 4, 4))):
        x = torch.randn(shape)
        graph = make_fx(lambda x: pool(x, 2))(x)
        assert any(str(n.target).endswith("_with_indices.default") for n in graph.graph.nodes)
        x.requires_grad_()
        assert torch.autograd.grad(graph(x).sum(), x)[0].equal(torch.autograd.grad(pool(x, 2).sum(), x)[0])


def test_compiled_modules_are_recorded_as_one_call():
    class Outer(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) + 1
    for compiled in (torch.jit.script(torch.nn.Sequential(torch.nn.ReLU())), torch.jit.trace(torch.nn.Sequential(torch.nn.ReLU()), torch.ones(2))):
        assert fx.symbolic_trace(Outer(compiled))(torch.tensor([-1.0, 1.0])).tolist() == [1, 2]
