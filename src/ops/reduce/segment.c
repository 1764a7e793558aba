/* segment.c - reductions of consecutive pieces of a dimension, whose lengths or bounds are given: segment_reduce.
 *
 * The dims before the axis are rows, each with segments of its own; those after it are columns. A row's segments
 * lie one behind the other from its start (lengths), or where the bounds say (offsets). Each step is rounded to data's dtype,
 * as PyTorch's are; all lies in doubles meanwhile, which hold sums, products and quotients of two such numbers so well that rounding them is exact.
 */
#include "op/formula.h"
#include "ops/geometry.h"
#include <math.h>

enum how { SUM, MEAN, MAX, MIN, PROD };

typedef struct segments {
    enum how how;
    int64_t rows, n, inner, count; /* data is (rows, n, inner), the result (rows, count, inner) */
    const int64_t *given;          /* (rows, count) lengths or (rows, count + 1) bounds         */
    bool bounds, has_initial;
    rush_dtype dtype;              /* of data */
    double initial;
} segments;

static int how_of(const char *name)
{
    static const char *const names[] = {"sum", "mean", "max", "min", "prod", "", "", "amax", "amin"};
    for (int i = 0; i < (int)RUSH_COUNT(names); ++i)
        if (*names[i] && !strcmp(name, names[i])) return i % 5;
    return rush_fail(RUSH_RUNTIME_ERROR, "reduce argument must be either sum, prod, mean, amax or amin, got %s", name);
}

static double neutral(const segments *s)
{
    if (s->has_initial) return rush_round_to(s->initial, s->dtype);
    return s->how == MAX ? -INFINITY : s->how == MIN ? INFINITY : s->how == PROD;
}

/* The segment's first place and length; what lies beyond the row is cut off. */
static int64_t segment_of(const segments *s, int64_t row, int64_t k, int64_t *at)
{
    const int64_t *g = s->given + row * (s->count + s->bounds);
    int64_t begin = RUSH_MAX(0, RUSH_MIN(s->bounds ? g[k] : *at, s->n)), most = s->n - begin;
    int64_t end = s->bounds ? g[k + 1] : begin + RUSH_MAX(-1, RUSH_MIN(g[k], most));
    end = RUSH_MAX(begin, RUSH_MIN(end, s->n));
    *at = begin;
    return end - begin;
}

static double reduced(const segments *s, const double *x, int64_t len)
{
    double r = neutral(s);
    for (int64_t i = 0; i < len; ++i) {
        double v = x[i * s->inner];
        if (s->how == PROD) r = rush_round_to(r * v, s->dtype);
        else if (s->how == SUM || s->how == MEAN) r = rush_round_to(r + v, s->dtype);
        else if (isnan(v) || (s->how == MAX ? v > r : v < r)) r = v;
    }
    if (s->how != MEAN) return r;
    return len ? rush_round_to(r / (double)len, s->dtype) : s->has_initial ? r : NAN;
}

/* The gradient of one segment's result by its elements. Equal extremes share it. */
static void spread(const segments *s, double *to, const double *x, double result, double g, int64_t len)
{
    int64_t same = 0, step = s->inner;
    for (int64_t i = 0; i < len; ++i) same += x[i * step] == result || isnan(x[i * step]);
    for (int64_t i = 0; i < len; ++i) {
        double v = x[i * step];
        switch (s->how) {
        case SUM: to[i * step] = g; break;
        case MEAN: to[i * step] = g / (double)len; break;
        case MAX: case MIN: to[i * step] = v == result || isnan(v) ? g / (double)same : 0; break;
        case PROD:
            if (v != 0 && !isnan(v)) {
                to[i * step] = rush_round_to(g * result, s->dtype) / v;
                break;
            }
            double others = neutral(s);
            for (int64_t k = 0; k < len; ++k) others = rush_round_to(others * (k == i ? 1 : x[k * step]), s->dtype);
            to[i * step] = g * others;
        }
    }
}

