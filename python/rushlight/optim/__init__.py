"""Optimizers and schedules of their learning rates.

Arguments that many have: maximize: go up instead of down; differentiable: the step itself is recorded for gradients; foreach, fused and
capturable: ways of computing it for PyTorch, which give the same numbers.
"""
from rushlight.optim import lr_scheduler, optimizer
from rushlight.optim._adafactor import Adafactor
from rushlight.optim._muon import Muon
from rushlight.optim.adadelta import Adadelta
from rushlight.optim.adagrad import Adagrad
from rushlight.optim.adam import Adam
from rushlight.optim.adamax import Adamax
from rushlight.optim.adamw import AdamW
from rushlight.optim.asgd import ASGD
from rushlight.optim.lbfgs import LBFGS
from rushlight.optim.nadam import NAdam
from rushlight.optim.optimizer import Optimizer, swap_in_optimizer_params_and_state
from rushlight.optim.radam import RAdam
from rushlight.optim.rmsprop import RMSprop
from rushlight.optim.rprop import Rprop
from rushlight.optim.sgd import SGD
from rushlight.optim.sparse_adam import SparseAdam

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam",
           "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils", "swap_in_optimizer_params_and_state"]


def __getattr__(name):
    if name in ("swa_utils", "_functional"):
        import importlib
        return importlib.import_module("rushlight.optim." + name)
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}'")
