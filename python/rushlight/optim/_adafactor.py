"""Adafactor: the second moments of a matrix as a product of row and column means."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.optimizer import Optimizer, _get_scalar_dtype, _get_value, _to_scalar

__all__ = ["Adafactor", "adafactor"]


class Adafactor(Optimizer):
    """Adam's scaling with memory for rows and columns only.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; beta2_decay: the power of t by which
    the mean square forgets; eps: two numbers, added to squares (the dtype's epsilon squared by default) and the least scale of steps; d: steps
    of a larger root mean square are cut down; weight_decay: parameters are scaled by 1 - lr weight_decay.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.Adafactor([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.8419, -1.8419])
    """

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None,
                 maximize=False):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for what, value, sign, bound in (("Learning rate", lr, ">=", 0), ("beta2_decay", beta2_decay, "<=", 0), ("epsilon1", eps[0], ">=", 0),
                                         ("epsilon2", eps[1], ">=", 0), ("Clipping threshold d", d, ">=", 1), ("weight_decay", weight_decay, ">=", 0)):
            if value is not None and not (value >= bound if sign == ">=" else value <= bound):
                raise ValueError(f"{what} should be {sign} {bound} but is: {value}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for p in group["params"]:
                state = self.state.get(p, [])
                if len(state) != 0 and not torch.is_tensor(state["step"]):
                    state["step"] = torch.tensor(float(state["step"]), dtype=_get_scalar_dtype())

    def _init_group(self, group, params_with_grad, grads, row_vars, col_vars, variances, state_steps):
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if torch.is_complex(p):
                raise RuntimeError("Adafactor does not support complex parameters")
            if grad.is_sparse:
                raise RuntimeError("Adafactor does not support sparse gradients")
            state = self.state[p]
            if not state:
                state["step"] = torch.tensor(0.0, dtype=_get_scalar_dtype())
                if grad.dim() > 1:
                    state["row_var"] = grad.new_zeros((*grad.shape[:-1], 1))
                    state["col_var"] = grad.new_zeros((*grad.shape[:-2], 1, grad.shape[-1]))
                else:
                    state["variance"] = torch.zeros_like(grad, memory_format=torch.preserve_format)
            params_with_grad.append(p)
            grads.append(grad)
            row_vars.append(state.get("row_var"))
            col_vars.append(state.get("col_var"))
            variances.append(state.get("variance"))
            state_steps.append(state["step"])
        return False

    @_fused.without_grad
    def step(self, closure=None):
        """Change the parameters once."""
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            lists = [], [], [], [], [], []
            has_complex = self._init_group(group, *lists)
            eps1, eps2 = group["eps"]
            adafactor(*lists, d=group["d"], lr=group["lr"], beta2_decay=group["beta2_decay"],
                      weight_decay=group["weight_decay"], eps1=eps1, eps2=eps2, foreach=group["foreach"],
                      maximize=group["maximize"], grad_scale=getattr(self, "grad_scale", None),
                      found_inf=getattr(self, "found_inf", None), has_complex=has_complex)
        return loss


def adafactor(params, grads, row_vars, col_vars, variances, state_steps, foreach=None, grad_scale=None,
              found_inf=None, has_complex=False, *, d, lr, beta2_decay, weight_decay, eps1, eps2, maximize):
    """One step for lists of parameters."""
    if not all(isinstance(t, torch.Tensor) for t in state_steps):
        raise RuntimeError("`state_steps` argument must contain a list of singleton tensors")
    _single_tensor_adafactor(params, grads, row_vars, col_vars, variances, state_steps, grad_scale, found_inf, d=d,
                             lr=lr, beta2_decay=beta2_decay, weight_decay=weight_decay, eps1=eps1, eps2=eps2,
                             maximize=maximize, has_complex=has_complex)


def _single_tensor_adafactor(params, grads, row_vars, col_vars, variances, state_steps, grad_scale, found_inf, *, d,
                             lr, beta2_decay, weight_decay, eps1, eps2, maximize, has_complex):
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Grad scaling should occur outside of optimizer.step()")
    lr = _get_value(_to_scalar(lr))
    for p, g, rows, cols, variance, step in zip(params, grads, row_vars, col_vars, variances, state_steps):
        g = -g if maximize else g
        smallest = torch.finfo(p.dtype).eps if eps1 is None else eps1
        step += 1
        t = step.item()
        share = t ** beta2_decay
        size = max(eps2, p.norm(2).item() / (p.numel() ** 0.5)) * min(lr, 1 / (t ** 0.5))
        if weight_decay != 0:
            p.mul_(1 - lr * weight_decay)
        if g.dim() > 1:
            if rows is None or cols is None:
                raise AssertionError("row_var and col_var should be defined when grad is multidimensional")
            rows.lerp_(torch.norm(g, dim=-1, keepdim=True).square_().div_(g.size(-1)), share)
            cols.lerp_(torch.norm(g, dim=-2, keepdim=True).square_().div_(g.size(-2)), share)
            estimate = rows @ cols
            estimate.div_(rows.mean(dim=-2, keepdim=True).clamp_(min=smallest))
        else:
            if variance is None:
                raise AssertionError("variance should be defined when grad is a vector")
            variance.lerp_(g.square(), share)
            estimate = variance.clone()
        update = estimate.clamp_(min=smallest * smallest).rsqrt_().mul_(g)
        clip = max(1.0, update.norm(2).item() / ((update.numel() ** 0.5) * d))
        p.add_(update, alpha=-size / clip)
