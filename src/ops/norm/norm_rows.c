/* norm_rows.c - layer norm, RMS norm and group norm: rows brought to mean 0 and variance 1, then scaled per element
 * or channel. Kernels in kernels/cpu/norm.c run in float or double; half types go through float.
 *
 * Derivatives are fused kernels, but under create_graph they are written with operations, so that they have
 * derivatives of their own.
 */
#include "kernels/cpu/norm.h"
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/norm/norm.h"

#define BLOCKS 16 /* partial sums over rows, whatever the number of threads */

typedef struct job {
    rush_norm_rows a;
    int64_t rows;
    int type;
} job;

static void forward_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    rush_k_norm->rows[j->type](&j->a, begin, end);
}

static void backward_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    rush_k_norm->rows_back[j->type](&j->a, begin * j->a.block, RUSH_MIN(end * j->a.block, j->rows));
}

static rush_dtype compute_dtype(const rush_tensor *x) { return x->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32; }
static void *ptr(const rush_tensor *t) { return t ? rush_ptr(t) : NULL; }

/* The tensor that a kernel writes: t itself, or one of the kernel's type to be copied to it by give(). */
static rush_tensor *take(rush_tensor *t, rush_dtype d)
{
    if (!t || (t->dtype == d && rush_contiguous(t))) return t;
    return rush_tensor_new(d, t->device, t->ndim, t->size);
}
static void give(rush_tensor *t, rush_tensor *made)
{
    if (t && made && t != made) rush_copy_into(t, made);
}

static int float_or_refuse(const rush_tensor *x, const char *kernel)
{
    RUSH_CHECK(rush_dtype_is_float(x->dtype) && x->dtype <= RUSH_F64, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel,
               rush_dtype_word(x->dtype));
    return 0;
}

/* Weights are of the input's type, or float beside a half type. */
int rush_norm_param_dtype(const rush_tensor *x, const rush_tensor *w, rush_dtype *d)
{
    *d = w ? (rush_dtype)w->dtype : (rush_dtype)x->dtype;
    RUSH_CHECK(*d == x->dtype || (*d == RUSH_F32 && (x->dtype == RUSH_F16 || x->dtype == RUSH_BF16)), RUSH_RUNTIME_ERROR,
               "mixed dtype (CPU): expect parameter to have scalar type of Float");
    return 0;
}

/* ---- layer norm and RMS norm over the last dims ---- */

static int check_shape(const rush_tensor *x, rush_value shape, const rush_tensor *w, const rush_tensor *b)
{
    int n = (int)shape.n;
    const char *text = rush_shape_text(n, shape.ints);
    RUSH_CHECK(n >= 1, RUSH_RUNTIME_ERROR, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
                                           "but got normalized_shape = []");
    RUSH_CHECK(!w || (w->ndim == n && !memcmp(w->size, shape.ints, 8 * (size_t)n)), RUSH_RUNTIME_ERROR,
               "Expected weight to be of same shape as normalized_shape, but got weight of shape %s and normalized_shape = %s",
               rush_shape_of(w), text);
    RUSH_CHECK(!b || (b->ndim == n && !memcmp(b->size, shape.ints, 8 * (size_t)n)), RUSH_RUNTIME_ERROR,
               "Expected bias to be of same shape as normalized_shape, but got bias of shape %s and normalized_shape = %s",
               rush_shape_of(b), text);
    RUSH_CHECK(x->ndim >= n && !memcmp(x->size + x->ndim - n, shape.ints, 8 * (size_t)n), RUSH_RUNTIME_ERROR,
               "Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s", text, text + 1, rush_shape_of(x));
    return 0;
}

/* Of a derivative's arguments: g is of x's size, the statistics have one number per row. */
static int check_back(const rush_tensor *g, const rush_tensor *x, rush_value shape, const rush_tensor *mean, const rush_tensor *rstd,
                      const rush_tensor *w, const rush_tensor *b)
{
    if (check_shape(x, shape, w, b)) return -1;
    int64_t rows = 1;
    for (int d = 0; d < x->ndim - (int)shape.n; ++d) rows *= x->size[d];
    RUSH_CHECK(rush_same_sizes(g, x) && rstd->numel == rows && (!mean || mean->numel == rows), RUSH_RUNTIME_ERROR,
               "grad_out %s or the statistics (%lld of them) do not belong to an input of size %s and %lld rows", rush_shape_of(g),
               (long long)rstd->numel, rush_shape_of(x), (long long)rows);
    return 0;
}

