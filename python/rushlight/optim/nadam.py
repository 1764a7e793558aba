"""NAdam: Adam with Nesterov momentum."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.adam import _steps_to_tensors
from rushlight.optim.optimizer import Optimizer, _get_scalar_dtype, _get_value, _use_grad_for_differentiable

__all__ = ["NAdam", "nadam"]


class NAdam(Optimizer):
    """Adam that looks one step ahead."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
                 differentiable=False):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _fused.check(lr=("learning rate", lr, 0.0), eps=("epsilon value", eps, 0.0),
                     beta1=("beta parameter at index 0", betas[0], 0.0, 1.0),
                     beta2=("beta parameter at index 1", betas[1], 0.0, 1.0),
                     decay=("weight_decay value", weight_decay, 0.0),
                     momentum=("momentum_decay value", momentum_decay, 0.0))
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("maximize", False), ("foreach", None), ("capturable", False),
                                  ("differentiable", False), ("decoupled_weight_decay", False)):
                group.setdefault(name, default)
            _steps_to_tensors(self, group)
            for p in group["params"]:
                state = self.state.get(p, [])
                if len(state) != 0 and not torch.is_tensor(state["mu_product"]):
                    state["mu_product"] = torch.tensor(state["mu_product"], dtype=_get_scalar_dtype())

    def _init_group(self, group, params_with_grad, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps):
        params, found = _fused.collect(group, "NAdam")
        params_with_grad.extend(params)
        grads.extend(found)
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = _fused.new_step(group, p)
                state["mu_product"] = torch.ones_like(state["step"])
                state["exp_avg"] = _fused.zeros_like(p)
                state["exp_avg_sq"] = _fused.zeros_like(p)
            exp_avgs.append(state["exp_avg"])
            exp_avg_sqs.append(state["exp_avg_sq"])
            mu_products.append(state["mu_product"])
            state_steps.append(state["step"])
        return any(p.is_complex() for p in params)

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Change the parameters once."""
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            lists = [], [], [], [], [], []
            has_complex = self._init_group(group, *lists)
            beta1, beta2 = group["betas"]
            nadam(*lists, beta1=beta1, beta2=beta2, lr=group["lr"], weight_decay=group["weight_decay"],
                  momentum_decay=group["momentum_decay"], eps=group["eps"], maximize=group["maximize"],
                  decoupled_weight_decay=group["decoupled_weight_decay"], foreach=group["foreach"],
                  capturable=group["capturable"], differentiable=group["differentiable"], has_complex=has_complex)
        return loss


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
       decoupled_weight_decay=decoupled_weight_decay, maximize=maximize)


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
