/* upsample.c - changing the size of images: nearest, linear and cubic in their dimensions, with and without
 * antialiasing.
 *
 * Every mode is the same sum along one dimension after the other, with taps that this file works out: where each
 * result looks and with which weights. The gradient applies the transposed sums. The arithmetic of positions is
 * done in the precision that PyTorch does it in, so that both round to the same neighbours.
 */
#include "op/formula.h"
#include "kernels/cpu/resample.h"
#include "op/tables.h"
#include "ops/geometry.h"

#include <math.h>

enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_AA, CUBIC_AA, LANCZOS_AA };

typedef struct mode {
    int kind, nd;
    const char *backward; /* name of the derivative's operation */
} mode;

#define HAS_ALIGN(m) ((m)->kind >= LINEAR)
#define MODE_OF(op) ((const mode *)(op)->row)

/* ---- taps ---- */

static double cubic_near(double x, double a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
static double cubic_far(double x, double a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

static double filter(int kind, double x)
{
    x = fabs(x);
    if (kind == LINEAR_AA) return x < 1 ? 1 - x : 0;
    if (kind == CUBIC_AA) return x < 1 ? cubic_near(x, -0.5) : x < 2 ? cubic_far(x, -0.5) : 0;
    if (x >= 3) return 0;
    return x == 0 ? 1 : 3 * sin(M_PI * x) * sin(M_PI * x / 3) / (M_PI * M_PI * x * x);
}

/* A position as one near or inside of n places, whatever a scale makes of it. */
static double near_places(double at, int64_t n)
{
    return at > -4 ? RUSH_MIN(at, (double)n + 4) : -4;
}

/* Adds weight w at place i, brought inside; places only grow. */
static void tap(rush_taps *t, int64_t o, int64_t i, double w)
{
    i = i < 0 ? 0 : i >= t->n ? t->n - 1 : i;
    double *to = t->weight + o * t->most;
    if (!t->count[o]) t->begin[o] = i;
    int64_t k = i - t->begin[o];
    while (t->count[o] <= k) to[t->count[o]++] = 0;
    to[k] += w;
}

/* `given` is the scale that the user named (0: none); `narrow` computes positions in float. */
static int make_taps(rush_taps *t, const mode *m, int64_t n, int64_t size, bool align, double given, bool narrow)
{
    double scale = align ? size > 1 ? (double)(n - 1) / (double)(size - 1) : 0 : given > 0 ? 1 / given : (double)n / (double)size;
    bool single = narrow || m->kind == NEAREST || m->kind == NEAREST_EXACT;
    if (single) scale = align ? size > 1 ? (float)(n - 1) / (float)(size - 1) : 0 : given > 0 ? (float)(1 / given) : (float)n / (float)size;
    double reach = m->kind == LINEAR_AA ? 1 : m->kind == CUBIC_AA ? 2 : 3, support = scale >= 1 ? reach * scale : reach;
    *t = (rush_taps){.n = n, .m = size, .repeats = m->kind <= NEAREST_EXACT, .most = m->kind >= LINEAR_AA ? RUSH_MIN((int64_t)near_places(ceil(support), n) * 2 + 1, RUSH_MAX(n, 1)) : 4};
    t->begin = rush_scope_alloc(sizeof *t->begin * 2 * (size_t)size);
    t->weight = rush_scope_alloc(sizeof *t->weight * (size_t)(size * t->most));
    if (!t->begin || !t->weight) return -1;
    t->count = t->begin + size;
    memset(t->begin, 0, sizeof *t->begin * 2 * (size_t)size);
    for (int64_t o = 0; o < size; ++o) {
        if (m->kind == NEAREST || m->kind == NEAREST_EXACT) {
            float at = m->kind == NEAREST ? floorf((float)o * (float)scale) : floorf(((float)o + 0.5f) * (float)scale);
            tap(t, o, (int64_t)near_places(at, n), 1);
        } else if (m->kind == LINEAR) {
            if (n == size) {
                tap(t, o, o, 1);
                continue;
            }
            double at = align ? scale * (double)o : scale * ((double)o + 0.5) - 0.5;
            if (narrow) at = align ? (float)scale * (float)o : (float)scale * ((float)o + 0.5f) - 0.5f;
            if (at < 0 && !align) at = 0;
            at = near_places(at, n);
            int64_t i = RUSH_MIN((int64_t)at, n - 1);
            double part = RUSH_MIN(RUSH_MAX(at - (double)i, 0), 1);
            tap(t, o, i, 1 - part);
            tap(t, o, i + 1, part);
        } else if (m->kind == CUBIC) {
            double at = align ? scale * (double)o : scale * ((double)o + 0.5) - 0.5;
            if (narrow) at = align ? (float)scale * (float)o : (float)scale * ((float)o + 0.5f) - 0.5f;
            at = near_places(at, n);
            double base = floor(at), x = at - base;
            tap(t, o, (int64_t)base - 1, cubic_far(x + 1, -0.75));
            tap(t, o, (int64_t)base, cubic_near(x, -0.75));
            tap(t, o, (int64_t)base + 1, cubic_near(1 - x, -0.75));
            tap(t, o, (int64_t)base + 2, cubic_far(2 - x, -0.75));
        } else {
            double center = scale * ((double)o + 0.5), sum = 0, inverse = scale >= 1 ? 1 / scale : 1;
            int64_t low = RUSH_MAX((int64_t)near_places(center - support + 0.5, n), 0), high = RUSH_MIN((int64_t)near_places(center + support + 0.5, n), n);
            for (int64_t i = low; i < high; ++i) {
                double w = filter(m->kind, ((double)i - center + 0.5) * inverse);
                tap(t, o, i, w);
                sum += w;
            }
            for (int64_t k = 0; k < t->count[o]; ++k) t->weight[o * t->most + k] /= sum ? sum : 1;
        }
    }
    return 0;
}

/* ---- running ---- */

/* Does the pass along a dimension change nothing? Whatever the scale where there is a filter; the gradient looks at it, as in PyTorch. */
static bool is_idle(const mode *m, int64_t from, int64_t to, double given, bool back)
{
    if (from != to || m->kind == CUBIC) return false;
    if (m->kind >= LINEAR_AA) return !back;
    return m->kind == LINEAR || given <= 0 || given == 1;
}

/* One pass along each dimension, from `first` on: the last first, where the rows are still short. x is contiguous; so is the result, of
 * x's dtype: `into` where that can be. */
static rush_tensor *passes(const mode *m, rush_tensor *x, int first, const int64_t *size, bool align, const double *given, bool narrow, bool back, rush_tensor *into)
{
    int64_t dims[RUSH_MAXDIM];
    memcpy(dims, x->size, sizeof *dims * x->ndim);
    bool f32 = x->dtype == RUSH_F32;
    int left = 0;
    for (int i = 0; i < m->nd; ++i) left += !is_idle(m, dims[first + i], size[i], given[i], back);
    if (into->dtype != x->dtype || !rush_contiguous(into) || into->flags & RUSH_T_NEG) left = 0;
    for (int i = 0; i < m->nd; ++i) {
        int at = back ? i : m->nd - 1 - i, d = first + at;
        int64_t from = dims[d], to = size[at], outer = 1, inner = 1;
        rush_taps t;
        if (is_idle(m, from, to, given[at], back)) continue;
        if (back ? make_taps(&t, m, to, from, align, given[at], narrow) : make_taps(&t, m, from, to, align, given[at], narrow)) return NULL;
        for (int k = 0; k < d; ++k) outer *= dims[k];
        for (int k = d + 1; k < x->ndim; ++k) inner *= dims[k];
        dims[d] = to;
        rush_tensor *y = --left == 0 ? into : rush_tensor_new(x->dtype, x->device, x->ndim, dims);
        if (!y) return NULL;
        const rush_tables *tables = rush_tables_of[x->device.type];
        if (RUSH_UNLIKELY(tables != NULL)) {
            if (tables->along(&t, outer, inner, x, y, back)) return NULL;
        } else if (f32 && !back) rush_k_resample->along_f32(&t, outer, inner, rush_ptr(x), rush_ptr(y));
        else if (f32) rush_k_resample->along_back_f32(&t, outer, inner, rush_ptr(x), rush_ptr(y));
        else if (!back) rush_k_resample->along_f64(&t, outer, inner, rush_ptr(x), rush_ptr(y));
        else rush_k_resample->along_back_f64(&t, outer, inner, rush_ptr(x), rush_ptr(y));
        x = y;
    }
    return x;
}

/* The weights as whole numbers of as many bits behind the point as 16 hold; how many; -1. After Pillow's resampling, as in PyTorch. */
static int whole_weights(const rush_taps *t, int16_t **whole)
{
    const int64_t room = rush_whole_weights(t);
    double largest = 0;
    int bits = 0;
    *whole = rush_scope_alloc(sizeof **whole * (size_t)(t->m * room));
    if (!*whole) return -1;
    memset(*whole, 0, sizeof **whole * (size_t)(t->m * room));
    for (int64_t o = 0; o < t->m; ++o)
        for (int64_t k = 0; k < t->count[o]; ++k) largest = RUSH_MAX(largest, t->weight[o * t->most + k]);
    while (bits < 22 && (int)(0.5 + largest * (double)(1 << (bits + 1))) < 1 << 15) ++bits;
    for (int64_t o = 0; o < t->m; ++o)
        for (int64_t k = 0; k < t->count[o]; ++k) {
            double w = t->weight[o * t->most + k];
            (*whole)[o * room + k] = (int16_t)(w * (double)(1 << bits) + (w < 0 ? -0.5 : 0.5));
        }
    return bits;
}

/* One pass of bytes, in whole numbers, along dimension d of x, which is contiguous; a row is summed with its neighbours beside it. */
static rush_tensor *byte_pass(const mode *m, const rush_tensor *x, int d, int64_t size, bool align, double given)
{
    rush_taps t;
    int16_t *weight;
    int64_t dims[4], outer = 1, inner = 1;
    if (!x || make_taps(&t, m, x->size[d], size, align, given, false)) return NULL;
    int bits = whole_weights(&t, &weight);
    memcpy(dims, x->size, sizeof dims);
    for (int i = 0; i < d; ++i) outer *= dims[i];
    for (int i = d + 1; i < 4; ++i) inner *= dims[i];
    dims[d] = size;
    rush_tensor *y = bits < 0 ? NULL : rush_tensor_new(RUSH_U8, x->device, 4, dims);
    if (y) rush_k_resample->along_u8(&t, weight, bits, outer, inner, rush_ptr(x), rush_ptr(y));
    return y;
}

/* Bytes of images, rows and then columns. Pixels of colour are summed as such, their channels together; else the rows are transposed first. */
static rush_tensor *byte_passes(const mode *m, rush_tensor *x, const int64_t *size, bool align, const double *given)
{
    const bool wide = x->size[3] != size[1], high = x->size[2] != size[0];
    if (x->size[1] == 3 || x->size[1] == 4) {
        x = rush_contiguous_copy(transpose(transpose(x, 1, 2), 2, 3));
        if (wide) x = byte_pass(m, x, 2, size[1], align, given[1]);
        if (high) x = byte_pass(m, x, 1, size[0], align, given[0]);
        return x ? transpose(transpose(x, 2, 3), 1, 2) : NULL;
    }
    if (wide) x = rush_contiguous_copy(transpose(byte_pass(m, rush_contiguous_copy(transpose(x, 2, 3)), 2, size[1], align, given[1]), 2, 3));
    else x = rush_contiguous_copy(x);
    return high ? byte_pass(m, x, 2, size[0], align, given[0]) : x;
}

/* Each result is one element of x, so its type does not matter. x and y are laid out alike, contiguous or channels last. */
static int repeat_nearest(const mode *m, const rush_tensor *x, rush_tensor *y, const double *given, bool last)
{
    const int64_t item = rush_dtypes[x->dtype].size, channels = x->size[1];
    static const int64_t zero[1] = {0};
    rush_nearest r = {x->size[0] * (last ? 1 : channels), {1, 1, 1}, {1, 1, 1}, item * (last ? channels : 1), {zero, zero, zero}};
    for (int d = 0; d < m->nd; ++d) {
        int at = 3 - m->nd + d;
        rush_taps t;
        if (make_taps(&t, m, x->size[2 + d], y->size[2 + d], false, given[d], true)) return -1;
        r.n[at] = t.n, r.m[at] = t.m, r.from[at] = t.begin;
    }
    const rush_tables *tables = rush_tables_of[x->device.type];
    if (RUSH_UNLIKELY(tables != NULL)) return tables->nearest(&r, x, y);
    rush_k_resample->nearest(&r, rush_ptr(x), rush_ptr(y));
    return 0;
}

static int resample(const mode *m, rush_tensor *x, rush_tensor *y, bool align, const double *given, bool back)
{
    if (!y->numel) return 0;
    if (m->kind <= NEAREST_EXACT && !back && x->dtype == y->dtype) {
        bool last = rush_lie_as_pixels(x, y);
        const rush_tensor *rows = last ? x : rush_contiguous_copy(x);
        rush_tensor *to = last || rush_contiguous(y) ? y : rush_tensor_new(y->dtype, y->device, y->ndim, y->size);
        if (!rows || !to || repeat_nearest(m, rows, to, given, last)) return -1;
        return to == y ? 0 : rush_copy_into(y, to);
    }
    if (x->dtype == RUSH_U8 && m->kind > NEAREST_EXACT && !back && x->device.type == RUSH_CPU) {
        rush_tensor *r = byte_passes(m, x, y->size + 2, align, given);
        return r ? rush_copy_into(y, r) : -1;
    }
    const bool narrow = x->dtype != RUSH_F64;
    const int64_t *size = y->size + 2;
    const bool last = rush_lie_as_pixels(x, x);
    rush_tensor *from = rush_cast_copy(last ? rush_pixels(x) : x, narrow ? RUSH_F32 : RUSH_F64), *into = last ? rush_pixels(y) : y;
    rush_tensor *r = from && into ? passes(m, from, last ? 1 : 2, size, align, given, narrow, back, into) : NULL;
    if (!r) return -1;
    if (y->dtype == RUSH_U8 && m->kind > NEAREST_EXACT) /* bytes are rounded, not cut */
        return rush_copy_into(into, T("clamp", V(T("floor", V(T("add.Scalar", V(r), V(0.5))))), V(0.0), V(255.0)));
    return r == into ? 0 : rush_copy_into(into, r);
}

/* ---- rules: self, output_size, [align_corners], scales of each dimension ---- */

static void read_scales(const mode *m, const rush_value *in, double *given)
{
    for (int i = 0; i < m->nd; ++i) given[i] = HAS(in[i]) ? rush_to_double(in[i]) : 0;
}

static int check_sizes(const mode *m, rush_value out_size, const int64_t *in, int n_in)
{
    RUSH_CHECK((int)out_size.n == m->nd, RUSH_RUNTIME_ERROR, "It is expected output_size equals to %d, but got size %u", m->nd, out_size.n);
    RUSH_CHECK(n_in == m->nd + 2, RUSH_RUNTIME_ERROR, "It is expected input_size equals to %d, but got size %d", m->nd + 2, n_in);
    for (int i = 0; i < m->nd; ++i)
        RUSH_CHECK(in[2 + i] > 0 && out_size.ints[i] > 0, RUSH_RUNTIME_ERROR,
                   "Input and output sizes should be greater than 0, but got input %s output %s", rush_shape_text(m->nd, in + 2),
                   rush_shape_text(m->nd, out_size.ints));
    return 0;
}

static int check_dtype(const rush_op *op, const mode *m, const rush_tensor *x)
{
    bool half = x->dtype == RUSH_F16 || x->dtype == RUSH_BF16, byte = x->dtype == RUSH_U8;
    bool ok = x->dtype == RUSH_F32 || x->dtype == RUSH_F64 || (half && m->kind < LINEAR_AA) ||
              (byte && (m->kind < LINEAR || (m->nd == 2 && m->kind >= LINEAR)));
    RUSH_CHECK(ok, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op->base, rush_dtype_word(x->dtype));
    return 0;
}

static int upsample_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const mode *m = MODE_OF(op);
    const rush_tensor *x = in[0].t;
    int64_t size[RUSH_MAXDIM];
    if (check_sizes(m, in[1], x->size, x->ndim)) return -1;
    RUSH_CHECK(x->numel || x->size[1] > 0, RUSH_RUNTIME_ERROR, "Non-empty %dD data tensor expected but got a tensor with sizes %s", m->nd + 2,
               rush_shape_of(x));
    if (check_dtype(op, m, x)) return -1;
    size[0] = x->size[0], size[1] = x->size[1];
    memcpy(size + 2, in[1].ints, sizeof *size * (size_t)m->nd);
    return rush_out_format(out, 0, rush_format_of(x), x, x->dtype, x->ndim, size) ? 0 : -1;
}

static void upsample_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const mode *m = MODE_OF(op);
    double given[3];
    read_scales(m, in + 2 + HAS_ALIGN(m), given);
    resample(m, in[0].t, out[0].t, HAS_ALIGN(m) && I_(in[2]), given, false);
}

