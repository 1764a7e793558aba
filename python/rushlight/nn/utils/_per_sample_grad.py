"""Gradients of every sample by itself."""
import functools

import rushlight as torch
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten


def _size_of(tensors, dim):
    """The batch size that all of the tensors have."""
    sizes = [x.shape[dim] for x in tensors]
    if not sizes:
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so ExpandedWeights cannot compute the batch size "
                           "from the inputs. Please specify it explicitly")
    other = next((n for n in sizes if n != sizes[0]), sizes[0])
    if other != sizes[0]:
        raise RuntimeError(f"When computing batch size, found at least one input with batch size {sizes[0]} and one with batch size {other}. Please specify it "
                           "explicitly using the batch size kwarg in call_for_per_sample_grads")
    return sizes[0]


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """`module`, whose backward leaves per-sample gradients in `grad_sample` of the parameters."""
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, torch.nn.Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")

    params = dict(module.named_parameters())
    for p in params.values():
        if getattr(p, "grad_sample", None) is not None:
            raise RuntimeError("Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls without clearing gradients. Please "
                               f"clear out the grad_sample parameter of {p}")

    @functools.wraps(module.forward)
    def wrapper(*args, **kwargs):
        flat, spec = tree_flatten((args, kwargs))
        tensors = [x for x in flat if isinstance(x, torch.Tensor)]
        dim = 0 if batch_first else 1
        size = _size_of(tensors, dim) if batch_size is None else batch_size
        if not tensors:  # each sample would see all of the batch
            raise NotImplementedError("call_for_per_sample_grads: inputs whose tensors pytrees do not show are not supported: see torch.utils._pytree.register_pytree_node")
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
