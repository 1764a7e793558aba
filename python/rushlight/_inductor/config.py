"""Settings of a code generator that is not there; they can be set and read."""
from .._settings import settings

_ON = """alignment_asserts allow_buffer_reuse benchmark_epilogue_fusion benchmark_harness bw_outputs_user_visible cpp.enable_loop_tail_vec
cpp.fallback_scatter_reduce_sum cpp.no_redundant_loops cpp.weight_prepack epilogue_fusion fx_graph_cache graph_partition implicit_fallbacks
inplace_buffers joint_graph_constant_folding keep_output_stride layout_optimization pattern_matcher pick_loop_orders prologue_fusion
reorder_for_locality reorder_for_peak_memory scalar_asserts shape_padding size_asserts split_reductions trace.fx_graph trace.ir_post_fusion
trace.ir_pre_fusion trace.output_code triton.codegen_upcast_to_fp32 triton.cudagraph_support_input_mutation triton.cudagraph_trees
triton.persistent_reductions triton.slow_path_cudagraph_asserts triton.unique_kernel_names use_mixed_mm"""
_OFF = """aggressive_fusion aot_inductor.debug_compile aot_inductor.package aot_inductor.use_runtime_constant_folding autotune_in_subproc
b2b_gemm_pass benchmark_combo_kernel benchmark_fusion combo_kernels conv_1x1_as_mm coordinate_descent_check_all_directions
coordinate_descent_tuning cpp.dynamic_threads cpp.enable_kernel_profile cpp.enable_unsafe_math_opt_flag cpp_wrapper cuda.use_fast_math dce
debug debug_fusion debug_index_asserts decompose_mem_bound_mm deterministic efficient_conv_bn_eval_fx_passes emulate_precision_casts
epilogue_fusion_first fallback_random force_fuse_int_mm_with_mul force_layout_optimization force_pointwise_cat freezing
freezing_discard_parameters group_fusion max_autotune max_autotune_gemm max_autotune_pointwise nan_asserts permute_fusion profile_bandwidth
reorder_for_compute_comm_overlap search_autotune_cache trace.compile_profile trace.debug_log trace.enabled trace.graph_diagram
trace.info_log trace.log_autotuning_results trace.save_real_tensors triton.cooperative_reductions triton.cudagraph_skip_dynamic_graphs
triton.cudagraph_trees_history_recording triton.cudagraphs triton.debug_sync_graph triton.debug_sync_kernel
triton.fast_path_cudagraph_asserts triton.force_cudagraph_sync triton.prefer_nd_tiling triton.skip_cudagraph_warmup triton.store_cubin
triton.tile_reductions unsafe_ignore_unsupported_triton_autotune_args unsafe_skip_cache_dynamic_shape_guards verbose_progress
warn_mix_layout"""
_NONE = """cpp.simdlen cpp.vec_isa_ok cuda.arch cuda.version fx_graph_remote_cache joint_custom_post_pass joint_custom_pre_pass
post_grad_custom_post_pass post_grad_custom_pre_pass pre_grad_custom_pass realize_opcount_threshold triton.autotune_at_compile_time
triton.max_tiles"""
_VALUES = {"aot_inductor.output_path": "", "compile_threads": 1, "cpp.min_chunk_size": 512, "cpp.threads": -1, "cuda.compile_opt_level": "-O1",
           "cuda.cutlass_dir": "", "layout_opt_default": "1",
           "max_autotune_conv_backends": "ATEN,TRITON", "max_autotune_gemm_backends": "ATEN,TRITON,CPP", "max_fusion_size": 64,
           "max_pointwise_cat_inputs": 8, "realize_reads_threshold": 4, "rocm.arch": [], "triton.descriptive_names": "original_aten",
           "triton.multi_kernel": 0, "unroll_reductions_threshold": 8, "worker_start_method": "subprocess"}

settings(__name__, {**dict.fromkeys(_ON.split(), True), **dict.fromkeys(_OFF.split(), False), **dict.fromkeys(_NONE.split()), **_VALUES})