/* grad_output, output_size, input_size, [align_corners], scales */
static int backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const mode *m = MODE_OF(op);
    const rush_tensor *g = in[0].t;
    if (check_sizes(m, in[1], in[2].ints, (int)in[2].n)) return -1;
    int64_t size[5];
    memcpy(size, in[2].ints, sizeof *size * 2);
    memcpy(size + 2, in[1].ints, sizeof *size * (size_t)m->nd);
    RUSH_CHECK(g->ndim == m->nd + 2 && !memcmp(g->size, size, sizeof *size * g->ndim), RUSH_RUNTIME_ERROR,
               "Expected grad_output to have the same shape as output; output.size = %s but got grad_output.size = %s",
               rush_shape_text(m->nd + 2, size), rush_shape_of(g));
    if (check_dtype(op, m, g)) return -1;
    const bool plain = m->kind == CUBIC || m->kind > LINEAR_AA || (m->kind <= NEAREST_EXACT && m->nd == 3); /* as PyTorch's are */
    return rush_out_format(out, 0, plain ? RUSH_CONTIGUOUS : rush_format_of(g), g, g->dtype, g->ndim, in[2].ints) ? 0 : -1;
}

static void backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const mode *m = MODE_OF(op);
    double given[3];
    read_scales(m, in + 3 + HAS_ALIGN(m), given);
    resample(m, in[0].t, out[0].t, HAS_ALIGN(m) && I_(in[3]), given, true);
}

