"""Keeping gradients within bounds."""
import typing
import warnings

import rushlight as torch

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]
# By these names programs that clip in a way of their own find them.
_no_grad = torch.no_grad()
_tensor_or_tensors = typing.Union[torch.Tensor, typing.Iterable[torch.Tensor]]


def _listed(tensors):
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _by_kind(tensors):
    """Lists of tensors of one device and dtype, which the foreach operators take together."""
    groups = {}
    for t in tensors:
        groups.setdefault((t.device, t.dtype), []).append(t)
    return groups


def _may_use_foreach(tensors, foreach, device):
    """Several at a time: on request; otherwise for strided tensors, where the operators exist."""
    able = hasattr(torch, "_foreach_norm") and all(t.layout == torch.strided for t in tensors)
    if foreach and not able:
        raise RuntimeError(f"foreach=True was passed, but can't use the foreach API on {device.type} tensors")
    return able and foreach is not False


def _get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors taken as one vector.

    tensors: any iterable; norm_type: which norm, inf too; error_if_nonfinite: raise RuntimeError when it is nan or infinite.

    >>> torch.nn.utils.get_total_norm([torch.tensor([3.]), torch.tensor([4.])])
    tensor(5.)
    """
    with torch.no_grad():
        tensors = _listed(tensors)
        norm_type = float(norm_type)
        if not tensors:
            return torch.tensor(0.0)
        first = tensors[0].device
        norms = []
        for (device, _), group in _by_kind(tensors).items():
            if _may_use_foreach(group, foreach, device):
                norms.extend(torch._foreach_norm(group, norm_type))
            else:
                norms.extend(torch.linalg.vector_norm(g, norm_type) for g in group)
        total = torch.linalg.vector_norm(torch.stack([n.to(first) for n in norms]), norm_type)
        if error_if_nonfinite and torch.logical_or(total.isnan(), total.isinf()):
            raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so "
                               "it cannot be clipped. To disable this error and scale the gradients by the non-finite "
                               "norm anyway, set `error_if_nonfinite=False`")
        return total


def _clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale all gradients so that `total_norm` would become at most `max_norm`.

    parameters: a tensor or several, whose .grad is changed; total_norm: of their gradients, as get_total_norm computes it.

    >>> w = torch.zeros(2, requires_grad=True)
    >>> w.grad = torch.tensor([3., 4.])
    >>> torch.nn.utils.clip_grads_with_norm_([w], 1., torch.tensor(5.))
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    with torch.no_grad():
        grads = [p.grad for p in _listed(parameters) if p.grad is not None]
        if not grads:
            return
        # Clamped, not tested: a test would wait for the device.
        factor = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        for (device, _), group in _by_kind(grads).items():
            here = factor.to(device)
            if _may_use_foreach(group, foreach, device) and hasattr(torch, "_foreach_mul_"):
                torch._foreach_mul_(group, here)
            else:
                for g in group:
                    g.mul_(here)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale the gradients so that their joint norm is at most max_norm; returns the norm before.

    parameters: a tensor or several, whose .grad is changed; norm_type: which norm, inf too; error_if_nonfinite: raise RuntimeError when it is
    nan or infinite.

    >>> w = torch.zeros(2, requires_grad=True)
    >>> w.grad = torch.tensor([3., 4.])
    >>> torch.nn.utils.clip_grad_norm_([w], max_norm=1.), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    if not isinstance(parameters, torch.Tensor):
        once_only = not hasattr(parameters, "__len__")
        parameters = list(parameters)
        if once_only and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    norm_type, max_norm = float(norm_type), float(max_norm)
    total = _get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    _clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The old name of `clip_grad_norm_`."""
    warnings.warn("`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
                  "`torch.nn.utils.clip_grad_norm_`.", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Clip every gradient element to [-clip_value, clip_value].

    parameters: a tensor or several, whose .grad is changed.

    >>> w = torch.zeros(2, requires_grad=True)
    >>> w.grad = torch.tensor([3., 4.])
    >>> torch.nn.utils.clip_grad_value_([w], 3.5)
    >>> w.grad
    tensor([3.0000, 3.5000])
    """
    clip_value = float(clip_value)
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    with torch.no_grad():
        for (device, _), group in _by_kind(grads).items():
            if _may_use_foreach(group, foreach, device) and hasattr(torch, "_foreach_clamp_min_"):
                torch._foreach_clamp_min_(group, -clip_value)
                torch._foreach_clamp_max_(group, clip_value)
            else:
                for g in group:
                    g.clamp_(min=-clip_value, max=clip_value)
