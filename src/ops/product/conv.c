/* conv.c - convolutions in one to three dimensions, forward and back, and transposed.
 *
 * Everything comes to `convolution` and `convolution_backward`. A transposed convolution is the input's gradient
 * of the plain one with input and result exchanged, so three products on one geometry serve all six cases:
 * forward, gradient of the input, gradient of the weight. Each is linear in both of its tensors, which gives
 * complex numbers (four real ones) and second derivatives (the other two products) for free.
 */
#include "op/formula.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/winograd.h"
#include "kernels/engine/engine.h"
#include "ops/product/product.h"

#include <stdio.h>

enum { FORWARD, GRAD_INPUT, GRAD_WEIGHT };
#define SMALL_SUMS 4e7 /* multiplications: half a millisecond */
#define TINY_SUMS 2e6  /* no longer than it takes to wake a thread */

/* ---- arguments ---- */

static int spread(rush_value v, int nd, int64_t *to, const char *name)
{
    RUSH_CHECK(v.n == 1 || (int)v.n == nd, RUSH_RUNTIME_ERROR,
               "expected %s to be a single integer value or a list of %d values to match the convolution dimensions, but got %s=%s", name, nd, name,
               rush_shape_text((int)v.n, v.ints));
    for (int i = 0; i < nd; ++i) to[i] = v.n == 1 ? v.ints[0] : v.ints[i];
    return 0;
}

static const char *by_x(int n, const int64_t *s)
{
    char *to = rush_words();
    size_t at = 0;
    for (int i = 0; i < n && at < RUSH_WORDS; ++i) at += (size_t)snprintf(to + at, RUSH_WORDS - at, i ? " x %lld" : "%lld", (long long)s[i]);
    return to;
}