static void upsample_grad(rush_grads *s)
{
    const mode *m = MODE_OF(s->op);
    const rush_tensor *x = s->in[0].t;
    rush_value all[8] = {rush_v_tensor(s->g[0]), s->in[1], rush_v_ints(x->size, x->ndim)}, out[1] = {RUSH_NONE};
    int n = m->nd + HAS_ALIGN(m);
    for (int i = 0; i < n; ++i) all[3 + i] = s->in[2 + i];
    const rush_op *op = rush_op_find(m->backward);
    if (op && !rush_call(op, all, out)) s->gin[0] = T_(out[0]);
}

/* The transpose of the transpose: the forward sums. */
static void backward_grad(rush_grads *s)
{
    const mode *m = MODE_OF(s->op);
    char name[64];
    size_t n = strlen(s->op->base) - strlen("_backward");
    memcpy(name, s->op->base, n);
    name[n] = 0;
    rush_value all[8] = {rush_v_tensor(s->g[0]), s->in[1]}, out[1] = {RUSH_NONE};
    for (int i = 0; i < m->nd + HAS_ALIGN(m); ++i) all[2 + i] = s->in[3 + i];
    const rush_op *op = rush_op_find(name);
    if (op && !rush_call(op, all, out)) s->gin[0] = T_(out[0]);
}

