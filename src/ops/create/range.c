/* range.c - sequences of numbers: arange, range, linspace, logspace, and window functions.
 *
 * Each is a formula of the index. Blocks of it are worked out in int64, float or double (the precision that PyTorch uses
 * for that dtype) and converted to whatever the result is.
 */
#include "kernels/cpu/fill.h"
#include "op/formula.h"
#include "ops/create/factory.h"
#include "ops/geometry.h"
#include "tensor/backend.h"
#include <math.h>

#define OPTIONS "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define BLOCK 512

/* ---- a formula of the index into a tensor ---- */

typedef struct sequence {
    char *dst;
    int64_t stride; /* bytes */
    rush_dtype dtype, compute; /* compute: I64, F32, F64 or C128 */
    void (*fn)(const struct sequence *, int64_t i, int64_t n, void *block);
    int64_t first, step, count, half;
    double start[2], end[2], each[2], base[2];
    const rush_tensor *scattered; /* where, if not along one stride */
} sequence;

/* Into a tensor of several dimensions that is not contiguous. */
static void run_scattered(const sequence *s, int64_t begin, int64_t end, double *block)
{
    const rush_tensor *t = s->scattered;
    size_t size = rush_dtypes[s->dtype].size;
    for (int64_t i = begin; i < end; ++i) {
        int64_t at = 0, left = i;
        for (int d = t->ndim - 1; d >= 0; left /= t->size[d--]) at += left % t->size[d] * t->stride[d];
        s->fn(s, i, 1, block);
        rush_convert(s->dst + at * (int64_t)size, s->dtype, size, block, s->compute, rush_dtypes[s->compute].size, 1);
    }
}

static void run_sequence(void *arg, int64_t begin, int64_t end)
{
    const sequence *s = arg;
    double block[2 * BLOCK];
    if (s->scattered) return run_scattered(s, begin, end, block);
    if (s->dtype == s->compute && s->stride == rush_dtypes[s->dtype].size) {
        s->fn(s, begin, end - begin, s->dst + begin * s->stride);
        return;
    }
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = RUSH_MIN(end - i, BLOCK);
        s->fn(s, i, n, block);
        if (s->dtype == RUSH_F32) rush_convert_many(s->dst + i * s->stride, RUSH_F32, s->stride, block, s->compute, rush_dtypes[s->compute].size, n);
        else rush_convert(s->dst + i * s->stride, s->dtype, s->stride, block, s->compute, rush_dtypes[s->compute].size, n);
    }
}

static void fill_sequence(rush_tensor *t, sequence *s)
{
    s->dst = rush_ptr(t);
    s->dtype = t->dtype;
    s->stride = (t->ndim == 1 ? t->stride[0] : 1) * rush_dtypes[t->dtype].size;
    s->scattered = t->ndim > 1 && !rush_contiguous(t) ? t : NULL;
    rush_parallel_for(t->numel, 8192, run_sequence, s);
}

static int make(rush_value *out, const rush_value *options, int dtype, int64_t n)
{
    factory f;
    const rush_tensor *to = T_(out[0]);
    if (to) dtype = to->dtype;
    if (to && to->numel == n) return rush_factory_read(&f, options, dtype, NULL) || !rush_out(out, 0, f.dtype, f.device, to->ndim, to->size) ? -1 : 0;
    return rush_factory_read(&f, options, dtype, NULL) || !rush_out(out, 0, f.dtype, f.device, 1, &n) ? -1 : 0;
}

/* Truth values have no steps, nor have floats of 8 bits, and complex numbers but those between two ends. */
static int check_type(const char *name, const rush_tensor *t, bool is_complex)
{
    rush_dtype d = t->dtype;
    bool float8 = rush_dtypes[d].category == rush_dtypes[RUSH_F32].category && rush_dtypes[d].size == 1;
    RUSH_CHECK(!rush_has_data(t) || (d != RUSH_BOOL && !float8 && (!rush_dtype_is_complex(d) || (is_complex && d != RUSH_C32))), RUSH_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", name,
               rush_dtype_word(d));
    return 0;
}

/* ---- arange, range ---- */

static void whole_steps(const sequence *s, int64_t i, int64_t n, void *block)
{
    uint64_t *b = block, v = (uint64_t)s->first + (uint64_t)s->step * (uint64_t)i, step = (uint64_t)s->step;
    for (int64_t k = 0; k < n; ++k, v += step) b[k] = v;
}

