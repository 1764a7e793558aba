/* conv.c - convolutions by oneDNN, in the layout it likes best: images and weights are reordered on the way in and
 * out, which costs little beside the product once there are some channels. */
#include "config.h"
#include "kernels/engine/engine.h"
#include "kernels/cpu/conv.h"

#if RUSH_HAS_ONEDNN
#include "kernels/engine/onednn.h"

/* NULL when there is no memory. Without strides oneDNN chooses the layout. */
static rush_desc describe(int nd, const dnnl_dims_t dims, dnnl_data_type_t t, const dnnl_dims_t strides)
{
    rush_desc made;
    dnnl_status_t s = strides ? dnnl_memory_desc_create_with_strides(&made, nd, dims, t, strides)
                              : dnnl_memory_desc_create_with_tag(&made, nd, dims, t, dnnl_format_tag_any);
    return s == dnnl_success ? made : NULL;
}

/* (n, c, d, h, w) of a dense array; groups > 1 adds a dimension in front of a weight. */
static rush_desc image_desc(dnnl_data_type_t t, int nd, int64_t n, int64_t channels, const int64_t *space, bool last, bool any)
{
    dnnl_dims_t dims = {n, channels}, strides;
    for (int i = 0; i < nd; ++i) dims[2 + i] = space[3 - nd + i];
    int64_t step = last ? channels : 1;
    for (int i = nd + 1; i >= 2; --i) {
        strides[i] = step;
        step *= dims[i];
    }
    strides[1] = last ? 1 : step;
    strides[0] = last ? step : step * channels;
    return describe(nd + 2, dims, t, any ? NULL : strides);
}

static rush_desc weight_desc(dnnl_data_type_t t, int nd, const rush_conv *c, bool last, bool any)
{
    int lead = c->groups > 1, n = nd + 2 + lead;
    int64_t out = c->out / c->groups, in = c->in / c->groups;
    dnnl_dims_t dims = {0}, strides = {0};
    dims[0] = c->groups;
    dims[lead] = out;
    dims[lead + 1] = in;
    for (int i = 0; i < nd; ++i) dims[lead + 2 + i] = c->kernel[3 - nd + i];
    int64_t step = last ? in : 1;
    for (int i = n - 1; i >= lead + 1 + last; --i) {
        strides[i] = step;
        step *= dims[i];
    }
    if (last) strides[lead + 1] = 1;
    strides[lead] = step;
    if (lead) strides[0] = strides[1] * out;
    return describe(n, dims, t, any ? NULL : strides);
}

/* oneDNN counts dilation from 0, and takes as many dimensions as the image has. */
static void window_dims(const rush_conv *c, int nd, const int64_t *after, dnnl_dims_t strides, dnnl_dims_t dilates, dnnl_dims_t before,
                        dnnl_dims_t behind)
{
    for (int i = 0; i < nd; ++i) {
        strides[i] = c->stride[3 - nd + i];
        dilates[i] = c->dilation[3 - nd + i] - 1;
        before[i] = c->before[3 - nd + i];
        behind[i] = after[i];
    }
}

/* The descriptors of a convolution: image, weight, bias (or NULL), result. */
typedef rush_desc operands[4];

static dnnl_status_t forward_pd(dnnl_primitive_desc_t *pd, const rush_conv *c, int nd, operands md, bool inference, const int64_t *after, const_dnnl_primitive_attr_t attr)
{
    dnnl_dims_t dilates, strides, before, behind;
    window_dims(c, nd, after, strides, dilates, before, behind);
    return dnnl_convolution_forward_primitive_desc_create(pd, rush_onednn(), inference ? dnnl_forward_inference : dnnl_forward_training,
                                                          dnnl_convolution_direct, md[0], md[1], md[2], md[3], strides, dilates, before, behind, attr);
}

static dnnl_status_t backward_pd(dnnl_primitive_desc_t *pd, int what, const rush_conv *c, int nd, operands md, const int64_t *after,
                                 dnnl_primitive_desc_t hint)
{
    dnnl_dims_t dilates, strides, before, behind;
    window_dims(c, nd, after, strides, dilates, before, behind);
    if (what == RUSH_CONV_GRAD_INPUT)
        return dnnl_convolution_backward_data_primitive_desc_create(pd, rush_onednn(), dnnl_convolution_direct, md[0], md[1], md[3], strides, dilates,
                                                                    before, behind, hint, NULL);
    return dnnl_convolution_backward_weights_primitive_desc_create(pd, rush_onednn(), dnnl_convolution_direct, md[0], md[1], md[2], md[3], strides,
                                                                   dilates, before, behind, hint, NULL);
}

