"""torch.functional: functions of torch whose arguments want some Python before the operation is called."""
import itertools
import warnings

import rushlight as torch
import rushlight.nn.functional as F  # noqa: F401
from rushlight import _C
from rushlight.overrides import handle_torch_function, has_torch_function

_ops = _C._VariableFunctions

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
           "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "split", "stft", "tensordot", "unique", "unique_consecutive",
           "unravel_index"]


def _listed(tensors):
    """f(a, b) and f([a, b]) are the same."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(tensors[0])
    return tensors


def broadcast_tensors(*tensors):
    """The tensors expanded to their common shape."""
    tensors = _listed(tensors)
    if has_torch_function(tensors):
        return handle_torch_function(broadcast_tensors, tensors, *tensors)
    return _ops.broadcast_tensors(tensors)


def broadcast_shapes(*shapes):
    """The shape that these shapes broadcast to."""
    size = []
    for k, shape in enumerate(shapes):
        if shape is None:
            continue
        shape = (shape,) if isinstance(shape, int) else shape
        if not isinstance(shape, (tuple, list, str)):  # of a str what it holds is no number, as of a list of such
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
        if len(shape) > len(size):
            size = [1] * (len(shape) - len(size)) + size
        for i in range(1, len(shape) + 1):
            n = shape[-i]
            if n == 1 or n == size[-i]:
                continue
            if size[-i] != 1:
                raise RuntimeError(f"Attempting to broadcast a dimension of length {n} at {-i}! Mismatching argument at index {k} "
                                   f"had {shape}; but expected shape should be broadcastable to {size}")
            if n < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            size[-i] = n
    return torch.Size(size)


def split(tensor, split_size_or_sections, dim=0):
    """Pieces of tensor along dim: of one size, or of these sizes."""
    if not isinstance(tensor, torch.Tensor) and has_torch_function((tensor,)):
        return handle_torch_function(split, (tensor,), tensor, split_size_or_sections, dim=dim)
    return tensor.split(split_size_or_sections, dim)


def einsum(*args):
    """Sums of products by Einstein's notation: einsum("ij,jk->ik", a, b), or with lists of dims instead of letters."""
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list")
    if isinstance(args[0], torch.Tensor):
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

        def word(subscripts):
            text = ""
            for s in subscripts:
                if s is Ellipsis:
                    text += "..."
                elif isinstance(s, int) and 0 <= s < 52:
                    text += letters[s]
                else:
                    raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)" if isinstance(s, int) else
                                     f"einsum(): expected an ellipsis or an int in the subscripts list, got {s}")
            return text
        equation = ",".join(word(s) for s in args[1::2][:len(args) // 2])
        if len(args) % 2 == 1:
            equation += "->" + word(args[-1])
            operands = args[:-1:2]
        else:
            operands = args[::2]
    else:
        equation, operands = args[0], _listed(args[1:])
    if has_torch_function(operands):
        return handle_torch_function(einsum, operands, equation, *operands)
    return _ops.einsum(equation, operands)


def meshgrid(*tensors, indexing=None):
    """Grids of coordinates of 1-d tensors; indexing "ij" (the default) or "xy"."""
    tensors = _listed(tensors)
    if has_torch_function(tensors):
        return handle_torch_function(meshgrid, tensors, *tensors, indexing=indexing)
    if indexing is None:
        _say_once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
    return _ops.meshgrid(tensors, indexing="ij" if indexing is None else indexing)


def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False, onesided=None,
         return_complex=None, align_to_window=None):
    """Short-time Fourier transform of (B, T) or (T) signals: (B, bins, frames)."""
    if has_torch_function((input,)):
        return handle_torch_function(stft, (input,), input, n_fft, hop_length=hop_length, win_length=win_length, window=window, center=center,
                                     pad_mode=pad_mode, normalized=normalized, onesided=onesided, return_complex=return_complex)
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    if center:
        dims = 3 - input.dim()
        padded = torch.nn.functional.pad(input.view([1] * dims + list(input.shape)), [n_fft // 2, n_fft // 2], pad_mode)
        input = padded.view(padded.shape[dims:])
    return _ops.stft(input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex)


istft = _ops.istft


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Distinct elements (or slices along dim); on request where each element went, and how often it occurs."""
    if has_torch_function((input,)):
        return handle_torch_function(unique, (input,), input, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts, dim=dim)
    if dim is None:
        got = _ops._unique2(input, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts)
    else:
        got = _ops.unique_dim(input, dim=dim, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts)
    return _chosen(got, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Elements (or slices along dim) that differ from the one before."""
    if has_torch_function((input,)):
        return handle_torch_function(unique_consecutive, (input,), input, return_inverse=return_inverse, return_counts=return_counts, dim=dim)
    got = _ops.unique_consecutive(input, return_inverse=return_inverse, return_counts=return_counts, dim=dim)
    return _chosen(got, return_inverse, return_counts)


def _chosen(got, inverse, counts):
    out = [got[0]] + ([got[1]] if inverse else []) + ([got[2]] if counts else [])
    return out[0] if len(out) == 1 else tuple(out)


def tensordot(a, b, dims=2, out=None):
    """Product summed over several dims: the last `dims` of a with the first of b, or pairs of lists of dims."""
    if has_torch_function((a, b)):
        return handle_torch_function(tensordot, (a, b), a, b, dims=dims, out=out)
    if isinstance(dims, torch.Tensor):
        if dims.numel() == 1:
            dims = int(dims)
        else:
            if dims.shape[0] != 2:
                raise RuntimeError("tensordot expects dims to be a tensor with two elements")
            dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = list(range(-dims, 0)), list(range(dims))
    elif isinstance(dims, (tuple, list)) and len(dims) > 0 and isinstance(dims[0], (tuple, list)):
        dims_a, dims_b = list(dims[0]), list(dims[1])
    elif isinstance(dims, (tuple, list)):
        dims_a, dims_b = [int(dims[0])], [int(dims[1])]
    else:
        raise RuntimeError("tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
                           f"but got dims={dims}")
    return _ops.tensordot(a, b, dims_a, dims_b) if out is None else _ops.tensordot(a, b, dims_a, dims_b, out=out)


def cartesian_prod(*tensors):
    """All combinations of elements of 1-d tensors, one a row."""
    if has_torch_function(tensors):
        return handle_torch_function(cartesian_prod, tensors, *tensors)
    return _ops.cartesian_prod(tensors)


def block_diag(*tensors):
    """A matrix with the tensors along its diagonal."""
    if has_torch_function(tensors):
        return handle_torch_function(block_diag, tensors, *tensors)
    return _ops.block_diag(tensors)


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """p-norm distances between all rows of x1 and of x2."""
    if has_torch_function((x1, x2)):
        return handle_torch_function(cdist, (x1, x2), x1, x2, p=p, compute_mode=compute_mode)
    modes = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2}
    if compute_mode not in modes:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _ops.cdist(x1, x2, p, modes[compute_mode])


def _at_least(n, name):
    op = getattr(_ops, name)

    def at_least(*tensors):
        if has_torch_function(tensors):
            return handle_torch_function(at_least, tensors, *tensors)
        if len(tensors) == 1:
            if isinstance(tensors[0], (list, tuple)):
                return tuple(op(t) for t in tensors[0])
            return op(tensors[0])
        return tuple(op(t) for t in tensors)
    at_least.__name__ = at_least.__qualname__ = name
    at_least.__doc__ = f"The tensors with at least {n} dimensions."
    return at_least


atleast_1d = _at_least(1, "atleast_1d")
atleast_2d = _at_least(2, "atleast_2d")
atleast_3d = _at_least(3, "atleast_3d")


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """Vector norm of order p over dim, or matrix norm for p = "nuc" and two dims."""
    if has_torch_function((input,)):
        return handle_torch_function(norm, (input,), input, p=p, dim=dim, keepdim=keepdim, out=out, dtype=dtype)
    dims = [dim] if isinstance(dim, int) else dim
    extra = {} if out is None else {"out": out}
    if p == "nuc":
        dims = list(dims) if dims is not None else list(range(input.dim()))
        if len(dims) != 2:
            raise RuntimeError("norm: nuclear norm wants a matrix")
        return torch.linalg.matrix_norm(input, "nuc", dims, keepdim, dtype=dtype, **extra)
    order = 2.0 if p == "fro" or p is None else p
    if isinstance(order, str):
        raise RuntimeError(f"only valid string values are 'fro' (corresponding to Frobenius norm) and 'nuc' (corresponding to the Nuclear norm), found: {p}")
    if dims is None:
        dims = list(range(input.dim()))
    return torch.linalg.vector_norm(input, order, dims, keepdim, dtype=dtype, **extra)


def unravel_index(indices, shape):
    """Coordinates of flat indices in a tensor of this shape, a tensor per dim."""
    if has_torch_function((indices,)):
        return handle_torch_function(unravel_index, (indices,), indices, shape=shape)
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == torch.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, torch.Size, tuple, list)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    indices = indices.to(torch.int64)
    steps = list(itertools.accumulate(shape[:0:-1], lambda a, b: a * b, initial=1))[::-1]
    return tuple(indices.div(step, rounding_mode="floor") % n for step, n in zip(steps, shape))


_said = set()


def _say_once(text):
    if text not in _said or torch.is_warn_always_enabled():
        _said.add(text)
        warnings.warn(text, stacklevel=3)


def chain_matmul(*matrices, out=None):
    """The product of matrices, in the cheapest order."""
    _say_once("torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot instead.")
    matrices = _listed(matrices)
    if has_torch_function(matrices):
        return handle_torch_function(chain_matmul, matrices, *matrices, out=out)
    return torch.linalg.multi_dot(list(matrices)) if out is None else torch.linalg.multi_dot(list(matrices), out=out)


def lu(A, pivot=True, get_infos=False, out=None):
    """Packed LU factorisation with pivots; with get_infos also LAPACK's info of each matrix."""
    _say_once("torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex.")
    got = _ops._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    got = got if get_infos else tuple(got[:2])
    if out is not None:
        for to, made in zip(out, got):
            to.resize_as_(made).copy_(made)
        return out
    return got
