"""The mean of a model over time."""
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, SWALR, get_ema_multi_avg_fn

model = nn.Linear(2, 1)
mean = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
schedule = SWALR(optimizer, swa_lr=0.005, anneal_epochs=2)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    mean.update_parameters(model)
    schedule.step()
assert mean(torch.ones(1, 2)).shape == (1, 1)
