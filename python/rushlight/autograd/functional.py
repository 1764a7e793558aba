"""Derivatives of functions: jacobian, hessian, and their products with vectors.

Everything is built on two calls: _outputs_of runs the function on inputs that require gradients, _grads takes a
gradient and puts zeros where there is none.
"""
import rushlight as torch

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _as_tuple(inp, arg_name, fn_name):
    """(was it a tuple, tuple of tensors)"""
    is_tuple = isinstance(inp, tuple)
    values = inp if is_tuple else (inp,)
    for i, item in enumerate(values):
        if not isinstance(item, torch.Tensor):
            if is_tuple:
                raise TypeError("The %s given to %s must be either a Tensor or a tuple of Tensors but the value at index "
                                "%d has type %s." % (arg_name, fn_name, i, type(item)))
            raise TypeError("The %s given to %s must be either a Tensor or a tuple of Tensors but the given %s has type "
                            "%s." % (arg_name, fn_name, arg_name, type(item)))
    return is_tuple, values


def _grad_preprocess(inputs, create_graph, need_graph=True):
    """Inputs to differentiate with respect to; with create_graph still connected to the given ones."""
    result = []
    for tensor in inputs:
        if create_graph and tensor.requires_grad:
            result.append(tensor.view_as(tensor) if not tensor.is_sparse else tensor.clone())
        else:
            result.append(tensor.detach().requires_grad_(need_graph))
    return tuple(result)


def _outputs_of(func, inputs, where, strict):
    is_tuple, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", where)
    if strict:
        for i, out in enumerate(outputs):
            if not out.requires_grad:
                raise RuntimeError("Output %d of the user-provided function does not require gradients. The outputs must "
                                   "be computed in a differentiable manner from the input when running in strict mode."
                                   % i)
    return outputs, is_tuple


def _grads(outputs, inputs, grad_outputs=None, create_graph=False, retain_graph=None):
    """torch.autograd.grad that leaves out what needs no gradient; None where nothing comes."""
    if grad_outputs is None:
        grad_outputs = (None,) * len(outputs)
    pairs = [(o, g) for o, g in zip(outputs, grad_outputs) if o is not None and o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    outs, gs = zip(*pairs)
    return torch.autograd.grad(outs, inputs, gs, allow_unused=True, create_graph=create_graph,
                               retain_graph=retain_graph)


_NO_PART = "The output of the user-provided function is independent of input %d. This is not allowed in strict mode."
_NOT_TWICE = ("While computing the hessian, found that the jacobian of the user-provided function with respect to input %d is "
              "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
              "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
              "example).")


def _zeros_for_none(grads, like, strict, create_graph, missing=_NO_PART):
    result = []
    for i, grad in enumerate(grads):
        if grad is None:
            if strict:
                raise RuntimeError(missing % i)
            grad = torch.zeros_like(like[i])
        elif strict and create_graph and not grad.requires_grad:
            raise RuntimeError("The jacobian of the user-provided function is independent of input %d. This is not allowed "
                               "in strict mode when create_graph=True." % i)
        result.append(grad)
    return tuple(result)


def _construct_standard_basis_for(tensors, tensor_numels):
    """For each tensor a matrix: the rows are the unit vectors of all the tensors' elements, the columns those of its own."""
    from .._functorch.transforms import unit_vectors
    return tuple(part.reshape(sum(tensor_numels), n) for part, n in zip(unit_vectors(tensors), tensor_numels))


def _grad_postprocess(values, create_graph):
    """A tuple, of tensors or of tuples of them, that is cut off from the graph where nobody goes on from it."""
    if create_graph:
        return values
    return tuple(v.detach() if isinstance(v, torch.Tensor) else _grad_postprocess(v, False) if isinstance(v, tuple) else v for v in values)


def _tuple_postprocess(values, is_tuple):
    """Of a tuple what a caller gets who gave no tuple; for tuples of tuples, with one answer for each of the two."""
    outer, inner = is_tuple if isinstance(is_tuple, tuple) else (is_tuple, True)
    if not inner:
        values = tuple(row[0] for row in values)
    return values if outer else values[0]


def _give(values, is_tuple, create_graph):
    return _tuple_postprocess(_grad_postprocess(values, create_graph), is_tuple)


def _validate_v(v, other, other_is_tuple):
    if len(other) != len(v):
        if other_is_tuple:
            raise RuntimeError("v is a tuple of invalid length: should be %d but got %d." % (len(other), len(v)))
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(v, other)):
        if a.size() != b.size():
            prefix = "Entry %d in " % i if other_is_tuple else ""
            raise RuntimeError("%sv has invalid size: should be %s but got %s." % (prefix, b.size(), a.size()))


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v' J)"""
    with torch.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "vjp")
        xs = _grad_preprocess(given, create_graph)
        outputs, out_tuple = _outputs_of(func, xs, "vjp", strict)
        if v is not None:
            _, v = _as_tuple(v, "v", "vjp")
            v = _grad_preprocess(v, create_graph, need_graph=False)
            _validate_v(v, outputs, out_tuple)
        elif len(outputs) != 1 or outputs[0].nelement() != 1:
            raise RuntimeError("The vector v can only be None if the user-provided function returns a single Tensor with a "
                               "single element.")
    with torch.set_grad_enabled(True if create_graph else torch.is_grad_enabled()):
        grads = _grads(outputs, xs, v, create_graph=create_graph)
        result = _zeros_for_none(grads, xs, strict, create_graph)
    return _give(outputs, out_tuple, create_graph), _give(result, is_tuple, create_graph)


