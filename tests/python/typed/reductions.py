"""What is left of many numbers."""
import torch

x = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
values, places = torch.max(x, dim=1, keepdim=True)
assert places.tolist() == [[0], [0]] and values.shape == (2, 1)
best = torch.topk(x, k=2, dim=-1).values
order = x.sort(dim=1, descending=True).indices
assert best[0].tolist() == [3, 2] and order[0].tolist() == [0, 2, 1]
assert x.mean(dim=(0, 1)).item() == 3.5 and x.std().item() > 1 and bool((x > 0).all())
total: torch.Tensor = x.cumsum(1).clamp(max=5.0).logsumexp(dim=1)
assert total.dtype is torch.float32