/* input, output_size?, [align_corners], scale_factors? */
static int vec_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const mode *m = MODE_OF(op);
    const rush_tensor *x = in[0].t;
    int at = 2 + HAS_ALIGN(m);
    int64_t size[3];
    RUSH_CHECK(HAS(in[1]) != HAS(in[at]), RUSH_RUNTIME_ERROR, "Must specify exactly one of output_size and scale_factors");
    RUSH_CHECK(x->ndim == m->nd + 2, RUSH_RUNTIME_ERROR, "It is expected input_size equals to %d, but got size %d", m->nd + 2, x->ndim);
    RUSH_CHECK((int)(HAS(in[1]) ? in[1].n : in[at].n) == m->nd, RUSH_RUNTIME_ERROR, "expected %d numbers, one for each dimension, but got %u", m->nd,
               HAS(in[1]) ? in[1].n : in[at].n);
    rush_value all[8] = {in[0], in[1]};
    if (!HAS(in[1])) {
        for (int i = 0; i < m->nd; ++i) size[i] = (int64_t)((double)x->size[2 + i] * in[at].floats[i]);
        all[1] = rush_v_ints(size, (size_t)m->nd);
    }
    if (HAS_ALIGN(m)) all[2] = in[2];
    for (int i = 0; i < m->nd; ++i) all[at + i] = HAS(in[at]) ? rush_v_float(in[at].floats[i]) : RUSH_NONE;
    for (const rush_op *o = rush_op_find(op->base); o; o = o->next) /* the overload without a name */
        if (!strchr(o->name, '.')) return rush_call(o, all, out);
    return rush_fail(RUSH_NOT_IMPLEMENTED, "no operation is called %s", op->base);
}

