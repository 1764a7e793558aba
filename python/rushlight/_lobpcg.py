"""torch.lobpcg: a few eigenpairs of a large symmetric matrix, found by products with it alone.

Each step looks for better vectors in the space of three blocks: the vectors X, their residuals W (by a preconditioner, if there is one),
and the last step's directions P (Knyazev, SIAM J. Sci. Comput. 23, 2001). The two methods differ in how a basis of that space
is made orthonormal: "basic" by Cholesky's factor, "ortho" by eigenvectors of the Gram matrix, of which small ones are left out
(Stathopoulos and Wu, SIAM J. Sci. Comput. 23, 2002).
"""
import rushlight as torch

__all__ = ["lobpcg", "LOBPCG"]


def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
           ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """(E, X): the k largest (or smallest) eigenvalues of A x = e B x for symmetric A and positive definite B, and their vectors as columns.

    X holds first guesses (columns), n is how many vectors are improved together, iK is a preconditioner. It ends when the residuals are
    below tol, or after niter steps (-1: as many as it takes). tracker(worker) is called after each step.
    """
    tensors = (A, B, X, iK)
    if torch.overrides.has_torch_function(tensors):
        return torch.overrides.handle_torch_function(lobpcg, tensors, A, k=k, B=B, X=X, n=n, iK=iK, niter=niter, tol=tol, largest=largest, method=method,
                                                     tracker=tracker, ortho_iparams=ortho_iparams, ortho_fparams=ortho_fparams, ortho_bparams=ortho_bparams)
    options = (iK, niter, tol, largest is None or largest, method, tracker)
    if torch.is_grad_enabled() and (A.requires_grad or (B is not None and B.requires_grad)):
        A = (A + A.mT) / 2 if A.layout is torch.strided else A
        B = (B + B.mT) / 2 if B is not None and B.layout is torch.strided else B
        return LOBPCGAutogradFunction.apply(A, B, k, X, n, options)
    return _solve(A, B, k, X, n, options)


def _solve(A, B, k, X, n, options):
    iK, niter, tol, largest, method, tracker = options
    size = A.shape[-1]
    assert A.dim() >= 2 and A.shape[-2] == size, "A must be square, got shape %s" % (A.shape,)
    assert B is None or A.shape == B.shape, "A and B must have same shape, got %s vs %s" % (A.shape, None if B is None else B.shape)
    k = (1 if X is None else X.shape[-1]) if k is None else k
    if size < 3 * k:
        raise ValueError("LOBPCG algorithm is not applicable when the number of A rows (=%d) is smaller than 3 x the number of requested eigenpairs (=%d)" % (size, k))
    if k < 1:
        raise ValueError("lobpcg: the number of eigenpairs must be positive, got %d" % k)
    n = max(k, (k if n is None else n) if X is None else X.shape[-1])
    batch = A.shape[:-2]
    assert X is None or X.shape == (*batch, size, n), "X shape mismatch: got %s, expected %s" % (X.shape, (*batch, size, n))
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise RuntimeError("lobpcg: a matrix of floating point numbers was expected, but got %s" % A.dtype)
    X = torch.randn((*batch, size, n), dtype=A.dtype, device=A.device) if X is None else X
    tol = torch.finfo(A.dtype).eps ** 0.5 if tol is None else tol
    make = lambda a, b, x, i: LOBPCG(a, b, x, i, k, niter or 1000, tol, largest, method or "ortho", tracker).run()
    if not batch:
        return make(A, B, X, iK)
    rows = lambda t: [None] * batch.numel() if t is None else t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]).unbind()
    pairs = [make(*each) for each in zip(rows(A), rows(B), rows(X), rows(iK))]
    return torch.stack([e for e, _ in pairs]).view(*batch, k), torch.stack([x for _, x in pairs]).view(*batch, size, k)