static int stat_size(const rush_tensor *x, int n, int64_t *size)
{
    for (int d = 0; d < x->ndim; ++d) size[d] = d < x->ndim - n ? x->size[d] : 1;
    return x->ndim;
}

static int64_t row_length(rush_value shape)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < shape.n; ++i) n *= shape.ints[i];
    return n;
}

/* in = input, normalized_shape, weight, bias, eps */
static int layer_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    int64_t size[RUSH_MAXDIM];
    rush_dtype d;
    if (check_shape(x, in[1], T_(in[2]), T_(in[3])) || float_or_refuse(x, "LayerNormKernelImpl")) return -1;
    if (rush_norm_param_dtype(x, T_(in[2]) ? T_(in[2]) : T_(in[3]), &d)) return -1;
    int n = stat_size(x, (int)in[1].n, size);
    return rush_out_t(out, 0, x, x->dtype, x->ndim, x->size) && rush_out_t(out, 1, x, d, n, size) && rush_out_t(out, 2, x, d, n, size) ? 0 : -1;
}

static void run_layer(const rush_tensor *x, int64_t n, const rush_tensor *w, const rush_tensor *b, double eps, rush_tensor *y,
                      rush_tensor *mean, rush_tensor *rstd)
{
    if (!rstd->numel) return;
    rush_dtype d = compute_dtype(x);
    rush_tensor *xc = rush_cast_copy(x, d), *wc = rush_cast_copy(w, d), *bc = rush_cast_copy(b, d);
    rush_tensor *yc = take(y, d), *mc = take(mean, d), *rc = take(rstd, d);
    if (!xc || !yc || !rc || (mean && !mc)) return;
    job j = {.a = {.x = ptr(xc), .w = ptr(wc), .b = ptr(bc), .y = ptr(yc), .mean = ptr(mc), .rstd = ptr(rc), .n = n, .eps = eps},
             .rows = rstd->numel, .type = d == RUSH_F64};
    rush_parallel_for(j.rows, 1 + 16384 / (n + 1), forward_rows, &j);
    give(y, yc);
    give(mean, mc);
    give(rstd, rc);
}

static void layer_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    run_layer(in[0].t, row_length(in[1]), T_(in[2]), T_(in[3]), D_(in[4]), out[0].t, out[1].t, out[2].t);
}

/* The fused derivative: dx, dw, db are NULL where not wanted. */
static void run_layer_back(const rush_tensor *g, const rush_tensor *x, int64_t n, const rush_tensor *mean, const rush_tensor *rstd,
                           const rush_tensor *w, rush_tensor *dx, rush_tensor *dw, rush_tensor *db)
{
    rush_dtype d = compute_dtype(x);
    rush_device cpu = x->device;
    if (!rstd->numel) {
        rush_tensor *each[2] = {dw, db};
        for (int k = 0; k < 2; ++k) if (each[k]) rush_clear(each[k]);
        return;
    }
    int64_t rows = rstd->numel, block = (rows + BLOCKS - 1) / BLOCKS, blocks = (rows + block - 1) / block;
    rush_tensor *gc = rush_cast_copy(g, d), *xc = rush_cast_copy(x, d), *wc = rush_cast_copy(w, d);
    rush_tensor *mc = rush_cast_copy(mean, d), *rc = rush_cast_copy(rstd, d), *dxc = take(dx, d);
    rush_tensor like = {.dtype = (uint8_t)d, .device = cpu, .ndim = 2, .size = (int64_t[]){blocks, n}};
    rush_tensor *dws = dw ? rush_zeros_like(&like) : NULL, *dbs = db ? rush_zeros_like(&like) : NULL;
    if (rush_failed()) return;
    job j = {.a = {.x = ptr(xc), .dy = ptr(gc), .w = ptr(wc), .y = ptr(dxc), .mean = ptr(mc), .rstd = ptr(rc), .dw = ptr(dws), .db = ptr(dbs),
                   .n = n, .block = block},
             .rows = rows, .type = d == RUSH_F64};
    rush_parallel_for(blocks, 1 + 8192 / (block * n + 1), backward_blocks, &j);
    give(dx, dxc);
    if (dw) give(dw, reshape_to(sum_dim(dws, 0, false), dw));
    if (db) give(db, reshape_to(sum_dim(dbs, 0, false), db));
}

