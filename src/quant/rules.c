/* rules.c - what operations of numbers do with quantized tensors.
 *
 * Three kinds do for nearly all: those that move elements work on the integers; those that compute work on the numbers,
 * and the result is put on the grid of the first tensor; comparisons work on the numbers and are done.
 */
#include "quant/quant.h"

#define SELF (in[0].t)

typedef rush_tensor *(*change)(rush_tensor *);

/* The arguments with every quantized tensor as `how` shows it; the first of them. */
static const rush_tensor *shown(const rush_op *op, const rush_value *in, rush_value *given, change how)
{
    const rush_tensor *first = NULL;
    memcpy(given, in, sizeof *in * op->nargs);
    for (int i = 0; i < op->nargs; ++i) {
        if (in[i].kind == RUSH_V_TENSOR && rush_is_quantized(in[i].t)) {
            if (!first) first = in[i].t;
            if (!(given[i].t = how(in[i].t))) return NULL;
        } else if (in[i].kind == RUSH_V_TENSORS) {
            if (!(given[i].tensors = rush_scope_alloc(sizeof(rush_tensor *) * in[i].n + 1))) return NULL;
            for (uint32_t k = 0; k < in[i].n; ++k) {
                rush_tensor *t = in[i].tensors[k];
                bool quantized = t && rush_is_quantized(t);
                if (quantized && !first) first = t;
                if ((given[i].tensors[k] = quantized ? how(t) : t) == NULL && quantized) return NULL;
            }
        }
    }
    return first;
}

static rush_tensor *integers(rush_tensor *t) { return rush_quantized_ints(t); }

/* Results that are integers of the first's kind are its elements, the others (places) are numbers. */
static int relabel(const rush_op *op, const rush_tensor *first, rush_value *out)
{
    int store = rush_quantized_store(first->dtype);
    for (int i = 0; i < op->nout; ++i) {
        if (out[i].kind == RUSH_V_TENSOR && out[i].t->dtype == store && !(out[i].t = rush_quantized_like(out[i].t, first))) return -1;
        for (uint32_t k = 0; out[i].kind == RUSH_V_TENSORS && k < out[i].n; ++k)
            if (out[i].tensors[k]->dtype == store && !(out[i].tensors[k] = rush_quantized_like(out[i].tensors[k], first))) return -1;
    }
    return 0;
}

static int on_integers(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value given[64];
    const rush_tensor *first = shown(op, in, given, integers);
    return first && !rush_call(op, given, out) ? relabel(op, first, out) : -1;
}

/* Where channels would move: only tensors with one scale. */
static int on_uniform(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].kind != RUSH_V_TENSOR || !rush_is_quantized(SELF) || SELF->q->scheme == RUSH_PER_TENSOR, RUSH_RUNTIME_ERROR,
               "Setting strides is possible only on uniformly quantized tensor");
    return on_integers(op, in, out);
}

static int on_numbers(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value given[64];
    const rush_tensor *first = shown(op, in, given, rush_numbers);
    return first ? rush_call(op, given, out) : -1;
}

static int on_numbers_and_back(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value given[64];
    const rush_tensor *first = shown(op, in, given, rush_numbers);
    if (!first || rush_call(op, given, out)) return -1;
    RUSH_CHECK(first->q->scheme == RUSH_PER_TENSOR, RUSH_RUNTIME_ERROR, "Only per-tensor quantization is supported in '%s'!", op->base);
    for (int i = 0; i < op->nout; ++i)
        if (out[i].kind == RUSH_V_TENSOR && out[i].t->dtype == RUSH_F32 && !(out[i].t = rush_on_grid_of(out[i].t, first))) return -1;
    return 0;
}

/* Averages: of steps from zero, which are exact where numbers with a scale would round, so that halves go to even. */
static rush_tensor *steps(rush_tensor *t)
{
    RUSH_CHECK_NULL(t->q->scheme == RUSH_PER_TENSOR, RUSH_RUNTIME_ERROR, "averages are of tensors quantized as a whole");
    return T("_grid_numbers", V(rush_quantized_ints(t)), V(1.0), V(t->q->zero_point));
}

