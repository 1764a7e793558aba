"""Adamax."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim._lists import ListOptimizer
from rushlight.optim.optimizer import _get_value

__all__ = ["Adamax", "adamax"]


class Adamax(ListOptimizer):
    """Adam with the largest gradient seen in place of the mean square.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; betas: how much is kept of the mean
    gradient and of the largest; eps: added to the largest; weight_decay: the factor of parameters that is added to gradients.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    _state_names = "exp_avg", "exp_inf"
    _option_names = "lr", "betas", "eps", "weight_decay"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *,
                 maximize=False, differentiable=False, capturable=False):
        _fused.check(lr=lr, betas=betas, eps=("epsilon value", eps, 0.0),
                     decay=("weight_decay value", weight_decay, 0.0))
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def _function(self, *lists, **options):
        adamax(*lists, **options)


def adamax(params, grads, exp_avgs, exp_infs, state_steps, foreach=None, maximize=False, differentiable=False,
           capturable=False, has_complex=False, *, eps, beta1, beta2, lr, weight_decay):
    """One step for lists of parameters."""
    if not all(isinstance(t, torch.Tensor) for t in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if not params:
        return
    op = _fused.operator("_fused_adamax_", params, grads, differentiable, capturable)
    if op is None:
        _single_tensor_adamax(params, grads, exp_avgs, exp_infs, state_steps, eps=eps, beta1=beta1, beta2=beta2,
                              lr=lr, weight_decay=weight_decay, maximize=maximize, differentiable=differentiable,
                              capturable=capturable, has_complex=has_complex)
        return
    _fused.advance(state_steps)
    op(params, grads, exp_avgs, exp_infs, state_steps, lr=_fused.number(lr), beta1=beta1, beta2=beta2, eps=eps,
       weight_decay=weight_decay, maximize=bool(maximize))


def _single_tensor_adamax(params, grads, exp_avgs, exp_infs, state_steps, *, eps, beta1, beta2, lr, weight_decay,
                          maximize, differentiable, capturable, has_complex):
    lr = lr if differentiable or capturable else _get_value(lr)
    for p, g, m, largest, step in zip(params, grads, exp_avgs, exp_infs, state_steps):
        g = -g if maximize else g
        step += 1
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        if torch.is_complex(p):
            p, g, m, largest = (torch.view_as_real(t) for t in (p, g, m, largest))
        m.lerp_(g, 1 - beta1)
        if differentiable:
            largest.copy_(torch.stack([largest.mul_(beta2), g.abs().add_(eps)]).amax(0))
        else:
            torch.maximum(largest.mul_(beta2), g.abs().add_(eps), out=largest)
        if capturable or differentiable:
            p.addcdiv_(m, largest * ((beta1 ** step - 1) / lr))
        else:
            p.addcdiv_(m, largest, value=-(lr / (1 - beta1 ** step.item())))
