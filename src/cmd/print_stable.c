/* print_stable.c - the functions that AOTInductor's programs call: one for each operation, its arguments spelt out.
 *
 *     print stable
 *
 * A function's name is the operation's, its overload behind an underscore; "_out" behind it says that results are written into
 * tensors that come first, of whose dtype and device nothing is said then. One that writes into its first argument has no result.
 * Those of which the library has no operation are left out: a program that needs one does not load.
 */
#include "cmd/print.h"
#include <stdio.h>

static const char *const names[] = {
    "aten_amax", "aten_fill__Scalar", "aten_full", "aten_narrow", "aten_new_empty",
    "aten_new_zeros", "aten_pad", "aten_subtract_Tensor", "cpu__adaptive_avg_pool2d", "cpu__adaptive_avg_pool2d_backward",
    "cpu__adaptive_avg_pool3d", "cpu__adaptive_avg_pool3d_backward", "cpu__addmm_activation", "cpu__cdist_backward", "cpu__cdist_forward",
    "cpu__dyn_quant_matmul_4bit", "cpu__dyn_quant_pack_4bit_weight", "cpu__efficientzerotensor", "cpu__embedding_bag", "cpu__embedding_bag_dense_backward",
    "cpu__embedding_bag_forward_only", "cpu__embedding_bag_per_sample_weights_backward", "cpu__fft_c2c", "cpu__fft_r2c", "cpu__fused_moving_avg_obs_fq_helper",
    "cpu__fused_moving_avg_obs_fq_helper_functional", "cpu__fused_rms_norm", "cpu__grouped_mm", "cpu__histogramdd_from_bin_cts", "cpu__int_mm_out",
    "cpu__pdist_backward", "cpu__pdist_forward", "cpu__scaled_dot_product_flash_attention_for_cpu", "cpu__scaled_dot_product_flash_attention_for_cpu_backward", "cpu__scaled_dot_product_fused_attention_overrideable",
    "cpu__scaled_dot_product_fused_attention_overrideable_backward", "cpu__scaled_mm", "cpu__scaled_mm_out", "cpu__segment_reduce_backward", "cpu__to_sparse",
    "cpu__trilinear", "cpu__weight_int8pack_mm", "cpu_abs", "cpu_adaptive_max_pool2d", "cpu_adaptive_max_pool2d_backward",
    "cpu_adaptive_max_pool3d", "cpu_adaptive_max_pool3d_backward", "cpu_add_Scalar", "cpu_add_Tensor", "cpu_addbmm",
    "cpu_addmm_out", "cpu_addmv", "cpu_angle", "cpu_avg_pool2d", "cpu_avg_pool2d_backward",
    "cpu_avg_pool3d", "cpu_avg_pool3d_backward", "cpu_baddbmm_out", "cpu_bernoulli__Tensor", "cpu_bernoulli__float",
    "cpu_bmm_out", "cpu_bucketize_Tensor", "cpu_cat", "cpu_cholesky_inverse", "cpu_cholesky_solve",
    "cpu_convolution", "cpu_convolution_backward", "cpu_cummax", "cpu_cummin", "cpu_cumprod",
    "cpu_cumsum", "cpu_exponential", "cpu_fill__Scalar", "cpu_fractional_max_pool2d", "cpu_fractional_max_pool2d_backward",
    "cpu_fractional_max_pool3d", "cpu_fractional_max_pool3d_backward", "cpu_gcd", "cpu_geqrf", "cpu_grid_sampler_2d_backward",
    "cpu_grid_sampler_3d", "cpu_grid_sampler_3d_backward", "cpu_hann_window", "cpu_histc", "cpu_histogram_bin_ct",
    "cpu_index_Tensor", "cpu_index_put", "cpu_index_reduce", "cpu_kthvalue", "cpu_logcumsumexp",
    "cpu_lu_unpack", "cpu_masked_scatter", "cpu_masked_scatter_backward", "cpu_masked_select", "cpu_max_pool2d_with_indices",
    "cpu_max_pool2d_with_indices_backward", "cpu_max_pool3d_with_indices", "cpu_max_pool3d_with_indices_backward", "cpu_max_unpool2d", "cpu_max_unpool3d",
    "cpu_median", "cpu_mm_out", "cpu_mode", "cpu_mul_Scalar", "cpu_mul_Tensor",
    "cpu_nanmedian", "cpu_narrow", "cpu_native_dropout", "cpu_nonzero", "cpu_nonzero_static",
    "cpu_normal_functional", "cpu_ormqr", "cpu_pad", "cpu_permute", "cpu_polar",
    "cpu_pow_Scalar", "cpu_pow_Tensor_Scalar", "cpu_pow_Tensor_Tensor", "cpu_rand", "cpu_rand_generator",
    "cpu_rand_like", "cpu_rand_like_generator", "cpu_randint", "cpu_randint_generator", "cpu_randint_like",
    "cpu_randint_like_low_dtype", "cpu_randint_low", "cpu_randint_low_out", "cpu_randn", "cpu_randn_generator",
    "cpu_randn_like", "cpu_randn_like_generator", "cpu_randperm", "cpu_repeat_interleave_Tensor", "cpu_replication_pad1d_backward",
    "cpu_replication_pad2d_backward", "cpu_reshape", "cpu_resize_", "cpu_resize_as_", "cpu_scatter_reduce_two_out",
    "cpu_scatter_src_out", "cpu_scatter_value_out", "cpu_searchsorted_Scalar", "cpu_searchsorted_Tensor", "cpu_segment_reduce",
    "cpu_set__source_Tensor", "cpu_slice_Tensor", "cpu_soft_margin_loss_backward", "cpu_sort", "cpu_sort_stable",
    "cpu_squeeze_dim", "cpu_to_sparse", "cpu_topk", "cpu_triangular_solve", "cpu_uniform",
    "cpu_upsample_bicubic2d_backward", "cpu_upsample_linear1d_backward", "cpu_upsample_trilinear3d_backward", "cpu_view_as_complex", "cpu_view_as_real",
    "cpu_view_dtype",
};

