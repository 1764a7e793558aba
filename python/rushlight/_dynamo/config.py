"""Settings of a compiler that is not there; they can be set and read."""
from .._settings import settings

_ON = """assume_static_by_default automatic_dynamic_shapes capture_autograd_function capture_func_transforms dynamic_shapes enable_cpp_guard_manager
error_on_nested_fx_trace error_on_nested_jit_trace fake_tensor_cache_enabled force_nn_module_property_static_shapes
force_parameter_static_shapes graph_break_on_nn_param_ctor guard_nn_modules inline_inbuilt_nn_modules optimize_ddp
raise_on_ctx_manager_usage report_guard_failures rewrite_assert_with_torch_assert run_gc_after_compile
skip_code_recursive_on_recompile_limit_hit skip_fsdp_guards skip_nnmodule_hook_guards skip_no_tensor_aliasing_guards_on_parameters
trace_numpy"""
_OFF = """allow_rnn allow_unspec_int_on_nn_module caching_precompile capture_dynamic_output_shape_ops capture_scalar_outputs compiled_autograd
cprofile disable do_not_emit_runtime_asserts dont_skip_tracing enable_compiler_collectives error_on_recompile fail_on_recompile_limit_hit
only_allow_pt2_compliant_ops prefer_deferred_runtime_asserts_over_guards prepare_freezing skip_fwd_side_effects_in_bwd_under_checkpoint
specialize_float specialize_int suppress_errors track_nodes_for_deduplication use_graph_deduplication use_numpy_random_stream verbose
verify_correctness wrap_top_frame"""
_NONE = """dead_code_elimination log_file_name repro_after"""
_VALUES = {"accumulated_recompile_limit": 256, "minimum_call_count": 1, "numpy_default_complex": "complex128", "numpy_default_float": "float64",
           "numpy_default_int": "int64", "recompile_limit": 8, "reorderable_logging_functions": set(), "repro_level": 2}

settings(__name__, {**dict.fromkeys(_ON.split(), True), **dict.fromkeys(_OFF.split(), False), **dict.fromkeys(_NONE.split()), **_VALUES},
         {"cache_size_limit": "recompile_limit", "accumulated_cache_size_limit": "accumulated_recompile_limit"})
