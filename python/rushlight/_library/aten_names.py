"""Operators that the registry does not have, but that programs name (mostly to register handlers for them): of aten, and collectives as functions.

Each is a schema and, where it is a line of Python, a kernel; without one a call is a NotImplementedError.
"""
import importlib
import itertools

import rushlight as torch


def _same(name):
    """Calls the method, reads the attribute or calls the function of that name."""
    def kernel(*args, **kwargs):
        own = getattr(args[0], name, None) if args and isinstance(args[0], torch.Tensor) else None
        if own is None:
            return getattr(torch, name)(*args, **kwargs)
        return own(*args[1:], **kwargs) if callable(own) and not isinstance(own, torch.Tensor) else own
    return kernel


def _copied(name):
    view = _same(name.removesuffix("_copy"))
    return lambda self: view(self).clone()


def _rows(text, kernel):
    """Rows of a table: each line is a schema, `kernel` makes its kernel of its name."""
    return tuple((line, kernel(line.partition("(")[0].partition(".")[0])) for line in text.strip().splitlines())


def _collective(name):
    """A function of torch.distributed's that is there when it is called."""
    return lambda *args: getattr(importlib.import_module("rushlight.distributed._functional_collectives"), name)(*args)


def _sizes(self):
    return list(self.size())


def _strides(self):
    return list(self.stride())


