/* column.c - which kernel each operation has on CUDA devices: the backend's column.
 *
 * Three kinds: those that the CPU's own function serves, since it is made of rows, folds, copies and other operations (src/op/tables.h);
 * those with kernels of their own (the other .c files here); those that the host computes (host.c). All others raise
 * NotImplementedError by their name.
 */
#include "cuda/column.h"

/* One operation of each function; whoever has the same function is meant, too. */
static const char *const same_as_cpu[] = {
    "add.Tensor", "clamp", "clamp_min", "clamp_max", "div.Tensor_mode", "where.self", "nan_to_num", "round.decimals", "gelu", "gelu_backward",
    "eye", "full", "new_full", "empty.memory_format", "ones", "scalar_tensor", "zeros", "fill_diagonal_", "fill.Scalar", "fill_.Scalar", "zero_", "zero",
    "fill_.Tensor", "fill.Tensor", "sum", "sum.dim_IntList", "nansum", "mean", "mean.dim", "prod", "prod.dim_int", "any", "any.dim", "all", "all.dim", "hash_tensor",
    "amax", "amin", "max", "min", "max.dim", "min.dim", "argmax", "argmin", "aminmax", "var.correction", "std.correction", "var_mean.correction",
    "std_mean.correction", "logsumexp", "linalg_vector_norm", "cat", "stack", "block_diag", "constant_pad_nd", "flip", "repeat", "roll", "im2col", "col2im",
    "as_strided_scatter", "diag_embed", "diagonal_backward", "diagonal_scatter", "select_backward", "select_scatter", "slice_backward", "slice_scatter",
    "unfold_backward", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", "_max_pool1d_values", "_max_pool2d_values",
    "_max_pool3d_values", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward", "adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward",
    "adaptive_max_pool2d", "max_unpool2d", "fractional_max_pool2d", "fractional_max_pool2d_backward", "reflection_pad2d", "replication_pad2d", "_pad_circular", "_pad_backward", "upsample_nearest2d", "upsample_nearest2d_backward",
    "grid_sampler_2d", "grid_sampler_2d_backward", "_grid_sampler_backward_backward", "_affine_points", "frexp.Tensor", "_cdist_forward", "_cdist_backward", "pdist", "_pdist_backward",
    "uniform_", "rand", "item",
    "_fused_adam_"};

static void as_cpu(const rush_op *op, const rush_value *in, rush_value *out) { op->cpu(op, in, out); }

static int put_all_like(const char *name)
{
    const rush_op *one = rush_op_find(name);
    RUSH_CHECK(one && one->cpu, RUSH_NOT_IMPLEMENTED, "no operation with a kernel is called %s", name);
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (op->cpu == one->cpu && !op->run && rush_backend_kernel(&cuda_backend, op->name, as_cpu)) return -1;
    return 0;
}

int cuda_column(void)
{
    static const cuda_kernel *const families[] = {cuda_index_kernels, cuda_mask_kernels, cuda_create_kernels, cuda_norm_kernels, cuda_random_kernels, cuda_product_kernels, cuda_convolve_kernels, cuda_sort_kernels, cuda_layer_kernels, cuda_fft_kernels,
                                                 cuda_look_kernels, cuda_solver_kernels, cuda_attention_kernels, cuda_compose_kernels, NULL};
    for (size_t i = 0; i < RUSH_COUNT(same_as_cpu); i++)
        if (put_all_like(same_as_cpu[i])) return -1;
    for (int f = 0; families[f]; f++)
        for (const cuda_kernel *k = families[f]; k->op; k++)
            if (rush_backend_kernel(&cuda_backend, k->op, k->kernel)) return -1;
    return cuda_host_put();
}