/* in = grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask */
static int layer_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[1].t, *w = T_(in[5]), *b = T_(in[6]);
    if (check_back(in[0].t, x, in[2], in[3].t, in[4].t, w, b)) return -1;
    if (in[7].ints[0] && !rush_out_t(out, 0, x, x->dtype, x->ndim, x->size)) return -1;
    if (in[7].ints[1] && w && !rush_out_t(out, 1, w, w->dtype, w->ndim, w->size)) return -1;
    return in[7].ints[2] && b && !rush_out_t(out, 2, b, b->dtype, b->ndim, b->size) ? -1 : 0;
}

static void layer_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    run_layer_back(in[0].t, in[1].t, row_length(in[2]), in[3].t, in[4].t, T_(in[5]), T_(out[0]), T_(out[1]), T_(out[2]));
}

/* The same by operations: x^ and 1 / sigma over dims, centered or not. */
rush_tensor *rush_normalised(rush_tensor *x, rush_value dims, double eps, bool centered, rush_tensor **rstd)
{
    rush_tensor *c = centered ? sub(x, T("mean.dim", V(x), dims, V(true))) : x;
    *rstd = rsqrt(add(T("mean.dim", V(mul(c, c)), dims, V(true)), eps));
    return mul(c, *rstd);
}

rush_tensor *rush_norm_gradient(rush_tensor *g, rush_tensor *hat, rush_tensor *rstd, rush_value dims, bool centered)
{
    rush_tensor *along = mul(hat, T("mean.dim", V(mul(g, hat)), dims, V(true)));
    rush_tensor *inner = centered ? sub(sub(g, T("mean.dim", V(g), dims, V(true))), along) : sub(g, along);
    return mul(inner, rstd);
}

static rush_value last_dims(const rush_tensor *x, uint32_t n, int64_t *room)
{
    for (uint32_t i = 0; i < n; ++i) room[i] = (int64_t)x->ndim - n + i;
    return rush_v_ints(room, n);
}

static void layer_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[0].t, *w = T_(s->in[2]), *b = T_(s->in[3]), *rstd;
    if (!g) return;
    if (rush_grad_enabled()) {
        int64_t room[RUSH_MAXDIM];
        rush_value dims = last_dims(x, s->in[1].n, room);
        rush_tensor *hat = rush_normalised(x, dims, D_(s->in[4]), true, &rstd);
        if (rush_needs(s, 0)) s->gin[0] = rush_norm_gradient(w ? mul(g, w) : g, hat, rstd, dims, true);
        if (w && rush_needs(s, 2)) s->gin[2] = sum_to_size(mul(g, hat), w);
        if (b && rush_needs(s, 3)) s->gin[3] = sum_to_size(g, b);
        return;
    }
    rush_value out[3];
    if (TN(out, "native_layer_norm_backward", V(g), V(x), s->in[1], s->out[1], s->out[2], s->in[2], s->in[3],
           INTS(rush_needs(s, 0), rush_needs(s, 2), rush_needs(s, 3))))
        return;
    s->gin[0] = T_(out[0]), s->gin[2] = T_(out[1]), s->gin[3] = T_(out[2]);
}

static rush_op op_native_layer_norm = {
    .schema = "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    .doc = "layer_norm, with the means and the reciprocals of the deviations that it found.",
    .shape = layer_shape, .cpu = layer_cpu, .grad = layer_grad, .saves = "input, weight, result1, result2", .flags = RUSH_FIRST_GRAD | RUSH_HANDS_ON,
};
static rush_op op_native_layer_norm_backward = {
    .schema = "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, "
              "Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc = "Gradients of native_layer_norm for input, weight, bias.",
    .shape = layer_back_shape, .cpu = layer_back_cpu, .flags = RUSH_HIDDEN,
};

static int layer_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value r[3];
    if (TN(r, "native_layer_norm", in[0], in[1], in[2], in[3], in[4])) return -1;
    out[0] = r[0];
    return 0;
}

static rush_op op_layer_norm = {
    .schema = "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
    .doc = "(input - mean) / sqrt(var + eps) * weight + bias over the last dims, of sizes normalized_shape (Ba et al. 2016).",
    .run = layer_run,
};

