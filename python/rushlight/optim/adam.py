"""Adam."""
import functools

import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.optimizer import Optimizer, _get_value, _to_scalar, _use_grad_for_differentiable

__all__ = ["Adam", "adam"]


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; betas: how much is kept of the
    running means of the gradient and of its square; eps: added to the denominator; weight_decay: the factor of parameters that is added to
    gradients; decoupled_weight_decay: parameters are scaled by 1 - lr weight_decay instead; amsgrad: divide by the largest mean square there
    was.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.Adam([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        _fused.check_lr(lr, foreach, capturable)
        _fused.check(lr=lr, betas=betas, eps=("epsilon value", eps, 0.0),
                     decay=("weight_decay value", weight_decay, 0.0))
        tensors = [isinstance(b, torch.Tensor) for b in betas]
        if any(tensors) and not all(tensors):
            raise ValueError("betas must be either both floats or both Tensors")
        for place, beta in enumerate(betas):
            if isinstance(beta, torch.Tensor):
                if not capturable and foreach:
                    raise ValueError(f"betas[{place}] as a Tensor is not supported for capturable=False and "
                                     "foreach=True")
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{place}] must be 1-element")
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
                        foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
                        decoupled_weight_decay=decoupled_weight_decay)
        super().__init__(params, defaults)
        _fused.fits(self, fused, differentiable, foreach)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("amsgrad", False), ("maximize", False), ("foreach", None), ("capturable", False),
                                  ("differentiable", False), ("decoupled_weight_decay", False), ("fused", None)):
                group.setdefault(name, default)
            _steps_to_tensors(self, group)

    def _init_group(self, group, params_with_grad, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps):
        has_complex = False
        amsgrad = group["amsgrad"]
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.is_sparse:
                raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
            if p.is_complex():
                has_complex = True
            state = self.state[p]
            if not state:
                state["step"] = _fused.new_step(group, p)
                state["exp_avg"] = _fused.zeros_like(p)
                state["exp_avg_sq"] = _fused.zeros_like(p)
                if amsgrad:
                    state["max_exp_avg_sq"] = _fused.zeros_like(p)
            params_with_grad.append(p)
            grads.append(grad)
            exp_avgs.append(state["exp_avg"])
            exp_avg_sqs.append(state["exp_avg_sq"])
            if amsgrad:
                max_exp_avg_sqs.append(state["max_exp_avg_sq"])
            if group["differentiable"] and state["step"].requires_grad:
                raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
            state_steps.append(state["step"])
        _fused.can_step(group, params_with_grad)
        return has_complex

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Change the parameters once."""
        self._accelerator_graph_capture_health_check()
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            lists = [], [], [], [], [], []
            has_complex = self._init_group(group, *lists)
            beta1, beta2 = group["betas"]
            adam(*lists, amsgrad=group["amsgrad"], has_complex=has_complex, beta1=beta1, beta2=beta2, lr=group["lr"],
                 weight_decay=group["weight_decay"], eps=group["eps"], maximize=group["maximize"],
                 foreach=group["foreach"], capturable=group["capturable"], differentiable=group["differentiable"],
                 fused=group["fused"], grad_scale=getattr(self, "grad_scale", None),
                 found_inf=getattr(self, "found_inf", None),
                 decoupled_weight_decay=group["decoupled_weight_decay"])
        return loss


def _steps_to_tensors(optimizer, group):
    """State dicts of old versions hold step counters as plain numbers."""
    for p in group["params"]:
        state = optimizer.state.get(p, [])
        if len(state) != 0 and "step" in state and not torch.is_tensor(state["step"]):
            count = float(state["step"])
            state["step"] = _fused.new_step(group, p)
            state["step"].fill_(count)


def adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False,
         differentiable=False, fused=None, grad_scale=None, found_inf=None, has_complex=False,
         decoupled_weight_decay=False, *, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize):
    """One step for lists of parameters."""
    if not all(isinstance(t, torch.Tensor) for t in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if not params:
        return
    op = None
    if fused is not False:
        op = _fused.operator("_fused_adamw_" if decoupled_weight_decay else "_fused_adam_", params, grads,
                             differentiable, capturable, fused)
    if op is None:
        plain = functools.partial(_single_tensor_adam, params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps,
                                  amsgrad=amsgrad, has_complex=has_complex, beta1=beta1, beta2=beta2, lr=lr,
                                  weight_decay=weight_decay, eps=eps, maximize=maximize, capturable=capturable,
                                  differentiable=differentiable, decoupled_weight_decay=decoupled_weight_decay)
        if fused and capturable:
            _fused.unless_infinite(plain, grads, [*params, *exp_avgs, *exp_avg_sqs, *max_exp_avg_sqs, *state_steps], grad_scale, found_inf)
        else:
            plain(grad_scale, found_inf)
        return
    _fused.advance(state_steps)
    op(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr=_fused.number(lr),
       beta1=_fused.number(beta1), beta2=_fused.number(beta2), weight_decay=weight_decay, eps=eps, amsgrad=bool(amsgrad),
       maximize=bool(maximize), grad_scale=grad_scale, found_inf=found_inf)
    if found_inf is not None:
        # A step that overflowed has not been taken.
        for step in state_steps:
            step.sub_(found_inf.to(step.device).reshape(()))


def _single_tensor_adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, grad_scale, found_inf, *,
                        amsgrad, has_complex, beta1, beta2, lr, weight_decay, eps, maximize, capturable,
                        differentiable, decoupled_weight_decay):
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Expected grad_scale and found_inf to be None")
    lr = _to_scalar(lr)
    for i, (p, g, m, v, step) in enumerate(zip(params, grads, exp_avgs, exp_avg_sqs, state_steps)):
        if maximize:
            g = -g
        step += 1
        if weight_decay != 0:
            if decoupled_weight_decay:
                p.mul_(1 - lr * weight_decay)
            else:
                g = g.add(p, alpha=weight_decay)
        vmax = max_exp_avg_sqs[i] if amsgrad else None
        if torch.is_complex(p):
            g, m, v, p = (torch.view_as_real(t) for t in (g, m, v, p))
            vmax = torch.view_as_real(vmax) if amsgrad else None
        m.lerp_(g, 1 - beta1)
        if isinstance(beta2, torch.Tensor) and (differentiable or capturable):
            v.mul_(beta2).add_(g * g * (1 - beta2))
        else:
            v.mul_(beta2).addcmul_(g, g, value=_get_value(1 - beta2))
        if amsgrad:
            vmax.copy_(torch.maximum(vmax.clone() if differentiable else vmax, v))
        second = vmax if amsgrad else v
        if capturable or differentiable:
            size = -(lr / (1 - beta1 ** step))
            denominator = second.sqrt() / ((1 - beta2 ** step).sqrt() * size) + eps / size
            p.addcdiv_(m, denominator)
        else:
            t = step.item()
            size = lr / (1 - beta1 ** t)
            denominator = (second.sqrt() / (1 - beta2 ** t) ** 0.5).add_(eps)
            p.addcdiv_(m, denominator, value=-_get_value(size))
