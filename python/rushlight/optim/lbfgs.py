"""L-BFGS with an optional strong Wolfe line search.

The inverse Hessian is a product of rank-two updates of the last `history_size` steps; a step evaluates
the closure several times.
"""
import functools

import rushlight as torch
from rushlight.optim import _fused
from rushlight.optim.optimizer import Optimizer, _to_scalar

__all__ = ["LBFGS"]


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimiser of the cubic through two points with two slopes, kept within bounds."""
    low, high = bounds if bounds is not None else ((x1, x2) if x1 <= x2 else (x2, x1))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    if x1 <= x2:
        place = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        place = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(place, low), high)


class _Point:
    """A place on the search line: step, loss, gradient and slope."""
    __slots__ = ("t", "f", "g", "slope")

    def __init__(self, t, f, g, slope):
        self.t, self.f, self.g, self.slope = t, f, g, slope


def _cubic(a, b, bounds=None):
    return _cubic_interpolate(a.t, a.f, a.slope, b.t, b.f, b.slope, bounds=bounds)


def _strong_wolfe(obj_func, x, t, d, f, g, gtd, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """(loss, gradient, step, evaluations) at a step that meets the strong Wolfe conditions, if one is found."""
    d_norm = d.abs().max()
    evaluations = 0

    def evaluate(step):
        nonlocal evaluations
        loss, gradient = obj_func(x, step, d)
        evaluations += 1
        return _Point(step, loss, gradient, gradient.dot(d))

    start = _Point(0, f, g.clone(memory_format=torch.contiguous_format), gtd)
    before, now = start, evaluate(t)

    def enough(point):
        return point.f <= f + c1 * point.t * gtd

    # First enlarge the step until a bracket holds an acceptable point.
    bracket, done, iterations = None, False, 0
    while iterations < max_ls:
        if now.f > f + c1 * now.t * gtd or (iterations > 1 and now.f >= before.f):
            bracket = [before, now]
            break
        if abs(now.slope) <= -c2 * gtd:
            bracket, done = [now], True
            break
        if now.slope >= 0:
            bracket = [before, now]
            break
        low, high = now.t + 0.01 * (now.t - before.t), now.t * 10
        step = _cubic(before, now, bounds=(low, high))
        now.g = now.g.clone(memory_format=torch.contiguous_format)
        before, now = now, evaluate(step)
        iterations += 1
    if bracket is None:
        bracket = [start, now]
    for point in bracket:
        point.g = point.g.clone(memory_format=torch.contiguous_format)

    # Then shrink the bracket.
    stuck = False
    low, high = (0, len(bracket) - 1) if bracket[0].f <= bracket[-1].f else (1, 0)
    while not done and iterations < max_ls:
        first, second = bracket
        if abs(second.t - first.t) * d_norm < tolerance_change:
            break
        step = _cubic(first, second)
        bottom, top = min(first.t, second.t), max(first.t, second.t)
        margin = 0.1 * (top - bottom)
        if min(top - step, step - bottom) < margin:
            # Too near an end: once is forgiven, twice (or outside) is moved inwards.
            if stuck or step >= top or step <= bottom:
                step = top - margin if abs(step - top) < abs(step - bottom) else bottom + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = evaluate(step)
        iterations += 1
        now.g = now.g.clone(memory_format=torch.contiguous_format)
        if not enough(now) or now.f >= bracket[low].f:
            bracket[high] = now
            low, high = (0, 1) if bracket[0].f <= bracket[1].f else (1, 0)
        else:
            if abs(now.slope) <= -c2 * gtd:
                done = True
            elif now.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
    best = bracket[low] if len(bracket) > 1 else bracket[0]
    return best.f, best.g, best.t, evaluations


class LBFGS(Optimizer):
    """Limited-memory BFGS; `step` needs a closure.

    params: tensors, or dictionaries with "params" and settings of a group of their own; lr: the step size; max_iter, max_eval: the most
    iterations, and calls of the closure, of a step; tolerance_grad, tolerance_change: a step ends where gradient, or change, is smaller;
    history_size: how many updates are remembered; line_search_fn: None or "strong_wolfe".

    >>> w = torch.tensor([1., -2.], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> w.detach()
    tensor([3.0000, 3.0000])
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size,
                                      line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]
        self._numel_cache = None

    def _numel(self):
        if self._numel_cache is None:
            self._numel_cache = sum(2 * p.numel() if torch.is_complex(p) else p.numel() for p in self._params)
        return self._numel_cache

    def _gather_flat_grad(self):
        pieces = []
        for p in self._params:
            if p.grad is None:
                piece = p.new_zeros(p.numel())
            elif p.grad.is_sparse:
                piece = p.grad.to_dense().view(-1)
            else:
                piece = p.grad.reshape(-1)
            pieces.append(torch.view_as_real(piece).view(-1) if torch.is_complex(piece) else piece)
        return torch.cat(pieces, 0)

    def _add_grad(self, step_size, update):
        start = 0
        for p in self._params:
            if torch.is_complex(p):
                p = torch.view_as_real(p)
            size = p.numel()
            p.add_(update[start:start + size].view_as(p), alpha=step_size)
            start += size

    def _clone_param(self):
        return [p.clone(memory_format=torch.contiguous_format) for p in self._params]

    def _set_param(self, params_data):
        for p, data in zip(self._params, params_data):
            p.copy_(data)

    def _directional_evaluate(self, closure, x, t, d):
        self._add_grad(t, d)
        loss = float(closure())
        gradient = self._gather_flat_grad()
        self._set_param(x)
        return loss, gradient

    @staticmethod
    def _direction(flat_grad, dirs, stps, ro, scale, al):
        """Minus the inverse Hessian times the gradient, by the two-loop recursion."""
        q = flat_grad.neg()
        for i in range(len(dirs) - 1, -1, -1):
            al[i] = stps[i].dot(q) * ro[i]
            q.add_(dirs[i], alpha=-al[i])
        d = torch.mul(q, scale)
        for i in range(len(dirs)):
            d.add_(stps[i], alpha=al[i] - dirs[i].dot(d) * ro[i])
        return d

    @_fused.without_grad
    def step(self, closure):
        """Up to max_iter iterations; returns the loss before them."""
        evaluate = functools.partial(_fused.evaluate, closure)
        group = self.param_groups[0]
        lr = _to_scalar(group["lr"])
        max_iter, max_eval = group["max_iter"], group["max_eval"]
        tolerance_grad, tolerance_change = group["tolerance_grad"], group["tolerance_change"]
        line_search, history = group["line_search_fn"], group["history_size"]
        # The state is that of all parameters; it is kept with the first one.
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = evaluate()
        loss = float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        flat_grad = self._gather_flat_grad()
        optimal = flat_grad.abs().max() <= tolerance_grad
        if optimal:
            return first_loss
        d, t = state.get("d"), state.get("t")
        dirs, stps, ro = state.get("old_dirs"), state.get("old_stps"), state.get("ro")
        scale, previous, previous_loss = state.get("H_diag"), state.get("prev_flat_grad"), state.get("prev_loss")
        iteration = 0
        while iteration < max_iter:
            iteration += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                d = flat_grad.neg()
                dirs, stps, ro, scale = [], [], [], 1
            else:
                y = flat_grad.sub(previous)
                s = d.mul(t)
                ys = y.dot(s)
                if ys > 1e-10:
                    if len(dirs) == history:
                        dirs.pop(0)
                        stps.pop(0)
                        ro.pop(0)
                    dirs.append(y)
                    stps.append(s)
                    ro.append(1.0 / ys)
                    scale = ys / y.dot(y)
                if state.get("al") is None:
                    state["al"] = [None] * history
                d = self._direction(flat_grad, dirs, stps, ro, scale, state["al"])
            if previous is None:
                previous = flat_grad.clone(memory_format=torch.contiguous_format)
            else:
                previous.copy_(flat_grad)
            previous_loss = loss
            t = min(1.0, 1.0 / flat_grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = flat_grad.dot(d)
            if slope > -tolerance_change:
                break
            inner = 0
            if line_search is not None:
                if line_search != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                x = self._clone_param()
                loss, flat_grad, t, inner = _strong_wolfe(
                    lambda x, t, d: self._directional_evaluate(evaluate, x, t, d), x, t, d, loss, flat_grad, slope)
                self._add_grad(t, d)
                optimal = flat_grad.abs().max() <= tolerance_grad
            else:
                self._add_grad(t, d)
                if iteration != max_iter:
                    # After the last step nobody looks at the loss again.
                    loss = float(evaluate())
                    flat_grad = self._gather_flat_grad()
                    optimal = flat_grad.abs().max() <= tolerance_grad
                    inner = 1
            evaluations += inner
            state["func_evals"] += inner
            if (iteration == max_iter or evaluations >= max_eval or optimal
                    or d.mul(t).abs().max() <= tolerance_change or abs(loss - previous_loss) < tolerance_change):
                break
        state.update(d=d, t=t, old_dirs=dirs, old_stps=stps, ro=ro, H_diag=scale, prev_flat_grad=previous,
                     prev_loss=previous_loss)
        return first_loss