/* To a number of the dtype, of those that are narrower than what is computed in. */
static double rounded(double x, rush_dtype d)
{
    float single = (float)x;
    uint16_t half;
    if (d == RUSH_F32) return single;
    if (d != RUSH_F16 && d != RUSH_BF16) return x;
    rush_convert(&half, d, 0, &single, RUSH_F32, 0, 1);
    rush_convert(&single, RUSH_F32, 0, &half, d, 0, 1);
    return single;
}

/* PyTorch makes two vectors of 32 bytes at a time and the rest one by one, and its numbers tell: a vector's first element is rounded
 * to the dtype, the others are counted from it. Where the vector of element i begins; -1: it is one of the rest. */
static int64_t vector_of(const sequence *s, int64_t i, int64_t *left)
{
    int64_t lanes = 32 / (int64_t)rush_dtypes[s->dtype].size, whole = s->count / (2 * lanes) * (2 * lanes);
    *left = i < whole ? lanes - i % lanes : s->count - i;
    return i < whole ? i / lanes * lanes : -1;
}

static void steps(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block, base = s->start[0];
    const bool single = s->dtype == RUSH_F32;
    for (int64_t k = 0, m; k < n; k += m) {
        int64_t first = vector_of(s, i + k, &m);
        if (first == i + k && n - k >= m && (single || s->dtype == RUSH_F64)) { /* whole vectors from here on */
            int64_t pair = single ? 16 : 8;
            m = RUSH_MIN(n - k, s->count / pair * pair - first) / m * m;
            rush_k_fill->lines_f64(b + k, s->start[0], s->each[0], first, m, single);
            continue;
        }
        m = RUSH_MIN(m, n - k);
        if (first >= 0) rush_k_fill->line_f64(&base, s->start[0], s->each[0], first, 1);
        rush_k_fill->line_f64(b + k, first < 0 ? s->start[0] : rounded(base, s->dtype), s->each[0], i + k - RUSH_MAX(first, 0), m);
    }
}

static void steps_half(const sequence *s, int64_t i, int64_t n, void *block)
{
    float *b = block, start = (float)s->start[0], each = (float)s->each[0], base = start;
    for (int64_t k = 0, m; k < n; k += m) {
        int64_t first = vector_of(s, i + k, &m);
        m = RUSH_MIN(m, n - k);
        if (first >= 0) rush_k_fill->line_f32(&base, start, each, first, 1);
        rush_k_fill->line_f32(b + k, first < 0 ? start : (float)rounded(base, s->dtype), each, i + k - RUSH_MAX(first, 0), m);
    }
}

/* range() is made one by one. */
static void line(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block;
    for (int64_t k = 0; k < n; ++k) b[k] = s->start[0] + s->each[0] * (double)(i + k);
}

static void arange_fill(rush_tensor *t, rush_value start, rush_value step, bool closed)
{
    sequence s = {.fn = closed ? line : steps, .compute = RUSH_F64, .count = t->numel};
    if (!closed && (t->dtype == RUSH_F16 || t->dtype == RUSH_BF16)) s.fn = steps_half, s.compute = RUSH_F32;
    if (rush_dtypes[t->dtype].category <= 1) {
        s.fn = whole_steps;
        s.compute = RUSH_I64;
        s.first = rush_to_int(start);
        s.step = rush_to_int(step);
    }
    s.start[0] = rush_to_double(start);
    s.each[0] = rush_to_double(step);
    fill_sequence(t, &s);
}

/* An out= of another number of elements is resized, of another shape filled as it is. */
static int arange_out(rush_value *out, const rush_value *options, int dtype, int64_t n)
{
    const rush_tensor *to = out[0].kind == RUSH_V_TENSOR ? out[0].t : NULL;
    if (to && to->numel && to->numel != n)
        rush_log(1, "The number of elements in the out tensor of shape %s is %lld which does not match the computed number of elements %lld. It becomes a 1-dimensional tensor of that many.",
                 rush_shape_of(to), (long long)to->numel, (long long)n);
    return make(out, options, dtype, n) || check_type("arange", out[0].t, false) ? -1 : 0;
}