/* ---- RMS norm: in = input, normalized_shape, weight, eps ---- */

static double rms_eps(const rush_tensor *x, rush_value eps) { return HAS(eps) ? D_(eps) : rush_dtypes[compute_dtype(x)].eps; }

static int rms_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    int64_t size[RUSH_MAXDIM];
    if (check_shape(x, in[1], T_(in[2]), NULL) || float_or_refuse(x, "rms_norm")) return -1;
    int n = stat_size(x, (int)in[1].n, size);
    return rush_out_t(out, 0, x, x->dtype, x->ndim, x->size) && rush_out_t(out, 1, x, compute_dtype(x), n, size) ? 0 : -1;
}

static void rms_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    run_layer(in[0].t, row_length(in[1]), T_(in[2]), NULL, rms_eps(in[0].t, in[3]), out[0].t, NULL, out[1].t);
}

/* in = grad_out, input, normalized_shape, rstd, weight, output_mask */
static int rms_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[1].t, *w = T_(in[4]);
    if (check_back(in[0].t, x, in[2], NULL, in[3].t, w, NULL)) return -1;
    if (in[5].ints[0] && !rush_out_t(out, 0, x, x->dtype, x->ndim, x->size)) return -1;
    return in[5].ints[1] && w && !rush_out_t(out, 1, w, w->dtype, w->ndim, w->size) ? -1 : 0;
}

static void rms_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    run_layer_back(in[0].t, in[1].t, row_length(in[2]), NULL, in[3].t, T_(in[4]), T_(out[0]), T_(out[1]), NULL);
}

static void rms_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[0].t, *w = T_(s->in[2]), *rstd;
    if (!g) return;
    if (rush_grad_enabled()) {
        int64_t room[RUSH_MAXDIM];
        rush_value dims = last_dims(x, s->in[1].n, room);
        rush_tensor *hat = rush_normalised(x, dims, rms_eps(x, s->in[3]), false, &rstd);
        if (rush_needs(s, 0)) s->gin[0] = rush_norm_gradient(w ? mul(g, w) : g, hat, rstd, dims, false);
        if (w && rush_needs(s, 2)) s->gin[2] = sum_to_size(mul(g, hat), w);
        return;
    }
    rush_value out[2];
    if (TN(out, "_fused_rms_norm_backward", V(g), V(x), s->in[1], s->out[1], s->in[2], INTS(rush_needs(s, 0), rush_needs(s, 2)))) return;
    s->gin[0] = T_(out[0]), s->gin[2] = T_(out[1]);
}

static rush_op op_fused_rms_norm = {
    .schema = "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
    .doc = "rms_norm, with the reciprocals of the root mean squares that it found.",
    .shape = rms_shape, .cpu = rms_cpu, .grad = rms_grad, .saves = "input, weight, result1", .flags = RUSH_HIDDEN,
};
static rush_op op_fused_rms_norm_backward = {
    .schema = "_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
    .doc = "Gradients of _fused_rms_norm for input and weight.",
    .shape = rms_back_shape, .cpu = rms_back_cpu, .flags = RUSH_HIDDEN,
};

static int rms_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value r[2];
    rush_tensor *x = in[0].t;
    bool last = rush_dtypes[x->dtype].size >= 4 && rush_format_of(x) != RUSH_CONTIGUOUS; /* channels last stay so */
    if (last || rush_dtype_is_complex(x->dtype)) { /* the mean of x * x, as it is */
        int64_t room[RUSH_MAXDIM];
        rush_tensor *rstd, *w = T_(in[2]);
        if (check_shape(x, in[1], w, NULL)) return -1;
        double eps = HAS(in[3]) ? D_(in[3]) : rush_dtypes[rush_dtype_real(x->dtype)].eps;
        rush_tensor *hat = rush_normalised(x, last_dims(x, in[1].n, room), eps, false, &rstd);
        return rush_result(out, w ? mul(hat, w) : hat);
    }
    if (TN(r, "_fused_rms_norm", in[0], in[1], in[2], in[3])) return -1;
    out[0] = r[0];
    return 0;
}

static rush_op op_rms_norm = {
    .schema = "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", .node = "MulBackward0",
    .doc = "input / sqrt(mean(input^2) + eps) * weight over the last dims (Zhang and Sennrich 2019).",
    .run = rms_run,
};

/* ---- group norm: in = input, weight, bias, N, C, HxW, group, eps ---- */

