/* test_conv.c - convolutions against plain loops; the gradients against the adjoint identity <g, Kx> = <K'g, x>. */
#include "suite/suite.h"
#include <rushlight.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int64_t n, in, out, groups, h, w, kh, kw, stride, pad, dilation, output_padding;
    bool transposed;
} shape;

static double noise(int64_t i) { return sin((double)(i * i % 1009) + 0.3 * (double)(i % 17)); }

static rush_tensor *numbers(rush_dtype dtype, int64_t seed, int n, const int64_t *size)
{
    int64_t count = 1;
    for (int i = 0; i < n; ++i) count *= size[i];
    double *d = malloc(sizeof *d * (size_t)(count + 1));
    for (int64_t i = 0; i < count; ++i) {
        if (dtype == RUSH_F32) ((float *)d)[i] = (float)noise(i + seed);
        else d[i] = noise(i + seed);
    }
    rush_tensor *t = rush_from_data(d, dtype, n, size);
    free(d);
    return t;
}

static double at(const rush_tensor *t, int64_t i)
{
    return rush_dtype_of(t) == RUSH_F32 ? ((float *)rush_data(t))[i] : ((double *)rush_data(t))[i];
}

static double inner(const rush_tensor *a, const rush_tensor *b)
{
    double s = 0;
    for (int64_t i = 0; i < rush_numel(a); ++i) s += at(a, i) * at(b, i);
    return s;
}

/* Of large results every so many-th element: a step that is odd, so that it meets all columns. */
static void plain(const shape *s, const rush_tensor *x, const rush_tensor *w, const rush_tensor *y, double tolerance)
{
    int64_t oh = rush_size(y, 2), ow = rush_size(y, 3), icg = s->in / s->groups, ocg = s->out / s->groups;
    for (int64_t at_y = 0, step = rush_numel(y) / 1000 | 1; at_y < rush_numel(y); at_y += step) {
        int64_t n = at_y / (s->out * oh * ow), o = at_y / (oh * ow) % s->out, i = at_y / ow % oh, j = at_y % ow;
        double sum = 0;
        for (int64_t c = 0; c < icg; ++c)
            for (int64_t a = 0; a < s->kh; ++a)
                for (int64_t b = 0; b < s->kw; ++b) {
                    int64_t h = i * s->stride - s->pad + a * s->dilation, v = j * s->stride - s->pad + b * s->dilation;
                    if (h < 0 || h >= s->h || v < 0 || v >= s->w) continue;
                    sum += at(x, ((n * s->in + o / ocg * icg + c) * s->h + h) * s->w + v) * at(w, ((o * icg + c) * s->kh + a) * s->kw + b);
                }
        assert_float_equal(at(y, at_y), sum, tolerance * (1 + fabs(sum)));
    }
}

static rush_value convolution_args(const shape *s, rush_value *in, int from, const int64_t *numbers4)
{
    in[from] = rush_v_ints(&numbers4[0], 1);
    in[from + 1] = rush_v_ints(&numbers4[1], 1);
    in[from + 2] = rush_v_ints(&numbers4[2], 1);
    in[from + 3] = rush_v_bool(s->transposed);
    in[from + 4] = rush_v_ints(&numbers4[3], 1);
    in[from + 5] = rush_v_int(s->groups);
    return RUSH_NONE;
}

static void check(rush_dtype dtype, const shape *s)
{
    double tolerance = dtype == RUSH_F32 ? 2e-5 : 1e-11;
    rush_scope() {
        int64_t four[4] = {s->stride, s->pad, s->dilation, s->output_padding};
        rush_tensor *x = numbers(dtype, 1, 4, (int64_t[]){s->n, s->in, s->h, s->w});
        rush_tensor *w = s->transposed ? numbers(dtype, 5, 4, (int64_t[]){s->in, s->out / s->groups, s->kh, s->kw})
                                       : numbers(dtype, 5, 4, (int64_t[]){s->out, s->in / s->groups, s->kh, s->kw});
        rush_value in[11] = {rush_v_tensor(x), rush_v_tensor(w), RUSH_NONE}, out[3] = {0};
        convolution_args(s, in, 3, four);
        rush_tensor *y = rush_apply(rush_op_find("convolution"), 9, in);
        assert_null(rush_error());
        if (!s->transposed) plain(s, x, w, y, tolerance);
        rush_tensor *g = numbers(dtype, 77, 4, rush_sizes(y));
        assert_null(rush_error());
        rush_value back[11] = {rush_v_tensor(g), rush_v_tensor(x), rush_v_tensor(w), RUSH_NONE};
        convolution_args(s, back, 4, four);
        back[10] = rush_v_ints((int64_t[]){1, 1, 0}, 3);
        assert_int_equal(rush_call(rush_op_find("convolution_backward"), back, out), 0);
        double forward = inner(y, g), scale = tolerance * (double)rush_numel(y);
        assert_float_equal(forward, inner(out[0].t, x), scale);
        assert_float_equal(forward, inner(out[1].t, w), scale);
        for (int64_t i = 0; i < rush_numel(w); i += 1 + rush_numel(w) / 7) { /* the weight's gradient, one by one: y is linear in w */
            rush_tensor *unit = numbers(dtype, 0, 4, rush_sizes(w));
            assert_null(rush_error());
            memset(rush_data(unit), 0, (size_t)rush_numel(w) * rush_dtype_size(dtype));
            if (dtype == RUSH_F32) ((float *)rush_data(unit))[i] = 1;
            else ((double *)rush_data(unit))[i] = 1;
            in[1] = rush_v_tensor(unit);
            rush_tensor *one = rush_apply(rush_op_find("convolution"), 9, in);
            assert_null(rush_error());
            assert_float_equal(at(out[1].t, i), inner(one, g), scale);
        }
    }
}

