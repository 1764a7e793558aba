"""Derivatives of running products, and of linalg.vander, which is made of one: what is expanded, laid out otherwise, of one number, without data."""
import pytest
import rushlight as torch
from rushlight.autograd import grad, gradcheck, gradgradcheck
from rushlight.utils._python_dispatch import TorchDispatchMode

LAID = {
    "plain": (lambda x: x.cumprod(-1), (3, 5)), "columns": (lambda x: x.cumprod(0), (5, 3)), "turned": (lambda x: x.t().cumprod(1), (5, 3)),
    "expanded": (lambda x: x.expand(3, 5).cumprod(1), (3, 1)), "expanded lines": (lambda x: x.expand(3, 5).cumprod(1), (5,)),
    "all expanded": (lambda x: x.expand(3, 5).cumprod(-1), (1, 1)), "sums of expanded": (lambda x: x.expand(3, 5).cumsum(1) ** 2, (3, 1)),
    "vander": (lambda x: torch.linalg.vander(x, N=6), (2, 2)), "vander of one": (lambda x: torch.linalg.vander(x, N=4), ()),
    "vander of two": (lambda x: torch.linalg.vander(x, N=2), (3,)), "vander of none": (lambda x: torch.linalg.vander(x, N=4), (0,)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("name", LAID)
def test_derivatives(name, zero, dtype):
    torch.manual_seed(0)
    f, shape = LAID[name]
    x = torch.randn(shape, dtype=dtype)
    if zero and x.numel():
        x.view(-1)[0] = 0
    x.requires_grad_()
    assert gradcheck(f, (x,), check_forward_ad=True, check_batched_grad=bool(x.numel()))
    assert not f(x).requires_grad or gradgradcheck(f, (x,), check_fwd_over_rev=True)


def test_powers_and_their_derivatives():
    x = torch.tensor([1.5, -0.5, 2.0], dtype=torch.float64, requires_grad=True)
    n, k = 9, torch.arange(9.0, dtype=torch.float64)
    y = torch.linalg.vander(x, N=n)
    powers = [torch.ones(3, dtype=torch.float64)]
    for _ in range(n - 1):
        powers.append(powers[-1] * x.detach())
    assert torch.equal(y, torch.stack(powers, -1))
    z = x.detach().unsqueeze(-1)
    g, = grad(y.sum(), x, create_graph=True)
    gg, = grad(g.sum(), x, create_graph=True)
    ggg, = grad(gg.sum(), x)
    assert torch.allclose(g, (k * z ** (k - 1)).sum(-1))
    assert torch.allclose(gg, (k * (k - 1) * z ** (k - 2)).sum(-1))
    assert torch.allclose(ggg, (k * (k - 1) * (k - 2) * z ** (k - 3)).sum(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_lines_are_those_of_single_steps(dtype):
    torch.manual_seed(0)
    x = (1 + torch.randn(3, 1301, dtype=dtype) / 1000).requires_grad_()
    g = torch.randn(3, 1301, dtype=dtype)
    y = x.cumprod(1)
    whole = (g * y).flip(1).cumsum(1).flip(1) / x
    assert torch.equal(grad(y, x, g)[0], whole)


def test_leaf_that_lies_expanded():
    x = torch.tensor([[2.0], [3.0]]).expand(2, 4).detach().requires_grad_()
    g, = grad(x.cumprod(1).sum(), x, create_graph=True)
    gg, = grad(g, x, torch.ones(()).expand(2, 4))
    assert g.tolist() == [[15, 14, 12, 8], [40, 39, 36, 27]] and gg.tolist() == [[17, 17, 16, 12], [34, 34, 33, 27]]


def test_graph():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.linalg.vander(x, N=4)
    assert y.grad_fn.name() == "CatBackward0" and y.grad_fn.next_functions[1][0].name() == "CumprodBackward0"
    g, = grad(x.cumprod(0).sum(), x, create_graph=True)
    edges = [f and f.name() for f, _ in g.grad_fn.next_functions]
    assert g.grad_fn.name() == "DivBackward0" and edges[1:] == ["torch::autograd::AccumulateGrad", "CumprodBackward0"]  # one step of its own
    assert not grad(x.view(3, 1).cumprod(1).sum(), x, create_graph=True)[0].requires_grad  # of one number


def test_calls_that_are_seen():
    seen = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, f, types, args=(), kwargs=None):
            seen.append(f.__name__.split(".")[0])
            return f(*args, **(kwargs or {}))

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with Seen():
        x.cumprod(0).sum().backward()
    assert [name for name in seen if name in ("cumprod", "flip", "cumsum", "div", "mul")] == ["cumprod", "mul", "flip", "cumsum", "flip", "div"]
    assert "_cumprod_backward" not in seen


def test_without_data():
    x = torch.ones(3, device="meta", requires_grad=True)
    torch.linalg.vander(x, N=4).sum().backward()
    assert x.grad.shape == (3,) and x.grad.is_meta
