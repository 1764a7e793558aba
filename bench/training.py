"""Training steps per second: forward, backward, optimizer."""
import torch
from clock import measure, wanted
from models import TRAINING, trainer

torch.manual_seed(1)
for name in filter(wanted, TRAINING):
    measure(name, trainer(name), work=1, unit="step/s", budget=3)