/* "add_Tensor" of add.Tensor, "fill__Scalar" of fill.Scalar in place. */
static bool is_called(const rush_op *op, bool inplace, const char *name, size_t n)
{
    char own[256];
    const char *overload = op->name + strlen(op->base);
    snprintf(own, sizeof own, "%s%s%s%s", op->base, inplace ? "_" : "", *overload ? "_" : "", *overload ? overload + 1 : "");
    return strlen(own) == n && !strncmp(own, name, n);
}

/* Of several the first: the registry has the plain overload before others. */
static const rush_op *op_of(const char *name, char *way)
{
    size_t n = strlen(name);
    bool out = n > 4 && !strcmp(name + n - 4, "_out");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (is_called(op, false, name, n)) return *way = 0, op;
        if (is_called(op, true, name, n)) return *way = '_', op;
        if (out && is_called(op, false, name, n - 4)) return *way = 'o', op;
    }
    return NULL;
}

static const char *plain_type(const rush_arg *a)
{
    switch (a->type) {
    case RUSH_A_TENSOR: return "stable_tensor *";
    case RUSH_A_INT: return "int64_t ";
    case RUSH_A_FLOAT: case RUSH_A_SCALAR: return "double ";
    case RUSH_A_STRING: return "const char *";
    case RUSH_A_GENERATOR: return "rush_generator *";
    default: return "int32_t ";
    }
}

static void print_parameter(const rush_arg *a)
{
    if (a->list && a->type == RUSH_A_TENSOR) printf("stable_tensor *const *%s%s, int64_t %s_len_", a->optional_items ? "const *" : "", a->name, a->name);
    else if (a->list) printf("const %s*%s%s, int64_t %s_len_", plain_type(a), a->optional ? "*" : "", a->name, a->name);
    else printf("%s%s%s", plain_type(a), a->optional ? "*" : "", a->name);
    if (a->type == RUSH_A_DEVICE) printf(", int32_t %s_index_", a->name);
}

