"""Systems of equations and factorisations."""
import torch

a = torch.randn(4, 4, dtype=torch.float64) + 4 * torch.eye(4, dtype=torch.float64)
b = torch.ones(4, dtype=torch.float64)
x = torch.linalg.solve(a, b)
assert torch.allclose(a @ x, b)
u, s, vh = torch.linalg.svd(a, full_matrices=False)
assert torch.allclose(u @ torch.diag(s) @ vh, a)
values: torch.Tensor = torch.linalg.eigh(a + a.T).eigenvalues
length = torch.linalg.vector_norm(x, ord=2).item()
assert values.ndim == 1 and length > 0
