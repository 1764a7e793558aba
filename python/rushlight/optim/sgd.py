"""Stochastic gradient descent with momentum."""
import functools

import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.optimizer import Optimizer, _to_scalar, _use_grad_for_differentiable

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    """p -= lr * (momentum of the gradient).

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; momentum: how much of the last step
    is kept; dampening: how much less the gradient counts beside it; weight_decay: the factor of parameters that is added to gradients;
    nesterov: look one step ahead.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.8000, -1.6000])
    """

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
                 foreach=None, differentiable=False, fused=None):
        _fused.check(lr=lr, momentum=("momentum value", momentum, 0.0),
                     decay=("weight_decay value", weight_decay, 0.0))
        defaults = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                        maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        _fused.fits(self, fused, differentiable, foreach)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("nesterov", False), ("maximize", False), ("foreach", None), ("differentiable", False), ("fused", False)):
                group.setdefault(name, default)

    def _init_group(self, group, params, grads, momentum_buffer_list):
        sparse = False
        remember = group["momentum"] != 0
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            params.append(p)
            grads.append(grad)
            if grad.is_sparse:
                sparse = True
            if remember:
                momentum_buffer_list.append(self.state[p].get("momentum_buffer"))
        _fused.can_step(group, params)
        return sparse

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Change the parameters once."""
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            params, grads, buffers = [], [], []
            sparse = self._init_group(group, params, grads, buffers)
            sgd(params, grads, buffers, weight_decay=group["weight_decay"], momentum=group["momentum"],
                lr=group["lr"], dampening=group["dampening"], nesterov=group["nesterov"], maximize=group["maximize"],
                has_sparse_grad=sparse, foreach=group["foreach"],
                fused=False if group["differentiable"] else group["fused"],
                grad_scale=getattr(self, "grad_scale", None), found_inf=getattr(self, "found_inf", None))
            if group["momentum"] != 0:
                for p, buffer in zip(params, buffers):
                    self.state[p]["momentum_buffer"] = buffer
        return loss


def sgd(params, d_p_list, momentum_buffer_list, has_sparse_grad=False, foreach=None, fused=None, grad_scale=None,
        found_inf=None, *, weight_decay, momentum, lr, dampening, nesterov, maximize):
    """One step for lists of parameters; missing momentum buffers are made in the list."""
    if not params:
        return
    op = None
    scaled = fused and (grad_scale is not None or found_inf is not None) and torch.cuda.is_current_stream_capturing()
    if fused is not False and not has_sparse_grad and not scaled:
        op = _fused.operator("_fused_sgd_", params, d_p_list, fused=fused)
    if op is None:
        plain = functools.partial(_single_tensor_sgd, params, d_p_list, momentum_buffer_list, weight_decay=weight_decay,
                                  momentum=momentum, lr=lr, dampening=dampening, nesterov=nesterov, maximize=maximize,
                                  has_sparse_grad=has_sparse_grad)
        if scaled:
            buffers = [b for b in momentum_buffer_list if b is not None]
            _fused.unless_infinite(plain, d_p_list, [*params, *buffers], grad_scale, found_inf)
        else:
            plain(grad_scale, found_inf)
        return
    options = dict(weight_decay=_fused.number(weight_decay), momentum=momentum, lr=_fused.number(lr),
                   dampening=dampening, nesterov=bool(nesterov), maximize=bool(maximize), grad_scale=grad_scale,
                   found_inf=found_inf)
    if momentum == 0:
        op(params, d_p_list, [], is_first_step=False, **options)
        return
    fresh = [i for i, buffer in enumerate(momentum_buffer_list) if buffer is None]
    for i in fresh:
        momentum_buffer_list[i] = torch.empty_like(params[i])
    if not fresh or len(fresh) == len(params):
        op(params, d_p_list, momentum_buffer_list, is_first_step=bool(fresh), **options)
        return
    # Parameters that join later have their first step while others go on.
    late = set(fresh)
    for first, places in ((True, fresh), (False, [i for i in range(len(params)) if i not in late])):
        op([params[i] for i in places], [d_p_list[i] for i in places], [momentum_buffer_list[i] for i in places],
           is_first_step=first, **options)


def _single_tensor_sgd(params, grads, momentum_buffer_list, grad_scale, found_inf, *, weight_decay, momentum, lr,
                       dampening, nesterov, maximize, has_sparse_grad):
    lr = _to_scalar(lr)
    for i, (p, g) in enumerate(zip(params, grads)):
        if maximize:
            g = -g
        if isinstance(weight_decay, torch.Tensor):
            g = g.addcmul(p, weight_decay) if weight_decay.requires_grad else g.add(p, alpha=float(weight_decay))
        elif weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        if momentum != 0:
            buffer = momentum_buffer_list[i]
            if buffer is None:
                buffer = momentum_buffer_list[i] = g.detach().clone()
            else:
                buffer.mul_(momentum).add_(g, alpha=1 - dampening)
            g = g.add(buffer, alpha=momentum) if nesterov else buffer
        if isinstance(lr, torch.Tensor) and lr.requires_grad:
            p.addcmul_(g, lr, value=-1)
        else:
            p.add_(g, alpha=-lr if not isinstance(lr, torch.Tensor) else -float(lr))
