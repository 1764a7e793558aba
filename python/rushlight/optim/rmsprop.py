"""RMSprop."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim._lists import ListOptimizer
from rushlight.optim.optimizer import _get_value

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(ListOptimizer):
    """Steps scaled by the running mean of the squared gradient.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; alpha: how much is kept of the mean
    square; eps: added to its root; weight_decay: the factor of parameters that is added to gradients; momentum: how much of the last step is
    kept; centered: subtract the mean gradient's square.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.RMSprop([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 5.9605e-08, -1.0000e+00])
    """

    _state_names = "square_avg", "grad_avg", "momentum_buffer"
    _option_names = "lr", "alpha", "eps", "weight_decay", "momentum", "centered"
    _later_options = {**ListOptimizer._later_options, "momentum": 0, "centered": False}

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        _fused.check(lr=lr, eps=("epsilon value", eps, 0.0),
                     momentum=("momentum value", momentum, 0.0), decay=("weight_decay value", weight_decay, 0.0),
                     alpha=("alpha value", alpha, 0.0))
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable))

    def _new_state(self, group, p, grad):
        names = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
        return {name: _fused.zeros_like(p) for name in names}

    def _function(self, *lists, **options):
        rmsprop(*lists, **options)


def rmsprop(params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps, foreach=None, maximize=False,
            differentiable=False, capturable=False, has_complex=False, *, lr, alpha, eps, weight_decay, momentum,
            centered):
    """One step for lists of parameters."""
    if not all(isinstance(t, torch.Tensor) for t in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if not params:
        return
    op = _fused.operator("_fused_rmsprop_", params, grads, differentiable, capturable)
    if op is None:
        _single_tensor_rmsprop(params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps, lr=lr,
                               alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum,
                               centered=centered, maximize=maximize, differentiable=differentiable,
                               capturable=capturable, has_complex=has_complex)
        return
    _fused.advance(state_steps)
    op(params, grads, square_avgs, grad_avgs, momentum_buffer_list, lr=_fused.number(lr), alpha=alpha, eps=eps,
       weight_decay=weight_decay, momentum=momentum, centered=bool(centered), maximize=bool(maximize))


def _single_tensor_rmsprop(params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps, *, lr, alpha,
                           eps, weight_decay, momentum, centered, maximize, differentiable, capturable, has_complex):
    lr = lr if differentiable or capturable else _get_value(lr)
    for i, (p, g, square, step) in enumerate(zip(params, grads, square_avgs, state_steps)):
        step += 1
        g = -g if maximize else g
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        is_complex = torch.is_complex(p)

        def real(t):
            return torch.view_as_real(t) if is_complex else t

        p, g, square = real(p), real(g), real(square)
        square.mul_(alpha).addcmul_(g, g, value=1 - alpha)
        if centered:
            mean = real(grad_avgs[i])
            mean.lerp_(g, 1 - alpha)
            deviation = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            deviation = square.sqrt()
        deviation = deviation.add(eps) if differentiable else deviation.add_(eps)
        if momentum > 0:
            buffer = real(momentum_buffer_list[i])
            buffer.mul_(momentum).addcdiv_(g, deviation)
            _fused.add_times(p, buffer, lr, capturable)
        elif capturable and isinstance(lr, torch.Tensor):
            _fused.add_times(p, g / deviation, lr, capturable)
        else:
            p.addcdiv_(g, deviation, value=-_get_value(lr))
