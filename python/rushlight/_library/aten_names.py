"""Operators that the registry does not have, but that programs name (mostly to register handlers for them): of aten, and collectives as functions.

Each is a schema and, where it is a line of Python, a kernel; without one a call is a NotImplementedError.
"""
import importlib

import rushlight as torch


def _collective(name):
    """A function of torch.distributed's that is there when it is called."""
    return lambda *args: getattr(importlib.import_module("rushlight.distributed._functional_collectives"), name)(*args)


_TABLE = (
    ("_pin_memory(Tensor self, Device? device=None) -> Tensor", None),
    ("is_pinned(Tensor self, Device? device=None) -> bool", lambda self, device=None: self.is_pinned()),
    ("_is_all_true(Tensor self) -> Tensor", lambda self: self.all()),
    ("_is_any_true(Tensor self) -> Tensor", lambda self: self.any()),
    ("_assert_scalar(Scalar self, str assert_msg) -> ()", lambda self, assert_msg: torch._assert(bool(self), assert_msg)),
    ("_assert_tensor_metadata(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
     "Layout? layout=None) -> ()", None),
    ("sym_size(Tensor self) -> int[]", lambda self: list(self.size())),
    ("sym_stride(Tensor self) -> int[]", lambda self: list(self.stride())),
    ("sym_size.int(Tensor self, int dim) -> int", lambda self, dim: self.size(dim)),
    ("sym_stride.int(Tensor self, int dim) -> int", lambda self, dim: self.stride(dim)),
    ("sym_numel(Tensor self) -> int", lambda self: self.numel()),
    ("sym_storage_offset(Tensor self) -> int", lambda self: self.storage_offset()),
    ("sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()", lambda size, min=None, max=None: None),
    ("sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()", lambda size, min=None, max=None: None),
    ("_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", None),
    ("_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)", None),
    ("cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
     "float exponential_average_factor, float epsilon) -> (Tensor, Tensor, Tensor, Tensor)", None),
    ("miopen_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
     "float exponential_average_factor, float epsilon) -> (Tensor, Tensor, Tensor)", None),
    ("_mkldnn_transpose(Tensor self, int dim0, int dim1) -> Tensor", None),
    ("_efficientzerotensor(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", None),
    ("empty_permuted(int[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor", None),
    ("_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool "
     "non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     lambda self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None:
     self.to(device=device if device is not None else self.device, dtype=dtype if dtype is not None else self.dtype,
             copy=True)),
)

_GROUPED = "str tag, int[] ranks, int group_size) -> Tensor"  # the group by its ranks, before groups had names
_COLLECTIVES = (
    ("wait_tensor(Tensor tensor) -> Tensor", lambda tensor: tensor),
    ("_wrap_tensor_autograd(Tensor input) -> Tensor", lambda input: input),
    ("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", _collective("all_reduce")),
    ("broadcast(Tensor input, int src, str group_name) -> Tensor", _collective("broadcast")),
    ("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor",
     lambda input, group_size, group_name: _collective("all_gather_tensor")(input, 0, group_name)),
    ("reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
     lambda input, reduce_op, group_size, group_name: _collective("reduce_scatter_tensor")(input, reduce_op, 0, group_name)),
    ("all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor", _collective("all_to_all_single")),
)
_OLD_COLLECTIVES = (
    ("wait_tensor(Tensor self) -> Tensor", lambda self: self),
    ("all_reduce(Tensor self, str reduceOp, " + _GROUPED, lambda self, reduceOp, tag, ranks, group_size: _collective("all_reduce")(self, reduceOp, ranks)),
    ("broadcast(Tensor self, int src, " + _GROUPED, lambda self, src, tag, ranks, group_size: _collective("broadcast")(self, src, ranks)),
    ("all_gather_into_tensor(Tensor shard, " + _GROUPED, lambda shard, tag, ranks, group_size: _collective("all_gather_tensor")(shard, 0, ranks)),
    ("reduce_scatter_tensor(Tensor input, str reduceOp, " + _GROUPED,
     lambda input, reduceOp, tag, ranks, group_size: _collective("reduce_scatter_tensor")(input, reduceOp, 0, ranks)),
)
# Collectives in place are methods of process groups here; tensors of other kinds name their operators.
_GROUP = "__torch__.torch.classes.c10d.ProcessGroup process_group, "
_DONE = "bool async_op=True, int timeout=-1) -> (%s, __torch__.torch.classes.c10d.Work)"
_IN_PLACE = (
    ("scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, " + _GROUP + "int root_rank, " + _DONE % "Tensor[]", None),
    ("broadcast_(Tensor[] tensors, " + _GROUP + "int root_rank, int root_tensor, " + _DONE % "Tensor[]", None),
    ("allgather_(Tensor[][] output_tensors, Tensor[] input_tensors, " + _GROUP + _DONE % "Tensor[][]", None),
    ("allreduce_(Tensor[] tensors, " + _GROUP + "__torch__.torch.classes.c10d.ReduceOp reduce_op, Tensor? sparse_indices, " + _DONE % "Tensor[]", None),
)
_PRIMS = (
    ("convert_element_type(Tensor a, ScalarType dtype) -> Tensor", lambda a, dtype: a.to(dtype, copy=True)),
)
_TABLES = {"aten": _TABLE, "prims": _PRIMS, "_c10d_functional": _COLLECTIVES, "c10d_functional": _OLD_COLLECTIVES, "c10d": _IN_PLACE}


def find(namespace, name):
    """Make the operators of that name; False when the namespace has none here."""
    from rushlight._library.custom_ops import PyOp
    from rushlight._library.schema import parse_schema
    found = False
    for text, kernel in _TABLES.get(namespace, ()):
        schema = parse_schema("%s::%s" % (namespace, text))
        if schema.name == "%s::%s" % (namespace, name):
            op = PyOp(namespace, schema)
            if kernel is not None:
                op.kernels["CompositeImplicitAutograd"] = kernel
            torch.ops._add_python_op(op)
            found = True
    return found
