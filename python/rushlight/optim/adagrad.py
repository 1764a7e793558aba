"""Adagrad."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.adam import _steps_to_tensors
from rushlight.optim.optimizer import Optimizer, _get_scalar_dtype, _get_value, _to_scalar, _use_grad_for_differentiable

__all__ = ["Adagrad", "adagrad"]


class Adagrad(Optimizer):
    """Steps scaled by the sum of all squared gradients.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; lr_decay: step t has the size lr /
    (1 + (t - 1) lr_decay); weight_decay: the factor of parameters that is added to gradients; initial_accumulator_value: what the sums begin
    with; eps: added to the denominator.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.Adagrad([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
                 foreach=None, *, maximize=False, differentiable=False, fused=None):
        _fused.check(lr=lr, lr_decay=("lr_decay value", lr_decay, 0.0),
                     decay=("weight_decay value", weight_decay, 0.0),
                     start=("initial_accumulator_value value", initial_accumulator_value, 0.0),
                     eps=("epsilon value", eps, 0.0))
        defaults = dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                        initial_accumulator_value=initial_accumulator_value, foreach=foreach, maximize=maximize,
                        differentiable=differentiable, fused=fused)
        super().__init__(params, defaults)
        if fused:
            if differentiable:
                raise RuntimeError("`fused` does not support `differentiable`")
            if foreach:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        self._need_device_dtype_check_for_fused = True
        for group in self.param_groups:
            for p in group["params"]:
                start = initial_accumulator_value
                state = self.state[p]
                state["step"] = (torch.zeros((), dtype=_get_scalar_dtype(is_fused=True), device=p.device)
                                 if group["fused"] else torch.tensor(0.0, dtype=_get_scalar_dtype()))
                state["sum"] = torch.full_like(p, complex(start, start) if torch.is_complex(p) else start,
                                               memory_format=torch.preserve_format)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("foreach", None), ("maximize", False), ("differentiable", False), ("fused", None)):
                group.setdefault(name, default)
            _steps_to_tensors(self, group)

    def share_memory(self):
        """Move the state to memory that child processes share."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _init_group(self, group, params_with_grad, grads, state_sums, state_steps):
        has_sparse = has_complex = False
        for p in group["params"]:
            if p.grad is None:
                continue
            has_sparse |= p.grad.is_sparse
            has_complex |= torch.is_complex(p)
            params_with_grad.append(p)
            grads.append(p.grad)
            state = self.state[p]
            if "sum" not in state:      # a group that was added later
                start = group["initial_accumulator_value"]
                state["step"] = torch.tensor(0.0, dtype=_get_scalar_dtype())
                state["sum"] = torch.full_like(p, complex(start, start) if torch.is_complex(p) else start,
                                               memory_format=torch.preserve_format)
            state_sums.append(state["sum"])
            state_steps.append(state["step"])
        _fused.can_step(group, params_with_grad)
        return has_sparse, has_complex

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Change the parameters once."""
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            lists = [], [], [], []
            has_sparse, has_complex = self._init_group(group, *lists)
            adagrad(*lists, lr=group["lr"], weight_decay=group["weight_decay"], lr_decay=group["lr_decay"],
                    eps=group["eps"], has_sparse_grad=has_sparse, foreach=group["foreach"],
                    maximize=group["maximize"], differentiable=group["differentiable"], has_complex=has_complex,
                    fused=group["fused"], grad_scale=getattr(self, "grad_scale", None),
                    found_inf=getattr(self, "found_inf", None))
        return loss


def adagrad(params, grads, state_sums, state_steps, fused=None, grad_scale=None, found_inf=None,
            has_sparse_grad=False, foreach=None, differentiable=False, has_complex=False, *, lr, weight_decay,
            lr_decay, eps, maximize):
    """One step for lists of parameters."""
    if not all(isinstance(t, torch.Tensor) for t in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if not params:
        return
    op = None
    if fused is not False and not has_sparse_grad:
        op = _fused.operator("_fused_adagrad_", params, grads, differentiable, fused=fused)
    if op is None:
        _single_tensor_adagrad(params, grads, state_sums, state_steps, grad_scale, found_inf, lr=lr,
                               weight_decay=weight_decay, lr_decay=lr_decay, eps=eps,
                               has_sparse_grad=has_sparse_grad, maximize=maximize, differentiable=differentiable,
                               has_complex=has_complex)
        return
    _fused.advance(state_steps)
    op(params, grads, state_sums, state_steps, lr=_fused.number(lr), lr_decay=lr_decay, weight_decay=weight_decay,
       eps=eps, maximize=bool(maximize), grad_scale=grad_scale, found_inf=found_inf)
    if found_inf is not None:
        for step in state_steps:
            step.sub_(found_inf.to(step.device).reshape(()))


def _single_tensor_adagrad(params, grads, state_sums, state_steps, grad_scale, found_inf, *, lr, weight_decay,
                           lr_decay, eps, has_sparse_grad, maximize, differentiable, has_complex):
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Expected grad_scale and found_inf to be None")
    lr = _to_scalar(lr) if differentiable else _get_value(lr)
    for p, g, total, step in zip(params, grads, state_sums, state_steps):
        step += 1
        if maximize:
            g = -g
        if weight_decay != 0:
            if g.is_sparse:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            g = g.add(p, alpha=weight_decay)
        size = lr / (1 + (_get_value(step) - 1) * lr_decay)
        if g.is_sparse:
            g = g.coalesce()        # the square of a sum needs equal indices joined
            indices, values = g._indices(), g._values()
            total.add_(_fused.sparse_like(g, indices, values.pow(2)))
            deviation = total.sparse_mask(g)._values().sqrt_().add_(eps)
            p.add_(_fused.sparse_like(g, indices, values / deviation), alpha=-size)
            continue
        if torch.is_complex(p):
            p, g, total = (torch.view_as_real(t) for t in (p, g, total))
        total.addcmul_(g, g, value=1)
        deviation = total.sqrt() + eps if differentiable else total.sqrt().add_(eps)
        p.addcdiv_(g, deviation, value=-size)
