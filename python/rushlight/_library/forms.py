"""The forms in place and with out= as torch.ops shows them: rushlight derives both from an operation's record, PyTorch gives each a schema of its own.

Rules name most overloads; the tables have those that the rules do not.
"""
import rushlight as torch
from rushlight._library.custom_ops import who_answers
from rushlight._library.schema import AliasInfo, Argument, FunctionSchema, Type

# base -> {overload of the record: overload of its form in place}
_IN_PLACE = {"pow": {"Tensor_Scalar": "Scalar", "Tensor_Tensor": "Tensor"}, "ldexp": {"Tensor": ""}, "floor_divide": {"": "Tensor"}}

# overload of the record -> overload of the form with out=, or (overload, names of what is written)
_OUT = {
    "max": "unary_out", "max.dim": ("dim_max", ("max", "max_values")), "max.other": "out",
    "min": "unary_out", "min.dim": ("dim_min", ("min", "min_indices")), "min.other": "out",
    "all": "all_out", "all.dim": "out", "any": "all_out", "any.dim": "out", "mean": "dtype_out", "mean.dim": "out", "std.dim": "out", "var.dim": "out",
    "sum.dim_IntList": "IntList_out", "prod.dim_int": "int_out", "norm.ScalarOpt_dim": "out", "norm.ScalarOpt_dim_dtype": "dtype_out",
    "frobenius_norm.dim": "out", "_sparse_sum.dim_dtype": "dim_out", "sort.stable": "values_stable",
    "div.Tensor_mode": "out_mode", "divide.Tensor_mode": "out_mode",
    "xlogy.Tensor": "OutTensor", "xlogy.Scalar_Self": "OutScalar_Self", "xlogy.Scalar_Other": "OutScalar_Other",
    "arange.start_step": "start_out", "range": "out_", "range.step": "out", "empty.memory_format": "out", "bernoulli.p": "float_out",
    "frexp.Tensor": "Tensor_out", "histogram.bin_ct": "bin_ct_out", "histogram.bins_tensor": "bins_tensor_out",
    "linalg_matrix_rank.tol_tensor": "out_tol_tensor", "linalg_pinv.rcond_tensor": "out_rcond_tensor",
    "linalg_eigh": ("eigvals", ("eigvals", "eigvecs")), "triangular_solve": ("X", ("X", "M")),
    "adaptive_max_pool2d": ("out", ("out", "indices")), "adaptive_max_pool3d": ("out", ("out", "indices")),
    "max_pool2d_with_indices": ("out", ("out", "indices")), "max_pool3d_with_indices": ("out", ("out", "indices")),
    "fractional_max_pool2d": ("output", ("output", "indices")), "fractional_max_pool3d": ("output", ("output", "indices")),
    "native_batch_norm": ("out", ("out", "save_mean", "save_invstd")), "_native_batch_norm_legit": ("out", ("out", "save_mean", "save_invstd")),
    "_native_batch_norm_legit.no_stats": ("no_stats_out", ("out", "save_mean", "save_invstd")),
    "fake_quantize_per_channel_affine_cachemask": ("out", ("out0", "out1")), "fake_quantize_per_tensor_affine_cachemask": ("out", ("out0", "out1")),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": ("out", ("out0", "out1")),
    "_softmax_backward_data": ("out", ("grad_input",)), "huber_loss_backward": ("out", ("grad_input",)),
}
# Their Tensor overload's form is "out", the others' is "Tensor_out".
_TENSOR_OUT = frozenset("add sub subtract mul multiply div divide true_divide copysign ldexp".split())
# Several results with names, yet the overload is "out" and not the first name
_NAMED_OUT = frozenset("aminmax cummax cummin linalg_eig linalg_ldl_factor linalg_ldl_factor_ex linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex "
                       "linalg_qr linalg_slogdet linalg_solve_ex lu_unpack slogdet".split())
# Derivatives whose form writes `out` and not `grad_input`
_PLAIN_OUT = frozenset("_adaptive_avg_pool2d _adaptive_avg_pool3d _cdist _ctc_loss _embedding_bag_dense _embedding_bag_per_sample_weights _pdist _segment_reduce "
                       "diagonal embedding_dense hardswish native_dropout rrelu_with_noise select slice unfold".split())
_OPTIONS = ("layout", "device", "pin_memory")


def _out_names(base, overload, returns):
    """(overload, names of what it writes) of the form with out=."""
    known = _OUT.get("%s.%s" % (base, overload) if overload else base)
    if isinstance(known, tuple):
        return known
    named = tuple(r.name for r in returns)
    several = len(named) > 1
    if several and all(named):
        form = known or ("out" if base in _NAMED_OUT else "%s_%s" % (overload, named[0]) if overload else named[0])
        return form, named
    if not several and not overload and base.endswith("_backward") and str(returns[0].written) == "Tensor" and base.removesuffix("_backward") not in _PLAIN_OUT:
        return "grad_input", ("grad_input",)
    plain = not overload or overload == "Tensor" and base in _TENSOR_OUT
    return known or ("out" if plain else overload + "_out"), tuple("out%d" % i for i in range(len(named))) if several else ("out",)


def with_out(schema):
    """The schema of the form with out= of an operation; None where a result is no tensor."""
    if not all(str(r.written) in ("Tensor", "Tensor[]") for r in schema.returns) or not schema.returns:
        return None
    base = schema.name.rpartition("::")[2]
    overload, names = _out_names(base, schema.overload_name, schema.returns)
    factory = {"layout", "device"} <= {a.name for a in schema.arguments}
    given = [a for a in schema.arguments if not (factory and (a.name in _OPTIONS or a.name == "dtype" and a.kwarg_only))]
    written, results = [], []
    for i, (name, result) in enumerate(zip(names, schema.returns)):
        alias = AliasInfo([chr(97 + i)], True)
        written.append(Argument(name, result.written, kwarg_only=True, alias_info=alias))
        results.append(Argument(result.name, result.written, alias_info=alias))
    return FunctionSchema(schema.name, overload, given + written, [] if str(results[0].written) == "Tensor[]" else results)


def in_place(schema):
    """The schema of the form in place of an operation; None where its first argument is no tensor."""
    base, first = schema.name.rpartition("::")[2], schema.arguments[0] if schema.arguments else None
    if first is None or str(first.written) != "Tensor":
        return None
    changed = AliasInfo(["a"], True)
    overload = _IN_PLACE.get(base, {}).get(schema.overload_name, schema.overload_name)
    return FunctionSchema(schema.name + "_", overload, [Argument("self", Type("Tensor"), alias_info=changed), *schema.arguments[1:]],
                          [Argument("", Type("Tensor"), alias_info=changed)])


def takes_out(op, schema):
    """A callable of the form with out=: what it writes is given by keywords, `op` has it as out=."""
    names = [a.name for a in schema.arguments if a.is_out]
    if names == ["out"]:
        return op

    def call(*args, **kwargs):
        asked = who_answers(args, kwargs)
        if asked is not None:
            overload = torch._ops._find_overload(*schema.name.split("::"), schema.overload_name)
            return torch.overrides.handle_torch_function(overload, asked, *args, **kwargs)
        for name in names:
            if name not in kwargs:
                raise RuntimeError("%s() is missing value for argument '%s'. Declaration: %s" % (schema.name, name, schema))
        written = tuple(kwargs.pop(name) for name in names)
        return op(*args, **kwargs, out=written if len(written) > 1 else written[0])
    return call