static int read_segments(segments *s, const rush_value *reduce, const rush_tensor *data, const rush_value *lengths, const rush_value *offsets, int axis,
                         rush_value initial)
{
    const rush_tensor *given = HAS(*lengths) ? lengths->t : offsets->t;
    *s = (segments){.rows = 1, .n = data->size[axis], .inner = 1, .bounds = !HAS(*lengths), .dtype = (rush_dtype)data->dtype, .has_initial = HAS(initial)};
    if (HAS(initial)) s->initial = rush_to_double(initial);
    int how = how_of(reduce->s);
    if (how < 0) return -1;
    s->how = (enum how)how;
    s->count = given->size[axis] - s->bounds;
    for (int d = 0; d < axis; ++d) s->rows *= data->size[d];
    for (int d = axis + 1; d < data->ndim; ++d) s->inner *= data->size[d];
    const rush_tensor *numbers = rush_cast_copy(given, RUSH_I64);
    if (!numbers) return -1;
    s->given = rush_ptr(numbers);
    return 0;
}

static int check_lengths(const segments *s)
{
    for (int64_t r = 0; r < s->rows; ++r) {
        int64_t sum = 0;
        for (int64_t k = 0; k < s->count; ++k) {
            int64_t n = s->given[r * s->count + k];
            RUSH_CHECK(n >= 0, RUSH_RUNTIME_ERROR, "lengths contains negative value!");
            sum = n > s->n ? s->n + 1 : RUSH_MIN(sum + n, s->n + 1);
        }
        RUSH_CHECK(sum == s->n, RUSH_RUNTIME_ERROR, "Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.");
    }
    return 0;
}

/* Do the lengths or bounds have a row for each of data's? */
static int check_given(const rush_tensor *data, const rush_tensor *given, bool bounds, int64_t axis)
{
    int at = rush_dim_wrap(axis, data->ndim);
    if (at < 0) return -1;
    RUSH_CHECK(given, RUSH_RUNTIME_ERROR, "Either lengths or offsets must be defined.");
    RUSH_CHECK(rush_dtype_is_float(data->dtype), RUSH_NOT_IMPLEMENTED, "\"_segment_reduce_cpu\" not implemented for '%s'", rush_dtype_word(data->dtype));
    RUSH_CHECK(given->dtype == RUSH_I64 || given->dtype == RUSH_I32, RUSH_NOT_IMPLEMENTED, "\"_segment_reduce_lengths_cpu_kernel1\" not implemented for '%s'",
               rush_dtype_word(given->dtype));
    RUSH_CHECK(given->ndim <= data->ndim, RUSH_RUNTIME_ERROR, "data has %d dimensions, fewer than the %d of its segments", data->ndim, given->ndim);
    RUSH_CHECK(at == given->ndim - 1, RUSH_RUNTIME_ERROR, "Expected axis to be the last dimension of %s but got %lld.", bounds ? "offsets" : "lengths", (long long)axis);
    RUSH_CHECK(!at || !memcmp(given->size, data->size, sizeof *data->size * (size_t)at), RUSH_RUNTIME_ERROR, "sizes of data and its segments differ before the axis");
    RUSH_CHECK(!bounds || given->size[at] > 0, RUSH_RUNTIME_ERROR, "offsets need one element at least");
    return at;
}

/* in: data, reduce, lengths, indices, offsets, axis, unsafe, initial */
static int segment_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *data = in[0].t, *given = HAS(in[2]) ? T_(in[2]) : T_(in[4]);
    int64_t size[RUSH_MAXDIM];
    if (how_of(in[1].s) < 0) return -1;
    RUSH_CHECK(data->numel || (given && given->numel), RUSH_RUNTIME_ERROR, "needs data or segments, got neither");
    RUSH_CHECK(!HAS(in[3]), RUSH_RUNTIME_ERROR, "indices based reduction is not supported yet.");
    int axis = check_given(data, given, !HAS(in[2]), in[5].i);
    if (axis < 0) return -1;
    memcpy(size, data->size, sizeof *size * data->ndim);
    size[axis] = given->size[axis] - !HAS(in[2]);
    return rush_out_t(out, 0, data, data->dtype, data->ndim, size) ? 0 : -1;
}