int rush_conv_geometry(rush_conv *c, const rush_tensor *x, const rush_tensor *w, const rush_value *a, int64_t *result)
{
    int nd = x->ndim - 2, lead = 3 - nd;
    int64_t stride[3] = {1}, padding[3] = {0}, dilation[3] = {1}, output_padding[3] = {0}, groups = I_(a[RUSH_CONV_GROUPS]);
    bool transposed = I_(a[RUSH_CONV_TRANSPOSED]);
    RUSH_CHECK(nd >= 1 && nd <= 3, RUSH_RUNTIME_ERROR, "expected an input of 3 to 5 dimensions, but got size %s", rush_shape_of(x));
    RUSH_CHECK(w->ndim > 2, RUSH_RUNTIME_ERROR, "weight should have at least three dimensions");
    RUSH_CHECK(groups > 0, RUSH_RUNTIME_ERROR, "non-positive groups is not supported");
    RUSH_CHECK(w->ndim == x->ndim, RUSH_RUNTIME_ERROR,
               "Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional input of size %s instead", w->ndim, w->ndim,
               rush_shape_of(w), x->ndim, rush_shape_of(x));
    if (spread(a[RUSH_CONV_STRIDE], nd, stride, "stride") || spread(a[RUSH_CONV_PADDING], nd, padding, "padding") || spread(a[RUSH_CONV_DILATION], nd, dilation, "dilation"))
        return -1;
    if (transposed && spread(a[RUSH_CONV_OUTPUT_PADDING], nd, output_padding, "output_padding")) return -1;
    for (int i = 0; i < nd; ++i) {
        RUSH_CHECK(padding[i] >= 0, RUSH_RUNTIME_ERROR, "negative padding is not supported");
        RUSH_CHECK(stride[i] > 0, RUSH_RUNTIME_ERROR, "non-positive stride is not supported");
        RUSH_CHECK(dilation[i] > 0, RUSH_RUNTIME_ERROR, "dilation should be greater than zero, but got %s", rush_shape_text(nd, dilation));
        RUSH_CHECK(!transposed || output_padding[i] >= 0, RUSH_RUNTIME_ERROR, "negative output_padding is not supported");
        RUSH_CHECK(!transposed || output_padding[i] < stride[i] || output_padding[i] < dilation[i], RUSH_RUNTIME_ERROR,
                   "output padding must be smaller than either stride or dilation, but got output_padding %s, stride %s, dilation %s",
                   rush_shape_text(nd, output_padding), rush_shape_text(nd, stride), rush_shape_text(nd, dilation));
    }
    RUSH_CHECK(groups <= w->size[0], RUSH_RUNTIME_ERROR,
               "Given groups=%lld, expected weight to be at least %lld at dimension 0, but got weight of size %s instead", (long long)groups,
               (long long)groups, rush_shape_of(w));
    RUSH_CHECK(w->size[0] % groups == 0, RUSH_RUNTIME_ERROR,
               "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got weight of size [%s] instead", (long long)groups,
               (long long)groups, rush_shape_of(w));
    int64_t channels = transposed ? w->size[0] : w->size[1] * groups;
    RUSH_CHECK(x->size[1] == channels, RUSH_RUNTIME_ERROR,
               "Given %s=%lld, weight of size %s, expected input%s to have %lld channels, but got %lld channels instead",
               transposed ? "transposed" : "groups", transposed ? 1 : (long long)groups, rush_shape_of(w), rush_shape_of(x), (long long)channels,
               (long long)x->size[1]);
    *c = (rush_conv){.n = x->size[0], .groups = groups};
    for (int d = 0; d < nd; ++d) { /* so that what follows stays within 64 bits */
        const int64_t far = INT64_MAX / 4;
        int64_t span, steps;
        RUSH_CHECK(!__builtin_mul_overflow(w->size[d + 2], dilation[d], &span) && !__builtin_mul_overflow(x->size[d + 2], stride[d], &steps) && span < far &&
                       steps < far && padding[d] < far / 2 && (!transposed || output_padding[d] < far),
                   RUSH_RUNTIME_ERROR, "stride %lld, padding %lld and dilation %lld are too large", (long long)stride[d], (long long)padding[d], (long long)dilation[d]);
    }
    for (int i = 0; i < 3; ++i) {
        bool real = i >= lead;
        int d = i - lead;
        c->stride[i] = real ? stride[d] : 1;
        c->dilation[i] = real ? dilation[d] : 1;
        c->before[i] = real ? padding[d] : 0;
        c->kernel[i] = real ? w->size[d + 2] : 1;
        c->space[i] = real ? x->size[d + 2] : 1;
        int64_t window = (c->kernel[i] - 1) * c->dilation[i] + 1;
        if (transposed) c->result[i] = (c->space[i] - 1) * c->stride[i] - 2 * c->before[i] + window + (real ? output_padding[d] : 0);
        else c->result[i] = c->space[i] + 2 * c->before[i] < window ? -1 : (c->space[i] + 2 * c->before[i] - window) / c->stride[i] + 1;
    }
    for (int i = lead; i < 3; ++i) {
        int64_t padded[3], window[3];
        for (int d = 0; d < nd; ++d) padded[d] = x->size[d + 2] + 2 * padding[d], window[d] = dilation[d] * (w->size[d + 2] - 1) + 1;
        RUSH_CHECK(transposed || c->result[i] > 0, RUSH_RUNTIME_ERROR,
                   "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater than actual input size",
                   by_x(nd, padded), by_x(nd, window));
        RUSH_CHECK(c->result[i] > 0, RUSH_RUNTIME_ERROR,
                   "Given input size per channel: (%s). Calculated output size per channel: (%s). Output size is too small",
                   by_x(nd, c->space + lead), by_x(nd, c->result + lead));
    }
    const int64_t *k = c->kernel;
    RUSH_CHECK(nd == 3 || (k[1] > 0 && k[2] > 0), RUSH_RUNTIME_ERROR, "kernel size should be greater than zero, but got kernel_height: %lld kernel_width: %lld",
               (long long)k[1], (long long)k[2]);
    RUSH_CHECK(k[0] > 0 && k[1] > 0 && k[2] > 0, RUSH_RUNTIME_ERROR, "kernel size should be greater than zero, but got: %s (TxHxW)", by_x(3, k));
    RUSH_CHECK(x->numel || !x->size[0] || !x->size[1], RUSH_RUNTIME_ERROR, "Only zero batch or zero channel inputs are supported, but got input shape: %s",
               nd > 1 ? rush_shape_of(x) : rush_shape_text(4, (const int64_t[]){x->size[0], x->size[1], 1, x->size[2]}));
    result[0] = x->size[0];
    result[1] = transposed ? w->size[1] * groups : w->size[0];
    memcpy(result + 2, c->result + lead, sizeof *result * nd);
    if (transposed) {
        int64_t swap[3];
        memcpy(swap, c->space, sizeof swap);
        memcpy(c->space, c->result, sizeof swap);
        memcpy(c->result, swap, sizeof swap);
        c->in = result[1];
        c->out = x->size[1];
    } else {
        c->in = x->size[1];
        c->out = result[1];
    }
    return 0;
}

/* ---- the three products on arrays ---- */

/* Which convolutions of float32 oneDNN does: those that it does in PyTorch, so that the sums are the same, but for two where our loops are
 * faster and as near. These are depthwise windows of 3 x 3 (the same sums), and the input's gradient of few channels in strides, for which
 * PyTorch's newer oneDNN adds in an order of its own. */
static bool suits_engine(int what, const rush_conv *c)
{
    int64_t icg = c->in / c->groups, ocg = c->out / c->groups, image = c->in * c->space[0] * c->space[1] * c->space[2];
    bool strides = c->stride[0] > 1 || c->stride[1] > 1 || c->stride[2] > 1;
    bool one_small_image = c->n == 1 && image <= 20480 && (c->kernel[1] <= 3 || c->kernel[2] <= 3);
    bool matrix = c->n < 16 && !strides && c->kernel[0] * c->kernel[1] * c->kernel[2] == 1 && rush_num_threads() == 1;
    if ((one_small_image || matrix) && c->groups == 1 && (icg < 16 || ocg < 16)) return false;
    if (what == FORWARD && icg == 1 && ocg == 1 && c->groups > 1) return strides || c->kernel[1] != 3 || c->kernel[2] != 3;
    return what != GRAD_INPUT || !strides || icg == 1 || icg >= 8;
}

