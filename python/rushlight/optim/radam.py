"""RAdam: Adam that waits with its scaling until the variance is known well enough."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.adam import _steps_to_tensors
from rushlight.optim.optimizer import Optimizer, _get_value, _use_grad_for_differentiable

__all__ = ["RAdam", "radam"]


class RAdam(Optimizer):
    """Rectified Adam."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False,
                 *, foreach=None, maximize=False, capturable=False, differentiable=False):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _fused.check(lr=("learning rate", lr, 0.0), eps=("epsilon value", eps, 0.0),
                     beta1=("beta parameter at index 0", betas[0], 0.0, 1.0),
                     beta2=("beta parameter at index 1", betas[1], 0.0, 1.0),
                     decay=("weight_decay value", weight_decay, 0.0))
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      foreach=foreach, capturable=capturable,
                                      decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("foreach", None), ("maximize", False), ("differentiable", False),
                                  ("decoupled_weight_decay", False), ("capturable", False)):
                group.setdefault(name, default)
            _steps_to_tensors(self, group)

    def _init_group(self, group, params_with_grad, grads, exp_avgs, exp_avg_sqs, state_steps):
        params, found = _fused.collect(group, "RAdam")
        params_with_grad.extend(params)
        grads.extend(found)
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = _fused.new_step(group, p)
                state["exp_avg"] = _fused.zeros_like(p)
                state["exp_avg_sq"] = _fused.zeros_like(p)
            exp_avgs.append(state["exp_avg"])
            exp_avg_sqs.append(state["exp_avg_sq"])
            state_steps.append(state["step"])
        return any(p.is_complex() for p in params)

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Change the parameters once."""
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            lists = [], [], [], [], []
            has_complex = self._init_group(group, *lists)
            beta1, beta2 = group["betas"]
            radam(*lists, beta1=beta1, beta2=beta2, lr=group["lr"], weight_decay=group["weight_decay"],
                  eps=group["eps"], maximize=group["maximize"], foreach=group["foreach"],
                  capturable=group["capturable"], differentiable=group["differentiable"],
                  decoupled_weight_decay=group["decoupled_weight_decay"], has_complex=has_complex)
        return loss


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
       weight_decay=weight_decay, decoupled_weight_decay=decoupled_weight_decay, maximize=maximize)


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