static int arange_make(rush_value *out, const rush_value *options, rush_value start, rush_value end, rush_value step, bool closed)
{
    bool any_float = start.kind == RUSH_V_FLOAT || end.kind == RUSH_V_FLOAT || step.kind == RUSH_V_FLOAT;
    RUSH_CHECK(start.kind != RUSH_V_COMPLEX && end.kind != RUSH_V_COMPLEX && step.kind != RUSH_V_COMPLEX, RUSH_RUNTIME_ERROR,
               "arange: complex numbers have no order");
    int dtype = closed || any_float ? rush_default_dtype() : RUSH_I64;
    rush_dtype d = HAS(options[0]) ? (rush_dtype)I_(options[0]) : out[0].kind == RUSH_V_TENSOR ? (rush_dtype)out[0].t->dtype : (rush_dtype)dtype;
    double a = rush_to_double(start), b = rush_to_double(end), s = rush_to_double(step), size;
    RUSH_CHECK(s > 0 || s < 0, RUSH_RUNTIME_ERROR, "step must be nonzero");
    RUSH_CHECK(isfinite(a) && isfinite(b), RUSH_RUNTIME_ERROR, "unsupported range: %g -> %g", a, b);
    RUSH_CHECK((s > 0 && b >= a) || (s < 0 && b <= a), RUSH_RUNTIME_ERROR, "upper bound and lower bound inconsistent with step sign");
    if (!closed && d == RUSH_I64) {
        int64_t x = rush_to_int(start), y = rush_to_int(end), z = rush_to_int(step);
        RUSH_CHECK(z != 0, RUSH_VALUE_ERROR, "step must be nonzero");
        RUSH_CHECK(z > 0 ? y >= x : y <= x, RUSH_RUNTIME_ERROR, "upper bound and lower bound inconsistent with step sign");
        uint64_t room = z > 0 ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y, each = z > 0 ? (uint64_t)z : -(uint64_t)z, n = room / each + (room % each != 0);
        RUSH_CHECK(n <= INT64_MAX, RUSH_RUNTIME_ERROR, "invalid size, possible overflow?");
        return arange_out(out, options, dtype, (int64_t)n);
    }
    size = closed ? floor((b - a) / s) + 1 : ceil((b - a) / s);
    RUSH_CHECK(size >= 0 && size <= 9.2e18, RUSH_RUNTIME_ERROR, "invalid size, possible overflow?");
    if (!closed) return arange_out(out, options, dtype, (int64_t)size);
    return make(out, options, dtype, (int64_t)size) || check_type("range", out[0].t, false) ? -1 : 0;
}

static int arange_shape(const rush_op *op, const rush_value *in, rush_value *out) { return arange_make(out, in + 1, rush_v_int(0), in[0], rush_v_int(1), false); }
static int arange_start_shape(const rush_op *op, const rush_value *in, rush_value *out) { return arange_make(out, in + 2, in[0], in[1], rush_v_int(1), false); }
static int arange_step_shape(const rush_op *op, const rush_value *in, rush_value *out) { return arange_make(out, in + 3, in[0], in[1], in[2], false); }
static void arange_cpu(const rush_op *op, const rush_value *in, rush_value *out) { arange_fill(out[0].t, rush_v_int(0), rush_v_int(1), false); }
static void arange_start_cpu(const rush_op *op, const rush_value *in, rush_value *out) { arange_fill(out[0].t, in[0], rush_v_int(1), false); }
static void arange_step_cpu(const rush_op *op, const rush_value *in, rush_value *out) { arange_fill(out[0].t, in[0], in[2], false); }

static rush_op op_arange = {
    .schema = "arange(Scalar end, " OPTIONS ") -> Tensor",
    .doc = "0, 1, ... below end. Integers give int64, others the default dtype.", .shape = arange_shape, .cpu = arange_cpu,
    .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};
static rush_op op_arange_start = {
    .schema = "arange.start(Scalar start, Scalar end, " OPTIONS ") -> Tensor",
    .doc = "start, start + 1, ... below end.", .shape = arange_start_shape, .cpu = arange_start_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};
static rush_op op_arange_step = {
    .schema = "arange.start_step(Scalar start, Scalar end, Scalar step=1, " OPTIONS ") -> Tensor",
    .doc = "start, start + step, ... up to, not including, end.", .shape = arange_step_shape, .cpu = arange_step_cpu,
    .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};

