"""Gradients of every sample by itself."""
import functools

import rushlight as torch
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """`module`, whose backward leaves per-sample gradients in `grad_sample` of the parameters."""
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, torch.nn.Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")

    params = dict(module.named_parameters())
    for name, p in params.items():
        if getattr(p, "grad_sample", None) is not None:
            raise RuntimeError(f"the parameter {name} has a grad_sample already: set it to None")

    @functools.wraps(module.forward)
    def wrapper(*args, **kwargs):
        flat, spec = tree_flatten((args, kwargs))
        tensors = [x for x in flat if isinstance(x, torch.Tensor)]
        size = batch_size
        if size is None:
            sizes = {x.shape[0 if batch_first else 1] for x in tensors}
            if len(sizes) != 1:
                raise RuntimeError(f"the batch size cannot be seen: tensors have sizes {sorted(sizes)} along the batch; give batch_size=")
            size = sizes.pop()
        dim = 0 if batch_first else 1
        scale = size if loss_reduction == "mean" else 1

        def keep(p):
            def hook(grad):
                p.grad_sample = grad * scale if getattr(p, "grad_sample", None) is None else p.grad_sample + grad * scale
            return hook
        spread = {}
        for name, p in params.items():
            if p.requires_grad:
                spread[name] = p.detach().expand(size, *p.shape).requires_grad_()
                spread[name].register_hook(keep(p))

        def one(state, *mine):
            given = iter(mine)
            a, kw = tree_unflatten([next(given).unsqueeze(dim) if isinstance(x, torch.Tensor) else x for x in flat], spec)
            out = torch.func.functional_call(module, state, a, kw)
            return tree_map(lambda t: t.squeeze(dim), out)
        return torch.vmap(one, (0,) + (dim,) * len(tensors), dim, randomness="different")(spread, *tensors)

    return wrapper