class LOBPCG:
    """One matrix; what a tracker sees: E, X, R, the counts in ivars, and the residuals in tvars."""

    def __init__(self, A, B, X, iK, k, niter, tol, largest, method, tracker):
        self.A, self.B, self.X, self.iK, self.tracker = A, B, X, iK, tracker
        self.iparams = {"m": A.shape[-1], "n": X.shape[-1], "k": k, "niter": niter}
        self.fparams, self.bparams, self.method = {"tol": tol}, {"largest": largest}, method
        self.ivars = {"istep": 0, "iterations_left": niter, "converged_count": 0, "converged_end": 0}
        self.fvars, self.tvars, self.bvars = {}, {}, {}
        self.E, self.R, self.S = X.new_zeros(X.shape[-1], dtype=X.abs().dtype), X, X

    def _times_b(self, x):
        return x if self.B is None else self.B @ x

    def _whitening(self, gram):
        """T with T^H gram T = 1."""
        scale = gram.diagonal().real.clamp_min(torch.finfo(gram.dtype).tiny).rsqrt().to(gram.dtype)
        gram = gram * scale * scale.unsqueeze(1)
        if self.method == "basic":
            factor, failed = torch.linalg.cholesky_ex(gram)
            if not failed and factor.diagonal().abs().min() > torch.finfo(gram.dtype).eps ** 0.25:  # else the columns are almost dependent
                return scale.unsqueeze(1) * torch.linalg.inv(factor).mH
        values, vectors = torch.linalg.eigh((gram + gram.mH) / 2)
        kept = values > values[-1] * torch.finfo(gram.dtype).eps * gram.shape[-1] * 10
        return scale.unsqueeze(1) * (vectors[:, kept] * values[kept].rsqrt())

    def _best(self, S, AS, BS):
        """The n best vectors of the space of S, as coefficients, and their values."""
        T = self._whitening(S.mH @ BS)
        if T.shape[-1] < self.iparams["n"]:
            raise ValueError("lobpcg: the first vectors X are linearly dependent")
        small = T.mH @ (S.mH @ AS) @ T
        values, vectors = torch.linalg.eigh((small + small.mH) / 2)
        if self.bparams["largest"]:
            values, vectors = values.flip(-1), vectors.flip(-1)
        n = self.iparams["n"]
        return values[:n], T @ vectors[:, :n]

    def _look(self, AX, BX):
        """Residuals, and how many of the first vectors need no more improvement."""
        self.R = AX - BX * self.E
        norm = lambda x: torch.linalg.vector_norm(x, dim=0)
        if not self.fvars:
            whole = float(torch.linalg.vector_norm(self.X))
            self.fvars.update(X_norm=whole, A_norm=float(torch.linalg.vector_norm(AX)) / whole, B_norm=float(torch.linalg.vector_norm(BX)) / whole)
        self.tvars["rerr"] = norm(self.R) / (norm(self.X) * (self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"]))
        done = (self.tvars["rerr"] < self.fparams["tol"]).tolist()
        self.ivars["converged_count"] = self.ivars["converged_end"] = (done + [False]).index(False)

    def run(self):
        k, n = self.iparams["k"], self.iparams["n"]
        X = self.X
        AX, BX = self.A @ X, self._times_b(X)
        P = AP = BP = X[:, :0]
        self.E, Z = self._best(X, AX, BX)
        self.X, AX, BX = X @ Z, AX @ Z, BX @ Z
        self._look(AX, BX)
        while self.ivars["iterations_left"] and self.ivars["converged_count"] < k:
            first = self.ivars["converged_count"]  # the vectors before are kept, but not improved
            W = self.R[:, first:] if self.iK is None else self.iK @ self.R[:, first:]
            self.S = S = torch.cat([self.X, W, P], 1)
            AS, BS = torch.cat([AX, self.A @ W, AP], 1), torch.cat([BX, self._times_b(W), BP], 1)
            self.E, Z = self._best(S, AS, BS)
            self.X, AX, BX = S @ Z, AS @ Z, BS @ Z
            step = Z[n:, first:]
            P, AP, BP = S[:, n:] @ step, AS[:, n:] @ step, BS[:, n:] @ step
            self.ivars["istep"] += 1
            self.ivars["iterations_left"] -= 1
            self._look(AX, BX)
            if self.tracker is not None:
                self.tracker(self)
        return self.E[:k], self.X[:, :k]


class LOBPCGAutogradFunction(torch.autograd.Function):
    """The derivative takes all eigenvectors of A, as those left out have a part in it."""

    @staticmethod
    def forward(ctx, A, B, k, X, n, options):
        E, U = _solve(A.detach(), None if B is None else B.detach(), k, X, n, options)
        ctx.save_for_backward(A, E, U)
        ctx.plain, ctx.largest = B is None, options[3]
        return E, U

    @staticmethod
    def backward(ctx, grad_E, grad_U):
        A, E, U = ctx.saved_tensors
        if A.layout is not torch.strided:
            raise ValueError("lobpcg.backward does not support sparse input yet. Note that lobpcg.forward does though.")
        if A.is_complex():
            raise ValueError("lobpcg.backward does not support complex input yet. Note that lobpcg.forward does though.")
        if not ctx.plain:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        k = E.shape[-1]
        grad = 0
        if grad_E is not None:
            grad = U @ (grad_E.unsqueeze(-1) * U.mT)
        if grad_U is not None:
            others = slice(None, -k) if ctx.largest else slice(k, None)
            values, vectors = torch.linalg.eigh(A)
            values, vectors = torch.cat([E, values[..., others]], -1), torch.cat([U, vectors[..., others]], -1)
            apart = E.unsqueeze(-2) - values.unsqueeze(-1)
            same = torch.eye(apart.shape[-2], k, dtype=torch.bool, device=apart.device)
            weights = (vectors.mT @ grad_U / apart.masked_fill(same, 1)).masked_fill(same, 0)
            grad = grad + vectors @ weights @ U.mT
        return (grad + grad.mT) / 2, None, None, None, None, None
