"""torch.func.functionalize: pure calls instead of changes in place; graphs as PyTorch's, in functionalized.txt."""
import os

import functionalized
import pytest

import rushlight as torch

functionalize = torch.func.functionalize
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "functionalized.txt")) as file:
    GOLDEN = {p.split("\n")[0]: p.strip() + "\n" for p in file.read().split("\n\n")}
FUNCTIONS = {f.__name__: f for f in functionalized.functions(torch)}


def test_all_are_compared():
    assert list(GOLDEN) == list(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_graphs(name):
    assert functionalized.text(torch, FUNCTIONS[name]) == GOLDEN[name]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(torch.utils._pytree.tree_leaves(a), torch.utils._pytree.tree_leaves(b)))


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_function(name, remove):
    x = torch.rand(2, 2)
    y = x.clone()
    made, wanted = functionalize(FUNCTIONS[name], remove=remove)(x), FUNCTIONS[name](y)
    assert equal(made, wanted) and torch.equal(x, y)
    assert all(type(t) is torch.Tensor for t in torch.utils._pytree.tree_leaves(made))


def test_networks():
    for net, x in ((torch.nn.GRU(3, 4, batch_first=True), torch.randn(2, 5, 3)), (torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), torch.randn(5, 2, 8)),
                   (torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(2)), torch.randn(2, 1, 8, 8))):
        for a, b in zip(torch.utils._pytree.tree_leaves(functionalize(net)(x)), torch.utils._pytree.tree_leaves(net(x))):
            torch.testing.assert_close(a, b)


def test_gradients_pass_through_and_are_taken_inside():
    def f(x):
        y = x.clone()
        y[0] *= 3
        return (y * y).sum()

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    functionalize(f)(x).backward()
    assert x.grad.tolist() == [18, 4]
    x = x.detach()
    assert torch.func.grad(functionalize(f))(x).tolist() == [18, 4] == functionalize(torch.func.grad(f))(x).tolist()
    assert functionalize(torch.func.vmap(lambda row: row.clone().mul_(2)))(torch.ones(2, 3)).tolist() == [[2] * 3] * 2


def test_statistics_and_draws_are_results():
    """What batch_norm changes without saying so in its schema, and draws that have a pure form of another name."""
    from rushlight.fx.experimental.proxy_tensor import make_fx

    def f(x, mean, var):
        y = torch.nn.functional.batch_norm(x, mean, var, training=True)
        return y + torch.empty(3).normal_() + torch.empty(3).bernoulli_(0.5)
    called = [str(n.target) for n in make_fx(functionalize(f))(torch.randn(4, 3), torch.zeros(3), torch.ones(3)).graph.nodes if n.op == "call_function"]
    assert {"aten._native_batch_norm_legit_functional.default", "aten.normal_functional.default", "aten.bernoulli.p"} <= set(called)
    assert [c for c in called if c.partition(".")[2].partition(".")[0].endswith("_")] == ["aten.copy_.default"] * 2
    x, one, other = torch.randn(4, 3), [torch.zeros(3), torch.ones(3)], [torch.zeros(3), torch.ones(3)]
    torch.manual_seed(0)
    want = f(x, *one)
    torch.manual_seed(0)
    torch.testing.assert_close(functionalize(f)(x, *other), want)
    torch.testing.assert_close(other, one)


def test_what_is_refused():
    outside = torch.zeros(2)
    with pytest.raises(RuntimeError, match="mutating a non-functional tensor"):
        functionalize(lambda x: outside.add_(x))(torch.ones(2))
    with pytest.raises(RuntimeError, match="remove must be"):
        functionalize(lambda x: x, remove="nothing")