static int range_make(rush_value *out, const rush_value *options, rush_value start, rush_value end, rush_value step)
{
    RUSH_WARN_ONCE("torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range builtin. "
                   "Instead, use torch.arange, which produces values in [start, end).");
    return arange_make(out, options, start, end, step, true);
}
static int range_shape(const rush_op *op, const rush_value *in, rush_value *out) { return range_make(out, in + 2, in[0], in[1], rush_v_int(1)); }
static int range_step_shape(const rush_op *op, const rush_value *in, rush_value *out) { return range_make(out, in + 3, in[0], in[1], in[2]); }
static void range_cpu(const rush_op *op, const rush_value *in, rush_value *out) { arange_fill(out[0].t, in[0], rush_v_int(1), true); }
static void range_step_cpu(const rush_op *op, const rush_value *in, rush_value *out) { arange_fill(out[0].t, in[0], in[2], true); }

static rush_op op_range_step = {
    .schema = "range.step(Scalar start, Scalar end, Scalar step=1, " OPTIONS ") -> Tensor",
    .doc = "start, start + step, ... up to and including end. arange() is what Python's range does.",
    .shape = range_step_shape, .cpu = range_step_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};
static rush_op op_range = {
    .schema = "range(Scalar start, Scalar end, " OPTIONS ") -> Tensor",
    .doc = "start, start + 1, ... up to and including end.", .shape = range_shape, .cpu = range_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};

/* ---- linspace, logspace: from both ends towards the middle, so that both are hit exactly ---- */

static void spaced_f32(const sequence *s, int64_t i, int64_t n, void *block)
{
    float *b = block, each = (float)s->each[0];
    int64_t low = RUSH_MIN(RUSH_MAX(s->half - i, 0), n);
    rush_k_fill->line_f32(b, (float)s->start[0], each, i, low);
    rush_k_fill->line_f32(b + low, (float)s->end[0], each, i + low - (s->count - 1), n - low);
}

/* Half types: the step, the index and its multiples are rounded to the type. */
static void spaced_half(const sequence *s, int64_t i, int64_t n, void *block)
{
    float *b = block, start = (float)s->start[0], end = (float)s->end[0], step = (float)s->each[0];
    for (int64_t k = 0; k < n; ++k) {
        int64_t at = i + k;
        float times = (float)rounded((double)(at < s->half ? at : s->count - at - 1), s->dtype), far = (float)rounded(step * times, s->dtype);
        b[k] = at < s->half ? start + far : end - far;
    }
}

static void spaced_f64(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block;
    int64_t low = RUSH_MIN(RUSH_MAX(s->half - i, 0), n);
    rush_k_fill->line_f64(b, s->start[0], s->each[0], i, low);
    rush_k_fill->line_f64(b + low, s->end[0], s->each[0], i + low - (s->count - 1), n - low);
}

static void spaced_complex(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block;
    for (int64_t k = 0; k < n; ++k)
        for (int part = 0; part < 2; ++part) {
            int64_t at = i + k;
            b[2 * k + part] = at < s->half ? s->start[part] + s->each[part] * (double)at : s->end[part] - s->each[part] * (double)(s->count - at - 1);
        }
}

static void powers_f64(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block;
    for (int64_t k = 0; k < n; ++k) {
        int64_t at = i + k;
        b[k] = pow(s->base[0], at < s->half ? s->start[0] + s->each[0] * (double)at : s->end[0] - s->each[0] * (double)(s->count - at - 1));
    }
}

/* base^(x + iy) of a real base */
static void powers_complex(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block, l = log(fabs(s->base[0])), turn = s->base[0] < 0 ? 3.14159265358979323846 : 0;
    spaced_complex(s, i, n, block);
    for (int64_t k = 0; k < n; ++k) {
        double x = b[2 * k], y = b[2 * k + 1], r = exp(x * l - y * turn), angle = y * l + x * turn;
        b[2 * k] = r * cos(angle);
        b[2 * k + 1] = r * sin(angle);
    }
}

/* An endpoint as a number of the result's dtype: an integer result has integer ends. */
static void endpoint(double *to, rush_value v, rush_dtype d)
{
    to[0] = to[1] = 0;
    if (v.kind == RUSH_V_TENSOR && !rush_ptr(v.t)) {
        rush_fail(RUSH_RUNTIME_ERROR, "an end that is a tensor without data cannot be read");
    } else if (v.kind == RUSH_V_TENSOR) {
        const rush_tensor *plain = rush_contiguous_copy(v.t);
        if (plain) rush_convert(to, RUSH_C128, 0, rush_ptr(plain), plain->dtype, 0, 1);
    } else {
        to[0] = rush_to_double(v);
        to[1] = v.kind == RUSH_V_COMPLEX ? v.c[1] : 0;
    }
    if (rush_dtypes[d].category <= 1) to[0] = trunc(to[0]);
}