_TABLE = (
    ("_pin_memory(Tensor self, Device? device=None) -> Tensor", None),
    ("is_pinned(Tensor self, Device? device=None) -> bool", lambda self, device=None: self.is_pinned()),
    ("_is_all_true(Tensor self) -> Tensor", lambda self: self.all()),
    ("_is_any_true(Tensor self) -> Tensor", lambda self: self.any()),
    ("_assert_scalar(Scalar self, str assert_msg) -> ()", lambda self, assert_msg: torch._assert(bool(self), assert_msg)),
    ("_assert_tensor_metadata(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
     "Layout? layout=None) -> ()", None),
    ("size(Tensor self) -> int[]", _sizes),
    ("sym_size(Tensor self) -> int[]", _sizes),
    ("stride(Tensor self) -> int[]", _strides),
    ("sym_stride(Tensor self) -> int[]", _strides),
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

# What rushlight has as a method of tensors, an attribute of theirs, or a function of torch, by the same name
_SAME = """
numel(Tensor self) -> int
dim(Tensor self) -> int
size.int(Tensor self, int dim) -> int
stride.int(Tensor self, int dim) -> int
storage_offset(Tensor self) -> int
is_contiguous(Tensor self) -> bool
is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool
is_complex(Tensor self) -> bool
is_floating_point(Tensor self) -> bool
is_signed(Tensor self) -> bool
is_conj(Tensor self) -> bool
is_neg(Tensor self) -> bool
is_inference(Tensor self) -> bool
is_leaf(Tensor self) -> bool
is_set_to(Tensor self, Tensor tensor) -> bool
output_nr(Tensor self) -> int
_version(Tensor self) -> int
get_device(Tensor self) -> int
element_size(Tensor self) -> int
requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)
retain_grad(Tensor(a!) self) -> ()
retains_grad(Tensor self) -> bool
record_stream(Tensor(a!) self, Stream s) -> ()
pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)
qscheme(Tensor self) -> QScheme
_is_zerotensor(Tensor self) -> bool
_shape_as_tensor(Tensor self) -> Tensor
to_mkldnn(Tensor self, ScalarType? dtype=None) -> Tensor
promote_types(ScalarType type1, ScalarType type2) -> ScalarType
can_cast(ScalarType from_, ScalarType to) -> bool
result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType
result_type.Scalar(Tensor tensor, Scalar other) -> ScalarType
result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> ScalarType
result_type.Scalar_Scalar(Scalar scalar1, Scalar scalar2) -> ScalarType
_cast_Byte(Tensor self, bool non_blocking=False) -> Tensor
_cast_Char(Tensor self, bool non_blocking=False) -> Tensor
_cast_Double(Tensor self, bool non_blocking=False) -> Tensor
_cast_Float(Tensor self, bool non_blocking=False) -> Tensor
_cast_Half(Tensor self, bool non_blocking=False) -> Tensor
_cast_Int(Tensor self, bool non_blocking=False) -> Tensor
_cast_Long(Tensor self, bool non_blocking=False) -> Tensor
_cast_Short(Tensor self, bool non_blocking=False) -> Tensor
to_padded_tensor(Tensor self, float padding, SymInt[]? output_size=None) -> Tensor
chalf(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
polygamma_(Tensor(a!) self, int n) -> Tensor(a!)
data(Tensor self) -> Tensor
"""
# Views, copied
_COPIES = """
_conj_copy(Tensor self) -> Tensor
_neg_view_copy(Tensor self) -> Tensor
_indices_copy(Tensor self) -> Tensor
_values_copy(Tensor self) -> Tensor
indices_copy(Tensor self) -> Tensor
values_copy(Tensor self) -> Tensor
crow_indices_copy(Tensor self) -> Tensor
col_indices_copy(Tensor self) -> Tensor
ccol_indices_copy(Tensor self) -> Tensor
row_indices_copy(Tensor self) -> Tensor
"""
# Kernels of other libraries than rushlight's: programs list them (what a checkpoint is to keep, what is to be counted)
_ELSEWHERE = """
_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)
_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor philox_seed, Tensor philox_offset, *, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)
_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)
_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor value, Tensor attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, float dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)
_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)
_scaled_dot_product_cudnn_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, Tensor attn_bias, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, *, float? scale=None) -> (Tensor, Tensor, Tensor)
_scaled_dot_product_fused_attention_overrideable(Tensor query, Tensor key, Tensor value, Tensor? attn_bias=None, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)
_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None, Tensor? block_table=None, int? num_splits=None) -> (Tensor output, Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)
_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor rng_state, Tensor unused, *, float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None) -> (Tensor, Tensor, Tensor)
_efficient_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, float dropout_p, int custom_mask_type, bool compute_log_sumexp=False, *, float? scale=None, Tensor? seqlen_k=None, int? window_size=None) -> (Tensor output, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, SymInt max_seqlen_batch_q, SymInt max_seqlen_batch_k)
_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor out, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, Tensor logsumexp, float dropout_p, Tensor philox_seed, Tensor philox_offset, int custom_mask_type, bool bias_requires_grad, *, float? scale=None, int? num_splits_key=None, int? window_size=None, bool shared_storage_dqdkdv=False) -> (Tensor, Tensor, Tensor, Tensor)
cudnn_convolution(Tensor self, Tensor weight, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic, bool allow_tf32) -> Tensor
cudnn_convolution_transpose(Tensor self, Tensor weight, SymInt[] padding, SymInt[] output_padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic, bool allow_tf32) -> Tensor
cudnn_convolution_relu(Tensor self, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups) -> Tensor
cudnn_convolution_add_relu(Tensor self, Tensor weight, Tensor z, Scalar? alpha, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups) -> Tensor
cudnn_batch_norm_backward(Tensor input, Tensor grad_output, Tensor weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, float epsilon, Tensor reserveSpace) -> (Tensor, Tensor, Tensor)
_cudnn_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor? weight_buf, Tensor hx, Tensor? cx, int mode, SymInt hidden_size, SymInt proj_size, int num_layers, bool batch_first, float dropout, bool train, bool bidirectional, SymInt[] batch_sizes, Tensor? dropout_state) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
_cudnn_rnn_backward(Tensor input, Tensor[] weight, int weight_stride0, Tensor weight_buf, Tensor hx, Tensor? cx, Tensor output, Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, int mode, SymInt hidden_size, SymInt proj_size, int num_layers, bool batch_first, float dropout, bool train, bool bidirectional, SymInt[] batch_sizes, Tensor? dropout_state, Tensor reserve, bool[4] output_mask) -> (Tensor, Tensor, Tensor, Tensor[])
_cudnn_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, bool deterministic, bool zero_infinity) -> (Tensor, Tensor)
_cudnn_ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, bool deterministic, bool zero_infinity) -> (Tensor, Tensor)
miopen_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic) -> Tensor
miopen_batch_norm_backward(Tensor input, Tensor grad_output, Tensor weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, float epsilon) -> (Tensor, Tensor, Tensor)
miopen_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor hx, Tensor? cx, int mode, int hidden_size, int num_layers, bool batch_first, float dropout, bool train, bool bidirectional, int[] batch_sizes, Tensor? dropout_state) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
mkldnn_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups) -> Tensor
mkldnn_linear(Tensor self, Tensor weight, Tensor? bias=None) -> Tensor
convolution_overrideable(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
convolution_backward_overrideable(Tensor grad_output, Tensor input, Tensor weight, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)
_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor, Tensor)
_thnn_fused_lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
_thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor)
_thnn_fused_gru_cell_backward(Tensor grad_hy, Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
_scaled_grouped_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? offs=None, Tensor? bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor
_weight_int4pack_mm(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor
_convert_weight_to_int4pack(Tensor self, int innerKTiles) -> Tensor
_cslt_compress(Tensor input) -> Tensor
_cslt_sparse_mm(Tensor compressed_A, Tensor dense_B, Tensor? bias=None, Tensor? alpha=None, ScalarType? out_dtype=None, bool transpose_result=False, int alg_id=0, int split_k=1, int split_k_mode=-1) -> Tensor
_sparse_semi_structured_linear(Tensor input, Tensor weight, Tensor meta, *, Tensor? bias=None, str? activation=None, ScalarType? out_dtype=None) -> Tensor
_sparse_semi_structured_mm(Tensor mat1, Tensor mat1_meta, Tensor mat2, *, ScalarType? out_dtype=None) -> Tensor
_sparse_semi_structured_addmm(Tensor input, Tensor mat1, Tensor mat1_meta, Tensor mat2, *, Scalar alpha=1, Scalar beta=1, ScalarType? out_dtype=None) -> Tensor
_sparse_semi_structured_tile(Tensor input, str algorithm="", bool use_cutlass=True) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
_sparse_semi_structured_apply(Tensor input, Tensor thread_masks) -> (Tensor, Tensor)
_sparse_semi_structured_apply_dense(Tensor input, Tensor thread_masks) -> Tensor
_to_sparse_semi_structured(Tensor dense) -> (Tensor, Tensor)
_mixed_dtypes_linear(Tensor input, Tensor weight, Tensor scale, *, Tensor? bias=None, str? activation=None) -> Tensor
"""

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
    ("all_reduce_coalesced(Tensor[] self, str reduceOp, " + _GROUPED + "[]",
     lambda self, reduceOp, tag, ranks, group_size: _collective("all_reduce_coalesced")(self, reduceOp, ranks)),
    ("all_gather_into_tensor(Tensor shard, " + _GROUPED, lambda shard, tag, ranks, group_size: _collective("all_gather_tensor")(shard, 0, ranks)),
    ("reduce_scatter_tensor(Tensor input, str reduceOp, " + _GROUPED,
     lambda input, reduceOp, tag, ranks, group_size: _collective("reduce_scatter_tensor")(input, reduceOp, 0, ranks)),
    ("all_to_all_single(Tensor input, SymInt[]? output_split_sizes, SymInt[]? input_split_sizes, " + _GROUPED,
     lambda input, output_split_sizes, input_split_sizes, tag, ranks, group_size:
     _collective("all_to_all_single")(input, output_split_sizes, input_split_sizes, ranks)),
)
# Collectives in place are methods of process groups here; tensors of other kinds name their operators.
_GROUP = "__torch__.torch.classes.c10d.ProcessGroup process_group, "
_WORK = "__torch__.torch.classes.c10d.Work"
_DONE = "bool async_op=True, int timeout=-1) -> (%s, " + _WORK + ")"
_LATER = "bool async_op=True, int timeout=-1) -> " + _WORK
_REDUCE = "__torch__.torch.classes.c10d.ReduceOp reduce_op, "
_IN_PLACE = (
    ("scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, " + _GROUP + "int root_rank, " + _DONE % "Tensor[]", None),
    ("broadcast_(Tensor[] tensors, " + _GROUP + "int root_rank, int root_tensor, " + _DONE % "Tensor[]", None),
    ("allgather_(Tensor[][] output_tensors, Tensor[] input_tensors, " + _GROUP + _DONE % "Tensor[][]", None),
    ("_allgather_base_(Tensor output_tensor, Tensor input_tensor, " + _GROUP + _DONE % "Tensor", None),
    ("allgather_coalesced_(Tensor[][] output_lists, Tensor[] input_list, " + _GROUP + "bool async_op=True) -> " + _WORK, None),
    ("allreduce_(Tensor[] tensors, " + _GROUP + _REDUCE + "Tensor? sparse_indices, " + _DONE % "Tensor[]", None),
    ("allreduce_coalesced_(Tensor[] tensors, " + _GROUP + _REDUCE + _LATER, None),
    ("reduce_(Tensor[] tensors, " + _GROUP + _REDUCE + "int root_rank, int root_tensor, " + _LATER, None),
    ("gather_(Tensor[][] output_tensors, Tensor[] input_tensors, " + _GROUP + "int root_rank, " + _LATER, None),
    ("reduce_scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, " + _GROUP + _REDUCE + _DONE % "Tensor[]", None),
    ("_reduce_scatter_base_(Tensor output_tensor, Tensor input_tensor, " + _GROUP + _REDUCE + _DONE % "Tensor", None),
    ("alltoall_(Tensor[] output_tensors, Tensor[] input_tensors, " + _GROUP + _DONE % "Tensor[]", None),
    ("alltoall_base_(Tensor output, Tensor input, " + _GROUP + "int[] output_split_sizes, int[] input_split_sizes, " + _LATER, None),
)
_PRIMS = (
    ("convert_element_type(Tensor a, ScalarType dtype) -> Tensor", lambda a, dtype: a.to(dtype, copy=True)),
)
_TABLES = {"aten": _TABLE + _rows(_SAME, _same) + _rows(_COPIES, _copied) + _rows(_ELSEWHERE, lambda name: None),
           "prims": _PRIMS, "_c10d_functional": _COLLECTIVES, "c10d_functional": _OLD_COLLECTIVES, "c10d": _IN_PLACE}


