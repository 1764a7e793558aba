"""Low-rank approximation by random projections: Halko, Martinsson and Tropp, "Finding structure with randomness" (2009)."""
import rushlight as torch

__all__ = ["svd_lowrank", "pca_lowrank", "get_approximate_basis"]


def _times(A, X):
    return torch.sparse.mm(A, X) if A.layout is not torch.strided else A @ X


def get_approximate_basis(A, q, niter=2, M=None):
    """q orthonormal columns whose span is nearly the range of A - M, by niter power iterations."""
    dtype = A.dtype if A.dtype.is_floating_point or A.dtype.is_complex else torch.get_default_dtype()
    R = torch.randn(A.shape[-1], q, dtype=dtype, device=A.device)

    def apply(X):
        return _times(A, X) - (M @ X if M is not None else 0)

    def apply_h(X):
        return _times(A.mH, X) - (M.mH @ X if M is not None else 0)
    Q = torch.linalg.qr(apply(R)).Q
    for _ in range(niter):
        Q = torch.linalg.qr(apply_h(Q)).Q
        Q = torch.linalg.qr(apply(Q)).Q
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """U (m, q), S (q), V (n, q) with A - M nearly U diag(S) V^H."""
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    if M is not None:
        M = M.broadcast_to(A.size())
    if m < n:
        A, M = A.mH, None if M is None else M.mH
    Q = get_approximate_basis(A, q, niter=niter, M=M)
    B = _times(Q.mH, A) if M is None else _times(Q.mH, A) - Q.mH @ M
    U, S, Vh = torch.linalg.svd(B, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if m < n else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """svd_lowrank of A with its column means taken away: principal components of the rows."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, q, niter=niter)
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True), q, niter=niter)