static void spaced_fill(rush_tensor *t, rush_value start, rush_value end, double base)
{
    bool powers = base == base, is_complex = rush_dtype_is_complex(t->dtype);
    sequence s = {.count = t->numel, .half = t->numel / 2, .compute = RUSH_F64, .base = {base, 0}, .dtype = t->dtype};
    if (t->numel == 0) return;
    endpoint(s.start, start, t->dtype);
    endpoint(s.end, end, t->dtype);
    double steps = (double)(s.count - 1);
    if (s.count == 1) s.half = 1;
    for (int k = 0; k < 2; ++k) { /* ends and their distance are numbers of the dtype, and of linspace the step, too */
        s.start[k] = rounded(s.start[k], t->dtype);
        s.end[k] = rounded(s.end[k], t->dtype);
        s.each[k] = rounded(s.end[k] - s.start[k], t->dtype);
        if (s.count > 1) s.each[k] = powers ? s.each[k] / steps : rounded(s.each[k] / rounded(steps, t->dtype), t->dtype);
    }
    bool half = t->dtype == RUSH_F16 || t->dtype == RUSH_BF16;
    s.fn = powers ? powers_f64 : spaced_f64;
    if (is_complex) s.compute = RUSH_C128, s.fn = powers ? powers_complex : spaced_complex;
    else if (!powers && t->dtype != RUSH_F64 && rush_dtypes[t->dtype].category == 2) s.compute = RUSH_F32, s.fn = half ? spaced_half : spaced_f32;
    fill_sequence(t, &s);
}

static int spaced_make(const char *name, const rush_value *in, rush_value *out, const rush_value *options)
{
    int64_t n = I_(in[2]);
    bool is_complex = false;
    for (int k = 0; k < 2; ++k) {
        is_complex |= in[k].kind == RUSH_V_COMPLEX || (in[k].kind == RUSH_V_TENSOR && rush_dtype_is_complex(in[k].t->dtype));
        RUSH_CHECK(in[k].kind != RUSH_V_TENSOR || in[k].t->ndim == 0, RUSH_RUNTIME_ERROR,
                   "%s only supports 0-dimensional start and end tensors, but got %s with %d dimension(s).", name, k ? "end" : "start", in[k].t->ndim);
    }
    RUSH_CHECK(n >= 0, RUSH_RUNTIME_ERROR, "number of steps must be non-negative");
    rush_dtype d = is_complex ? rush_dtype_complex(rush_default_dtype()) : rush_default_dtype();
    RUSH_CHECK(!is_complex || !HAS(options[0]) || rush_dtype_is_complex((rush_dtype)I_(options[0])), RUSH_RUNTIME_ERROR,
               "torch.%s(): inferred dtype %s can't be safely cast to passed dtype %s", name, rush_dtype_name(d),
               rush_dtype_name((rush_dtype)I_(options[0])));
    return make(out, options, d, n) || (n > 1 && check_type(name, out[0].t, true)) ? -1 : 0;
}

static int linspace_shape(const rush_op *op, const rush_value *in, rush_value *out) { return spaced_make("linspace", in, out, in + 3); }
static int logspace_shape(const rush_op *op, const rush_value *in, rush_value *out) { return spaced_make("logspace", in, out, in + 4); }
static void linspace_cpu(const rush_op *op, const rush_value *in, rush_value *out) { spaced_fill(out[0].t, in[0], in[1], NAN); }
static void logspace_cpu(const rush_op *op, const rush_value *in, rush_value *out) { spaced_fill(out[0].t, in[0], in[1], D_(in[3])); }

#define SPACED .shape = linspace_shape, .cpu = linspace_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT
#define POWERS .shape = logspace_shape, .cpu = logspace_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT
static rush_op op_linspace = {
    .schema = "linspace(Scalar start, Scalar end, int steps, " OPTIONS ") -> Tensor",
    .doc = "`steps` numbers evenly from start to end, both included.", SPACED};
static rush_op op_linspace_tt = {
    .schema = "linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, " OPTIONS ") -> Tensor", .doc = "linspace() between 0-d tensors.", SPACED};
static rush_op op_linspace_ts = {
    .schema = "linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, " OPTIONS ") -> Tensor", .doc = "linspace() from a 0-d tensor.", SPACED};
