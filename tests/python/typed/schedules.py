"""Learning rates that change."""
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9, nesterov=True)
warm = LinearLR(optimizer, start_factor=0.1, total_iters=3)
schedule = SequentialLR(optimizer, schedulers=[warm, CosineAnnealingLR(optimizer, T_max=5)], milestones=[3])
rates: list[float] = []
for epoch in range(6):
    optimizer.step()
    schedule.step()
    rates += schedule.get_last_lr()
for group in optimizer.param_groups:
    assert group["lr"] == rates[-1]
