"""Resilient propagation: only the signs of gradients count."""
import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim._lists import ListOptimizer

__all__ = ["Rprop", "rprop"]


class Rprop(ListOptimizer):
    """A step size per element that grows while the gradient keeps its sign.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; etas: factors of a step whose
    gradient's sign changed, and of others; step_sizes: the smallest and the largest step.

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([w], lr=0.1)
    >>> (w ** 2).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.9000, -1.9000])
    """

    _state_names = "prev", "step_size"

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        _fused.check(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _new_state(self, group, p, grad):
        lr = float(group["lr"])
        return {"prev": _fused.zeros_like(p),
                "step_size": torch.full_like(grad, complex(lr, lr) if p.dtype.is_complex else lr)}

    def _options(self, group):
        (etaminus, etaplus), (smallest, largest) = group["etas"], group["step_sizes"]
        return dict(etaminus=etaminus, etaplus=etaplus, step_size_min=smallest, step_size_max=largest)

    def _function(self, *lists, **options):
        rprop(*lists, **options)


def rprop(params, grads, prevs, step_sizes, state_steps, foreach=None, capturable=False, maximize=False,
          differentiable=False, has_complex=False, *, step_size_min, step_size_max, etaminus, etaplus):
    """One step for lists of parameters."""
    if not all(isinstance(t, torch.Tensor) for t in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if not params:
        return
    op = _fused.operator("_fused_rprop_", params, grads, differentiable, capturable)
    if op is None:
        _single_tensor_rprop(params, grads, prevs, step_sizes, state_steps, step_size_min=step_size_min,
                             step_size_max=step_size_max, etaminus=etaminus, etaplus=etaplus, maximize=maximize,
                             capturable=capturable, differentiable=differentiable, has_complex=has_complex)
        return
    _fused.advance(state_steps)
    op(params, grads, prevs, step_sizes, step_size_min=step_size_min, step_size_max=step_size_max,
       etaminus=etaminus, etaplus=etaplus, maximize=bool(maximize))


def _single_tensor_rprop(params, grads, prevs, step_sizes, state_steps, *, step_size_min, step_size_max, etaminus,
                         etaplus, maximize, capturable, differentiable, has_complex):
    for p, g, prev, size, step in zip(params, grads, prevs, step_sizes, state_steps):
        g = -g if maximize else g
        step += 1
        if torch.is_complex(p):
            g, prev, p, size = (torch.view_as_real(t) for t in (g, prev, p, size))
        agreement = g.mul(prev.clone() if differentiable else prev).sign()
        factor = agreement.masked_fill(agreement.gt(0), etaplus)
        factor = factor.masked_fill(agreement.lt(0), etaminus).masked_fill(agreement.eq(0), 1.0)
        size.mul_(factor).clamp_(step_size_min, step_size_max)
        # Where the sign has changed the minimum was overshot: no step, and no memory of this gradient.
        g = torch.where(agreement.lt(0), torch.zeros_like(g), g)
        p.addcmul_(g.sign(), size, value=-1)
        prev.copy_(g)