static bool by_engine(int what, const rush_conv *c, rush_dtype d, bool last, bool weight_last, const void *a, const void *b, const void *bias, void *to)
{
    int64_t icg = c->in / c->groups;
    if (d == RUSH_F32 ? !suits_engine(what, c) : d != RUSH_BF16 || icg == 1 || !rush_engine_has_bf16()) return false;
    /* oneDNN cuts the sums of a weight's gradient by the number of threads; small ones keep their numbers on one. */
    double sums = (double)c->n * c->out * icg * c->kernel[0] * c->kernel[1] * c->kernel[2] * c->result[0] * c->result[1] * c->result[2];
    bool alone = sums < (what == GRAD_WEIGHT ? SMALL_SUMS : TINY_SUMS) && !rush_now.alone;
    if (alone) rush_parallel_alone(true);
    bool done = rush_engine_conv(what, c, d, last, weight_last, a, b, bias, to);
    if (alone) rush_parallel_alone(false);
    return done;
}

/* Contiguous, real, of a kernel's type. */
static void product_real(int what, const rush_conv *c, rush_dtype d, const void *a, const void *b, const void *bias, void *to)
{
    if (d == RUSH_F32 && by_engine(what, c, d, false, false, a, b, bias, to)) return;
    if (d == RUSH_F32) {
        if (what == FORWARD) rush_k_conv->forward_f32(c, a, b, bias, to);
        else if (what == GRAD_INPUT) rush_k_conv->grad_input_f32(c, a, b, to);
        else rush_k_conv->grad_weight_f32(c, a, b, to);
    } else if (d == RUSH_F64) {
        if (what == FORWARD) rush_k_conv->forward_f64(c, a, b, bias, to);
        else if (what == GRAD_INPUT) rush_k_conv->grad_input_f64(c, a, b, to);
        else rush_k_conv->grad_weight_f64(c, a, b, to);
    } else {
        if (what == FORWARD) rush_k_conv->forward_i64(c, a, b, bias, to);
        else if (what == GRAD_INPUT) rush_k_conv->grad_input_i64(c, a, b, to);
        else rush_fail(RUSH_NOT_IMPLEMENTED, "gradients of integers");
    }
}

/* Every second number of a complex array, or back into it. */
static void plane(const rush_tensor *from, int part, rush_tensor *to)
{
    rush_dtype d = to->dtype;
    size_t size = rush_dtypes[d].size;
    rush_convert(rush_ptr(to), d, (int64_t)size, (char *)rush_ptr(from) + (part ? size : 0), d, 2 * (int64_t)size, to->numel);
}

static void unplane(const rush_tensor *from, int part, rush_tensor *to)
{
    rush_dtype d = from->dtype;
    size_t size = rush_dtypes[d].size;
    rush_convert((char *)rush_ptr(to) + (part ? size : 0), d, 2 * (int64_t)size, rush_ptr(from), d, (int64_t)size, from->numel);
}

static rush_tensor *real_like(const rush_tensor *t)
{
    return rush_tensor_new(rush_dtype_real(t->dtype), t->device, t->ndim, t->size);
}

static int product_complex(int what, const rush_conv *c, const rush_tensor *a, const rush_tensor *b, rush_tensor *to)
{
    rush_tensor *ap[2] = {real_like(a), real_like(a)}, *bp[2] = {real_like(b), real_like(b)}, *sum = real_like(to), *term = real_like(to);
    if (rush_failed()) return -1;
    for (int part = 0; part < 2; ++part) {
        plane(a, part, ap[part]);
        plane(b, part, bp[part]);
    }
    for (int part = 0; part < 2; ++part) { /* re = rr - ii, im = ri + ir */
        product_real(what, c, sum->dtype, rush_ptr(ap[0]), rush_ptr(bp[part]), NULL, rush_ptr(sum));
        product_real(what, c, sum->dtype, rush_ptr(ap[1]), rush_ptr(bp[!part]), NULL, rush_ptr(term));
        if (sum->dtype == RUSH_F32) {
            float *s = rush_ptr(sum), *t = rush_ptr(term), sign = part ? 1 : -1;
            for (int64_t i = 0; i < sum->numel; ++i) s[i] += sign * t[i];
        } else {
            double *s = rush_ptr(sum), *t = rush_ptr(term), sign = part ? 1 : -1;
            for (int64_t i = 0; i < sum->numel; ++i) s[i] += sign * t[i];
        }
        unplane(sum, part, to);
    }
    return 0;
}

static int add_bias(rush_tensor *y, const rush_tensor *bias)
{
    int64_t stride[RUSH_MAXDIM] = {0};
    stride[1] = bias->stride[0];
    rush_tensor *wide = rush_tensor_alias(bias, y->ndim, y->size, stride, bias->offset);
    return wide ? rush_add_into(y, wide) : -1;
}

static bool is_last(const rush_tensor *t)
{
    return (t->ndim == 4 || t->ndim == 5) && !rush_contiguous(t) && rush_contiguous_as(t, rush_channels_last(t->ndim));
}

static rush_tensor *as_last(rush_tensor *t)
{
    int64_t stride[RUSH_MAXDIM];
    if (is_last(t) && !(t->flags & (RUSH_T_NEG | RUSH_T_CONJ))) return t;
    rush_strides_for(rush_channels_last(t->ndim), t->ndim, t->size, stride);
    rush_tensor *copy = rush_tensor_new_strided(t->dtype, t->device, t->ndim, t->size, stride);
    return copy && !rush_copy_into(copy, t) ? copy : NULL;
}

