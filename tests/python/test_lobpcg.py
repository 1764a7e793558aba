"""torch.lobpcg against all eigenvalues, its derivatives, its refusals."""
import pytest

import rushlight as torch


def symmetric(n=15, dtype=torch.float64, shift=0):
    torch.manual_seed(0)
    a = torch.randn(n, n, dtype=dtype)
    return a @ a.mH + shift * torch.eye(n, dtype=dtype)


@pytest.mark.parametrize("method", ["basic", "ortho"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["dense", "coo", "csr", "complex", "with B", "with guesses", "preconditioned", "blocks"])
def test_pairs(kind, largest, method):
    a, options = symmetric(dtype=torch.complex128 if kind == "complex" else torch.float64), {}
    b = symmetric(shift=5).roll((1, 1), (0, 1)) if kind == "with B" else None
    given = a.to_sparse() if kind == "coo" else a.to_sparse_csr() if kind == "csr" else a
    if kind == "with guesses":
        options = {"X": torch.eye(15, 4).double(), "k": 3}
    elif kind == "preconditioned":
        options = {"iK": torch.linalg.inv(a), "k": 3}
    else:
        options = {"k": 3, "n": 4 if kind == "blocks" else None}
    e, x = torch.lobpcg(given, B=b, largest=largest, method=method, niter=-1, **options)
    factor = torch.linalg.cholesky(torch.eye(15).to(a.dtype) if b is None else b)
    every = torch.linalg.eigvalsh(torch.linalg.solve(factor, torch.linalg.solve(factor, a).mH))
    torch.testing.assert_close(e, every.flip(0)[:3] if largest else every[:3], rtol=1e-6, atol=1e-8)
    bx = x if b is None else b @ x
    torch.testing.assert_close(x.mH @ bx, torch.eye(3).to(x.dtype))
    assert (a @ x - bx * e).norm() < 1e-5


def test_batches_and_a_tracker():
    a, seen = torch.stack([symmetric(), symmetric(shift=2)]), []
    e, x = torch.lobpcg(a, 2, tracker=lambda worker: seen.append((worker.ivars["istep"], worker.E.shape, worker.X.shape)))
    torch.testing.assert_close(e, torch.linalg.eigvalsh(a).flip(-1)[:, :2], rtol=1e-6, atol=1e-8)
    assert x.shape == (2, 15, 2) and seen[0] == (1, (2,), (15, 2)) and len([s for s in seen if s[0] == 1]) == 2
    del seen[:]
    torch.lobpcg(a[0], 2, niter=3, tol=0, tracker=lambda worker: seen.append(worker.ivars["iterations_left"]))
    assert seen == [2, 1, 0]


@pytest.mark.parametrize("largest", [True, False])
def test_derivatives(largest):
    w = torch.linspace(-1, 1, 15 * 2, dtype=torch.float64).view(15, 2)

    def iterated(a):
        torch.manual_seed(1)
        return torch.lobpcg(a, 2, largest=largest, tol=1e-14, niter=200)

    def exact(a):
        e, x = torch.linalg.eigh((a + a.mT) / 2)
        return (e.flip(0)[:2], x.flip(1)[:, :2]) if largest else (e[:2], x[:, :2])

    def derivatives(f):
        a = symmetric().requires_grad_()
        e, x = f(a)
        loss = (e * e).sum() + (x * torch.sign((x * w).sum(0)).detach() * w).sum()
        g, = torch.autograd.grad(loss, a, create_graph=True)
        return g, torch.autograd.grad(g.square().sum(), a)[0]
    (g, h), (exact_g, exact_h) = derivatives(iterated), derivatives(exact)
    assert torch.equal(g, g.mT)
    torch.testing.assert_close(g, exact_g, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(h, exact_h, rtol=1e-4, atol=1e-6)


def test_refusals():
    a = symmetric()
    for bad, error, text in (((a, 6), ValueError, "smaller than 3 x"), ((a, 0), ValueError, "positive"), ((a[:3], 1), AssertionError, "square"),
                             ((a, 2, a[:3, :3]), AssertionError, "same shape"), ((a, 2, None, a[:3]), AssertionError, "X shape mismatch"),
                             ((a.long(), 2), RuntimeError, "floating point"), ((a, 2, None, a[:, :2] * 0), ValueError, "linearly dependent")):
        with pytest.raises(error, match=text):
            torch.lobpcg(*bad)
    with pytest.raises(ValueError, match="B != I"):
        torch.lobpcg(a.clone().requires_grad_(), 2, a).__getitem__(0).sum().backward()
    with pytest.raises(ValueError, match="sparse"):
        torch.lobpcg(a.to_sparse().requires_grad_(), 2)[0].sum().backward()
