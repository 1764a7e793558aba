"""Half precision where it does no harm, gradients clipped."""
import torch
from torch import nn

model = nn.Linear(8, 4)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
x, y = torch.randn(16, 8), torch.randint(4, (16,))
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)(model(x), y)
loss.backward()
norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
optimizer.step()
assert norm.item() > 0
