"""Settings of a code generator that is not there; they can be set and read."""
conv_1x1_as_mm = coordinate_descent_tuning = epilogue_fusion = max_autotune = shape_padding = fx_graph_cache = False
coordinate_descent_check_all_directions = force_fuse_int_mm_with_mul = use_mixed_mm = False
compile_threads = 1


class triton:
    cudagraphs = unique_kernel_names = False


class cpp:
    simdlen = None