#define SCALES1 ", float? scales=None"
#define SCALES2 ", float? scales_h=None, float? scales_w=None"
#define SCALES3 ", float? scales_d=None, float? scales_h=None, float? scales_w=None"
#define UPSAMPLE(name, kind_, n, four, align, what)                                                                                            \
    static const mode mode_##name = {kind_, n, #name "_backward"};                                                                             \
    static rush_op op_##name = {.schema = #name "(Tensor self, SymInt[" #n "] output_size" align SCALES##n ") -> Tensor", .method = RUSH_NN, .doc = what, \
                                .shape = upsample_shape, .cpu = upsample_cpu, .grad = upsample_grad, .row = &mode_##name};                                                                                   \
    static rush_op op_##name##_vec = {.schema = #name ".vec(Tensor input, SymInt[]? output_size" align ", float[]? scale_factors) -> Tensor",   \
                                      .doc = what, .run = vec_run, .row = &mode_##name};                           \
    static rush_op op_##name##_backward = {                                                                                                    \
        .schema = #name "_backward(Tensor grad_output, SymInt[" #n "] output_size, SymInt[" #four "] input_size" align SCALES##n ") -> Tensor", \
        .doc = "Gradient of " #name ".", .shape = backward_shape, .cpu = backward_cpu, .grad = backward_grad, .row = &mode_##name};