static void lay_out_2(const rush_weight *w, void *to)
{
    rush_k_winograd->lay_out(2, w->k, w->n, w->at, w->n_step, w->k_step, w->tap_step, to);
}

static void lay_out_4(const rush_weight *w, void *to)
{
    rush_k_winograd->lay_out(4, w->k, w->n, w->at, w->n_step, w->k_step, w->tap_step, to);
}

/* By fewer products, where the weight changes no more. Eager calls keep to the order of sums that oneDNN has. */
static bool by_winograd(const rush_conv *c, const rush_tensor *x, const rush_tensor *w, const float *bias, float *y)
{
    int side = w->ndim == 4 ? rush_k_winograd->side(c) : 0;
    if (!side) return false;
    const void *laid_out = rush_laid_out(w, &(rush_weight){rush_ptr(w), c->in, c->out, w->stride[1], w->stride[0], w->stride[3],
                                                           rush_k_winograd->weight_size(side, c->in, c->out), side == 2 ? lay_out_2 : lay_out_4});
    return laid_out && rush_k_winograd->forward(c, side, rush_ptr(x), laid_out, bias, y);
}

static void lay_out_taps(const rush_weight *w, void *to)
{
    const float *from = w->at;
    for (int64_t t = 0; t < w->k; ++t)
        for (int64_t o = 0; o < w->n; ++o) ((float *)to)[t * w->n + o] = from[o * w->n_step + t * w->tap_step];
}

/* Each channel by itself, in the order of sums that our loops for channels first have. 1, 0 or -1 as product_last(). */
static int by_channels(const rush_conv *c, const rush_tensor *x, const rush_tensor *w, const float *bias, float *y)
{
    if (w->ndim != 4 || c->groups == 1 || c->groups != c->in || c->in != c->out) return 0;
    rush_weight taps = {rush_ptr(w), c->kernel[1] * c->kernel[2], c->out, 0, w->stride[0], w->stride[3],
                        sizeof(float) * (size_t)(c->kernel[1] * c->kernel[2] * c->out), lay_out_taps};
    const void *laid_out = rush_laid_out_now(w, &taps);
    if (!laid_out) return -1;
    rush_k_depthwise->forward(c, rush_ptr(x), laid_out, bias, y);
    return 1;
}

/* Images with channels last, which oneDNN takes as they are: 1 done, 0 go another way, -1 an error. */
static int product_last(int what, const rush_conv *c, rush_tensor *a, rush_tensor *b, const rush_tensor *bias, rush_tensor *to)
{
    rush_dtype d = to->dtype;
    bool images = what == GRAD_WEIGHT ? is_last(a) || is_last(b) : is_last(to);
    if (!images || (d != RUSH_F32 && d != RUSH_BF16)) return 0;
    a = as_last(a);
    bool weight_last = what != GRAD_WEIGHT && is_last(b) && !(b->flags & RUSH_T_NEG);
    b = what == GRAD_WEIGHT ? as_last(b) : weight_last ? b : rush_contiguous_copy(b);
    rush_tensor *y = what != GRAD_WEIGHT || rush_contiguous(to) ? to : rush_tensor_new(d, to->device, to->ndim, to->size);
    if (bias) bias = rush_contiguous_copy(bias);
    if (rush_failed()) return -1;
    if (what == FORWARD && d == RUSH_F32 && by_winograd(c, a, b, bias ? rush_ptr(bias) : NULL, rush_ptr(y))) return 1;
    if (!by_engine(what, c, d, true, weight_last, rush_ptr(a), rush_ptr(b), bias && what == FORWARD ? rush_ptr(bias) : NULL, rush_ptr(y)))
        return what == FORWARD && d == RUSH_F32 ? by_channels(c, a, b, bias ? rush_ptr(bias) : NULL, rush_ptr(y)) : 0;
    if (bias && what != FORWARD && add_bias(y, bias)) return -1;
    return y == to || !rush_copy_into(to, y) ? 1 : -1;
}

static int product_of(int what, const rush_conv *c, rush_tensor *a, rush_tensor *b, rush_tensor *bias, rush_tensor *to)
{
    rush_dtype d = to->dtype, in = rush_dtypes[d].category <= 1 ? RUSH_I64 : d == RUSH_F16 || d == RUSH_BF16 ? RUSH_F32 : d;
    if (!to->numel) return 0;
    if (!a->numel || !b->numel) {
        rush_zero_into(to);
        return bias ? add_bias(to, bias) : 0;
    }
    int last = product_last(what, c, a, b, bias, to);
    if (last) return last < 0 ? -1 : 0;
    bool cplx = rush_dtype_is_complex(in), direct = in == d && rush_contiguous(to);
    if (d == RUSH_BF16 && rush_contiguous(to)) {
        rush_tensor *ca = rush_contiguous_copy(a), *cb = rush_contiguous_copy(b), *cs = bias ? rush_contiguous_copy(bias) : NULL;
        if (rush_failed()) return -1;
        if (by_engine(what, c, d, false, false, rush_ptr(ca), rush_ptr(cb), cs && what == FORWARD ? rush_ptr(cs) : NULL, rush_ptr(to)))
            return cs && what != FORWARD ? add_bias(to, cs) : 0;
    }
    a = rush_cast_copy(a, in);
    b = rush_cast_copy(b, in);
    if (bias) bias = rush_cast_copy(bias, in);
    rush_tensor *y = direct ? to : rush_tensor_new(in, to->device, to->ndim, to->size);
    if (rush_failed()) return -1;
    if (cplx && product_complex(what, c, a, b, y)) return -1;
    if (!cplx) product_real(what, c, in, rush_ptr(a), rush_ptr(b), bias && what == FORWARD ? rush_ptr(bias) : NULL, rush_ptr(y));
    if (rush_failed() || (bias && (cplx || what != FORWARD) && add_bias(y, bias))) return -1;
    return direct ? 0 : rush_copy_into(to, y);
}