/* The primitive that oneDNN has for it, NULL where that is no better than our own. */
static dnnl_primitive_desc_t choose(int what, const rush_conv *c, int nd, operands md, bool inference, const_dnnl_primitive_attr_t attr)
{
    int64_t after[3], *end = after + 3 - nd;
    for (int i = 0; i < 3; ++i)
        after[i] = (c->result[i] - 1) * c->stride[i] + (c->kernel[i] - 1) * c->dilation[i] + 1 - c->space[i] - c->before[i];
    dnnl_primitive_desc_t hint = NULL, pd = NULL;
    if (forward_pd(&hint, c, nd, md, inference, end, attr) != dnnl_success) hint = NULL;
    if (what == RUSH_CONV_FORWARD) {
        pd = hint;
        hint = NULL;
    } else if (!hint || backward_pd(&pd, what, c, nd, md, end, hint) != dnnl_success) {
        pd = NULL;
    }
    rush_primitive_done(hint);
    const char *name = NULL;
    if (pd && dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name &&
        (strstr(name, "ref") || strstr(name, "gemm"))) {
        rush_primitive_done(pd);
        pd = NULL;
    }
    return pd;
}

static bool add_memories(rush_primitive *made, int what, dnnl_primitive_desc_t pd, operands user)
{
    if (what == RUSH_CONV_FORWARD)
        return rush_primitive_mem(made, pd, dnnl_query_src_md, 0, DNNL_ARG_SRC, user[0], false) &&
               rush_primitive_mem(made, pd, dnnl_query_weights_md, 0, DNNL_ARG_WEIGHTS, user[1], false) &&
               rush_primitive_mem(made, pd, dnnl_query_dst_md, 0, DNNL_ARG_DST, user[3], true) &&
               (!user[2] || rush_primitive_mem(made, pd, dnnl_query_weights_md, 1, DNNL_ARG_BIAS, user[2], false));
    if (what == RUSH_CONV_GRAD_INPUT)
        return rush_primitive_mem(made, pd, dnnl_query_diff_dst_md, 0, DNNL_ARG_DIFF_DST, user[3], false) &&
               rush_primitive_mem(made, pd, dnnl_query_weights_md, 0, DNNL_ARG_WEIGHTS, user[1], false) &&
               rush_primitive_mem(made, pd, dnnl_query_diff_src_md, 0, DNNL_ARG_DIFF_SRC, user[0], true);
    return rush_primitive_mem(made, pd, dnnl_query_diff_dst_md, 0, DNNL_ARG_DIFF_DST, user[3], false) &&
           rush_primitive_mem(made, pd, dnnl_query_src_md, 0, DNNL_ARG_SRC, user[0], false) &&
           rush_primitive_mem(made, pd, dnnl_query_diff_weights_md, 0, DNNL_ARG_DIFF_WEIGHTS, user[1], true) &&
           (!user[2] || rush_primitive_mem(made, pd, dnnl_query_diff_weights_md, 1, DNNL_ARG_DIFF_BIAS, user[2], true));
}

/* With a zero point that is told at each run. NULL: no memory. */
static dnnl_primitive_attr_t attr_with_zero(void)
{
    dnnl_primitive_attr_t attr;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    if (dnnl_primitive_attr_set_zero_points_mask(attr, DNNL_ARG_SRC, 0) == dnnl_success) return attr;
    dnnl_primitive_attr_destroy(attr);
    return NULL;
}

/* Are images with their channels last read as they lie? Of batches of many channels oneDNN 2's kernels for AVX2 make that 1.2 times as slow as
 * the blocks of eight channels that they choose themselves, and the way there and back is short. */
static bool as_they_lie(const rush_conv *c, dnnl_data_type_t t)
{
    const bool wide = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    return DNNL_VERSION_MAJOR >= 3 || wide || t != dnnl_f32 || c->n < 2 || c->in < 64 || c->out < 64 || c->kernel[1] * c->kernel[2] < 9;
}

/* What is asked for; bytes have a zero, floats may have a bias. */
typedef struct asked {
    int what;
    const rush_conv *c;
    rush_dtype dtype;
    bool last, weight_last, bias, zero;
} asked;

