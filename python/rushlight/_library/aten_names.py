"""Operators of aten that the registry does not have, but that programs name (mostly to register handlers for them).

Each is a schema and, where it is a line of Python, a kernel; without one a call is a NotImplementedError.
"""
import rushlight as torch

_TABLE = (
    ("_pin_memory(Tensor self, Device? device=None) -> Tensor", None),
    ("_is_all_true(Tensor self) -> Tensor", lambda self: self.all()),
    ("_is_any_true(Tensor self) -> Tensor", lambda self: self.any()),
    ("_assert_scalar(Scalar self, str assert_msg) -> ()", lambda self, assert_msg: torch._assert(bool(self), assert_msg)),
    ("_assert_tensor_metadata(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
     "Layout? layout=None) -> ()", None),
    ("sym_size.int(Tensor self, int dim) -> int", lambda self, dim: self.size(dim)),
    ("sym_stride.int(Tensor self, int dim) -> int", lambda self, dim: self.stride(dim)),
    ("sym_numel(Tensor self) -> int", lambda self: self.numel()),
    ("sym_storage_offset(Tensor self) -> int", lambda self: self.storage_offset()),
    ("sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()", lambda size, min=None, max=None: None),
    ("sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()", lambda size, min=None, max=None: None),
    ("_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", None),
    ("_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)", None),
    ("_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor", None),
    ("empty_permuted(int[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor", None),
    ("_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool "
     "non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     lambda self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None:
     self.to(device=device if device is not None else self.device, dtype=dtype if dtype is not None else self.dtype,
             copy=True)),
)


def find(name):
    """Make the operators of that name; False when the table has none."""
    from rushlight._library.custom_ops import PyOp
    from rushlight._library.schema import parse_schema
    found = False
    for text, kernel in _TABLE:
        schema = parse_schema("aten::" + text)
        if schema.name == "aten::" + name:
            op = PyOp("aten", schema)
            if kernel is not None:
                op.kernels["CompositeImplicitAutograd"] = kernel
            torch.ops._add_python_op(op)
            found = True
    return found
