"""RAdam: Adam that waits with its scaling until the variance is known well enough."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim._lists import ListOptimizer
from rushlight.optim.optimizer import _get_value

__all__ = ["RAdam", "radam"]


class RAdam(ListOptimizer):
    """Rectified Adam.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; betas: how much is kept of the
    running means of the gradient and of its square; eps: added to the denominator; weight_decay: the factor of parameters that is added to
    gradients; decoupled_weight_decay: parameters are scaled by 1 - lr weight_decay instead.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.RAdam([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.8000, -1.6000])
    """

    _state_names = "exp_avg", "exp_avg_sq"
    _option_names = "lr", "betas", "eps", "weight_decay", "decoupled_weight_decay"
    _later_options = {**ListOptimizer._later_options, "decoupled_weight_decay": False}

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False,
                 *, foreach=None, maximize=False, capturable=False, differentiable=False):
        _fused.check(lr=lr, betas=betas, eps=("epsilon value", eps, 0.0),
                     decay=("weight_decay value", weight_decay, 0.0))
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      foreach=foreach, capturable=capturable,
                                      decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def _function(self, *lists, **options):
        radam(*lists, **options)


def radam(params, grads, exp_avgs, exp_avg_sqs, state_steps, decoupled_weight_decay=False, foreach=None,
          differentiable=False, capturable=False, has_complex=False, maximize=False, *, beta1, beta2, lr,
          weight_decay, eps):
    """One step for lists of parameters."""
    if not all(isinstance(t, torch.Tensor) for t in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if not params:
        return
    op = _fused.operator("_fused_radam_", params, grads, differentiable, capturable)
    if op is None:
        _single_tensor_radam(params, grads, exp_avgs, exp_avg_sqs, state_steps, beta1=beta1, beta2=beta2, lr=lr,
                             weight_decay=weight_decay, eps=eps, decoupled_weight_decay=decoupled_weight_decay,
                             differentiable=differentiable, maximize=maximize, capturable=capturable,
                             has_complex=has_complex)
        return
    _fused.advance(state_steps)
    op(params, grads, exp_avgs, exp_avg_sqs, state_steps, lr=_fused.number(lr), beta1=beta1, beta2=beta2, eps=eps,
       weight_decay=weight_decay, decoupled_weight_decay=bool(decoupled_weight_decay), maximize=bool(maximize))


def _single_tensor_radam(params, grads, exp_avgs, exp_avg_sqs, state_steps, *, beta1, beta2, lr, weight_decay, eps,
                         decoupled_weight_decay, differentiable, maximize, capturable, has_complex):
    on_tensors = capturable or differentiable
    lr = lr if on_tensors else _get_value(lr)
    rho_inf = 2 / (1 - beta2) - 1       # the longest memory that the second mean can have
    for p, g, m, v, step in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps):
        g = -g if maximize else g
        if torch.is_complex(p):
            p, g, m, v = (torch.view_as_real(t) for t in (p, g, m, v))
        step += 1
        t = step if on_tensors else step.item()
        if weight_decay != 0:
            if decoupled_weight_decay:
                p.mul_(1 - lr * weight_decay)
            else:
                g = g.add(p, alpha=weight_decay)
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        correction2 = 1 - beta2 ** t
        mean = m / (1 - beta1 ** t)
        rho = rho_inf - 2 * t * (beta2 ** t) / correction2

        def rectifier():
            return ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5

        def scale():
            deviation = v.sqrt()
            deviation = deviation.add(eps) if differentiable else deviation.add_(eps)
            return (correction2 ** 0.5) / deviation

        if on_tensors:
            p.add_(mean * lr * torch.where(rho > 5.0, scale() * rectifier(), 1.0), alpha=-1.0)
        elif rho > 5.0:
            p.add_(mean * lr * scale() * rectifier(), alpha=-1.0)
        else:
            p.add_(mean * lr, alpha=-1.0)
