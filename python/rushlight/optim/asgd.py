"""Averaged stochastic gradient descent."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.adam import _steps_to_tensors
from rushlight.optim.optimizer import Optimizer, _get_scalar_dtype, _get_value, _use_grad_for_differentiable

__all__ = ["ASGD", "asgd"]


class ASGD(Optimizer):
    """Gradient descent that keeps, in `ax`, the mean of the parameters from step t0 on."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _fused.check(lr=("learning rate", lr, 0.0), decay=("weight_decay value", weight_decay, 0.0))
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("foreach", None), ("maximize", False), ("differentiable", False),
                                  ("capturable", False)):
                group.setdefault(name, default)
            _steps_to_tensors(self, group)
            for p in group["params"]:
                state = self.state.get(p, [])
                for name in ("eta", "mu") if len(state) != 0 else ():
                    if not torch.is_tensor(state[name]):
                        state[name] = torch.tensor(state[name], dtype=_get_scalar_dtype(), device=p.device)

    def _init_group(self, group, params_with_grad, grads, mus, axs, etas, state_steps):
        params, found = _fused.collect(group, "ASGD")
        params_with_grad.extend(params)
        grads.extend(found)
        for p in params:
            state = self.state[p]
            if not state:
                scalar = dict(dtype=_get_scalar_dtype(), device=p.device)
                state["step"] = torch.zeros((), **scalar)
                state["eta"] = torch.as_tensor(_get_value(group["lr"]), **scalar).clone()
                state["mu"] = torch.ones((), **scalar)
                state["ax"] = _fused.zeros_like(p)
            mus.append(state["mu"])
            axs.append(state["ax"])
            etas.append(state["eta"])
            state_steps.append(state["step"])
        return any(p.is_complex() for p in params)

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Change the parameters once."""
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            params, grads, mus, axs, etas, steps = [], [], [], [], [], []
            has_complex = self._init_group(group, params, grads, mus, axs, etas, steps)
            asgd(params, grads, axs, mus, etas, steps, lambd=group["lambd"], lr=group["lr"], t0=group["t0"],
                 alpha=group["alpha"], weight_decay=group["weight_decay"], foreach=group["foreach"],
                 maximize=group["maximize"], differentiable=group["differentiable"],
                 capturable=group["capturable"], has_complex=has_complex)
        return loss


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
       weight_decay=weight_decay, maximize=maximize)


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