static int on_steps(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value given[64];
    const rush_tensor *first = shown(op, in, given, steps);
    if (!first || rush_call(op, given, out)) return -1;
    rush_tensor *ints = T("_grid_integers", out[0], V(1.0), V(first->q->zero_point), rush_v_dtype(rush_quantized_store(first->dtype)));
    return rush_result(out, ints ? rush_quantized_like(ints, first) : NULL);
}

/* ---- functions with a grid of their own: results lie in [0, 1) or [-1, 1) ---- */

static int on_unit_grid(const rush_op *op, const rush_value *in, rush_value *out, bool both_sides)
{
    int dtype = SELF->dtype;
    rush_value given = V(rush_numbers(SELF));
    if (rush_failed() || rush_call(op, &given, out)) return -1;
    double steps = (double)rush_grid_high(dtype) - (double)rush_grid_low(dtype) + 1;
    int64_t zero = both_sides ? (rush_grid_low(dtype) + rush_grid_high(dtype) + 1) / 2 : rush_grid_low(dtype);
    return rush_result(out, rush_on_grid(out[0].t, (both_sides ? 2 : 1) / steps, zero, dtype));
}
static int on_unit_grid_up(const rush_op *op, const rush_value *in, rush_value *out) { return on_unit_grid(op, in, out, false); }
static int on_unit_grid_both(const rush_op *op, const rush_value *in, rush_value *out) { return on_unit_grid(op, in, out, true); }

static int relu_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (SELF->q->scheme != RUSH_PER_TENSOR) return on_numbers_and_back(op, in, out);
    rush_tensor *ints = rush_quantized_ints(SELF);
    return rush_result(out, ints ? rush_quantized_like(T("clamp_min", V(ints), V(SELF->q->zero_point)), SELF) : NULL);
}

/* ---- copies and changes ---- */

static int copy_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *src = in[1].t;
    RUSH_CHECK(rush_is_quantized(SELF), RUSH_RUNTIME_ERROR,
               "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float Tensor from a quantized Tensor");
    rush_tensor *to = rush_quantized_ints(SELF), *from;
    if (in[1].kind != RUSH_V_TENSOR) src = T("full", INTS(), in[1], rush_v_dtype(RUSH_F32));
    if (!to || !src) return -1;
    if (!rush_is_quantized(src)) {
        RUSH_CHECK(src->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "Quantized copy only works with kFloat as source Tensor");
        from = rush_quantized_ints(rush_on_grid_of(expand_to(src, SELF), SELF));
        return from && T("copy_", V(to), V(from)) ? rush_result(out, SELF) : -1;
    }
    RUSH_CHECK(SELF->q->scheme == src->q->scheme, RUSH_RUNTIME_ERROR, "Quantized Copy only works with same qscheme");
    RUSH_CHECK(SELF->dtype == src->dtype, RUSH_RUNTIME_ERROR, "Quantized Copy only works with same dtype");
    from = rush_quantized_ints(src);
    if (!from || !T("copy_", V(to), V(from))) return -1;
    return rush_quantized_adopt(SELF, src), rush_result(out, SELF);
}

static int fill_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *value = op->nargs < 2 ? T("zeros", INTS(), rush_v_dtype(RUSH_F32)) : in[1].kind == RUSH_V_TENSOR ? to_dtype(rush_numbers(in[1].t), RUSH_F32)
                       : T("full", INTS(), in[1], rush_v_dtype(RUSH_F32));
    return value && T("copy_", in[0], V(value)) ? rush_result(out, SELF) : -1;
}

static int ones_like_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *copy = T("clone", in[0]);
    return rush_result(out, copy ? T("fill_.Scalar", V(copy), V(1.0)) : NULL);
}