/* Result `to` of any strides from tensors of any strides and one dtype; bias may be NULL. */
static int product(int what, const rush_conv *c, rush_tensor *a, rush_tensor *b, rush_tensor *bias, rush_tensor *to)
{
    if (what == FORWARD) rush_engine_settled(b->storage, rush_ptr(b));
    int failed = product_of(what, c, a, b, bias, to);
    rush_engine_settled(NULL, NULL);
    return failed;
}

/* ---- convolution ---- */

static int convolution_dtype(const rush_tensor *t)
{
    rush_dtype d = t->dtype;
    bool ok = d == RUSH_F32 || d == RUSH_F64 || d == RUSH_F16 || d == RUSH_BF16 || d == RUSH_C64 || d == RUSH_C128 || rush_dtypes[d].category == 1;
    RUSH_CHECK(ok, RUSH_NOT_IMPLEMENTED, "\"slow_conv2d_cpu\" not implemented for '%s'", rush_dtype_word(d));
    return 0;
}

/* Channels-last in gives channels-last out, by the input or the weight. */
static rush_tensor *result_of(rush_value *out, int i, const rush_tensor *x, const rush_tensor *w, int ndim, const int64_t *size)
{
    rush_memory_format f = rush_format_of(x);
    return rush_out_format(out, i, f == RUSH_CONTIGUOUS && w->ndim == ndim ? rush_format_of(w) : f, x, x->dtype, ndim, size);
}

static int convolution_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *w = in[1].t, *b = T_(in[2]);
    rush_conv c;
    int64_t size[RUSH_MAXDIM];
    if (rush_conv_geometry(&c, x, w, in + 3, size)) return -1;
    RUSH_CHECK(x->dtype == w->dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s: Input type (%s) and weight type (%s) should be the same", rush_dtype_word(x->dtype),
               rush_dtype_word(w->dtype), rush_dtypes[x->dtype].c_type, rush_dtypes[w->dtype].c_type);
    RUSH_CHECK(!b || b->dtype == x->dtype, RUSH_RUNTIME_ERROR, "Input type (%s) and bias type (%s) should be the same", rush_dtypes[x->dtype].c_type,
               rush_dtypes[b ? b->dtype : 0].c_type);
    RUSH_CHECK(!b || (b->ndim == 1 && b->size[0] == size[1]), RUSH_RUNTIME_ERROR,
               "Given %sweight of size %s, expected bias to be 1-dimensional with %lld elements, but got bias of size %s instead",
               I_(in[3 + RUSH_CONV_TRANSPOSED]) ? "transposed=1, " : "", rush_shape_of(w), (long long)size[1], b ? rush_shape_of(b) : "");
    if (convolution_dtype(x)) return -1;
    return result_of(out, 0, x, w, x->ndim, size) ? 0 : -1;
}

static void convolution_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_conv c;
    int64_t size[RUSH_MAXDIM];
    if (rush_conv_geometry(&c, in[0].t, in[1].t, in + 3, size)) return;
    product(I_(in[3 + RUSH_CONV_TRANSPOSED]) ? GRAD_INPUT : FORWARD, &c, in[0].t, in[1].t, T_(in[2]), out[0].t);
}

static void convolution_grad(rush_grads *s)
{
    const rush_value *a = s->in;
    rush_value out[3], bias = RUSH_NONE;
    int64_t mask[3] = {rush_needs(s, 0), rush_needs(s, 1), rush_needs(s, 2)};
    if (HAS(a[2])) bias = rush_v_ints(a[2].t->size, 1);
    if (TN(out, "convolution_backward", V(s->g[0]), a[0], a[1], bias, a[3], a[4], a[5], a[6], a[7], a[8], rush_v_ints(mask, 3))) return;
    for (int i = 0; i < 3; ++i)
        if (mask[i]) s->gin[i] = T_(out[i]);
}

static rush_op op_convolution = {
    .schema = "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
              "SymInt[] output_padding, SymInt groups) -> Tensor",
    .doc = "Convolution (cross-correlation) of a batch (n, in, space...) with weight (out, in / groups, kernel...), in one to three "
           "dimensions. Transposed: the weight is (in, out / groups, kernel...) and each input element is spread over its window.",
    .shape = convolution_shape, .cpu = convolution_cpu, .grad = convolution_grad, .saves = "input@weight, weight@input",
    .flags = RUSH_AUTOCAST_LOW | RUSH_HANDS_ON,
};

/* ---- its gradients, which have one themselves ---- */

