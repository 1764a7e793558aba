"""Parts of tensors."""
import torch

x = torch.arange(24).reshape(2, 3, 4)
assert x[0, :, -1].tolist() == [3, 7, 11]
assert x[..., None].shape == (2, 3, 4, 1)
x[x > 20] = 0
rows = x.index_select(dim=1, index=torch.tensor([2, 0]))
picked = torch.gather(x, 2, torch.zeros(2, 3, 1, dtype=torch.int64))
parts = torch.split(x, 2, dim=-1)
assert rows.size(1) == 2 and picked.numel() == 6 and len(parts) == 2
grid_x, grid_y = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
assert torch.einsum("ij,ij->", grid_x, grid_y).item() == 3