static rush_op op_linspace_st = {
    .schema = "linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, " OPTIONS ") -> Tensor", .doc = "linspace() to a 0-d tensor.", SPACED};
static rush_op op_logspace = {
    .schema = "logspace(Scalar start, Scalar end, int steps, float base=10.0, " OPTIONS ") -> Tensor",
    .doc = "base to the powers that linspace(start, end, steps) gives.", POWERS};
static rush_op op_logspace_tt = {
    .schema = "logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10.0, " OPTIONS ") -> Tensor",
    .doc = "logspace() between 0-d tensors.", POWERS};
static rush_op op_logspace_ts = {
    .schema = "logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10.0, " OPTIONS ") -> Tensor",
    .doc = "logspace() from a 0-d tensor.", POWERS};
static rush_op op_logspace_st = {
    .schema = "logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10.0, " OPTIONS ") -> Tensor",
    .doc = "logspace() to a 0-d tensor.", POWERS};

/* ---- windows: base[] has the parameters, count the period ---- */

static int window_make(const char *name, const rush_value *in, rush_value *out, const rush_value *options)
{
    int64_t n = I_(in[0]);
    rush_dtype d = HAS(options[0]) ? (rush_dtype)I_(options[0]) : rush_default_dtype();
    RUSH_CHECK(rush_dtype_is_float(d) || rush_dtype_is_complex(d), RUSH_RUNTIME_ERROR, "%s expects floating point dtypes, got: %s", name, rush_dtype_word(d));
    RUSH_CHECK(!rush_dtype_is_complex(d), RUSH_RUNTIME_ERROR, "%s does not support complex dtypes, got: %s", name, rush_dtype_word(d));
    RUSH_CHECK(n >= 0, RUSH_RUNTIME_ERROR, "%s requires non-negative window_length, got window_length=%lld", name, (long long)n);
    return make(out, options, d, n) || (n > 1 && check_type(name, out[0].t, true)) ? -1 : 0;
}

/* A periodic window is a symmetric one that is longer by one, without its last element. */
static void window_fill(rush_tensor *t, bool periodic, void (*fn)(const sequence *, int64_t, int64_t, void *), double a, double b)
{
    if (t->numel == 1) {
        rush_fill_into(t, rush_v_int(1));
        return;
    }
    sequence s = {.fn = fn, .compute = RUSH_F64, .count = t->numel - 1 + periodic, .base = {a, b}};
    fill_sequence(t, &s);
}

static void cosine_window(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block;
    for (int64_t k = 0; k < n; ++k) b[k] = s->base[0] - s->base[1] * cos(6.283185307179586477 * (double)(i + k) / (double)s->count);
}

static void blackman(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block;
    for (int64_t k = 0; k < n; ++k) {
        double x = 3.14159265358979323846 * (double)(i + k) / (double)s->count;
        b[k] = 0.08 * cos(4 * x) - 0.5 * cos(2 * x) + 0.42;
    }
}

static void bartlett(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block;
    for (int64_t k = 0; k < n; ++k) {
        double x = 2.0 * (double)(i + k) / (double)s->count;
        b[k] = x <= 1 ? x : 2 - x;
    }
}

/* The modified Bessel function of order 0, by its power series; all terms are positive. */
static double bessel_i0(double x)
{
    double sum = 1, term = 1, q = x * x / 4;
    for (int k = 1; k < 1000 && term > sum * 1e-18; ++k) {
        term *= q / ((double)k * k);
        sum += term;
    }
    return sum;
}

static void kaiser(const sequence *s, int64_t i, int64_t n, void *block)
{
    double *b = block, whole = bessel_i0(fabs(s->base[0]));
    for (int64_t k = 0; k < n; ++k) {
        double x = 2.0 * (double)(i + k) / (double)s->count - 1;
        b[k] = bessel_i0(fabs(s->base[0]) * sqrt(RUSH_MAX(0, 1 - x * x))) / whole;
    }
}

static int window_shape(const char *name, const rush_value *in, rush_value *out, int numbers)
{
    return window_make(name, in, out, in + 1 + numbers);
}

#define WINDOW(id, name, numbers, periodic, fn, a, b)                                                       \
    static int id##_shape(const rush_op *op, const rush_value *in, rush_value *out) { return window_shape(name, in, out, numbers); }        \
    static void id##_cpu(const rush_op *op, const rush_value *in, rush_value *out) { window_fill(out[0].t, periodic, fn, a, b); }