def _double_back(outputs, xs, v, create_graph, strict):
    """J v by differentiating u' J with respect to u."""
    us = tuple(torch.ones_like(out, requires_grad=True) for out in outputs)
    back = _grads(outputs, xs, us, create_graph=True)
    back = _zeros_for_none(back, xs, strict, True)
    forward = _grads(back, us, v, create_graph=create_graph)
    return _zeros_for_none(forward, outputs, strict and create_graph, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), J v)"""
    with torch.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "jvp")
        xs = _grad_preprocess(given, create_graph)
        if v is not None:
            _, v = _as_tuple(v, "v", "jvp")
            v = _grad_preprocess(v, create_graph, need_graph=False)
            _validate_v(v, xs, is_tuple)
        elif len(xs) != 1 or xs[0].nelement() != 1:
            raise RuntimeError("The vector v can only be None if the input to the user-provided function is a single Tensor "
                               "with a single element.")
        outputs, out_tuple = _outputs_of(func, xs, "jvp", strict)
        result = _double_back(outputs, xs, v, create_graph, strict)
    return _give(outputs, out_tuple, create_graph), _give(result, out_tuple, create_graph)


def _jacobian_forward(func, given, is_tuple, strict):
    """Columns by forward mode, one unit vector of the inputs at a time. Where inputs are a tuple, results are lists."""
    if strict:
        raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `strategy=\"forward-mode\"` are not "
                           "supported together (yet). Please either set `strict=False` or `strategy=\"reverse-mode\"`.")
    from .._functorch.transforms import unit_vectors
    fwAD = torch.autograd.forward_ad
    info, columns = [], []
    basis = unit_vectors(given)
    for k in range(sum(t.numel() for t in given)):
        with fwAD.dual_level():
            duals = tuple(fwAD.make_dual(x, part[k].view_as(x)) for x, part in zip(given, basis))
            out_tuple, outputs = _as_tuple(func(*duals), "outputs", "jacobian")
            tangents = []
            for out in outputs:
                primal, tangent = fwAD.unpack_dual(out)
                tangents.append(torch.zeros_like(primal) if tangent is None else tangent.clone())
            columns.append(tangents)
            info = (len(outputs), out_tuple)
    count, out_tuple = info
    result, start = [[] for _ in range(count)], 0
    for x in given:
        for j in range(count):
            piece = torch.stack([columns[k][j] for k in range(start, start + x.numel())], dim=-1)
            result[j].append(piece.reshape(piece.shape[:-1] + x.shape))
        start += x.numel()
    if is_tuple:
        return result if out_tuple else result[0]
    return tuple(row[0] for row in result) if out_tuple else result[0][0]


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The matrix of derivatives of every output element by every input element."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has '
                             'more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to '
                             'use "reverse-mode".')
    is_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError("torch.autograd.functional.jacobian: `create_graph=True` and "
                                      "`strategy=\"forward-mode\"` are not supported together (yet). Please either set "
                                      "`create_graph=False` or `strategy=\"reverse-mode\"`.")
        if not vectorize and not strict:
            raise NotImplementedError("Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
                                      "`vectorize=True`.")
        return _jacobian_forward(func, given, is_tuple, strict)
    with torch.enable_grad():
        xs = _grad_preprocess(given, create_graph)
        outputs, out_tuple = _outputs_of(func, xs, "jacobian", strict)
        if vectorize and strict:
            raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
                               "together. Please either set `strict=False` or `vectorize=False`.")
        rows = []
        for out in outputs:
            if vectorize and not create_graph and out.requires_grad and out.nelement():
                from .._functorch.transforms import unit_vectors
                grads = torch.autograd.grad((out,), xs, unit_vectors([out]), retain_graph=True, allow_unused=True, is_grads_batched=True)
                rows.append([x.new_zeros(out.size() + x.size()) if g is None else g.reshape(out.size() + x.size()) for g, x in zip(grads, xs)])
                continue
            flat = out.reshape(-1)
            columns = [[] for _ in xs]
            for j in range(out.nelement()):
                one = (torch.ones_like(flat[j]),) if vectorize else None  # without it, complex outputs are refused
                grads = _grads((flat[j],), xs, one, create_graph=create_graph, retain_graph=True)
                for i, (grad, x) in enumerate(zip(grads, xs)):
                    if grad is None:
                        if strict:
                            raise RuntimeError("Output %d of the user-provided function is independent of input %d. This is "
                                               "not allowed in strict mode." % (len(rows), i))
                        grad = torch.zeros_like(x)
                    elif strict and create_graph and not grad.requires_grad:
                        raise RuntimeError("The jacobian of the user-provided function is independent of input %d. This is "
                                           "not allowed in strict mode when create_graph=True." % i)
                    columns[i].append(grad)
            rows.append([torch.stack(column).view(out.size() + x.size()) if column
                         else x.new_zeros(out.size() + x.size()) for column, x in zip(columns, xs)])
    return _tuple_postprocess(_grad_postprocess(tuple(map(tuple, rows)), create_graph), (out_tuple, is_tuple))


def _scalar(func, where, strict):
    """func, checked to return one number."""
    def checked(*args):
        out = func(*args)
        is_tuple, values = _as_tuple(out, "outputs of the user-provided function", where)
        if strict:
            _outputs_of(lambda: values, (), where, True)
        if is_tuple or not isinstance(out, torch.Tensor):
            raise RuntimeError("The function given to %s should return a single Tensor" % where)
        if values[0].nelement() != 1:
            raise RuntimeError("The Tensor returned by the function given to %s should contain a single element" % where)
        return out.squeeze()
    return checked


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function that returns one number."""
    is_tuple, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    scalar = _scalar(func, "hessian", strict)

    def gradient(*xs):
        if outer_jacobian_strategy == "forward-mode":
            xs = tuple(x.requires_grad_(True) if not x.requires_grad else x for x in xs)
        jac = jacobian(scalar, xs, create_graph=True)
        if strict:
            for i, part in enumerate(jac):
                if not part.requires_grad:
                    raise RuntimeError(_NOT_TWICE % i)
        return jac

    rows = jacobian(gradient, given, create_graph=create_graph, strict=strict, vectorize=vectorize,
                    strategy=outer_jacobian_strategy)
    return rows if is_tuple else rows[0][0]