static void all_shapes(void **state)
{
    static const shape shapes[] = {
        {.n = 2, .in = 3, .out = 5, .groups = 1, .h = 9, .w = 11, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1},
        {.n = 1, .in = 16, .out = 33, .groups = 1, .h = 40, .w = 37, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1},
        {.n = 3, .in = 4, .out = 6, .groups = 2, .h = 8, .w = 8, .kh = 3, .kw = 2, .stride = 2, .pad = 1, .dilation = 1},
        {.n = 2, .in = 8, .out = 8, .groups = 8, .h = 12, .w = 35, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1},
        {.n = 2, .in = 8, .out = 16, .groups = 8, .h = 12, .w = 13, .kh = 5, .kw = 3, .stride = 2, .pad = 2, .dilation = 1},
        {.n = 2, .in = 4, .out = 4, .groups = 1, .h = 10, .w = 20, .kh = 3, .kw = 3, .stride = 1, .pad = 2, .dilation = 2},
        {.n = 2, .in = 40, .out = 20, .groups = 1, .h = 7, .w = 7, .kh = 1, .kw = 1, .stride = 1, .pad = 0, .dilation = 1},
        {.n = 2, .in = 10, .out = 20, .groups = 1, .h = 8, .w = 8, .kh = 1, .kw = 1, .stride = 2, .pad = 0, .dilation = 1},
        {.n = 16, .in = 70, .out = 30, .groups = 1, .h = 4, .w = 4, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1},
        {.n = 2, .in = 32, .out = 64, .groups = 1, .h = 7, .w = 7, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1},
        {.n = 1, .in = 48, .out = 16, .groups = 1, .h = 9, .w = 16, .kh = 5, .kw = 5, .stride = 2, .pad = 2, .dilation = 1},
        {.n = 1, .in = 3, .out = 8, .groups = 1, .h = 31, .w = 70, .kh = 7, .kw = 7, .stride = 2, .pad = 3, .dilation = 1},
        {.n = 2, .in = 3, .out = 4, .groups = 1, .h = 5, .w = 6, .kh = 3, .kw = 3, .stride = 1, .pad = 5, .dilation = 1},
        {.n = 2, .in = 6, .out = 4, .groups = 2, .h = 5, .w = 6, .kh = 3, .kw = 3, .stride = 2, .pad = 1, .dilation = 1, .output_padding = 1, .transposed = true},
        {.n = 2, .in = 6, .out = 4, .groups = 1, .h = 9, .w = 6, .kh = 4, .kw = 3, .stride = 1, .pad = 1, .dilation = 2, .transposed = true},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        check(RUSH_F32, &shapes[i]);
        check(RUSH_F64, &shapes[i]);
    }
}

static rush_tensor *channels(rush_tensor *t, int64_t dim0, int64_t dim1)
{
    rush_tensor *part = rush_narrow(t, 1, 0, dim1);
    return rush_contiguous(dim0 ? rush_narrow(part, 0, 0, dim0) : part);
}

/* oneDNN fills its blocks of 16 with zeros. Few channels go to it, too, as in PyTorch: their sums are those of 16 with zeros, to the last bit. */
static void few_channels(void **state)
{
    (void)state;
#if !defined(__x86_64__)
    skip(); /* other processors have other blocks */
#endif
    if (!strstr(rush_engines(), "oneDNN")) skip();
    rush_scope() {
        rush_tensor *x = numbers(RUSH_F32, 1, 4, (int64_t[]){8, 10, 12, 12}), *w = numbers(RUSH_F32, 2, 4, (int64_t[]){20, 10, 5, 5});
        rush_tensor *g = numbers(RUSH_F32, 3, 4, (int64_t[]){8, 20, 8, 8}), *leaves[2], *few[2], *many[2];
        leaves[0] = rush_requires_grad_set(x, true), leaves[1] = rush_requires_grad_set(w, true);
        rush_tensor *y = rush_conv2d(x, w);
        assert_int_equal(rush_grad_of(1, &y, &g, 2, leaves, few, false, false, false), 0);
        leaves[0] = rush_requires_grad_set(rush_constant_pad_nd(rush_detach(x), RUSH_INTS(0, 0, 0, 0, 0, 6)), true);
        leaves[1] = rush_requires_grad_set(rush_constant_pad_nd(rush_detach(w), RUSH_INTS(0, 0, 0, 0, 0, 6, 0, 12)), true);
        rush_tensor *wide = rush_conv2d(leaves[0], leaves[1]), *gs = rush_constant_pad_nd(g, RUSH_INTS(0, 0, 0, 0, 0, 12));
        assert_int_equal(rush_grad_of(1, &wide, &gs, 2, leaves, many, false, false, false), 0);
        assert_true(rush_equal(y, channels(wide, 0, 20)).i);
        assert_true(rush_equal(few[0], channels(many[0], 0, 10)).i);
        assert_true(rush_equal(few[1], channels(many[1], 20, 10)).i);
        assert_null(rush_error());
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_shapes), cmocka_unit_test(few_channels)};
    return SUITE(tests);
}
