"""gradcheck's fast mode: one direction instead of each number."""
import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck


class WrongOnce(torch.autograd.Function):
    """x * x, whose gradient is 1 % too large at one place."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        scale = torch.ones_like(grad)
        scale.view(-1)[7] = 1.01
        return 2 * ctx.saved_tensors[0] * grad * scale


def drawn(*shape, dtype=torch.double):
    torch.manual_seed(0)
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def test_how_often_it_calls():
    calls = []

    def f(x, y):
        calls.append(1)
        return (x.sin() @ y).exp(), x.sum() * 1j
    x, y = drawn(20, 5), drawn(5, 3)
    state, before = torch.get_rng_state(), x.detach().clone()
    assert gradcheck(f, (x, y), fast_mode=True)
    assert len(calls) < 10 and torch.equal(x, before) and torch.equal(torch.get_rng_state(), state)
    assert gradcheck(f, (x, y)) and len(calls) > 200


def test_what_is_wrong_is_found():
    x = drawn(4, 5)
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(WrongOnce.apply, (x,), fast_mode=True)
    assert gradcheck(WrongOnce.apply, (x,), fast_mode=True, raise_exception=False) is False


def test_a_gradient_that_differs_each_time():
    class Noise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 0

        @staticmethod
        def backward(ctx, grad):
            return grad * (1 + 1e-4 * torch.rand(()).item())
    with pytest.raises(RuntimeError, match="not reentrant"):
        gradcheck(Noise.apply, (drawn(3),), fast_mode=True)
    assert gradcheck(Noise.apply, (drawn(3),), fast_mode=True, nondet_tol=1e-3)


@pytest.mark.parametrize("f", [lambda c: c * c.conj(), torch.exp, lambda c: torch.view_as_real(c).sin(), torch.abs])
def test_complex(f):
    c = drawn(4, 3, dtype=torch.cdouble)
    assert gradcheck(f, (c,), fast_mode=True, check_forward_ad=True) and gradgradcheck(f, (c,), fast_mode=True)


def test_shapes():
    for x in (drawn(0, 3), drawn(), drawn(2, 3, 4)):
        assert gradcheck(lambda x: x.sin(), (x,), fast_mode=True, check_forward_ad=True, check_grad_dtypes=True)
    s = torch.randn(4, 4, dtype=torch.double).relu().to_sparse().requires_grad_()
    w = drawn(4, 3).detach()
    assert gradcheck(lambda s: torch.sparse.mm(s, w), (s,), fast_mode=True, masked=True)


@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
@pytest.mark.parametrize("zeros", [[], [0], [0, 2], [0, 1, 3], [3, 4, 5]])
def test_second_derivative_of_products_with_zeros(name, zeros):
    """PyTorch refuses the second derivative where two factors are zero; it is the product of the others."""
    self, factors = drawn(2), torch.arange(1, 7, dtype=torch.double).index_fill(0, torch.tensor(zeros, dtype=torch.int64), 0).requires_grad_()

    def product(self, factors):
        return getattr(self, name)(0, torch.tensor([0, 0, 0, 1, 1, 1]), factors, "prod")
    assert gradcheck(product, (self, factors)) and gradgradcheck(product, (self, factors))
