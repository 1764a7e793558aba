"""Two networks against each other."""
import torch
from torch import nn

make = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
judge = nn.Sequential(nn.Linear(1, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
criterion = nn.BCEWithLogitsLoss()
optimizers = [torch.optim.Adam(net.parameters(), lr=1e-2) for net in (make, judge)]
for step in range(3):
    fake = make(torch.randn(16, 2))
    loss_judge = criterion(judge(torch.ones(16, 1)), torch.ones(16, 1)) + criterion(judge(fake.detach()), torch.zeros(16, 1))
    loss_make = criterion(judge(fake), torch.ones(16, 1))
    for optimizer, loss in zip(optimizers, (loss_make, loss_judge)):
        optimizer.zero_grad()
    loss_make.backward()
    loss_judge.backward()
    for optimizer in optimizers:
        optimizer.step()
with torch.no_grad():
    assert make(torch.zeros(1, 2)).requires_grad is False
