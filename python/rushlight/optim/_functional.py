"""The steps of optimizers as functions over lists."""
import math

from rushlight.optim import _fused
from rushlight.optim.adadelta import adadelta
from rushlight.optim.adagrad import adagrad
from rushlight.optim.adam import adam
from rushlight.optim.adamax import adamax
from rushlight.optim.adamw import adamw
from rushlight.optim.asgd import asgd
from rushlight.optim.nadam import nadam
from rushlight.optim.radam import radam
from rushlight.optim.rmsprop import rmsprop
from rushlight.optim.rprop import rprop
from rushlight.optim.sgd import sgd


def sparse_adam(params, grads, exp_avgs, exp_avg_sqs, state_steps, *, eps, beta1, beta2, lr, maximize):
    """One step of SparseAdam for lists of parameters."""
    for p, g, m, v, t in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps):
        g = (g if not maximize else -g).coalesce()
        values = g._values()
        if values.numel() == 0:
            continue
        indices = g._indices()
        # b * old + (1-b) * new  ==  old + (new - old) * (1-b), which can be added sparsely.
        old_m, old_v = m.sparse_mask(g)._values(), v.sparse_mask(g)._values()
        change_m = values.sub(old_m).mul_(1 - beta1)
        change_v = values.pow(2).sub_(old_v).mul_(1 - beta2)
        m.add_(_fused.sparse_like(g, indices, change_m))
        v.add_(_fused.sparse_like(g, indices, change_v))
        numerator = change_m.add_(old_m)
        denominator = change_v.add_(old_v).sqrt_().add_(eps)
        size = lr * math.sqrt(1 - beta2 ** t) / (1 - beta1 ** t)
        p.add_(_fused.sparse_like(g, indices, -size * numerator.div_(denominator)))