static void segment_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *data = rush_cast_copy(in[0].t, RUSH_F64), *y = rush_tensor_new(RUSH_F64, out[0].t->device, out[0].t->ndim, out[0].t->size);
    segments s;
    if (!data || !y || read_segments(&s, in + 1, in[0].t, in + 2, in + 4, rush_dim_wrap(in[5].i, in[0].t->ndim), in[7])) return;
    if (HAS(in[2]) && !in[6].i && check_lengths(&s)) return;
    double *to = rush_ptr(y);
    for (int64_t row = 0; row < s.rows && s.inner; ++row) {
        const double *x = (const double *)rush_ptr(data) + row * s.n * s.inner;
        for (int64_t k = 0, at = 0, len; k < s.count; ++k, at += len) {
            len = segment_of(&s, row, k, &at);
            for (int64_t c = 0; c < s.inner; ++c) *to++ = reduced(&s, x + at * s.inner + c, len);
        }
    }
    rush_copy_into(out[0].t, y);
}

static void segment_grad(rush_grads *s)
{
    if (s->g[0])
        s->gin[0] = T("_segment_reduce_backward", V(s->g[0]), s->out[0], s->in[0], s->in[1], s->in[2], s->in[4], s->in[5], s->in[7]);
}

/* in: grad, output, data, reduce, lengths, offsets, axis, initial */
static int backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *data = in[2].t;
    const rush_tensor *given = HAS(in[4]) ? T_(in[4]) : T_(in[5]);
    int axis = how_of(in[3].s) < 0 ? -1 : check_given(data, given, !HAS(in[4]), in[6].i);
    if (axis < 0) return -1;
    int64_t size[RUSH_MAXDIM];
    memcpy(size, data->size, sizeof *size * data->ndim);
    size[axis] = given->size[axis] - !HAS(in[4]);
    for (int i = 0; i < 2; ++i)
        RUSH_CHECK(in[i].t->ndim == data->ndim && !memcmp(in[i].t->size, size, sizeof *size * data->ndim), RUSH_RUNTIME_ERROR,
                   "the result and its gradient are expected to be of size %s, but got %s", rush_shape_text(data->ndim, size), rush_shape_of(in[i].t));
    return rush_out_t(out, 0, data, data->dtype, data->ndim, data->size) ? 0 : -1;
}

static void backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = rush_cast_copy(in[0].t, RUSH_F64), *y = rush_cast_copy(in[1].t, RUSH_F64), *data = rush_cast_copy(in[2].t, RUSH_F64);
    rush_tensor *gx = rush_tensor_new(RUSH_F64, out[0].t->device, out[0].t->ndim, out[0].t->size);
    segments s;
    if (!g || !y || !data || !gx || read_segments(&s, in + 3, in[2].t, in + 4, in + 5, rush_dim_wrap(in[6].i, in[2].t->ndim), in[7])) return;
    rush_zero_into(gx);
    const double *gy = rush_ptr(g), *result = rush_ptr(y);
    for (int64_t row = 0; row < s.rows && s.inner; ++row) {
        int64_t start = row * s.n * s.inner;
        for (int64_t k = 0, at = 0, len; k < s.count; ++k, at += len) {
            len = segment_of(&s, row, k, &at);
            for (int64_t c = 0; c < s.inner; ++c, ++gy, ++result) {
                int64_t place = start + at * s.inner + c;
                spread(&s, (double *)rush_ptr(gx) + place, (double *)rush_ptr(data) + place, *result, *gy, len);
            }
        }
    }
    rush_copy_into(out[0].t, gx);
}

#define ARGUMENTS \
    "(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, " \
    "Scalar? initial=None) -> Tensor"
static rush_op op_segment_reduce = {
    .schema = "segment_reduce" ARGUMENTS,
    .doc = "The sum, mean, max, min or prod of each segment of data along axis. lengths (*, segments) say how long they are, or offsets "
           "(*, segments + 1) where they begin and end. initial takes part in each.",
    .shape = segment_shape, .cpu = segment_cpu, .grad = segment_grad, .saves = "data, lengths, offsets, result",
};
static rush_op op__segment_reduce = {
    .schema = "_segment_reduce" ARGUMENTS, .doc = "segment_reduce.",
    .shape = segment_shape, .cpu = segment_cpu, .grad = segment_grad, .saves = "data, lengths, offsets, result", .flags = RUSH_HIDDEN,
};
static rush_op op__segment_reduce_backward = {
    .schema = "_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, Tensor? lengths=None, Tensor? offsets=None, int axis=0, "
              "Scalar? initial=None) -> Tensor",
    .doc = "The gradient of segment_reduce by its data.", .shape = backward_shape, .cpu = backward_cpu, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(segment, &op_segment_reduce, &op__segment_reduce, &op__segment_reduce_backward)