/* convolution_backward's arguments as convolution's: stride and what follows are at 4. */
static int backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *g = in[0].t, *x = in[1].t, *w = in[2].t;
    rush_conv c;
    int64_t size[RUSH_MAXDIM];
    if (rush_conv_geometry(&c, x, w, in + 4, size)) return -1;
    RUSH_CHECK(g->ndim == x->ndim && !memcmp(g->size, size, sizeof *size * g->ndim), RUSH_RUNTIME_ERROR,
               "grad_output of size %s does not fit the convolution's result %s", rush_shape_of(g), rush_shape_text(x->ndim, size));
    RUSH_CHECK(g->dtype == x->dtype && g->dtype == w->dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s",
               rush_dtype_word(x->dtype), rush_dtype_word(g->dtype == x->dtype ? w->dtype : g->dtype));
    const int64_t *mask = in[10].ints;
    if (mask[0] && !result_of(out, 0, x, w, x->ndim, x->size)) return -1;
    if (mask[1] && !result_of(out, 1, x, w, w->ndim, w->size)) return -1;
    if (mask[2] && !rush_out_t(out, 2, g, g->dtype, 1, &size[1])) return -1;
    return 0;
}

static rush_tensor *conjugate(rush_tensor *t)
{
    if (!rush_dtype_is_complex(t->dtype)) return t;
    rush_tensor *c = rush_tensor_alias(t, t->ndim, t->size, t->stride, t->offset);
    if (c) c->flags ^= RUSH_T_CONJ;
    return c;
}

/* The gradients of weight and bias at once, where oneDNN does the product: its sums are PyTorch's. */
static bool both_gradients(const rush_conv *c, rush_tensor *g, rush_tensor *x, rush_tensor *gw, rush_tensor *gb)
{
    bool plain = gw->dtype == RUSH_F32 && gb->dtype == RUSH_F32 && rush_contiguous(gw) && rush_contiguous(gb);
    if (!plain || !g->numel || !x->numel || is_last(g) || is_last(x)) return false;
    g = rush_contiguous_copy(g);
    x = rush_contiguous_copy(x);
    return g && x && by_engine(GRAD_WEIGHT, c, RUSH_F32, false, false, rush_ptr(g), rush_ptr(x), rush_ptr(gb), rush_ptr(gw));
}

static void backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = in[0].t, *x = conjugate(in[1].t), *w = conjugate(in[2].t);
    bool transposed = I_(in[4 + RUSH_CONV_TRANSPOSED]);
    rush_conv c;
    int64_t size[RUSH_MAXDIM];
    if (!x || !w || rush_conv_geometry(&c, x, w, in + 4, size)) return;
    if (HAS(out[0]) && HAS(out[1])) { /* both products read g */
        g = is_last(g) ? g : rush_contiguous_copy(g);
        if (!g) return;
        rush_engine_share(rush_ptr(g));
    }
    if (HAS(out[0])) product(transposed ? FORWARD : GRAD_INPUT, &c, g, w, NULL, out[0].t);
    bool summed = HAS(out[1]) && HAS(out[2]) && !transposed && both_gradients(&c, g, x, out[1].t, out[2].t);
    if (HAS(out[1]) && !summed) product(GRAD_WEIGHT, &c, transposed ? x : g, transposed ? g : x, NULL, out[1].t);
    rush_engine_share(NULL);
    if (!HAS(out[2]) || summed) return;
    int64_t dims[4] = {0, 2, 3, 4};
    uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    rush_tensor *sum = T("sum.dim_IntList", V(g), rush_v_ints(dims, (size_t)g->ndim - 1), V(false));
    rush_now.mode = mode;
    if (sum) rush_copy_into(out[2].t, sum);
}

/* gi = B(g, w), gw = C(g, x), gb = sum(g). Against ggi and ggw: g meets conv(ggi, w) + conv(x, ggw), w meets C(g, ggi),
 * x meets B(g, ggw). */
static void backward_grad(rush_grads *s)
{
    const rush_value *a = s->in;
    rush_tensor *g = a[0].t, *x = a[1].t, *w = a[2].t, *ggi = s->g[0], *ggw = s->g[1], *ggb = s->g[2];
    if (rush_needs(s, 0)) {
        rush_tensor *sum = NULL, *term;
        if (ggi) sum = T("convolution", V(ggi), V(w), RUSH_NONE, a[4], a[5], a[6], a[7], a[8], a[9]);
        if (ggw) {
            term = T("convolution", V(x), V(ggw), RUSH_NONE, a[4], a[5], a[6], a[7], a[8], a[9]);
            sum = sum ? add(sum, term) : term;
        }
        if (ggb) {
            int64_t size[5] = {1, ggb->size[0], 1, 1, 1};
            term = T("expand", V(T("view", V(ggb), rush_v_ints(size, g->ndim))), rush_v_ints(g->size, g->ndim));
            sum = sum ? add(sum, term) : term;
        }
        s->gin[0] = sum;
    }
    rush_value out[3];
    if (rush_needs(s, 1) && ggw) {
        int64_t mask[3] = {1, 0, 0};
        if (TN(out, "convolution_backward", V(g), V(x), V(ggw), RUSH_NONE, a[4], a[5], a[6], a[7], a[8], a[9], rush_v_ints(mask, 3))) return;
        s->gin[1] = T_(out[0]);
    }
    if (rush_needs(s, 2) && ggi) {
        int64_t mask[3] = {0, 1, 0};
        if (TN(out, "convolution_backward", V(g), V(ggi), V(w), RUSH_NONE, a[4], a[5], a[6], a[7], a[8], a[9], rush_v_ints(mask, 3))) return;
        s->gin[2] = T_(out[1]);
    }
}