/* v = N, C, HxW, group: do they fit together, and with the input and the parameters? */
static int group_sizes(const rush_tensor *x, const rush_tensor *w, const rush_tensor *b, const rush_value *v)
{
    int64_t n = v[0].i, c = v[1].i, inner = v[2].i, groups = v[3].i, numel;
    RUSH_CHECK(!__builtin_mul_overflow(n, c, &numel) && !__builtin_mul_overflow(numel, inner, &numel) && n >= 0 && c >= 0 && inner >= 0 && numel == x->numel &&
                   (!w || w->numel == c) && (!b || b->numel == c), RUSH_RUNTIME_ERROR,
               "native_group_norm: input of shape %s is not %lld x %lld x %lld, or weight or bias are not of %lld elements", rush_shape_of(x),
               (long long)n, (long long)c, (long long)inner, (long long)c);
    RUSH_CHECK(groups > 0 && c % groups == 0, RUSH_RUNTIME_ERROR, "Expected number of channels %lld to be divisible by num_groups %lld", (long long)c,
               (long long)groups);
    return 0;
}

static int group_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *w = T_(in[1]), *b = T_(in[2]);
    int64_t size[2] = {in[3].i, in[6].i};
    rush_dtype d;
    if (float_or_refuse(x, "GroupNormKernelImpl") || rush_norm_param_dtype(x, w ? w : b, &d)) return -1;
    if (group_sizes(x, w, b, in + 3)) return -1;
    return rush_out_format(out, 0, rush_format_of(x), x, x->dtype, x->ndim, x->size) && rush_out_t(out, 1, x, d, 2, size) && rush_out_t(out, 2, x, d, 2, size) ? 0 : -1;
}

/* Are the channels of x, of sizes v as above, read side by side? */
static bool group_by_pixels(const rush_tensor *x, const rush_value *v) { return rush_lie_as_pixels(x, x) && x->numel && x->size[0] == v[0].i && x->size[1] == v[1].i; }

static void group_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    rush_tensor *y = out[0].t;
    int64_t n = in[6].i ? in[4].i / in[6].i * in[5].i : 0;
    rush_dtype d = compute_dtype(x);
    const bool pixels = group_by_pixels(x, in + 3);
    if (pixels) x = rush_pixels(x), y = rush_pixels(y);
    if (!x || !y) return;
    rush_tensor *xc = rush_cast_copy(x, d), *wc = rush_cast_copy(T_(in[1]), d), *bc = rush_cast_copy(T_(in[2]), d);
    rush_tensor *yc = take(y, d), *mc = take(out[1].t, d), *rc = take(out[2].t, d);
    if (!xc || !yc || !mc || !rc) return;
    rush_pixel_groups g = {.x = ptr(xc), .y = ptr(yc), .w = ptr(wc), .b = ptr(bc), .mean = ptr(mc), .rstd = ptr(rc), .images = in[3].i, .pixels = in[5].i,
                           .channels = in[4].i, .groups = in[6].i};
    if (pixels && rush_group_last(&g, D_(in[7]), rush_dtypes[d].size)) return;
    job j = {.a = {.x = ptr(xc), .w = ptr(wc), .b = ptr(bc), .y = ptr(yc), .mean = ptr(mc), .rstd = ptr(rc), .n = n, .span = RUSH_MAX(in[5].i, 1),
                   .groups = in[6].i, .eps = D_(in[7])},
             .rows = rc->numel, .type = d == RUSH_F64};
    if (!pixels) rush_parallel_for(j.rows, 1 + 16384 / (n + 1), forward_rows, &j);
    give(y, yc);
    give(out[1].t, mc);
    give(out[2].t, rc);
}

/* in = grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask */
static int group_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[1].t, *w = T_(in[4]);
    rush_dtype d = w ? (rush_dtype)w->dtype : (rush_dtype)in[2].t->dtype;
    if (group_sizes(x, w, NULL, in + 5)) return -1;
    RUSH_CHECK(in[0].t->numel == x->numel && in[2].t->numel == in[5].i * in[8].i && in[3].t->numel == in[2].t->numel, RUSH_RUNTIME_ERROR,
               "native_group_norm_backward: grad_out, mean or rstd is not of the input's size");
    if (in[9].ints[0] && !rush_out_format(out, 0, rush_format_of(x), x, x->dtype, x->ndim, x->size)) return -1;
    if (in[9].ints[1] && !rush_out_t(out, 1, x, d, 1, &in[6].i)) return -1;
    return in[9].ints[2] && !rush_out_t(out, 2, x, d, 1, &in[6].i) ? -1 : 0;
}