static void print_value(const rush_arg *a)
{
    const char *x = a->name;
    if (a->list && a->type == RUSH_A_TENSOR) {
        printf("rush_stable_%stensors(%s, %s_len_)", a->optional_items ? "optional_" : "", x, x);
        return;
    }
    if (a->list && a->type == RUSH_A_BOOL) {
        printf("rush_stable_flags(%s, %s_len_)", x, x);
        return;
    }
    if (a->list) {
        const char *make = a->type == RUSH_A_FLOAT || a->type == RUSH_A_SCALAR ? "rush_v_floats" : "rush_v_ints";
        if (a->optional) printf("%s ? %s(*%s, (size_t)%s_len_) : rush_v_none()", x, make, x, x);
        else printf("%s(%s, (size_t)%s_len_)", make, x, x);
        return;
    }
    const char *star = a->optional ? "*" : "";
    if (a->optional) printf("%s ? ", x);
    switch (a->type) {
    case RUSH_A_TENSOR: printf("rush_v_tensor((%s%s)->t)", star, x); break;
    case RUSH_A_INT: printf("rush_v_int(%s%s)", star, x); break;
    case RUSH_A_FLOAT: case RUSH_A_SCALAR: printf("rush_v_float(%s%s)", star, x); break;
    case RUSH_A_BOOL: printf("rush_v_bool(%s%s)", star, x); break;
    case RUSH_A_STRING: printf("rush_v_string(%s%s)", star, x); break;
    case RUSH_A_DTYPE: printf("rush_v_dtype(%s%s)", star, x); break;
    case RUSH_A_LAYOUT: printf("rush_v_layout(%s%s)", star, x); break;
    case RUSH_A_MEMORY_FORMAT: printf("rush_v_memory_format(%s%s)", star, x); break;
    case RUSH_A_GENERATOR: printf("rush_v_generator(%s%s)", star, x); break;
    default: printf("rush_v_device(rush_stable_device(%s%s, %s_index_))", star, x, x);
    }
    if (a->optional) printf(" : rush_v_none()");
}

/* fill_.Scalar, which is a record of its own. */
static bool is_inplace(const rush_op *op)
{
    return op->base[strlen(op->base) - 1] == '_' && op->args[0].written;
}

/* Of those that make a tensor, what says how: of out= it is not asked. */
static bool is_option(const rush_op *op, const rush_arg *a)
{
    bool makes = false;
    for (int i = 0; i < op->nargs; ++i) makes |= !strcmp(op->args[i].name, "pin_memory");
    return makes && (a->type == RUSH_A_DTYPE || a->type == RUSH_A_LAYOUT || a->type == RUSH_A_DEVICE || !strcmp(a->name, "pin_memory"));
}

static void print_function(const char *name, const rush_op *op, char way)
{
    int nout = way == '_' || is_inplace(op) ? 0 : op->nout;
    bool any = false;
    printf("STABLE(int32_t, aoti_torch_%s, ", name);
    for (int i = 0; way == 'o' && i < nout; ++i) printf("stable_tensor *ret%d, ", i);
    for (int i = 0; i < op->nargs; ++i) {
        if (way == 'o' && is_option(op, &op->args[i])) continue;
        if (any) printf(", ");
        any = true;
        print_parameter(&op->args[i]);
    }
    for (int i = 0; !way && i < nout; ++i) printf(", stable_tensor **ret%d", i);
    printf(")\n{\n    int32_t failed = 1;\n    rush_scope() {\n        const rush_value given_[] = {");
    for (int i = 0; i < op->nargs; ++i) {
        if (i) printf(", ");
        if (way == 'o' && is_option(op, &op->args[i])) printf("rush_v_none()");
        else print_value(&op->args[i]);
    }
    printf("};\n        stable_tensor **const made_[] = {");
    for (int i = 0; i < nout; ++i) printf("%sret%d, ", way == 'o' ? "&" : "", i);
    printf("NULL};\n        failed = rush_stable_run(\"%s\", %s, %d, given_, %d, made_);\n    }\n    return failed;\n}\n", op->name, way == 'o' ? "'o'" : way == '_' ? "'_'" : "0", op->nargs, nout);
}

void print_stable(void)
{
    printf("#include \"stable/stable.h\"\n\n");
    for (size_t k = 0; k < RUSH_COUNT(names); ++k) {
        char way;
        const char *name = strchr(names[k], '_') + 1; /* behind "cpu_" or "aten_" */
        const rush_op *op = op_of(name, &way);
        bool fits = op && op->nargs;
        for (int i = 0; fits && i < op->nout; ++i) fits = op->out_types[i] == RUSH_A_TENSOR && !(op->out_list >> i & 1);
        if (fits) print_function(names[k], op, way);
    }
}
