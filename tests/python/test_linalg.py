"""Linear algebra at sizes that the operator tests leave out: systems that are solved by halves (src/kernels/lapack/halves.c)."""
import pytest

import rushlight as torch

TYPES = torch.float32, torch.float64, torch.complex64, torch.complex128
ENOUGH = {torch.float32: 1e-4, torch.complex64: 1e-4, torch.float64: 1e-12, torch.complex128: 1e-12}


def off(got, wanted):
    return ((got - wanted).abs().max() / wanted.abs().max()).item()


def well(n, dtype):
    """Far from singular, whichever triangle is taken."""
    return torch.randn(n, n, dtype=dtype) / n + torch.eye(n, dtype=dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n,columns", [(63, 5), (65, 64), (96, 3), (129, 65), (200, 130)])
def test_triangles_by_halves(dtype, n, columns):
    torch.manual_seed(0)
    a, b = well(n, dtype), torch.randn(n, columns, dtype=dtype)
    for upper in (False, True):
        for unit in (False, True):
            for m in (a, a.mT, a.mH):
                whole = torch.triu(m) if upper else torch.tril(m)
                if unit:
                    whole = whole - torch.diag(whole.diagonal()) + torch.eye(n, dtype=dtype)
                x = torch.linalg.solve_triangular(m, b, upper=upper, unitriangular=unit)
                y = torch.linalg.solve_triangular(m, b.mT, upper=upper, unitriangular=unit, left=False)
                assert off(whole @ x, b) < ENOUGH[dtype] and off(y @ whole, b.mT) < ENOUGH[dtype]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m,n", [(64, 64), (65, 65), (200, 200), (150, 80), (80, 150)])
def test_lu_by_halves(dtype, m, n):
    torch.manual_seed(1)
    a = torch.randn(m, n, dtype=dtype)
    p, low, up = torch.linalg.lu(a)
    assert off(p @ low @ up, a) < ENOUGH[dtype]
    assert low.abs().max() < 1.5, "the largest of a column was not the pivot"
    if m != n:
        return
    a = a / n + torch.eye(n, dtype=dtype)
    lu, pivots = torch.linalg.lu_factor(a)
    for columns in (1, 20, 100):
        b = torch.randn(n, columns, dtype=dtype)
        for adjoint, op in ((False, a), (True, a.mH)):
            assert off(op @ torch.linalg.lu_solve(lu, pivots, b, adjoint=adjoint), b) < ENOUGH[dtype]
            assert off(torch.linalg.lu_solve(lu, pivots, b.mT, adjoint=adjoint, left=False) @ op, b.mT) < ENOUGH[dtype]


def test_the_first_zero_pivot_is_told():
    torch.manual_seed(2)
    a = torch.randn(200, 200)
    a[:, 130] = 0
    assert torch.linalg.lu_factor_ex(a).info == 131
    a[:, 70] = 0
    assert torch.linalg.lu_factor_ex(a).info == 71
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(a)


def test_number_of_threads_changes_nothing():
    torch.manual_seed(3)
    a, b = torch.randn(300, 300), torch.randn(300, 150)
    threads, seen = torch.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            seen.append(torch.linalg.solve(a, b))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(seen[0], seen[1]) and torch.equal(seen[0], seen[2])