/* Of a tensor with a scale for each channel, one channel has one scale. */
static int select_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_qparams *q = SELF->q;
    int dim = rush_dim_wrap(I_(in[1]), SELF->ndim);
    if (dim < 0) return -1;
    if (q->scheme != RUSH_PER_CHANNEL || dim != q->axis) return on_uniform(op, in, out);
    rush_tensor *ints = T("select.int", V(rush_quantized_ints(SELF)), in[1], in[2]);
    double scale = ints ? rush_number_of(T("select.int", V(q->scales), V(0), in[2])) : 0, zero = ints ? rush_number_of(T("select.int", V(q->zeros), V(0), in[2])) : 0;
    return rush_failed() ? -1 : rush_result(out, rush_quantized_tensor(ints, scale, (int64_t)zero));
}

/* Without a format the copy is contiguous. */
static int clone_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_value with[2] = {in[0], HAS(in[1]) ? in[1] : rush_v_memory_format(RUSH_CONTIGUOUS)};
    return on_integers(op, with, out);
}

static int to_copy_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(!HAS(in[1]) || I_(in[1]) == SELF->dtype, RUSH_RUNTIME_ERROR, "a quantized tensor is not converted to %s: see dequantize()", rush_dtype_name((rush_dtype)I_(in[1])));
    return rush_result(out, T("clone", in[0], in[6]));
}

/* ---- several of them ---- */

static int cat_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    for (uint32_t i = 0; i < in[0].n; ++i) {
        const rush_tensor *t = in[0].tensors[i];
        RUSH_CHECK(rush_is_quantized(t) && t->q->scheme == RUSH_PER_TENSOR, RUSH_RUNTIME_ERROR, "Only per-tensor quantization is supported in 'cat'!");
    }
    return on_numbers_and_back(op, in, out);
}

static int equal_rule(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = SELF, *b = in[1].t;
    RUSH_CHECK(rush_is_quantized(a) && rush_is_quantized(b), RUSH_RUNTIME_ERROR, "Cannot compare two tensors of different qscheme");
    const rush_qparams *p = a->q, *q = b->q;
    bool same = p->scheme == q->scheme && a->dtype == b->dtype;
    if (same && p->scheme == RUSH_PER_TENSOR) same = p->scale == q->scale && p->zero_point == q->zero_point;
    else if (same && p != q) {
        rush_value alike[2];
        if (TN(&alike[0], "equal", V(p->scales), V(q->scales)) || TN(&alike[1], "equal", V(p->zeros), V(q->zeros))) return -1;
        same = p->axis == q->axis && I_(alike[0]) && I_(alike[1]);
    }
    if (!same) return out[0] = rush_v_bool(false), 0;
    rush_tensor *x = rush_quantized_ints(a), *y = rush_quantized_ints(b);
    return x && y ? TN(out, "equal", V(x), V(y)) : -1;
}

RUSH_QUANTIZED_RULES(shared,
    {"view _unsafe_view detach alias empty_like", on_integers}, {"clone", clone_rule},
    {"as_strided permute transpose.int t expand squeeze squeeze.dim squeeze.dims unsqueeze slice.Tensor narrow split.Tensor split_with_sizes chunk unbind.int "
     "unfold diagonal flip index_select gather index.Tensor repeat roll sort sort.stable topk max.dim min.dim max min movedim.int movedim.intlist "
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d pixel_shuffle pixel_unshuffle channel_shuffle", on_uniform},
    {"eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar ge.Tensor ge.Scalar item _local_scalar_dense allclose", on_numbers},
    {"avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d mean mean.dim upsample_bilinear2d", on_steps},
    {"max_pool2d_with_indices max_pool3d_with_indices _max_pool1d_values _max_pool2d_values _max_pool3d_values max_pool1d_with_indices "
     "leaky_relu gelu hardtanh clamp clamp_min clamp_max threshold constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
     "masked_fill.Scalar masked_fill.Tensor index_put _index_put_impl_", on_numbers_and_back},
    {"sigmoid hardsigmoid", on_unit_grid_up}, {"tanh", on_unit_grid_both}, {"relu", relu_rule},
    {"copy_", copy_rule}, {"fill_.Scalar fill_.Tensor zero_", fill_rule}, {"ones_like", ones_like_rule}, {"select.int", select_rule}, {"_to_copy", to_copy_rule},
    {"cat stack", cat_rule}, {"equal", equal_rule})