def _second_order(name, func, inputs, v, create_graph, strict):
    """What vhp and hvp begin with: (outputs, inputs of their own, whether a tuple was given, v, gradient)."""
    is_tuple, given = _as_tuple(inputs, "inputs", name)
    xs = _grad_preprocess(given, create_graph)
    if v is not None:
        _, v = _as_tuple(v, "v", name)
        v = _grad_preprocess(v, create_graph, need_graph=False)
        _validate_v(v, xs, is_tuple)
    elif len(xs) != 1 or xs[0].nelement() != 1:
        raise RuntimeError("The vector v can only be None if the input to the user-provided function is a single Tensor "
                           "with a single element.")
    outputs, out_tuple = _outputs_of(func, xs, name, strict)
    if out_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].nelement() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    jac = _zeros_for_none(_grads(outputs, xs, create_graph=True), xs, strict, False)
    return outputs, xs, is_tuple, v, jac


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v' H)"""
    with torch.enable_grad():
        outputs, xs, is_tuple, v, jac = _second_order("vhp", func, inputs, v, create_graph, strict)
    with torch.set_grad_enabled(True if create_graph else torch.is_grad_enabled()):
        result = _zeros_for_none(_grads(jac, xs, v, create_graph=create_graph), xs, strict, create_graph, _NOT_TWICE)
    return _give(outputs, False, create_graph), _give(result, is_tuple, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), H v)"""
    with torch.enable_grad():
        outputs, xs, is_tuple, v, jac = _second_order("hvp", func, inputs, v, create_graph, strict)
        us = tuple(torch.ones_like(x, requires_grad=True) for x in xs)
        back = _zeros_for_none(_grads(jac, xs, us, create_graph=True), xs, strict, False, _NOT_TWICE)
        result = _zeros_for_none(_grads(back, us, v, create_graph=create_graph), xs, False, create_graph)
    return _give(outputs, False, create_graph), _give(result, is_tuple, create_graph)