def _entered(name, args=None):
    return torch.autograd.profiler.record_function(name, args).__enter__()


def _entered_by_number(name, args=None):
    number = next(_numbers)
    handle = torch.tensor(list(number.to_bytes(8, "little")), dtype=torch.uint8)
    _ranges[number] = _entered(name, args)
    return handle


def _left_by_number(handle):
    number = int.from_bytes(handle.tolist(), "little") if handle.dtype == torch.uint8 and handle.dim() == 1 else -1
    if number not in _ranges:
        raise RuntimeError("profiler::_record_function_exit: no range with this handle is open")
    _left(_ranges.pop(number))


def _left(record):
    record.__exit__(None, None, None)


_numbers, _ranges = itertools.count(), {}  # ranges of a profile whose handle is a tensor: its bytes are the number
_TABLES["profiler"] = (
    ("_record_function_enter(str name, str? args=None) -> Tensor", _entered_by_number),
    ("_record_function_enter_new(str name, str? args=None) -> __torch__.torch.classes.profiler._RecordFunction", _entered),
    ("_record_function_exit(Tensor handle) -> ()", _left_by_number),
    ("_record_function_exit._RecordFunction(__torch__.torch.classes.profiler._RecordFunction record) -> ()", _left),
)


def find(namespace, name):
    """Make the operators of that name; False when the namespace has none here."""
    from rushlight._library.custom_ops import PyOp
    from rushlight._library.schema import parse_schema
    found = False
    for text, kernel in _TABLES.get(namespace, ()):
        if text.partition("(")[0].partition(".")[0] != name:
            continue
        op = PyOp(namespace, parse_schema("%s::%s" % (namespace, text)))
        if kernel is not None:
            op.kernels["CompositeImplicitAutograd"] = kernel
        torch.ops._add_python_op(op)
        found = True
    return found