WINDOW(hann, "hann_window", 0, true, cosine_window, 0.5, 0.5)
WINDOW(hann_p, "hann_window", 1, I_(in[1]), cosine_window, 0.5, 0.5)
WINDOW(hamming, "hamming_window", 0, true, cosine_window, 0.54, 0.46)
WINDOW(hamming_p, "hamming_window", 1, I_(in[1]), cosine_window, 0.54, 0.46)
WINDOW(hamming_a, "hamming_window", 2, I_(in[1]), cosine_window, D_(in[2]), 0.46)
WINDOW(hamming_ab, "hamming_window", 3, I_(in[1]), cosine_window, D_(in[2]), D_(in[3]))
WINDOW(blackman, "blackman_window", 0, true, blackman, 0, 0)
WINDOW(blackman_p, "blackman_window", 1, I_(in[1]), blackman, 0, 0)
WINDOW(bartlett, "bartlett_window", 0, true, bartlett, 0, 0)
WINDOW(bartlett_p, "bartlett_window", 1, I_(in[1]), bartlett, 0, 0)
WINDOW(kaiser, "kaiser_window", 0, true, kaiser, 12, 0)
WINDOW(kaiser_p, "kaiser_window", 1, I_(in[1]), kaiser, 12, 0)
WINDOW(kaiser_b, "kaiser_window", 2, I_(in[1]), kaiser, D_(in[2]), 0)

#define WINDOW_OP(id, text, schema_)                                                                        \
    static rush_op op_##id = {                                                                              \
        .schema = schema_, .doc = text, .shape = id##_shape, .cpu = id##_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT}
WINDOW_OP(hann, "0.5 - 0.5 cos(2 pi i / n), periodic.", "hann_window(int window_length, " OPTIONS ") -> Tensor");
WINDOW_OP(hann_p, "hann_window(), periodic or symmetric.", "hann_window.periodic(int window_length, bool periodic, " OPTIONS ") -> Tensor");
WINDOW_OP(hamming, "0.54 - 0.46 cos(2 pi i / n), periodic.", "hamming_window(int window_length, " OPTIONS ") -> Tensor");
WINDOW_OP(hamming_p, "hamming_window(), periodic or symmetric.", "hamming_window.periodic(int window_length, bool periodic, " OPTIONS ") -> Tensor");
WINDOW_OP(hamming_a, "alpha - 0.46 cos(2 pi i / n).",
          "hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, " OPTIONS ") -> Tensor");
WINDOW_OP(hamming_ab, "alpha - beta cos(2 pi i / n).",
          "hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, " OPTIONS ") -> Tensor");
WINDOW_OP(blackman, "0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n), periodic.", "blackman_window(int window_length, " OPTIONS ") -> Tensor");
WINDOW_OP(blackman_p, "blackman_window(), periodic or symmetric.", "blackman_window.periodic(int window_length, bool periodic, " OPTIONS ") -> Tensor");
WINDOW_OP(bartlett, "A triangle from 0 to 1 and back, periodic.", "bartlett_window(int window_length, " OPTIONS ") -> Tensor");
WINDOW_OP(bartlett_p, "bartlett_window(), periodic or symmetric.", "bartlett_window.periodic(int window_length, bool periodic, " OPTIONS ") -> Tensor");
WINDOW_OP(kaiser, "I0(12 sqrt(1 - x^2)) / I0(12) for x from -1 to 1, periodic.", "kaiser_window(int window_length, " OPTIONS ") -> Tensor");
WINDOW_OP(kaiser_p, "kaiser_window(), periodic or symmetric.", "kaiser_window.periodic(int window_length, bool periodic, " OPTIONS ") -> Tensor");
WINDOW_OP(kaiser_b, "I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1.",
          "kaiser_window.beta(int window_length, bool periodic, float beta, " OPTIONS ") -> Tensor");

RUSH_FAMILY(range, &op_arange, &op_arange_start, &op_arange_step, &op_range, &op_range_step, &op_linspace, &op_linspace_tt, &op_linspace_ts,
            &op_linspace_st, &op_logspace, &op_logspace_tt, &op_logspace_ts, &op_logspace_st, &op_hann, &op_hann_p, &op_hamming, &op_hamming_p,
            &op_hamming_a, &op_hamming_ab, &op_blackman, &op_blackman_p, &op_bartlett, &op_bartlett_p, &op_kaiser, &op_kaiser_p, &op_kaiser_b)
