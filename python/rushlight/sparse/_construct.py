"""torch.sparse_coo_tensor and its kin: data of any kind made tensors, checked when asked for, handed to the operation."""

import rushlight as torch

__all__ = ["sparse_coo_tensor", "sparse_compressed_tensor", "sparse_csr_tensor", "sparse_csc_tensor",
           "sparse_bsr_tensor", "sparse_bsc_tensor", "spmm", "dsmm", "saddmm"]


def _raw(name):
    return getattr(torch._C._VariableFunctions, name)


def _is_size(x):
    return isinstance(x, (tuple, list)) and all(isinstance(n, int) and not isinstance(n, bool) for n in x)


def _kinds(args, named):
    kinds = [type(a).__name__ if not isinstance(a, torch.Tensor) else "Tensor" for a in args]
    kinds += ["%s=%s" % (key, type(value).__name__) for key, value in named.items()]
    return "(" + ", ".join(kinds) + ")"


def _arguments(who, names, args, named):
    """The values of positional and keyword arguments, None where they are missing; `size` is the last of them."""
    given = dict(zip(names, args))
    wrong = len(args) > len(names) or any(key not in names or key in given for key in named)
    given.update(named)
    size = given.get(names[-1])
    if wrong or (size is not None and not _is_size(size)):
        raise TypeError("%s() received an invalid combination of arguments - got %s, but expected one of:\n"
                        " * (%s, *, torch.dtype dtype = None, torch.device device = None, bool requires_grad = False)"
                        % (who, _kinds(args, named), ", ".join(names)))
    return [given.get(name) for name in names]


def _values(data, dtype, device):
    if isinstance(data, torch.Tensor):
        values = data if dtype is None and device is None else data.to(device=device, dtype=dtype)
    else:
        values = torch.tensor(data, dtype=dtype, device=device)
    return values.reshape(1) if values.dim() == 0 else values


def _checked(check_invariants):
    return torch.sparse.check_sparse_tensor_invariants.is_enabled() if check_invariants is None else check_invariants


def _finish(result, requires_grad):
    return result.requires_grad_() if requires_grad else result


def sparse_coo_tensor(*args, dtype=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None,
                      is_coalesced=None, **named):
    """sparse_coo_tensor(indices, values, size=None) or sparse_coo_tensor(size): a tensor of layout torch.sparse_coo."""
    if (len(args) == 1 and not named) or (not args and set(named) == {"size"}):
        size = args[0] if args else named["size"]
        if not _is_size(size):
            bad = next((n for n in size if not isinstance(n, int)), None) if isinstance(size, (tuple, list)) else size
            raise TypeError("sparse_coo_tensor(): argument 'size' (position 1) must be tuple of ints, but found element of "
                            "type %s at pos 0" % type(bad).__name__)
        return _finish(_raw("sparse_coo_tensor")(size, dtype=dtype, device=device), requires_grad)
    indices, values, size = _arguments("sparse_coo_tensor", ("indices", "values", "size"), args, named)
    if indices is None or values is None:
        _arguments("sparse_coo_tensor", ("indices", "values", "size"), args, {"missing": None, **named})
    indices = torch.as_tensor(indices, device=device)
    if indices.dtype is not torch.int64:
        indices = indices.to(torch.int64)
    values = _values(values, dtype, device)
    if size is None:
        return _finish(_raw("sparse_coo_tensor")(indices, values, is_coalesced=is_coalesced), requires_grad)
    if _checked(check_invariants):
        _raw("_validate_sparse_coo_tensor_args")(indices, values, size, is_coalesced)
    return _finish(_raw("_sparse_coo_tensor_unsafe")(indices, values, size, is_coalesced=is_coalesced), requires_grad)


def _compressed(who, names, layout, args, named, dtype, device, requires_grad, check_invariants):
    compressed, plain, values, size = _arguments(who, names + ("values", "size"), args, named)
    if compressed is None or plain is None or values is None:
        _arguments(who, names + ("values", "size"), args, {"missing": None, **named})
    parts = torch.as_tensor(compressed, device=device), torch.as_tensor(plain, device=device), _values(values, dtype, device)
    if size is None:
        result = _raw("sparse_compressed_tensor")(*parts, layout=layout)
        size = result.shape
    else:
        result = None
    if _checked(check_invariants):
        _raw("_validate_sparse_compressed_tensor_args")(*parts, size, layout)
    if result is None:
        result = _raw("_sparse_compressed_tensor_unsafe")(*parts, size, layout=layout)
    return _finish(result, requires_grad)


def sparse_compressed_tensor(*args, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None, **named):
    """A tensor of one of the layouts CSR, CSC, BSR and BSC."""
    if layout is None or layout in (torch.strided, torch.sparse_coo):
        words = {None: "none", torch.strided: "Strided", torch.sparse_coo: "Sparse"}
        raise RuntimeError("sparse_compressed_tensor expected sparse compressed tensor layout but got " + words[layout])
    return _compressed("sparse_compressed_tensor", ("compressed_indices", "plain_indices"), layout, args, named, dtype,
                       device, requires_grad, check_invariants)


def _maker(name, layout, names):
    def make(*args, dtype=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None, **named):
        if "layout" in named and named.pop("layout") is not layout:
            raise RuntimeError("%s expected %s layout" % (name, layout))
        return _compressed(name, names, layout, args, named, dtype, device, requires_grad, check_invariants)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = "%s(%s, %s, values, size=None): a tensor of layout %s." % ((name,) + names + (layout,))
    return make


sparse_csr_tensor = _maker("sparse_csr_tensor", torch._C.sparse_csr, ("crow_indices", "col_indices"))
sparse_csc_tensor = _maker("sparse_csc_tensor", torch._C.sparse_csc, ("ccol_indices", "row_indices"))
sparse_bsr_tensor = _maker("sparse_bsr_tensor", torch._C.sparse_bsr, ("crow_indices", "col_indices"))
sparse_bsc_tensor = _maker("sparse_bsc_tensor", torch._C.sparse_bsc, ("ccol_indices", "row_indices"))


def legacy(dtype, args):
    """torch.sparse.FloatTensor(indices, values, size) or (sizes...), as before there was sparse_coo_tensor."""
    if args and isinstance(args[0], torch.Tensor):
        return sparse_coo_tensor(*args)
    size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    return sparse_coo_tensor(tuple(size) or (0,), dtype=dtype)


def spmm(input, mat2):
    """mm under an older name."""
    return torch.mm(input, mat2)


def dsmm(input, mat2):
    """mm under an older name."""
    return torch.mm(input, mat2)


def hsmm(*args, **kwargs):
    """hspmm under an older name."""
    return torch.hspmm(*args, **kwargs)


def saddmm(*args, **kwargs):
    """sspaddmm under an older name, in all of its forms."""
    return torch.sspaddmm(*args, **kwargs)
