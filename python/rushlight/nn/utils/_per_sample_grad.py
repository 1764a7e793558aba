"""Gradients of every sample by itself."""
import functools

import rushlight as torch


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """`module`, whose backward leaves per-sample gradients in `grad_sample` of the parameters."""
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, torch.nn.Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")

    @functools.wraps(module.forward)
    def wrapper(*args, **kwargs):
        raise NotImplementedError("call_for_per_sample_grads: gradients per sample are not supported; use torch.func "
                                  "(vmap of grad)")

    return wrapper
