"""Milliseconds per call of whole models."""
import torch
from clock import measure, wanted
from models import INFERENCE, caller

torch.manual_seed(1)
for name in filter(wanted, INFERENCE):
    measure(name, caller(name), unit="ms", budget=2)
