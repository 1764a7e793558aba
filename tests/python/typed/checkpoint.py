"""Save, and go on."""
import io

import torch
from torch import nn

model = nn.Linear(3, 2)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9)
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 4}, file)
file.seek(0)
state = torch.load(file, weights_only=True)
other = nn.Linear(3, 2)
other.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
assert torch.equal(other.weight, model.weight) and state["epoch"] == 4
