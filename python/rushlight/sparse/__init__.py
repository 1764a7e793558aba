"""torch.sparse: functions of sparse tensors."""

import rushlight as torch

__all__ = ["addmm", "check_sparse_tensor_invariants", "mm", "sum", "softmax", "log_softmax",
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
    lines = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    offsets = offsets if offsets.dim() else offsets.unsqueeze(0)
    if lines.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if offsets.dim() != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if lines.size(0) != offsets.size(0):
        raise RuntimeError("Number of diagonals (%d) does not match the number of offsets (%d)"
                           % (lines.size(0), offsets.size(0)))
    if layout not in (None, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        raise RuntimeError("Only output layouts (Sparse, SparseCsc, and SparseCsr) are supported, got %s" % layout)
    if offsets.dtype is not torch.int64:
        raise RuntimeError("Offset Tensor must have dtype Long but got %s" % torch.typename(offsets))
    if offsets.unique().numel() != offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    # A column of the matrix is a column of diagonals; its row is that less the offset.
    columns = torch.arange(lines.size(1)).expand_as(lines)
    rows = columns - offsets.unsqueeze(1)
    inside = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    places = torch.stack([rows[inside], columns[inside]])
    result = torch.sparse_coo_tensor(places, lines[inside], shape)
    return result if layout in (None, torch.sparse_coo) else result.to_sparse(layout=layout)


def spsolve(input, other, *, left=True):
    raise NotImplementedError("torch.sparse.spsolve: there is no kernel for the %s" % input.device.type.upper())


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
    """gradcheck that takes functions with sparse results: their dense forms are compared."""
    def dense(result, masked):
        if isinstance(result, (tuple, list)):
            return tuple(dense(x, masked) for x in result)
        sparse = isinstance(result, torch.Tensor) and result.layout is not torch.strided
        return result.to_dense(masked_grad=masked) if sparse else result

    def checked(func, inputs, **options):
        masked = options.pop("masked", False)
        return gradcheck(lambda *args: dense(func(*args), masked), inputs, masked=masked, **options)
    return checked


class SparseSemiStructuredTensor:
    """Two of four elements are zero: a layout of CUDA devices."""

    _DEFAULT_ALG_ID = 0

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError("torch.sparse.%s: tensors with two of four elements zero are not supported" % cls.__name__)


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """As CUTLASS's kernels take it."""


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """As cuSPARSELt's kernels take it."""


def to_sparse_semi_structured(original_tensor, transposed=False, alg_id=0):
    raise RuntimeError("Error original_tensor.device= %s is not supported! Only CUDA tensors are currently supported." % original_tensor.device)


def __getattr__(name):
    if name.endswith("Tensor"):
        return torch._C._make_tensortype("torch.sparse." + name)
    raise AttributeError("module 'torch.sparse' has no attribute '%s'" % name)


