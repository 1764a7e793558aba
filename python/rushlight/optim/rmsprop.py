"""RMSprop."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.adam import _steps_to_tensors
from rushlight.optim.optimizer import Optimizer, _get_value, _use_grad_for_differentiable

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(Optimizer):
    """Steps scaled by the running mean of the squared gradient."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _fused.check(lr=("learning rate", lr, 0.0), eps=("epsilon value", eps, 0.0),
                     momentum=("momentum value", momentum, 0.0), decay=("weight_decay value", weight_decay, 0.0),
                     alpha=("alpha value", alpha, 0.0))
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("momentum", 0), ("centered", False), ("foreach", None), ("maximize", False),
                                  ("differentiable", False), ("capturable", False)):
                group.setdefault(name, default)
            _steps_to_tensors(self, group)

    def _init_group(self, group, params_with_grad, grads, square_avgs, momentum_buffer_list, grad_avgs, state_steps):
        params, found = _fused.collect(group, "RMSprop")
        params_with_grad.extend(params)
        grads.extend(found)
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = _fused.new_step(group, p)
                state["square_avg"] = _fused.zeros_like(p)
                if group["momentum"] > 0:
                    state["momentum_buffer"] = _fused.zeros_like(p)
                if group["centered"]:
                    state["grad_avg"] = _fused.zeros_like(p)
            square_avgs.append(state["square_avg"])
            state_steps.append(state["step"])
            if group["momentum"] > 0:
                momentum_buffer_list.append(state["momentum_buffer"])
            if group["centered"]:
                grad_avgs.append(state["grad_avg"])
        return any(p.is_complex() for p in params)

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Change the parameters once."""
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            params, grads, squares, buffers, means, steps = [], [], [], [], [], []
            has_complex = self._init_group(group, params, grads, squares, buffers, means, steps)
            rmsprop(params, grads, squares, means, buffers, steps, lr=group["lr"], alpha=group["alpha"],
                    eps=group["eps"], weight_decay=group["weight_decay"], momentum=group["momentum"],
                    centered=group["centered"], foreach=group["foreach"], maximize=group["maximize"],
                    differentiable=group["differentiable"], capturable=group["capturable"], has_complex=has_complex)
        return loss


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
       weight_decay=weight_decay, momentum=momentum, centered=centered, maximize=maximize)


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
            p.add_(buffer, alpha=-_get_value(lr))
        else:
            p.addcdiv_(g, deviation, value=-_get_value(lr))