static void group_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[1].t, *dy = in[0].t;
    rush_tensor *dx = T_(out[0]);
    rush_dtype d = compute_dtype(x);
    const bool pixels = group_by_pixels(x, in + 5) && rush_same_sizes(dy, x);
    if (pixels) x = rush_pixels(x), dy = rush_pixels(dy), dx = dx ? rush_pixels(dx) : NULL;
    if (rush_failed()) return;
    int64_t n = in[8].i ? in[6].i / in[8].i * in[7].i : 0, rows = in[3].t->numel;
    rush_tensor *gc = rush_cast_copy(dy, d), *xc = rush_cast_copy(x, d), *wc = rush_cast_copy(T_(in[4]), d);
    rush_tensor *mc = rush_cast_copy(in[2].t, d), *rc = rush_cast_copy(in[3].t, d), *dxc = take(dx, d);
    rush_tensor like = {.dtype = (uint8_t)d, .device = x->device, .ndim = 2, .size = (int64_t[]){in[5].i, in[6].i}};
    rush_tensor *dws = HAS(out[1]) ? rush_zeros_like(&like) : NULL, *dbs = HAS(out[2]) ? rush_zeros_like(&like) : NULL;
    if (rush_failed()) return;
    job j = {.a = {.x = ptr(xc), .dy = ptr(gc), .w = ptr(wc), .y = ptr(dxc), .mean = ptr(mc), .rstd = ptr(rc), .dw = ptr(dws), .db = ptr(dbs),
                   .n = n, .span = RUSH_MAX(in[7].i, 1), .groups = in[8].i, .block = 1},
             .rows = rows, .type = d == RUSH_F64};
    rush_pixel_groups g = {.x = ptr(xc), .dy = ptr(gc), .y = ptr(dxc), .w = ptr(wc), .mean = ptr(mc), .rstd = ptr(rc), .dw = ptr(dws), .db = ptr(dbs),
                           .images = in[5].i, .pixels = in[7].i, .channels = in[6].i, .groups = in[8].i};
    if (pixels && rush_group_last_back(&g, rush_dtypes[d].size)) return;
    if (n && !pixels) rush_parallel_for(rows, 1 + 16384 / (n + 1), backward_blocks, &j);
    give(dx, dxc);
    if (dws) give(out[1].t, sum_dim(dws, 0, false));
    if (dbs) give(out[2].t, sum_dim(dbs, 0, false));
}

/* What the means and the reciprocal deviations, which are results too, add to the gradient of the input. PyTorch forgets
 * it where only one of them has a gradient; so do we, unless the gradient is differentiated, as tangents are found. */
static void add_statistics_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t, *g[2] = {s->g[1], s->g[2]}, *sum = NULL;
    if (!rush_needs(s, 0) || !x->numel || !(rush_grad_enabled() ? g[0] || g[1] : g[0] && g[1])) return;
    rush_value groups = INTS(s->in[3].i, s->in[6].i, -1);
    double n = (double)(x->numel / (s->in[3].i * s->in[6].i));
    if (g[1]) {
        rush_tensor *rstd, *hat = rush_normalised(T("reshape", V(x), groups), INTS(2), D_(s->in[7]), true, &rstd);
        sum = neg(mul(mul(unsqueeze(g[1], -1), mul(rstd, rstd)), hat));
    }
    if (g[0]) sum = sum ? add(sum, unsqueeze(g[0], -1)) : T("expand", V(unsqueeze(g[0], -1)), INTS(-1, -1, (int64_t)n));
    rush_tensor *part = T("reshape", V(to_dtype(div_(sum, n), x->dtype)), rush_v_ints(x->size, x->ndim));
    s->gin[0] = s->gin[0] ? add(s->gin[0], part) : part;
}