static rush_primitive *make(const void *arg, const rush_case *id)
{
    const asked *a = arg;
    const rush_conv *c = a->c;
    const int what = a->what;
    const bool last = a->last, bias = a->bias, zero = a->zero;
    dnnl_data_type_t t = (dnnl_data_type_t)rush_onednn_dtype(a->dtype);
    const bool any = !last || !as_they_lie(c, t);
    bool bytes = t == dnnl_u8 || t == dnnl_s8;
    dnnl_data_type_t of_weight = bytes ? dnnl_s8 : t, of_result = bytes ? dnnl_s32 : t;
    dnnl_primitive_attr_t attr = zero ? attr_with_zero() : NULL;
    int nd = c->kernel[0] == 1 && c->space[0] == 1 && c->result[0] == 1 ? 2 : 3;
    rush_desc of_bias = bias ? describe(1, (dnnl_dims_t){c->out}, t, (dnnl_dims_t){1}) : NULL;
    operands user = {image_desc(t, nd, c->n, c->in, c->space, last, false), weight_desc(of_weight, nd, c, a->weight_last, false), of_bias,
                     image_desc(of_result, nd, c->n, c->out, c->result, last, false)};
    operands md = {image_desc(t, nd, c->n, c->in, c->space, last, any), weight_desc(of_weight, nd, c, false, true), of_bias,
                   image_desc(of_result, nd, c->n, c->out, c->result, last, any)};
    bool described = user[0] && user[1] && user[3] && md[0] && md[1] && md[3] && (of_bias || !bias) && (attr || !zero);
    /* What oneDNN picks for training is what PyTorch runs, so the sums are the same; for float32 it is no slower. */
    dnnl_primitive_desc_t pd = described ? choose(what, c, nd, md, what == RUSH_CONV_FORWARD && t != dnnl_f32, attr) : NULL;
    rush_primitive *made = rush_primitive_add(id, pd);
    bool ok = made && add_memories(made, what, pd, user) && (!zero || rush_primitive_zero(made, DNNL_ARG_SRC));
    if (attr) dnnl_primitive_attr_destroy(attr);
    rush_primitive_done(pd);
    if (made && !ok) rush_primitive_forget(made);
    rush_desc all[] = {user[0], user[1], user[3], md[0], md[1], md[3], of_bias};
    for (int i = 0; i < RUSH_COUNT(all); ++i)
        if (all[i]) dnnl_memory_desc_destroy(all[i]);
    return ok ? made : NULL;
}

static bool convolve(const asked *a, void *const *data)
{
    rush_case id = {0};
    int64_t key[] = {2, a->what, a->dtype, a->last, a->weight_last, a->bias, a->zero, rush_num_threads()};
    rush_case_add(&id, RUSH_COUNT(key), key);
    rush_case_add(&id, sizeof *a->c / sizeof(int64_t), &a->c->n);
    return rush_primitive_do(&id, make, a, data);
}

bool rush_engine_conv(int what, const rush_conv *c, rush_dtype dtype, bool last, bool weight_last, const void *a, const void *b, const void *bias, void *to)
{
    return convolve(&(asked){what, c, dtype, last, weight_last, .bias = bias != NULL}, (void *[]){(void *)a, (void *)b, to, (void *)bias});
}

bool rush_engine_conv_bytes(const rush_conv *c, rush_dtype dtype, const void *x, int32_t zero, const void *weight, int32_t *to)
{
    return rush_onednn_exact_bytes() && convolve(&(asked){RUSH_CONV_FORWARD, c, dtype, .last = true, .zero = zero != 0}, (void *[]){(void *)x, (void *)weight, to, &zero});
}

#else

bool rush_engine_conv(int what, const rush_conv *c, rush_dtype dtype, bool last, bool weight_last, const void *a, const void *b, const void *bias, void *to)
{
    (void)what, (void)c, (void)dtype, (void)last, (void)weight_last, (void)a, (void)b, (void)bias, (void)to;
    return false;
}

bool rush_engine_conv_bytes(const rush_conv *c, rush_dtype dtype, const void *x, int32_t zero, const void *weight, int32_t *to)
{
    (void)c, (void)dtype, (void)x, (void)zero, (void)weight, (void)to;
    return false;
}

#endif
