"""Averaged stochastic gradient descent."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim._lists import ListOptimizer
from rushlight.optim.optimizer import _get_scalar_dtype, _get_value

__all__ = ["ASGD", "asgd"]


class ASGD(ListOptimizer):
    """Gradient descent that keeps, in `ax`, the mean of the parameters from step t0 on.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; lambd: the decay of parameters;
    alpha: the power by which lr falls; t0: the step from which the mean is taken; weight_decay: the factor of parameters that is added to
    gradients.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.ASGD([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.8000, -1.6000])
    """

    _state_names = "ax", "mu", "eta"
    _option_names = "lr", "lambd", "alpha", "t0", "weight_decay"

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        _fused.check(lr=lr, decay=("weight_decay value", weight_decay, 0.0))
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def __setstate__(self, state):
        super().__setstate__(state)
        _fused.numbers_to_tensors(self, "eta", "mu")

    def _new_state(self, group, p, grad):
        scalar = dict(dtype=_get_scalar_dtype(), device=p.device)
        return {"step": torch.zeros((), **scalar), "eta": torch.as_tensor(_get_value(group["lr"]), **scalar).clone(), "mu": torch.ones((), **scalar),
                "ax": _fused.zeros_like(p)}

    def _function(self, *lists, **options):
        asgd(*lists, **options)


def asgd(params, grads, axs, mus, etas, state_steps, foreach=None, maximize=False, differentiable=False,
         capturable=False, has_complex=False, *, lambd, lr, t0, alpha, weight_decay):
    """One step for lists of parameters."""
    if not params:
        return
    op = _fused.operator("_fused_asgd_", params, grads, differentiable, capturable)
    if op is None:
        _single_tensor_asgd(params, grads, axs, mus, etas, state_steps, lambd=lambd, lr=lr, t0=t0, alpha=alpha,
                            weight_decay=weight_decay, maximize=maximize, differentiable=differentiable,
                            capturable=capturable, has_complex=has_complex)
        return
    _fused.advance(state_steps)
    op(params, grads, axs, mus, etas, state_steps, lr=_fused.number(lr), lambd=lambd, t0=t0, alpha=alpha,
       weight_decay=weight_decay, maximize=bool(maximize))


def _single_tensor_asgd(params, grads, axs, mus, etas, state_steps, *, lambd, lr, t0, alpha, weight_decay, maximize,
                        differentiable, capturable, has_complex):
    lr = lr if differentiable or capturable else _get_value(lr)
    for p, g, ax, mu, eta, step in zip(params, grads, axs, mus, etas, state_steps):
        g = -g if maximize else g
        if torch.is_complex(p):
            g, p, ax = (torch.view_as_real(t) for t in (g, p, ax))
        step += 1
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        if capturable:
            p.mul_(1 - lambd * eta)
            p.addcmul_(g, eta, value=-1)
        else:
            rate = eta.item()
            p.mul_(1 - lambd * rate)
            p.add_(g, alpha=-rate)
        if capturable or mu.item() != 1:
            ax.add_(p.sub(ax).mul_(mu))
        else:
            ax.copy_(p)
        if capturable:
            eta.copy_(lr / ((1 + lambd * lr * step) ** alpha))
            mu.copy_(1 / torch.maximum(step - t0, torch.ones_like(step)))
        else:
            t = step.item()
            eta.copy_(torch.as_tensor(lr / ((1 + lambd * lr * t) ** alpha)))
            mu.copy_(torch.as_tensor(1 / max(1, t - t0)))
