"""Linear algebra, Fourier transforms, special functions, regression by hand."""
import torch

torch.manual_seed(20)
A = torch.randn(4, 4, dtype=torch.double)
S = A @ A.T + 4 * torch.eye(4, dtype=torch.double)
b = torch.randn(4, dtype=torch.double)
print(torch.linalg.solve(A, b), torch.linalg.det(A), torch.linalg.slogdet(S), torch.linalg.matrix_rank(A), torch.linalg.cond(S))
print(torch.linalg.cholesky(S), torch.linalg.eigvalsh(S), torch.linalg.svdvals(A), torch.linalg.norm(A), torch.linalg.norm(A, 1), torch.linalg.norm(A, 2))
Q, R = torch.linalg.qr(A)
print(torch.allclose(Q @ R, A), torch.allclose(Q.T @ Q, torch.eye(4, dtype=torch.double)), R.diagonal().abs())
U, s, Vh = torch.linalg.svd(A[:, :2], full_matrices=False)
print(torch.allclose(U @ torch.diag(s) @ Vh, A[:, :2]), s, U.shape)
w, V = torch.linalg.eigh(S)
print(w, torch.allclose(V @ torch.diag(w) @ V.T, S), torch.linalg.eig(torch.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues)
print(torch.linalg.lstsq(A[:, :2], b).solution, torch.linalg.pinv(A[:, :2]).shape, torch.linalg.inv(S).trace(), torch.linalg.matrix_power(A, 3).sum())
P, L, Uu = torch.linalg.lu(A)
print(torch.allclose(P @ L @ Uu, A), torch.linalg.solve_triangular(Uu, b[:, None], upper=True).squeeze(), torch.cholesky_solve(b[:, None], torch.linalg.cholesky(S)).squeeze())
print(torch.linalg.cross(b[:3], b[1:]), torch.linalg.vecdot(b, b), torch.linalg.multi_dot([A, A, b]), torch.kron(torch.eye(2), torch.ones(1, 2)), torch.trapezoid(b), torch.outer(b[:2], b[:2]))
print(torch.logsumexp(b, 0), torch.special.erf(b), torch.special.gammaln(b.abs()), torch.special.expit(b), torch.special.i0(b), torch.special.zeta(torch.tensor(2.0), torch.tensor(1.0)), torch.xlogy(b.abs(), b.abs()))
t = torch.arange(8) / 8
wave = torch.sin(2 * torch.pi * t) + 0.5 * torch.cos(4 * torch.pi * t)
F = torch.fft.rfft(wave)
print((F.abs() * 1000).round() / 1000, torch.allclose(torch.fft.irfft(F), wave, atol=1e-6), torch.fft.fftfreq(4), torch.fft.fftshift(torch.arange(4)))
print(torch.stft(wave, 4, 2, window=torch.hann_window(4), return_complex=True).shape, torch.fft.fft2(torch.eye(2)), torch.hann_window(5), torch.conv1d(wave.view(1, 1, -1), torch.ones(1, 1, 3)).flatten())
x = torch.linspace(-1, 1, 50)
y = 3 * x + 2 + 0.1 * torch.randn(50)
X = torch.stack([x, torch.ones(50)], 1)
print(torch.linalg.lstsq(X, y[:, None]).solution.flatten(), torch.linalg.solve(X.T @ X, X.T @ y))
w = torch.zeros(2, requires_grad=True)
for i in range(50):
    loss = ((X @ w - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
        w.grad.zero_()
print(w, loss)
print(torch.corrcoef(torch.stack([x, y])), torch.cov(torch.stack([x, y])), torch.vander(torch.tensor([1.0, 2.0, 3.0])), torch.combinations(torch.arange(3)), torch.cartesian_prod(torch.arange(2), torch.arange(2)))
