"""gradcheck: derivatives compared with finite differences, in double precision.

Complex numbers are handled as pairs of real ones on both sides: the numerical Jacobian perturbs real and imaginary
parts, the analytical one comes from backward with real and imaginary unit gradients.
"""
import rushlight as torch

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]


_REENTRANT = ("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values, although analytical "
              "gradient matches numerical gradient.The tolerance for nondeterminism was %s.")


class GradcheckError(RuntimeError):
    """Derivatives disagree."""


class _Undefined(torch.autograd.Function):
    """The tensor itself, without a gradient of it on the way back."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return None


def _as_tuple(x):
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def _differentiable(values):
    return [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad
            and (v.is_floating_point() or v.is_complex())]


def _dense(t):
    return t.to_dense() if t.layout is not torch.strided else t


def _real_view(t):
    """Elements as a vector of real numbers."""
    t = _dense(t).detach().resolve_conj()
    return torch.view_as_real(t).reshape(-1) if t.is_complex() else t.reshape(-1)


def _parts(x):
    """The real numbers that x is made of, to be changed in place: changes of them do not count as changes of x."""
    values = data = x.data
    if data.layout is not torch.strided:
        values = (data._values() if data.layout is torch.sparse_coo else data.values()).data
    return torch.view_as_real(values) if values.is_complex() else values


def _results(func, inputs, like):
    """The function may itself take gradients: they stay switched on. Its results are like those before, but for values."""
    outputs = _tensors(func(*inputs))
    for what in ("shape", "dtype"):
        if any(getattr(o, what) != getattr(before, what) for o, before in zip(outputs, like)):
            raise AssertionError("Expected `func` to return outputs with the same %s when inputs are perturbed on index, but got another one." % what)
    return [_real_view(o).clone() for o in outputs]


def _numerical_columns(func, inputs, x, eps, outputs):
    """For each real component of x: the outputs' change over 2 eps."""
    parts = _parts(x)

    def at(index, value):
        with torch.no_grad():
            parts[index] = value
        return _results(func, inputs, outputs)

    for index in _indices(parts.shape):
        before = parts[index].item()
        plus, minus = at(index, before + eps), at(index, before - eps)
        with torch.no_grad():
            parts[index] = before
        yield [(p - m) / (2 * eps) for p, m in zip(plus, minus)]


def _numerical_along(func, inputs, x, direction, eps, outputs):
    """The outputs' change over 2 eps when x goes along a direction of length 1."""
    parts = _parts(x)
    before = parts.clone()

    def at(step):
        with torch.no_grad():
            parts.copy_(before + direction * step)
        return _results(func, inputs, outputs)

    plus, minus = at(eps), at(-eps)
    with torch.no_grad():
        parts.copy_(before)
    return [(p - m) / (2 * eps) for p, m in zip(plus, minus)]


def _indices(shape):
    import itertools
    return itertools.product(*(range(n) for n in shape))


def _tensors(outputs):
    return [o for o in _as_tuple(outputs) if isinstance(o, torch.Tensor)]


def _judged(outputs):
    """The places of the outputs with a gradient, or of all if none has one: then none may change."""
    return [j for j, o in enumerate(outputs) if o.requires_grad] or list(range(len(outputs)))


def _pattern(x, grad):
    """The components of a gradient that belong to the stored elements of x, as real numbers."""
    if grad is None:
        values = x._values() if x.layout is torch.sparse_coo else x.values() if x.layout is not torch.strided else x
        grad = torch.zeros_like(values)
    elif x.layout is not torch.strided:
        grad = torch._sparse_values_at(grad.detach(), x.detach())
    return _real_view(grad)


def _gradients_along(output, inputs, direction):
    """Gradients, as real vectors per input, for that gradient of the output."""
    dense = _dense(output)
    unit = torch.view_as_complex(direction.view(dense.shape + (2,))) if dense.is_complex() else direction.view(dense.shape)
    grads = torch.autograd.grad(dense, inputs, unit, retain_graph=True, allow_unused=True)
    return [_pattern(x, g) for x, g in zip(inputs, grads)]


