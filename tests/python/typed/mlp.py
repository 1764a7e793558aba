"""A classifier of two clouds of points."""
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(2, hidden)
        self.second = nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.relu(self.first(x)))


torch.manual_seed(0)
x = torch.cat([torch.randn(50, 2) - 2, torch.randn(50, 2) + 2])
y = torch.arange(2).repeat_interleave(50)
net = Net(hidden=8)
optimizer = torch.optim.Adam(net.parameters(), lr=0.05, betas=(0.9, 0.99))
for step in range(50):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
accuracy = (net(x).argmax(dim=1) == y).float().mean().item()
assert accuracy > 0.9