static rush_op op_convolution_backward = {
    .schema = "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, "
              "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc = "Gradients of convolution by input, weight and bias; those without a bit in output_mask are None.",
    .shape = backward_shape, .cpu = backward_cpu, .grad = backward_grad, .saves = "grad_output, input, weight",
};

/* ---- the forms with a fixed number of dimensions ---- */

/* The input with a batch dimension; *added tells whether it had none. */
static rush_tensor *batched(rush_tensor *x, int nd, const char *name, bool *added)
{
    *added = x->ndim == nd + 1;
    RUSH_CHECK_NULL(*added || x->ndim == nd + 2, RUSH_RUNTIME_ERROR,
                    "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s", nd + 1, nd + 2, name, rush_shape_of(x));
    return *added ? unsqueeze(x, 0) : x;
}

static int conv(const rush_value *in, rush_value *out, int nd, const char *name)
{
    bool added;
    rush_tensor *x = batched(in[0].t, nd, name, &added);
    int64_t zero[3] = {0};
    rush_tensor *y = T("convolution", V(x), in[1], in[2], in[3], in[4], in[5], V(false), rush_v_ints(zero, nd), in[6]);
    return rush_result(out, added ? squeeze(y, 0) : y);
}

static int conv1d_run(const rush_op *op, const rush_value *in, rush_value *out) { return conv(in, out, 1, "conv1d"); }
static int conv2d_run(const rush_op *op, const rush_value *in, rush_value *out) { return conv(in, out, 2, "conv2d"); }
static int conv3d_run(const rush_op *op, const rush_value *in, rush_value *out) { return conv(in, out, 3, "conv3d"); }

#define CONV(n, one, zero)                                                                                                                   \
    "conv" #n "d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[" #n "] stride=" one ", SymInt[" #n "] padding=" zero ", SymInt[" #n \
    "] dilation=" one ", SymInt groups=1) -> Tensor"
#define CONV_SAME(n, one)                                                                                                                    \
    "conv" #n "d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[" #n "] stride=" one ", str padding=\"valid\", SymInt[" #n \
    "] dilation=" one ", SymInt groups=1) -> Tensor"
static rush_op op_conv1d = {.schema = CONV(1, "1", "0"), .doc = "Convolution of (n, in, length) or (in, length); see convolution.", .run = conv1d_run};
static rush_op op_conv2d = {.schema = CONV(2, "1", "0"), .doc = "Convolution of (n, in, height, width), or one image; see convolution.", .run = conv2d_run};
static rush_op op_conv3d = {.schema = CONV(3, "1", "0"), .doc = "Convolution of (n, in, depth, height, width), or one volume; see convolution.", .run = conv3d_run};

/* Padding by name: "valid" is none; "same" keeps the size, with the odd zero behind. Arguments of conv.padding. */
static int conv_named(const rush_value *in, rush_value *out, int nd, const char *name)
{
    bool added;
    rush_tensor *x = batched(in[0].t, nd, name, &added), *w = in[1].t;
    int64_t stride[3] = {1}, dilation[3] = {1}, padding[3] = {0}, extra[6] = {0};
    if (!x) return -1;
    RUSH_CHECK(w->ndim == nd + 2, RUSH_RUNTIME_ERROR, "expected a weight of %d dimensions, but got size %s", nd + 2, rush_shape_of(w));
    bool same = !strcmp(in[4].s, "same"), odd = false;
    RUSH_CHECK(same || !strcmp(in[4].s, "valid"), RUSH_RUNTIME_ERROR, "Invalid padding string: '%s'", in[4].s);
    if (spread(in[3], nd, stride, "stride") || spread(in[5], nd, dilation, "dilation")) return -1;
    for (int i = 0; same && i < nd; ++i) {
        RUSH_CHECK(stride[i] == 1, RUSH_RUNTIME_ERROR, "padding='same' is not supported for strided convolutions");
        int64_t total;
        RUSH_CHECK(!__builtin_mul_overflow(dilation[i], w->size[i + 2] - 1, &total), RUSH_RUNTIME_ERROR, "dilation %lld is too large", (long long)dilation[i]);
        padding[i] = total / 2;
        extra[2 * (nd - 1 - i) + 1] = total % 2;
        odd = odd || total % 2;
    }
    if (odd) {
        rush_log(1, "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be created");
        x = T("constant_pad_nd", V(x), rush_v_ints(extra, (size_t)nd * 2), V(0));
    }
    int64_t zero[3] = {0};
    rush_tensor *y = T("convolution", V(x), in[1], in[2], in[3], rush_v_ints(padding, nd), in[5], V(false), rush_v_ints(zero, nd), in[6]);
    return rush_result(out, added ? squeeze(y, 0) : y);
}

static int conv1d_named(const rush_op *op, const rush_value *in, rush_value *out) { return conv_named(in, out, 1, "conv1d"); }
static int conv2d_named(const rush_op *op, const rush_value *in, rush_value *out) { return conv_named(in, out, 2, "conv2d"); }
static int conv3d_named(const rush_op *op, const rush_value *in, rush_value *out) { return conv_named(in, out, 3, "conv3d"); }

