"""torch.sparse: functions of sparse tensors."""

import rushlight as torch

__all__ = ["addmm", "check_sparse_tensor_invariants", "mm", "sum", "softmax", "solve", "log_softmax",
           "SparseSemiStructuredTensor", "to_sparse_semi_structured", "as_sparse_gradcheck", "spdiags", "spsolve",
           "sampled_addmm"]


def _function(name):
    function = getattr(getattr(torch._C, "_sparse", None), name, None) or \
        getattr(torch._C._VariableFunctions, name, None)
    if function is None:
        raise NotImplementedError("torch.sparse: this build of rushlight has no %s" % name)
    return function


def mm(mat1, mat2, reduce=None):
    """The product of a sparse and a sparse or dense matrix."""
    if reduce is not None:
        return _function("_sparse_mm")(mat1, mat2, reduce)
    return _function("_sparse_mm")(mat1, mat2)


def addmm(mat, mat1, mat2, *, beta=1, alpha=1):
    return _function("_sparse_addmm")(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    return _function("sparse_sampled_addmm")(input, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """The sum of a sparse tensor's elements, or over dimensions."""
    options = {} if dtype is None else {"dtype": dtype}
    return _function("_sparse_sum")(input, **options) if dim is None else _function("_sparse_sum")(input, dim, **options)


def softmax(input, dim, *, dtype=None):
    return _function("_sparse_softmax")(input, dim, dtype=dtype)


def log_softmax(input, dim, *, dtype=None):
    return _function("_sparse_log_softmax")(input, dim, dtype=dtype)


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with the rows of diagonals on its diagonals."""
    if diagonals.dim() == 1:
        diagonals = diagonals.unsqueeze(0)
    offsets = torch.as_tensor(offsets).reshape(-1)
    if offsets.unique().numel() != offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    rows, cols, values = [], [], []
    for line, offset in zip(diagonals, offsets.tolist()):
        for j in range(max(0, offset), min(shape[1], shape[0] + offset, line.numel())):
            rows.append(j - offset)
            cols.append(j)
            values.append(line[j])
    picked = torch.stack(values) if values else diagonals.new_empty(0)
    result = torch.sparse_coo_tensor(torch.tensor([rows, cols], dtype=torch.int64).reshape(2, -1), picked, shape)
    result = result.coalesce()
    return result if layout in (None, torch.sparse_coo) else result.to_sparse(layout=layout)


def spsolve(input, other, *, left=True):
    raise NotImplementedError("torch.sparse.spsolve is not supported")


solve = spsolve


class check_sparse_tensor_invariants:
    """Whether indices of sparse tensors are checked when they are made; context manager and decorator too."""

    enabled = False

    def __init__(self, enable=True):
        self.state, self.saved = enable, None

    @staticmethod
    def is_enabled():
        return check_sparse_tensor_invariants.enabled

    @staticmethod
    def enable():
        check_sparse_tensor_invariants.enabled = True

    @staticmethod
    def disable():
        check_sparse_tensor_invariants.enabled = False

    def __enter__(self):
        self.saved = check_sparse_tensor_invariants.enabled
        check_sparse_tensor_invariants.enabled = self.state

    def __exit__(self, *error):
        check_sparse_tensor_invariants.enabled = self.saved

    def __call__(self, func):
        def checked(*args, **kwargs):
            with type(self)(self.state):
                return func(*args, **kwargs)
        return checked


def as_sparse_gradcheck(gradcheck):
    return gradcheck


class SparseSemiStructuredTensor:
    """Two of four elements are zero: a layout of CUDA devices."""


def to_sparse_semi_structured(original_tensor, transposed=False):
    raise NotImplementedError("to_sparse_semi_structured: semi-structured sparsity needs a CUDA device")


def __getattr__(name):
    if name.endswith("Tensor"):
        return torch._C._make_tensortype("torch.sparse." + name)
    raise AttributeError("module 'torch.sparse' has no attribute '%s'" % name)