def _analytical_rows(output, inputs, rows):
    """The same for unit gradient k of the output, for each k."""
    for k in range(rows):
        unit = torch.zeros_like(_real_view(output))
        unit[k] = 1
        yield _gradients_along(output, inputs, unit)


def _fail(raise_exception, message):
    if raise_exception:
        raise GradcheckError(message)
    return False


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
              check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True, fast_mode=False,
              masked=None):
    """True when the gradients of func at inputs agree with finite differences; otherwise an error (or False)."""
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    inputs = _as_tuple(inputs)
    checked = _differentiable(inputs)
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have "
                         "requires_grad=True.")
    import warnings
    for x in checked:
        place = [i for i, y in enumerate(inputs) if y is x][0]
        if x.dtype not in (torch.float64, torch.complex128):
            warnings.warn("Input #%d requires gradient and is not a double precision floating point or complex. This check "
                          "will likely fail if all the inputs are not of double precision floating point or complex. "
                          % place, stacklevel=2)
        if x.layout is torch.strided and x.dim() and any(s == 0 and n > 1 for s, n in zip(x.stride(), x.size())):
            raise RuntimeError("The %dth input has a dimension with stride 0. gradcheck only supports inputs that are "
                               "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                               ".contiguous on the input before passing it to gradcheck." % place)
        x.retain_grad() if not x.is_leaf else None
    try:
        outputs = _tensors(func(*inputs))
        if any(o.is_mkldnn for o in outputs):
            raise ValueError("MKLDNN outputs are not supported")
        if any(o.layout is not torch.strided for o in outputs):
            raise ValueError("Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the "
                             "output of fn for gradcheck.")
        if fast_mode and _agree_along(func, inputs, checked, outputs, eps, atol, rtol, nondet_tol, check_backward_ad, check_forward_ad):
            for output in outputs if check_backward_ad and check_grad_dtypes else ():
                _check_dtypes(output, checked)
            if check_backward_ad:
                _check_missing(func, inputs, checked, check_undefined_grad)
            return True
        # Numerical Jacobian: columns[i][component of input i][output]. What fast mode finds wrong is looked at in full, too.
        numerical = [list(_numerical_columns(func, inputs, x, eps, outputs)) for x in checked]
        if check_backward_ad:
            _check_backward(func, inputs, checked, numerical, outputs, atol, rtol, nondet_tol, check_grad_dtypes)
            _check_missing(func, inputs, checked, check_undefined_grad)
        if check_forward_ad:
            _check_forward(func, inputs, checked, numerical, outputs, atol, rtol)
        if fast_mode:
            raise GradcheckError("Along one direction gradients and differences are not the same, element by element they are: fast_mode=False says so.")
    except GradcheckError as error:
        return _fail(raise_exception, str(error))
    return True


def _compare(numerical, analytical, i, j, atol, rtol):
    n, a = numerical.to(torch.float64), analytical.to(torch.float64)
    if n.shape != a.shape or not torch.allclose(a, n, rtol, atol, equal_nan=True):
        raise GradcheckError("Jacobian mismatch for output %d with respect to input %d,\nnumerical:%s\nanalytical:%s\n"
                             % (j, i, numerical, analytical))


def _check_backward(func, inputs, checked, numerical, outputs, atol, rtol, nondet_tol, check_grad_dtypes):
    for j in _judged(outputs):
        output = outputs[j]
        if not output.requires_grad:
            for i in range(len(checked)):
                for column in numerical[i]:
                    if column[j].numel() and column[j].abs().max().item() > atol:
                        raise GradcheckError("Numerical gradient for function expected to be zero")
            continue
        rows = _real_view(output).numel()
        analytical = list(_analytical_rows(output, checked, rows))
        again = list(_analytical_rows(output, checked, rows)) if nondet_tol >= 0 else analytical
        for i, x in enumerate(checked):
            width = len(numerical[i])
            have = torch.stack([row[i] for row in analytical]) if rows else x.new_zeros(0, width).real
            second = torch.stack([row[i] for row in again]) if rows else have
            if not torch.allclose(have, second, rtol=0, atol=nondet_tol + 1e-300, equal_nan=True):
                raise GradcheckError(_REENTRANT % nondet_tol)
            want = torch.stack([column[j] for column in numerical[i]], dim=1) if width else have
            for part, first in (("imaginary", 1), ("real", 0)) if output.is_complex() else (("", 0),):
                step = 1 + output.is_complex()
                try:
                    _compare(want[first::step], have[first::step], i, j, atol, rtol)
                except GradcheckError as error:
                    raise GradcheckError("While considering the %s part of complex outputs only, %s" % (part, error) if part else str(error)) from None
        if check_grad_dtypes:
            _check_dtypes(output, checked)


def _check_dtypes(output, checked):
    if not output.requires_grad:
        return
    total = torch.view_as_real(_dense(output)).sum() if output.is_complex() else _dense(output).sum()
    for x, grad in zip(checked, torch.autograd.grad(total, checked, retain_graph=True, allow_unused=True)):
        if grad is not None and grad.dtype != x.dtype:
            raise GradcheckError("Gradient has dtype mismatch")


def _agree_along(func, inputs, checked, outputs, eps, atol, rtol, nondet_tol, backward, forward):
    """Fast mode: is u (J v) the same by differences and by gradients, for one direction v of each input and one u of each output?

    That takes two calls of the function for each input, where the whole Jacobian takes two for each of its numbers. The error that is allowed in each
    entry of J may add up in the product, so that atol counts as often as u and v do.
    """
    generator = torch.Generator()    # its numbers are its own: those of the caller stay what they are

    def direction(like):
        v = torch.rand(like.shape, generator=generator, dtype=torch.float64).to(like)
        return v / v.norm() if v.numel() else v

    def agree(i, j, have):
        want = (us[j] * numerical[i][j]).sum().to(torch.float64)
        return torch.allclose(have.to(torch.float64), want, rtol, atol * vs[i].sum().item() * us[j].sum().item(), equal_nan=True)

    vs, us = [direction(_parts(x)) for x in checked], [direction(_real_view(o)) for o in outputs]
    numerical = [_numerical_along(func, inputs, x, v, eps, outputs) for x, v in zip(checked, vs)]
    for j in _judged(outputs) if backward else ():
        output, rows = outputs[j], [[None] * len(checked)]
        if output.requires_grad:
            rows = [_gradients_along(output, checked, us[j]) for _ in range(2 if nondet_tol >= 0 else 1)]
            for a, b in zip(rows[0], rows[-1]):
                if not torch.allclose(a, b, rtol=0, atol=nondet_tol + 1e-300, equal_nan=True):
                    raise GradcheckError(_REENTRANT % nondet_tol)
        for i, row in enumerate(rows[0]):
            if not agree(i, j, torch.zeros(()) if row is None else (row * vs[i].reshape(-1)).sum()):
                return False
    return not forward or all(agree(i, j, (tangent * us[j]).sum()) for i, x in enumerate(checked)
                              for j, tangent in enumerate(_tangents(func, inputs, x, vs[i])) if j in _judged(outputs))


def _check_undefined(func, inputs, checked, count):
    """Missing gradients of all outputs, or of one, must act as zeros."""
    for missing in [set(range(count))] + ([{i} for i in range(count)] if count > 1 else []):
        outputs = [o for o in _tensors(func(*inputs)) if o.requires_grad]
        outputs = [_Undefined.apply(o) if i in missing else o for i, o in enumerate(outputs)]
        try:
            grads = torch.autograd.grad(outputs, checked, [torch.zeros_like(o) for o in outputs], allow_unused=True)
        except RuntimeError as error:
            import warnings
            warnings.warn("Backwards compatibility: New undefined gradient support checking feature is enabled by default; check_undefined_grad=False turns it off.")
            raise GradcheckError("Expected backward function to handle undefined output grads. Please look at \"Notes about "
                                 "undefined output gradients\" in the documentation: %s" % error) from error
        for grad in grads:
            if grad is not None and not (_real_view(grad) == 0).all():
                raise GradcheckError("Expected all input grads to be undefined or zero when all output grads are undefined or "
                                     "zero.")


def _check_missing(func, inputs, checked, undefined):
    """Gradients are linear in those of the outputs: zero where they are, of the inputs' kind; and a missing one is a zero."""
    outputs = [o for o in _tensors(func(*inputs)) if o.requires_grad]
    if not outputs:
        return
    for x, grad in zip(checked, torch.autograd.grad(outputs, checked, [torch.zeros_like(o) for o in outputs], allow_unused=True)):
        if grad is None:
            continue
        if grad.layout != x.layout and grad.layout is not torch.strided:
            raise GradcheckError("grad is incorrect layout (%s is not %s)" % (grad.layout, x.layout))
        if grad.layout is torch.sparse_coo and (grad.sparse_dim(), grad.dense_dim()) != (x.sparse_dim(), x.dense_dim()):
            raise GradcheckError("grad is sparse tensor, but has incorrect sparse_dim or dense_dim: %d and %d, expected %d and %d"
                                 % (grad.sparse_dim(), grad.dense_dim(), x.sparse_dim(), x.dense_dim()))
        if not (_real_view(grad) == 0).all():
            raise GradcheckError("backward not multiplied by grad_output")
    if undefined:
        _check_undefined(func, inputs, checked, len(outputs))


def _tangents(func, inputs, x, direction):
    """What becomes of a direction of x in the outputs, as real vectors."""
    fwAD = torch.autograd.forward_ad
    direction = torch.view_as_complex(direction) if x.is_complex() else direction
    moves = _differentiable(inputs)
    with fwAD.dual_level():
        duals = tuple(fwAD.make_dual(y.detach(), direction if y is x else torch.zeros_like(y)) if any(y is m for m in moves) else y for y in inputs)
        found = [fwAD.unpack_dual(out) for out in _tensors(func(*duals))]
        return [_real_view(torch.zeros_like(primal) if tangent is None else tangent) for primal, tangent in found]


def _check_forward(func, inputs, checked, numerical, outputs, atol, rtol):
    for i, x in enumerate(checked):
        shape = tuple(x.shape) + ((2,) if x.is_complex() else ())
        for component, index in enumerate(_indices(shape)):
            direction = torch.zeros(shape, dtype=x.real.dtype if x.is_complex() else x.dtype, device=x.device)
            direction[index] = 1
            for j, have in enumerate(_tangents(func, inputs, x, direction)):
                want = numerical[i][component][j]
                if j in _judged(outputs) and not torch.allclose(have.to(torch.float64), want.to(torch.float64), rtol, atol, equal_nan=True):
                    raise GradcheckError("Jacobian computed with forward mode mismatch for output %d with respect to "
                                         "input %d,\nnumerical:%s\nanalytical:%s\n" % (j, i, want, have))


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False,
                  check_batched_grad=False, check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False,
                  masked=False):
    """gradcheck of the gradient."""
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        outputs = [o for o in _tensors(func(*inputs)) if o.requires_grad]
        grad_outputs = tuple(torch.testing.make_tensor(o.shape, dtype=o.dtype if o.is_floating_point() or o.is_complex()
                                                       else torch.double, device=o.device, low=-1, high=1,
                                                       requires_grad=True, noncontiguous=gen_non_contig_grad_outputs)
                             for o in outputs)
    else:
        grad_outputs = _as_tuple(grad_outputs)
    count = len(grad_outputs)

    def gradient(*args):
        values, gs = args[:-count], args[-count:]
        wanted = [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad]
        outputs = [o for o in _tensors(func(*values)) if o.requires_grad]
        grads = torch.autograd.grad(outputs, wanted, gs, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradcheck(gradient, inputs + tuple(grad_outputs), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception, nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_grad_dtypes=check_grad_dtypes, check_forward_ad=check_fwd_over_rev,
                     check_backward_ad=check_rev_over_rev, fast_mode=fast_mode)