#define ALIGN ", bool align_corners"

UPSAMPLE(upsample_nearest1d, NEAREST, 1, 3, "", "Resizes (n, c, length) by repeating elements.")
UPSAMPLE(upsample_nearest2d, NEAREST, 2, 4, "", "Resizes (n, c, height, width) by repeating elements.")
UPSAMPLE(upsample_nearest3d, NEAREST, 3, 5, "", "Resizes (n, c, depth, height, width) by repeating elements.")
UPSAMPLE(_upsample_nearest_exact1d, NEAREST_EXACT, 1, 3, "", "upsample_nearest1d that looks from the middle of elements.")
UPSAMPLE(_upsample_nearest_exact2d, NEAREST_EXACT, 2, 4, "", "upsample_nearest2d that looks from the middle of elements.")
UPSAMPLE(_upsample_nearest_exact3d, NEAREST_EXACT, 3, 5, "", "upsample_nearest3d that looks from the middle of elements.")
UPSAMPLE(upsample_linear1d, LINEAR, 1, 3, ALIGN, "Resizes (n, c, length), linear between neighbours.")
UPSAMPLE(upsample_bilinear2d, LINEAR, 2, 4, ALIGN, "Resizes (n, c, height, width), linear between neighbours.")
UPSAMPLE(upsample_trilinear3d, LINEAR, 3, 5, ALIGN, "Resizes (n, c, depth, height, width), linear between neighbours.")
UPSAMPLE(upsample_bicubic2d, CUBIC, 2, 4, ALIGN, "Resizes (n, c, height, width) by cubic convolution (Keys, 1981).")
UPSAMPLE(_upsample_bilinear2d_aa, LINEAR_AA, 2, 4, ALIGN, "upsample_bilinear2d with a filter as wide as the scale where it shrinks.")
UPSAMPLE(_upsample_bicubic2d_aa, CUBIC_AA, 2, 4, ALIGN, "upsample_bicubic2d with a filter as wide as the scale where it shrinks.")
UPSAMPLE(_upsample_lanczos2d_aa, LANCZOS_AA, 2, 4, ALIGN, "Resizes by Lanczos' filter of three lobes.")

#define ALL(name) &op_##name, &op_##name##_vec, &op_##name##_backward
RUSH_FAMILY(upsample, ALL(upsample_nearest1d), ALL(upsample_nearest2d), ALL(upsample_nearest3d), ALL(_upsample_nearest_exact1d),
            ALL(_upsample_nearest_exact2d), ALL(_upsample_nearest_exact3d), ALL(upsample_linear1d), ALL(upsample_bilinear2d),
            ALL(upsample_trilinear3d), ALL(upsample_bicubic2d), ALL(_upsample_bilinear2d_aa), ALL(_upsample_bicubic2d_aa),
            ALL(_upsample_lanczos2d_aa))
