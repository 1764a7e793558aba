"""Adam for sparse gradients: rows without a gradient keep their running means."""
import rushlight as torch
from rushlight.optim import _fused, _functional
from rushlight.optim.optimizer import Optimizer, _to_scalar

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that touches only what has a gradient.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; betas: how much is kept of the
    running means of the gradient and of its square; eps: added to the denominator.

    >>> table = nn.Embedding(3, 2, sparse=True)
    >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(torch.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> (table.weight.detach() - before).round(decimals=4)
    tensor([[ 0.0000,  0.0000],
            [-0.1000, -0.1000],
            [ 0.0000,  0.0000]])
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        _fused.check(lr, betas)
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        for word, refused, is_such in (("Sparse", "requires dense parameter tensors", lambda p: p.is_sparse),
                                       ("Complex", "does not support complex parameters", torch.is_complex)):
            places = [[g, i] for g, group in enumerate(self.param_groups) for i, p in enumerate(group["params"]) if is_such(p)]
            if places:
                raise ValueError(f"{word} params at indices {places}: SparseAdam {refused}")

    @_fused.without_grad
    def step(self, closure=None):
        """Change the parameters once."""
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            params, grads, means, squares, steps = [], [], [], [], []
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not p.grad.is_sparse:
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = _fused.zeros_like(p)
                    state["exp_avg_sq"] = _fused.zeros_like(p)
                state["step"] += 1
                params.append(p)
                grads.append(p.grad)
                means.append(state["exp_avg"])
                squares.append(state["exp_avg_sq"])
                steps.append(state["step"])
            beta1, beta2 = group["betas"]
            _functional.sparse_adam(params, grads, means, squares, steps, beta1=beta1, beta2=beta2,
                                    lr=_to_scalar(group["lr"]), eps=group["eps"],
                                    maximize=group.get("maximize", False))
        return loss