static rush_op op_conv1d_padding = {.schema = CONV_SAME(1, "1"), .doc = "conv1d with padding \"same\" or \"valid\".", .run = conv1d_named};
static rush_op op_conv2d_padding = {.schema = CONV_SAME(2, "1"), .doc = "conv2d with padding \"same\" or \"valid\".", .run = conv2d_named};
static rush_op op_conv3d_padding = {.schema = CONV_SAME(3, "1"), .doc = "conv3d with padding \"same\" or \"valid\".", .run = conv3d_named};

static int convolution_mode_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return conv_named(in, out, in[0].t->ndim - 2, "convolution");
}

static rush_op op_convolution_mode = {
    .schema = "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation, SymInt groups) -> Tensor",
    .doc = "convolution with padding \"same\" or \"valid\".", .run = convolution_mode_run, .flags = RUSH_HIDDEN,
};

static int conv_transpose(const rush_value *in, rush_value *out, int nd, const char *name)
{
    bool added;
    rush_tensor *x = batched(in[0].t, nd, name, &added);
    rush_tensor *y = T("convolution", V(x), in[1], in[2], in[3], in[4], in[7], V(true), in[5], in[6]);
    return rush_result(out, added ? squeeze(y, 0) : y);
}

static int conv_transpose1d_run(const rush_op *op, const rush_value *in, rush_value *out) { return conv_transpose(in, out, 1, "conv_transpose1d"); }
static int conv_transpose2d_run(const rush_op *op, const rush_value *in, rush_value *out) { return conv_transpose(in, out, 2, "conv_transpose2d"); }
static int conv_transpose3d_run(const rush_op *op, const rush_value *in, rush_value *out) { return conv_transpose(in, out, 3, "conv_transpose3d"); }

#define CONV_TRANSPOSE(n, overload)                                                                                                   \
    "conv_transpose" #n "d" overload "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[" #n "] stride=1, SymInt[" #n           \
    "] padding=0, SymInt[" #n "] output_padding=0, SymInt groups=1, SymInt[" #n "] dilation=1) -> Tensor"
static rush_op op_conv_transpose1d = {.schema = CONV_TRANSPOSE(1, ""), .doc = "Transposed convolution in one dimension; see convolution.",
                                      .run = conv_transpose1d_run};
static rush_op op_conv_transpose2d = {.schema = CONV_TRANSPOSE(2, ".input"), .doc = "Transposed convolution in two dimensions; see convolution.",
                                      .run = conv_transpose2d_run};
static rush_op op_conv_transpose3d = {.schema = CONV_TRANSPOSE(3, ".input"), .doc = "Transposed convolution in three dimensions; see convolution.",
                                      .run = conv_transpose3d_run};

static int old_convolution_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("convolution", in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8]));
}

static rush_op op_old_convolution = {
    .schema = "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
              "SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
    .doc = "convolution, as TorchScript programs name it.", .run = old_convolution_run, .flags = RUSH_HIDDEN,
};
static rush_op op_older_convolution = {
    .schema = "_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
              "int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor",
    .doc = "convolution, as older TorchScript programs name it.", .run = old_convolution_run, .flags = RUSH_HIDDEN,
};

/* Time, batch, channels: (t, n, in) with weight (kernel, in, out). */
static int conv_tbc_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *w = in[1].t, *b = in[2].t;
    RUSH_CHECK(x->ndim == 3, RUSH_RUNTIME_ERROR, "Input must have 3 dims: time, batch, in_channel");
    RUSH_CHECK(w->ndim == 3, RUSH_RUNTIME_ERROR, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels");
    RUSH_CHECK(b->ndim == 1, RUSH_RUNTIME_ERROR, "Bias must be 1-D");
    RUSH_CHECK(x->size[2] == w->size[1], RUSH_RUNTIME_ERROR, "Input dim 2 (input channels) is not == dim 1 in the weight tensor");
    RUSH_CHECK(b->size[0] == w->size[2], RUSH_RUNTIME_ERROR, "Bias size must equal dim 2 in the weight tensor (output channels)");
    rush_tensor *y = T("convolution", V(T("permute", V(x), INTS(1, 2, 0))), V(T("permute", V(w), INTS(2, 1, 0))), V(b), INTS(1),
                       rush_v_ints(&in[3].i, 1), INTS(1), V(false), INTS(0), V(1));
    return rush_result(out, T("contiguous", V(T("permute", V(y), INTS(2, 0, 1)))));
}

static rush_op op_conv_tbc = {
    .schema = "conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
    .doc = "conv1d of (time, batch, in) with weight (kernel, in, out).", .run = conv_tbc_run, .flags = RUSH_AUTOCAST_LOW,
};

RUSH_FAMILY(conv, &op_convolution, &op_convolution_backward, &op_conv1d, &op_conv2d, &op_conv3d, &op_conv1d_padding, &op_conv2d_padding,
            &op_conv3d_padding, &op_convolution_mode, &op_conv_transpose1d, &op_conv_transpose2d, &op_conv_transpose3d, &op_old_convolution,
            &op_older_convolution, &op_conv_tbc)
