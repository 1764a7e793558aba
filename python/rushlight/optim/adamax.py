"""Adamax."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.adam import _steps_to_tensors
from rushlight.optim.optimizer import Optimizer, _get_value, _use_grad_for_differentiable

__all__ = ["Adamax", "adamax"]


class Adamax(Optimizer):
    """Adam with the largest gradient seen in place of the mean square."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *,
                 maximize=False, differentiable=False, capturable=False):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _fused.check(lr=("learning rate", lr, 0.0), eps=("epsilon value", eps, 0.0),
                     beta1=("beta parameter at index 0", betas[0], 0.0, 1.0),
                     beta2=("beta parameter at index 1", betas[1], 0.0, 1.0),
                     decay=("weight_decay value", weight_decay, 0.0))
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("foreach", None), ("maximize", False), ("differentiable", False),
                                  ("capturable", False)):
                group.setdefault(name, default)
            _steps_to_tensors(self, group)

    def _init_group(self, group, params_with_grad, grads, exp_avgs, exp_infs, state_steps):
        params, found = _fused.collect(group, "Adamax")
        params_with_grad.extend(params)
        grads.extend(found)
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = _fused.new_step(group, p)
                state["exp_avg"] = _fused.zeros_like(p)
                state["exp_inf"] = _fused.zeros_like(p)
            exp_avgs.append(state["exp_avg"])
            exp_infs.append(state["exp_inf"])
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
            adamax(*lists, eps=group["eps"], beta1=beta1, beta2=beta2, lr=group["lr"],
                   weight_decay=group["weight_decay"], foreach=group["foreach"], maximize=group["maximize"],
                   differentiable=group["differentiable"], capturable=group["capturable"], has_complex=has_complex)
        return loss


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
       weight_decay=weight_decay, maximize=maximize)


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
