"""A second-order method, with a closure."""
import torch

w = torch.zeros(2, requires_grad=True)
goal = torch.tensor([1.0, -1.0])
optimizer = torch.optim.LBFGS([w], lr=1.0, max_iter=10, line_search_fn="strong_wolfe")


def closure() -> torch.Tensor:
    optimizer.zero_grad()
    loss = (w - goal).pow(2).sum()
    loss.backward()
    return loss


optimizer.step(closure)
assert torch.allclose(w, goal, atol=1e-4)