static void group_grad_of_result(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[0].t, *w = T_(s->in[1]), *rstd;
    if (!g) return;
    if (rush_grad_enabled()) {
        rush_value three = INTS(s->in[3].i, s->in[6].i, -1), channels = INTS(s->in[3].i, s->in[4].i, -1), last = INTS(2), rest = INTS(0, 2);
        if (!x->numel) {
            for (int k = 0; k < 3; ++k)
                if (rush_needs(s, k)) s->gin[k] = rush_zeros_like(s->in[k].t);
            return;
        }
        rush_tensor *hat = rush_normalised(T("reshape", V(x), three), last, D_(s->in[7]), true, &rstd);
        rush_tensor *g3 = T("reshape", V(g), channels), *gw = w ? mul(g3, T("view", V(w), INTS(1, -1, 1))) : g3;
        if (rush_needs(s, 0)) s->gin[0] = T("reshape", V(rush_norm_gradient(T("reshape", V(gw), three), hat, rstd, last, true)), rush_v_ints(x->size, x->ndim));
        if (rush_needs(s, 1)) s->gin[1] = T("sum.dim_IntList", V(mul(g3, T("reshape", V(hat), channels))), rest);
        if (rush_needs(s, 2)) s->gin[2] = T("sum.dim_IntList", V(g3), rest);
        return;
    }
    rush_value out[3];
    if (TN(out, "native_group_norm_backward", V(g), V(x), s->out[1], s->out[2], s->in[1], s->in[3], s->in[4], s->in[5], s->in[6],
           INTS(rush_needs(s, 0), rush_needs(s, 1), rush_needs(s, 2))))
        return;
    for (int k = 0; k < 3; ++k) s->gin[k] = T_(out[k]);
}

static void group_grad(rush_grads *s)
{
    group_grad_of_result(s);
    if (!rush_failed()) add_statistics_grad(s);
}

static rush_op op_native_group_norm = {
    .schema = "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    .doc = "group_norm, with the means and the reciprocals of the deviations that it found.",
    .shape = group_shape, .cpu = group_cpu, .grad = group_grad, .saves = "input, weight, result1, result2",
};
static rush_op op_native_group_norm_backward = {
    .schema = "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C, "
              "SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc = "Gradients of native_group_norm for input, weight, bias.",
    .shape = group_back_shape, .cpu = group_back_cpu, .flags = RUSH_HIDDEN,
};

static int group_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *w = T_(in[2]), *b = T_(in[3]);
    RUSH_CHECK(x->ndim >= 2, RUSH_INDEX_ERROR, "Dimension out of range (expected to be in range of [%d, %d], but got 1)", -RUSH_MAX(x->ndim, 1),
               RUSH_MAX(x->ndim, 1) - 1);
    int64_t n = x->size[0], c = x->size[1], inner = 1;
    RUSH_CHECK(in[1].i > 0, RUSH_RUNTIME_ERROR, "Expected num groups to be greater than 0, got %lld", (long long)in[1].i);
    RUSH_CHECK(c % in[1].i == 0, RUSH_RUNTIME_ERROR,
               "Expected number of channels in input to be divisible by num_groups, but got input of shape %s and num_groups=%lld",
               rush_shape_of(x), (long long)in[1].i);
    RUSH_CHECK(!w || (w->ndim == 1 && w->numel == c), RUSH_RUNTIME_ERROR,
               "Expected weight to be a vector of size equal to the number of channels in input, but got weight of shape %s and input of shape %s",
               rush_shape_of(w), rush_shape_of(x));
    RUSH_CHECK(!b || (b->ndim == 1 && b->numel == c), RUSH_RUNTIME_ERROR,
               "Expected bias to be a vector of size equal to the number of channels in input, but got bias of shape %s and input of shape %s",
               rush_shape_of(b), rush_shape_of(x));
    for (int d = 2; d < x->ndim; ++d) inner *= x->size[d];
    rush_value r[3];
    if (TN(r, "native_group_norm", in[0], in[2], in[3], V(n), V(c), V(inner), in[1], in[4])) return -1;
    out[0] = r[0];
    return 0;
}

static rush_op op_group_norm = {
    .schema = "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
    .doc = "Channels, dim 1, in num_groups groups, each of which is normalised per sample; then a weight and bias per channel (Wu and He 2018).",
    .run = group_run,
};

RUSH_FAMILY(norm_rows, &op_native_layer_norm, &op_native_layer_norm_backward, &op_layer_norm, &op_fused_rms_norm, &op_fused_rms_norm_backward,
            &op_rms_norm, &op_native_group_norm, &op_native_group_norm_backward, &op_group_norm)
