"""Where and what tensors are."""
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.ones(2, 3, device=device, dtype=torch.float16)
y = x.to(device, torch.float32, non_blocking=True)
shape: torch.Size = y.shape
assert y.is_floating_point() and shape.numel() == 6 and y.element_size() == 4
assert torch.finfo(torch.float32).eps < 1e-6 and torch.iinfo(torch.int8).max == 127
torch.set_default_dtype(torch.float64)
assert torch.zeros(1).dtype is torch.float64
