"""torch.autograd.grad inside vmap: one walk through a graph of before, with a batch of gradients."""
import pytest
import rushlight as torch
import rushlight.nn.functional as F
from rushlight.autograd.graph import GradientEdge, get_gradient_edge

CASES = {
    "scalar": (lambda x: (x * x).sum(), (3,)),
    "product": (lambda x, y: x @ y, (3, 4), (4, 5)),
    "products": (lambda x, y: x @ y, (2, 3, 4), (2, 4, 5)),
    "linear": (lambda x, w, b: F.linear(x, w, b), (3, 4), (5, 4), (5,)),
    "conv2d": (lambda x, w: F.conv2d(x, w), (2, 3, 6, 6), (4, 3, 3, 3)),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (4, 3, 5), (3,), (3,)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), (4, 3, 5), (5,), (5,)),
    "group_norm": (lambda x: F.group_norm(x, 2), (2, 4, 3)),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])), (3, 4)),
    "embedding": (lambda w: F.embedding(torch.tensor([[0, 1], [1, 1]]), w), (4, 3)),
    "index": (lambda x: x[torch.tensor([0, 0, 1])], (3, 2)),
    "gather": (lambda x: x.gather(1, torch.tensor([[0, 1], [1, 1], [0, 0]])), (3, 4)),
    "cat": (lambda x, y: torch.cat([x, y]), (3, 2), (1, 2)),
    "expand": (lambda x: x.expand(5, 3, 4).sin(), (3, 4)),
    "broadcast": (lambda x, y: x * y, (3, 4), (4,)),
    "max": (lambda x: x.max(1).values, (3, 4)),
    "softmax": (lambda x: x.softmax(-1), (3, 4)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (2, 3, 4), (2, 3, 4), (2, 3, 4)),
    "pool": (lambda x: F.max_pool2d(x, 2), (1, 2, 4, 4)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2), (1, 2, 4, 4)),
    "inverse": (lambda x: torch.linalg.inv(x + 5 * torch.eye(3, dtype=x.dtype)), (3, 3)),
    "svdvals": (torch.linalg.svdvals, (3, 4)),
    "cumprod": (lambda x: x.cumprod(0), (4, 2)),
    "in place": (lambda x: x.clone().mul_(2).sin_().add_(1), (3,)),
    "views": (lambda x: x.t().reshape(-1)[1:5].view(2, 2) ** 2, (3, 4)),
    "unused": (lambda x: x[:, :2].sum(1), (3, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_each_example_gets_its_own(name):
    f, *shapes = CASES[name]
    xs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    out = f(*xs)
    g = torch.randn(4, *out.shape, dtype=torch.float64)
    one_by_one = [torch.stack(rows) for rows in zip(*(torch.autograd.grad(out, xs, row, retain_graph=True) for row in g))]
    for graph in False, True:
        at_once = torch.vmap(lambda row: torch.autograd.grad([out], xs, [row], retain_graph=True, create_graph=graph))(g)
        for a, b, x in zip(at_once, one_by_one, xs):
            assert a.shape == (4, *x.shape)
            torch.testing.assert_close(a, b)


def test_nested_and_chunked():
    x = torch.tensor([1., 2., 3.], requires_grad=True)
    y = x * x
    rows = torch.eye(3)
    got = torch.vmap(torch.vmap(lambda g: torch.autograd.grad(y, x, g, retain_graph=True)[0]))(torch.stack([rows, 2 * rows]))
    assert got.equal(torch.stack([torch.diag(2 * x), torch.diag(4 * x)]))
    assert torch.vmap(lambda g: torch.autograd.grad(y, x, g, retain_graph=True)[0], chunk_size=2)(rows).equal(torch.diag(2 * x))
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of torch.Size\(\[2\]\)"):
        torch.vmap(lambda g: torch.autograd.grad(y, x, g[:2]))(rows)
    twice = torch.autograd.grad(torch.vmap(lambda g: torch.autograd.grad(y, x, g, create_graph=True)[0])(rows).sum(), x)
    assert twice[0].equal(torch.full((3,), 2.))


def test_hooks_and_functions_see_the_batch_once():
    shapes, batches = [], []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return Noticed.apply(g) * 2

    class Noticed(torch.autograd.Function):
        @staticmethod
        def forward(g):
            return g.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vmap(info, in_dims, g):
            batches.append((info.batch_size, tuple(g.shape)))
            return g.clone(), in_dims[0]

    x = torch.ones(3, requires_grad=True)
    y = Doubled.apply(x)
    y.register_hook(lambda g: shapes.append(tuple(g.shape)) or g * 10)
    assert torch.vmap(lambda g: torch.autograd.grad(y, x, g)[0])(torch.eye(3)).equal(20 * torch.eye(3))
    assert shapes == [(3,)] and batches == [(3, (3, 3))]


def test_backward_is_refused_inside_of_transforms():
    x = torch.tensor([1., 2.], requires_grad=True)
    y = (x * x).sum()
    for call in (lambda g: y.backward(g), lambda g: torch.autograd.backward(y, g), lambda g: torch.autograd.backward([y], [g])):
        with pytest.raises(RuntimeError, match="backward\\(\\) called inside a functorch transform"):
            torch.vmap(call)(torch.ones(3))
    with pytest.raises(RuntimeError, match="backward\\(\\) called inside a functorch transform"):
        torch.func.grad(lambda v: (v.sum().backward(), v.sum())[1])(torch.ones(2))
    assert x.grad is None
    y.backward()
    assert x.grad.equal(torch.tensor([2., 4.]))


def test_edges_of_one_node_are_equal():
    x = torch.ones(2, requires_grad=True)
    y = x * 2 + x
    below = [GradientEdge(node, k) for node, k in y.grad_fn.next_functions]
    assert get_gradient_edge(x) == below[1] and len({get_gradient_edge(x), below[1], get_gradient_edge(x)}) == 1
    assert get_gradient_edge(y) == GradientEdge(y.grad_fn, 0) and get_gradient_edge(y).ownership_token is None


def test_vjp_of_more_vmaps_than_its_results():
    """vjp inside one vmap, its function inside another: the walk has both batches."""
    w = torch.randn(4, 3, dtype=torch.float64)
    xs, gs = torch.randn(5, 3, dtype=torch.float64), torch.randn(7, 4, dtype=torch.float64)

    def f(x):
        return F.relu(w @ x).sin()

    def of_one(x):
        out, pull = torch.func.vjp(f, x)
        return torch.vmap(lambda g: pull(g)[0])(gs), torch.vmap(pull)(out * torch.ones(2, 1, dtype=torch.float64))[0]
    every, own = torch.vmap(of_one)(xs)
    assert every.shape == (5, 7, 3) and own.shape == (5, 2, 3)
    for i, x in enumerate(xs):
        out, pull = torch.func.vjp(f, x)
        torch.testing.assert_close(every[i], torch.stack([pull(g)[0] for g in gs]))
        torch.testing.assert_close(own[i], torch.stack([pull(out)[0]] * 2))
    jacobian = torch.vmap(torch.vmap(lambda g, pull=torch.func.vjp(f, xs[0])[1]: pull(g)[0]))(gs.reshape(7, 1, 4))
    torch.testing.assert_close(jacobian[:, 0], every[0])
    of_pulled = torch.func.jacrev(lambda x: torch.vmap(torch.func.vjp(f, x)[1])(gs)[0])(xs[0])  # differentiated once more
    torch.testing.assert_close(of_pulled, torch.autograd.functional.jacobian(lambda x: torch.vmap(torch.func.vjp(f, x)[1])(gs)[0], xs[0]))


def test_whole_batches_as_examples_one_by_one():
    x, y = torch.randn(6, 2, 3, 4), torch.randn(2, 4, 5)
    assert torch.equal(torch.vmap(lambda a: a @ y)(x), torch.stack([a @ y for a in x]))
    assert torch.equal(torch.vmap(lambda a: y.mT @ a.mT)(x), torch.stack([y.mT @ a.mT for a in x]))
    assert torch.equal(torch.vmap(lambda a: F.relu(a, inplace=False).expand_as(x))(x), F.relu(x).unsqueeze(1).expand(6, 6, 2, 3, 4))


def test_no_grad_around_a_transform_leaves_no_graph():
    p = torch.tensor([1., 2.], requires_grad=True)

    def f(x):
        return (x ** 3).sum()

    def results():
        out, pull = torch.func.vjp(f, p)
        at, push = torch.func.linearize(f, p)
        return [torch.func.grad(f)(p), out, pull(torch.tensor(1.))[0], *torch.func.jvp(f, (p,), (torch.ones(2),)), torch.func.jacrev(f)(p), torch.func.jacfwd(f)(p),
                torch.func.hessian(f)(p), at, push(torch.ones(2)), torch.func.vmap(torch.func.grad(lambda x: (x * p).sum()))(torch.ones(3, 2))]
    with torch.no_grad():
        without = results()
        made = torch.func.vjp(f, p)[1]
    assert not any(t.requires_grad for t in without) and all(t.requires_grad for t in results())
    for a, b in zip(without, results()):
        assert a.equal(b)
    assert made(torch.tensor(1.))[0].requires_grad  # it is asked where graphs are recorded
    made = torch.func.vjp(f, p)[1]
    with torch.no_grad():
        assert not made(torch.tensor(1.))[0].requires_grad
        assert torch.func.grad(lambda x: torch.func.grad(f)(x).sum())(torch.ones(2)).tolist() == [6, 6]


VIEWS = {
    "squeeze": (lambda x: x.squeeze(), (3, 1, 4)), "squeeze of a number": (lambda x: x.squeeze(0), ()), "transpose of a number": (lambda x: x.transpose(0, -1), ()),
    "reshape_as": (lambda x: x.reshape_as(torch.zeros(4, 3)), (3, 4)), "view_as": (lambda x: x.view_as(torch.zeros(4, 3)), (3, 4)), "view(size=)": (lambda x: x.view(size=(4, 3)), (3, 4)),
    "view of a dtype": (lambda x: x.view(torch.int32), (3, 4)), "expand(size=)": (lambda x: x.expand(size=(3, 4)), (3, 4)), "broadcast_to": (lambda x: x.broadcast_to(3, 4), (3, 4)),
    "adjoint": (lambda x: x.adjoint(), (3, 4)), "H": (lambda x: x.H, (3, 4)), "hsplit": (lambda x: x.hsplit(2)[1], (3, 4)), "split_with_sizes": (lambda x: x.split_with_sizes([1, 2])[1], (3, 4)),
    "linalg.diagonal": (lambda x: torch.linalg.diagonal(x), (3, 4)), "slice": (lambda x: torch.ops.aten.slice(x, 0, 1, 3), (3, 4)), "atleast_2d": (lambda x: torch.atleast_2d(x), (3,)),
    "as_strided_": (lambda x: x[:].as_strided_((2,), (1,)), (3,)), "einsum": (lambda x: torch.einsum("ij->ji", x), (3, 4)), "+": (lambda x: +x, (3,)), "real": (lambda x: x.real, (3,)), "type": (lambda x: x.type(torch.float32), (3,)), "cpu": (lambda x: x.cpu(), (3,)),
    "resolve_conj": (lambda x: x.resolve_conj(), (3,)), "meshgrid": (lambda x: torch.meshgrid(x, torch.zeros(2), indexing="ij")[0], (3,)), "view_as_complex": (torch.view_as_complex, (3, 2)),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("depth", [1, 2])
def test_what_is_written_to_a_view_of_an_example_is_in_the_batch(name, depth):
    view, shape = VIEWS[name]

    def writes(x):
        view(x).zero_()
        return x + 1

    x = torch.randn(*(3, 2)[:depth], *shape)
    once = x.clone()
    batched = writes
    for _ in range(depth):
        batched = torch.vmap(batched)
    got = batched(x)
    for example in once.flatten(0, depth - 1):
        writes(example)
    assert torch.equal(x, once) and torch.equal(got, once + 1)


def test_views_of_complex_examples():
    for part in (lambda x: x.real, lambda x: x.imag, torch.view_as_real, lambda x: x.mH):
        x = torch.randn(2, 3, 4, dtype=torch.complex64)
        expected = x.clone()
        torch.vmap(lambda e: part(e).zero_())(x)
        part(expected).zero_()
        assert torch.equal(x, expected)


def test_another_tensor_only_says_the_dtype():
    for to in (lambda x, y: x.to(y), lambda x, y: x.type_as(y)):
        for other in (torch.ones(3, 7, dtype=torch.float64), torch.ones(3, dtype=torch.float64)):
            y = torch.vmap(to)(torch.zeros(3), other)
            assert y.shape == (3,) and y.dtype == torch.float64


def test_a_view_that_depends_on_the_example_is_a_copy():
    x = torch.arange(6.).view(2, 3)
    assert torch.vmap(lambda e, k: e.narrow(0, k, 1))(x, torch.tensor([0, 2])).tolist() == [[0], [5]]
