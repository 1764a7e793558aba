"""NAdam: Adam with Nesterov momentum."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim._lists import ListOptimizer
from rushlight.optim.optimizer import _get_value

__all__ = ["NAdam", "nadam"]


class NAdam(ListOptimizer):
    """Adam that looks one step ahead.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; betas: how much is kept of the
    running means of the gradient and of its square; eps: added to the denominator; weight_decay: the factor of parameters that is added to
    gradients; decoupled_weight_decay: parameters are scaled by 1 - lr weight_decay instead; momentum_decay: how the momentum's schedule falls.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.NAdam([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.8944, -1.8944])
    """

    _state_names = "exp_avg", "exp_avg_sq", "mu_product"
    _option_names = "lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay"
    _later_options = {**ListOptimizer._later_options, "decoupled_weight_decay": False}

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
                 differentiable=False):
        _fused.check(lr=lr, betas=betas, eps=("epsilon value", eps, 0.0),
                     decay=("weight_decay value", weight_decay, 0.0),
                     momentum=("momentum_decay value", momentum_decay, 0.0))
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    def __setstate__(self, state):
        super().__setstate__(state)
        _fused.numbers_to_tensors(self, "mu_product")

    def _new_state(self, group, p, grad):
        return {"mu_product": torch.ones_like(_fused.new_step(group, p)), "exp_avg": _fused.zeros_like(p),
                "exp_avg_sq": _fused.zeros_like(p)}

    def _function(self, *lists, **options):
        nadam(*lists, **options)


def nadam(params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, decoupled_weight_decay=False, foreach=None,
          capturable=False, differentiable=False, has_complex=False, maximize=False, *, beta1, beta2, lr,
          weight_decay, momentum_decay, eps):
    """One step for lists of parameters."""
    if not all(isinstance(t, torch.Tensor) for t in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if not all(isinstance(t, torch.Tensor) for t in mu_products):
        raise RuntimeError("API has changed, `mu_products` argument must contain a list of singleton tensors")
    if not params:
        return
    op = _fused.operator("_fused_nadam_", params, grads, differentiable, capturable)
    if op is None:
        _single_tensor_nadam(params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, beta1=beta1,
                             beta2=beta2, lr=lr, weight_decay=weight_decay, momentum_decay=momentum_decay, eps=eps,
                             decoupled_weight_decay=decoupled_weight_decay, maximize=maximize,
                             capturable=capturable, differentiable=differentiable, has_complex=has_complex)
        return
    _fused.advance(state_steps)
    op(params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, lr=_fused.number(lr), beta1=beta1,
       beta2=beta2, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
       decoupled_weight_decay=bool(decoupled_weight_decay), maximize=bool(maximize))


def _single_tensor_nadam(params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, *, beta1, beta2, lr,
                         weight_decay, momentum_decay, eps, decoupled_weight_decay, maximize, capturable,
                         differentiable, has_complex):
    lr = lr if differentiable or capturable else _get_value(lr)
    for p, g, m, v, product, step in zip(params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps):
        g = -g if maximize else g
        if torch.is_complex(p):
            p, g, m, v = (torch.view_as_real(t) for t in (p, g, m, v))
        step += 1
        t = step if capturable or differentiable else step.item()
        if weight_decay != 0:
            if decoupled_weight_decay:
                p.mul_(1 - lr * weight_decay)
            else:
                g = g.add(p, alpha=weight_decay)
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (t * momentum_decay)))
        mu_next = beta1 * (1.0 - 0.5 * (0.96 ** ((t + 1) * momentum_decay)))
        product *= mu
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        denominator = v.div(1 - beta2 ** t).sqrt()
        if capturable or differentiable:
            denominator = denominator.add(eps)
            p.addcdiv_(g * (-lr * (1.0 - mu) / (1.0 - product)), denominator)
            p.addcdiv_(m * (-lr * mu_next / (1.0 - product * mu_next)), denominator)
        else:
            denominator.add_(eps)
            now = product.item()
            p.addcdiv_(g, denominator, value=-lr * (1.0 - mu) / (1.0 - now))
            p.addcdiv_(m, denominator, value=(-lr * mu_next) / (1.0 - now * mu_next))
