"""Adadelta."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim._lists import ListOptimizer
from rushlight.optim.optimizer import _get_value

__all__ = ["Adadelta", "adadelta"]


class Adadelta(ListOptimizer):
    """Steps in the ratio of the running means of squared updates and squared gradients.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; rho: how much is kept of running
    means; eps: added below both roots; weight_decay: the factor of parameters that is added to gradients.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.Adadelta([w])
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9968, -1.9968])
    """

    _state_names = "square_avg", "acc_delta"
    _option_names = "lr", "rho", "eps", "weight_decay"

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False,
                 maximize=False, differentiable=False):
        _fused.check(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _fused.check(eps=("epsilon value", eps, 0.0), decay=("weight_decay value", weight_decay, 0.0))
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      capturable=capturable, foreach=foreach, differentiable=differentiable))

    def _function(self, *lists, **options):
        adadelta(*lists, **options)


def adadelta(params, grads, square_avgs, acc_deltas, state_steps, capturable=False, foreach=None,
             differentiable=False, has_complex=False, *, lr, rho, eps, weight_decay, maximize):
    """One step for lists of parameters."""
    if not params:
        return
    op = _fused.operator("_fused_adadelta_", params, grads, differentiable, capturable)
    if op is None:
        _single_tensor_adadelta(params, grads, square_avgs, acc_deltas, state_steps, lr=lr, rho=rho, eps=eps,
                                weight_decay=weight_decay, maximize=maximize, differentiable=differentiable,
                                capturable=capturable, has_complex=has_complex)
        return
    _fused.advance(state_steps)
    op(params, grads, square_avgs, acc_deltas, lr=_fused.number(lr), rho=rho, eps=eps, weight_decay=weight_decay,
       maximize=bool(maximize))


def _single_tensor_adadelta(params, grads, square_avgs, acc_deltas, state_steps, *, lr, rho, eps, weight_decay,
                            maximize, differentiable, capturable, has_complex):
    lr = lr if differentiable or capturable else _get_value(lr)
    for p, g, square, acc, step in zip(params, grads, square_avgs, acc_deltas, state_steps):
        step += 1
        g = -g if maximize else g
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        if torch.is_complex(p):
            square, acc, g = (torch.view_as_real(t) for t in (square, acc, g))
        square.mul_(rho).addcmul_(g, g, value=1 - rho)
        deviation = square.add(eps).sqrt_()
        delta = acc.add(eps).sqrt_()
        if differentiable:
            delta = delta.clone()
        delta.div_(deviation).mul_(g)
        acc.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        if torch.is_complex(p):
            delta = torch.view_as_complex(delta)
        _fused.add_times(p, delta, lr, capturable)
