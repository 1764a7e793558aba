/* batch_norm.c - batch and instance norm: channels (dim 1) brought to mean 0 and variance 1.
 *
 * native_batch_norm is the operation, the other names are compositions over it; the loops are the channel kernels of
 * kernels/cpu/norm.c. Channels-last input is read as it is. What is computed per channel is held in double but rounded to
 * the element type wherever PyTorch rounds: networks of many batch norms otherwise print other losses after a few steps.
 */
#include "kernels/cpu/norm.h"
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/norm/norm.h"
#include <math.h>

/* in = input, weight, bias, running_mean, running_var, training, momentum, eps */
enum { X, W, B, MEAN, VAR, TRAINING, MOMENTUM, EPS };

static int64_t channels_of(const rush_tensor *x) { return x->ndim > 1 ? x->size[1] : 0; }

/* Channels last only where x has no holes. */
static rush_memory_format result_format(const rush_tensor *x)
{
    const rush_memory_format last = rush_channels_last(x->ndim);
    return !rush_contiguous(x) && rush_contiguous_as(x, last) ? last : RUSH_CONTIGUOUS;
}

static int check_input(const rush_tensor *x)
{
    RUSH_CHECK(x->ndim >= 2 || (x->ndim && !x->numel), RUSH_RUNTIME_ERROR, "batch_norm needs an input of two or more dims, not of shape %s", rush_shape_of(x));
    RUSH_CHECK(rush_dtype_is_float(x->dtype) && x->dtype <= RUSH_F64, RUSH_NOT_IMPLEMENTED, "\"batch_norm\" not implemented for '%s'",
               rush_dtype_word(x->dtype));
    return 0;
}

static int norm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const char *const name[] = {"input", "weight", "bias", "running_mean", "running_var"};
    const rush_tensor *x = in[X].t, *w = T_(in[W]) ? T_(in[W]) : T_(in[MEAN]);
    int64_t c = channels_of(x), none = 0;
    rush_dtype d;
    for (int k = MEAN; k <= VAR; ++k)
        RUSH_CHECK(HAS(in[k]) || in[TRAINING].i, RUSH_RUNTIME_ERROR, "%s must be defined in evaluation mode", name[k]);
    static const int order[] = {MEAN, VAR, W, B};
    for (int j = 0; j < 4; ++j) {
        int k = order[j];
        RUSH_CHECK(!HAS(in[k]) || (in[k].t->numel == c && in[k].t->ndim < 2), RUSH_RUNTIME_ERROR, "%s should contain %lld elements not %lld", name[k], (long long)c,
                   (long long)in[k].t->numel);
    }
    if (check_input(x)) return -1;
    if (rush_norm_param_dtype(x, w, &d) || !rush_out_format(out, 0, result_format(x), x, x->dtype, x->ndim, x->size)) return -1;
    return rush_out_t(out, 1, x, d, 1, in[TRAINING].i ? &c : &none) && rush_out_t(out, 2, x, d, 1, in[TRAINING].i ? &c : &none) ? 0 : -1;
}

/* Numbers per channel as doubles: of a tensor, or all `otherwise` without one. */
static double *numbers(const rush_tensor *t, int64_t n, double otherwise)
{
    double *p = rush_scope_alloc((size_t)RUSH_MAX(n, 1) * sizeof *p);
    if (!p) return NULL;
    if (!t)
        for (int64_t c = 0; c < n; ++c) p[c] = otherwise;
    else if ((t = rush_contiguous_copy(t))) rush_convert(p, RUSH_F64, 8, rush_ptr(t), t->dtype, t->ndim ? rush_dtypes[t->dtype].size : 0, n);
    else return NULL;
    return p;
}

static void store(rush_tensor *t, const double *p, int64_t n)
{
    rush_tensor *to = t->flags & RUSH_T_NEG ? rush_tensor_new(t->dtype, t->device, t->ndim, t->size) : t;
    if (to) rush_convert(rush_ptr(to), t->dtype, t->ndim ? to->stride[t->ndim - 1] * (int64_t)rush_dtypes[t->dtype].size : 0, p, RUSH_F64, 8, n);
    if (to && to != t) rush_copy_into(t, to);
}

/* The same in the kernels' type. */
static void *typed(const double *p, int64_t n, rush_dtype d)
{
    float *f = p && d == RUSH_F32 ? rush_scope_alloc((size_t)RUSH_MAX(n, 1) * sizeof *f) : NULL;
    if (f) rush_convert(f, RUSH_F32, 4, p, RUSH_F64, 8, n);
    return d == RUSH_F32 ? f : (void *)p;
}

static double fused(rush_dtype d, double a, double b, double c) { return d == RUSH_F32 ? fmaf((float)a, (float)b, (float)c) : fma(a, b, c); }

/* running = momentum * now + (1 - momentum) * running; the variance's sum is rounded once. */
static void follow(rush_tensor *running, const double *now, double momentum, bool once, rush_dtype d, int64_t n)
{
    double *r = running ? numbers(running, n, 0) : NULL, m = rush_round_to(momentum, d), rest = rush_round_to(1 - m, d);
    if (!r) return;
    rush_storage_touch(running->storage); /* the schema does not say that it is written */
    for (int64_t c = 0; c < n; ++c) {
        double kept = rush_round_to(rest * r[c], d);
        r[c] = once ? fused(d, m, now[c], kept) : rush_round_to(rush_round_to(m * now[c], d) + kept, d);
    }
    store(running, r, n);
}

typedef struct job {
    rush_norm_channels a;
    int type;
    rush_dtype half; /* what x, dy and y are of where they are read piece by piece as floats; else F32 */
    atomic_bool failed;
} job;

typedef void (*channel_kernel)(const rush_norm_channels *, int64_t begin, int64_t end);

/* The same job for channels from c on. */
static rush_norm_channels from_channel(const job *j, int64_t c)
{
    rush_norm_channels a = j->a;
    const void **number[] = {&a.center, &a.rstd, &a.w, &a.scale, &a.shift, &a.slope};
    for (int i = 0; i < RUSH_COUNT(number); ++i)
        if (*number[i]) *number[i] = (const float *)*number[i] + c;
    if (a.mean) a.mean = (float *)a.mean + c, a.spread = (float *)a.spread + c;
    if (a.sum) a.sum += c, a.dot += c;
    return a;
}

static void widen(const job *j, float *to, const void *from, int64_t at, int64_t n)
{
    rush_convert_many(to, RUSH_F32, 4, (const char *)from + 2 * at, j->half, 2, n);
}

enum { PIECE = 4096 }; /* elements of a half type that are floats at a time */

/* Rows [begin, end) of batch * channels, as many at once as a piece holds of one image, or a part of one. */
static void apply_halves(const job *j, channel_kernel kernel, int64_t begin, int64_t end)
{
    float x[PIECE], dy[PIECE], y[PIECE];
    int64_t inner = j->a.inner, step = RUSH_MAX(PIECE / inner, 1);
    for (int64_t r = begin, rows; r < end; r += rows) {
        int64_t c = r % j->a.channels;
        rows = RUSH_MIN(RUSH_MIN(step, end - r), j->a.channels - c);
        rush_norm_channels a = from_channel(j, c);
        a.x = x, a.dy = dy, a.y = y;
        a.channels = rows;
        for (int64_t i = 0, n = rows * inner, part; i < n; i += part) {
            int64_t at = r * inner + i;
            part = n - i == PIECE + 1 ? PIECE - 1 : RUSH_MIN(n - i, PIECE); /* a row of one is another case */
            a.inner = rows == 1 ? part : inner;
            widen(j, x, j->a.x, at, part);
            if (j->a.dy) widen(j, dy, j->a.dy, at, part);
            kernel(&a, 0, rows);
            rush_convert_many((char *)j->a.y + 2 * at, j->half, 2, y, RUSH_F32, 4, part);
        }
    }
}

/* A channel at a time, all its images side by side. */
static void reduce_halves(job *j, channel_kernel kernel, int64_t begin, int64_t end)
{
    int64_t inner = j->a.inner, n = j->a.batch * inner;
    size_t got;
    float *room = rush_block_alloc((size_t)n * sizeof *room * (j->a.dy ? 2 : 1), &got);
    if (!room) {
        rush_error_clear(); /* this thread may be a helper: the caller tells */
        j->failed = true;
        return;
    }
    for (int64_t c = begin; c < end; ++c) {
        rush_norm_channels a = from_channel(j, c);
        a.x = room, a.dy = room + n;
        a.channels = 1;
        for (int64_t b = 0; b < a.batch; ++b) {
            int64_t at = (b * j->a.channels + c) * inner;
            widen(j, room + b * inner, j->a.x, at, inner);
            if (j->a.dy) widen(j, room + n + b * inner, j->a.dy, at, inner);
        }
        kernel(&a, 0, 1);
    }
    rush_block_free(room, got);
}

static void apply(job *j, channel_kernel kernel, int64_t begin, int64_t end)
{
    if (j->half == RUSH_F32) kernel(&j->a, begin, end);
    else apply_halves(j, kernel, begin, end);
}

static void reduce(job *j, channel_kernel kernel, int64_t begin, int64_t end)
{
    if (j->half == RUSH_F32) kernel(&j->a, begin, end);
    else reduce_halves(j, kernel, begin, end);
}

static void run_apply(void *arg, int64_t begin, int64_t end) { job *j = arg; apply(j, rush_k_norm->apply[j->type], begin, end); }
static void run_apply_back(void *arg, int64_t begin, int64_t end) { job *j = arg; apply(j, rush_k_norm->apply_back[j->type], begin, end); }
static void run_moments(void *arg, int64_t begin, int64_t end) { job *j = arg; reduce(j, rush_k_norm->moments[j->type], begin, end); }
static void run_sums(void *arg, int64_t begin, int64_t end) { job *j = arg; reduce(j, rush_k_norm->sums[j->type], begin, end); }

/* The two reductions, over all channels. */
static int reduce_all(job *j, void (*run)(void *, int64_t, int64_t))
{
    rush_parallel_for(j->a.channels, 1 + 16384 / (j->a.batch * j->a.inner + 1), run, j);
    return j->failed ? rush_fail(RUSH_MEMORY_ERROR, "out of memory for the %lld values of a channel", (long long)(j->a.batch * j->a.inner)) : 0;
}

/* Is it read piece by piece? Pieces are worth it where rows are; what lies otherwise is made floats as a whole. */
static bool by_pieces(const rush_tensor *t)
{
    return rush_dtypes[t->dtype].size == 2 && t->ndim > 2 && rush_contiguous(t) && !(t->flags & RUSH_T_NEG) && t->numel > t->size[0] * t->size[1];
}

static bool channels_last(const rush_tensor *t) { return t->flags & RUSH_T_CHANNELS_LAST && !rush_contiguous(t) && !(t->flags & RUSH_T_NEG); }

/* x as (batch, channels, inner) in the kernels' type, or in its own where it is read by pieces; `last`: it lies channels-last and is to be read so. */
static const void *read_as(job *j, const rush_tensor *x, rush_dtype d, bool last)
{
    int64_t c = channels_of(x);
    j->type = d == RUSH_F64;
    j->a.channels = c;
    j->a.inner = 1;
    if (last) {
        const rush_tensor *copy = rush_cast_copy(rush_pixels(x), d);
        j->a.batch = x->numel / c;
        return copy ? rush_ptr(copy) : NULL;
    }
    j->a.batch = x->size[0];
    for (int k = 2; k < x->ndim; ++k) j->a.inner *= x->size[k];
    if (j->half != RUSH_F32) return rush_ptr(x);
    rush_tensor *copy = rush_cast_copy(x, d);
    return copy ? rush_ptr(copy) : NULL;
}

/* Of the batch that j reads in type d: means and biased variances, rounded to `kept`; the running ones follow, unless the batch is empty. */
static int statistics(job *j, rush_dtype d, rush_dtype kept, double *mean, double *var, rush_tensor *running_mean, rush_tensor *running_var, double momentum)
{
    int64_t c = j->a.channels, count = j->a.batch * j->a.inner;
    size_t size = (size_t)rush_dtypes[d].size;
    j->a.mean = rush_scope_alloc((size_t)c * size), j->a.spread = rush_scope_alloc((size_t)c * size);
    if (!j->a.mean || !j->a.spread) return -1;
    if (!count) { /* however many rows of nothing there are */
        memset(mean, 0, (size_t)c * sizeof *mean), memset(var, 0, (size_t)c * sizeof *var);
        return 0;
    }
    if (reduce_all(j, run_moments)) return -1;
    rush_convert(mean, RUSH_F64, 8, j->a.mean, d, (int64_t)size, c);
    rush_convert(var, RUSH_F64, 8, j->a.spread, d, (int64_t)size, c);
    for (int64_t k = 0; k < c; ++k) mean[k] = rush_round_to(mean[k], kept), var[k] = rush_round_to(var[k], kept);
    follow(running_mean, mean, momentum, false, kept, c);
    if (running_var) {
        double *unbiased = rush_scope_alloc((size_t)c * sizeof *unbiased);
        if (!unbiased) return -1;
        for (int64_t k = 0; k < c; ++k) unbiased[k] = rush_round_to(var[k] / (double)(count - 1), kept);
        follow(running_var, unbiased, momentum, true, kept, c);
    }
    for (int64_t k = 0; k < c; ++k) var[k] = rush_round_to(var[k] / (double)count, kept);
    return 0;
}

static void norm_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[X].t;
    int64_t c = channels_of(x);
    rush_dtype d = x->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
    double eps = D_(in[EPS]);
    if (!c) return;
    double *mean = numbers(T_(in[MEAN]), c, 0), *var = numbers(T_(in[VAR]), c, 1);
    double *w = numbers(T_(in[W]), c, 1), *b = numbers(T_(in[B]), c, 0);
    if (!mean || !var || !w || !b) return;
    rush_tensor *y = out[0].t;
    bool last = channels_last(x) && channels_last(y);
    bool pieces = by_pieces(x) && rush_contiguous(y);
    job j = {.half = pieces ? x->dtype : RUSH_F32};
    j.a.x = read_as(&j, x, d, last);
    if (!j.a.x && x->numel) return;
    if (in[TRAINING].i) {
        if (statistics(&j, d, out[1].t->dtype == RUSH_BF16 ? RUSH_BF16 : d, mean, var, T_(in[MEAN]), T_(in[VAR]), D_(in[MOMENTUM]))) return;
        store(out[1].t, mean, c);
        for (int64_t k = 0; k < c; ++k) var[k] = rush_round_to(1 / sqrt(var[k] + eps), d);
        store(out[2].t, var, c);
        mean = numbers(out[1].t, c, 0), var = numbers(out[2].t, c, 1); /* what is saved in half types is what counts */
        if (!mean || !var) return;
    } else {
        for (int64_t k = 0; k < c; ++k) var[k] = rush_round_to(1 / rush_round_to(sqrt(rush_round_to(var[k] + rush_round_to(eps, d), d)), d), d);
    }
    if (!x->numel) return;
    for (int64_t k = 0; k < c; ++k) {
        w[k] = rush_round_to(var[k] * w[k], d);
        b[k] = fused(d, -mean[k], w[k], b[k]);
    }
    rush_tensor *lies = last ? rush_pixels(y) : y;
    if (!lies) return;
    bool direct = pieces || (lies->dtype == d && rush_contiguous(lies));
    rush_tensor *to = direct ? lies : rush_tensor_new(d, x->device, lies->ndim, lies->size);
    j.a.scale = typed(w, c, d), j.a.shift = typed(b, c, d);
    if (!to || !j.a.scale || !j.a.shift) return;
    j.a.y = rush_ptr(to);
    int64_t tasks = j.a.inner == 1 ? j.a.batch : j.a.batch * c, each = j.a.inner == 1 ? c : j.a.inner;
    rush_parallel_for(tasks, 1 + 32768 / (each + 1), run_apply, &j);
    if (!direct) rush_copy_into(lies, to);
}

/* ---- backward: in = grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask ---- */

static int back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[1].t, *w = T_(in[2]);
    int64_t c = channels_of(x);
    const int64_t *mask = in[9].ints;
    if (check_input(x)) return -1;
    RUSH_CHECK(rush_same_sizes(in[0].t, x), RUSH_RUNTIME_ERROR, "grad_out of size %s for an input of size %s", rush_shape_of(in[0].t), rush_shape_of(x));
    for (int k = 2; k < 7; ++k) {
        bool unused = in[7].i ? k == 3 || k == 4 : k > 4;
        RUSH_CHECK(unused || !HAS(in[k]) || (in[k].t->numel == c && in[k].t->ndim < 2), RUSH_RUNTIME_ERROR, "argument %d should contain %lld elements not %lld", k,
                   (long long)c, (long long)in[k].t->numel);
    }
    rush_dtype d = w ? (rush_dtype)w->dtype : (rush_dtype)x->dtype;
    if (mask[0] && !rush_out_format(out, 0, result_format(x), x, x->dtype, x->ndim, x->size)) return -1;
    if (mask[1] && !rush_out_t(out, 1, x, d, 1, &c)) return -1;
    return mask[2] && !rush_out_t(out, 2, x, d, 1, &c) ? -1 : 0;
}

static void back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *g = in[0].t, *x = in[1].t;
    bool train = in[7].i;
    int64_t c = channels_of(x), count = c ? x->numel / c : 0;
    rush_dtype d = x->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
    rush_tensor *dx = T_(out[0]);
    if (!count) { /* however many rows of nothing there are */
        for (int k = 1; k < 3; ++k) if (HAS(out[k])) rush_clear(out[k].t);
        return;
    }
    double *w = numbers(T_(in[2]), c, 1), *mean = numbers(T_(train ? in[5] : in[3]), c, 0), *invstd = numbers(T_(train ? in[6] : in[4]), c, 1);
    if (!w || !mean || !invstd) return;
    for (int64_t k = 0; k < c && !train; ++k) invstd[k] = rush_round_to(1 / sqrt(invstd[k] + D_(in[8])), d);
    bool last = channels_last(x) && channels_last(g) && (!dx || channels_last(dx));
    bool pieces = by_pieces(x) && by_pieces(g) && g->dtype == x->dtype && (!dx || rush_contiguous(dx));
    rush_tensor *lies = last && dx ? rush_pixels(dx) : dx;
    bool direct = lies && (pieces || lies->dtype == d) && rush_contiguous(lies);
    rush_tensor *to = direct || !lies ? lies : rush_tensor_new(d, x->device, lies->ndim, lies->size);
    job j = {.a = {.center = typed(mean, c, d), .rstd = typed(invstd, c, d), .w = typed(w, c, d)}, .half = pieces ? x->dtype : RUSH_F32};
    j.a.dy = read_as(&j, g, d, last);
    j.a.x = read_as(&j, x, d, last);
    if ((x->numel && (!j.a.x || !j.a.dy)) || !j.a.center || !j.a.rstd || !j.a.w) return;
    j.a.sum = rush_scope_alloc((size_t)c * sizeof(double));
    j.a.dot = rush_scope_alloc((size_t)c * sizeof(double));
    if (!j.a.sum || !j.a.dot) return;
    if (reduce_all(&j, run_sums)) return;
    if (train) {
        double *shift = rush_scope_alloc((size_t)c * sizeof *shift), *slope = rush_scope_alloc((size_t)c * sizeof *slope);
        if (!shift || !slope) return;
        for (int64_t k = 0; k < c; ++k) {
            shift[k] = j.a.sum[k] / (double)count;
            slope[k] = rush_round_to(rush_round_to(rush_round_to(rush_round_to(j.a.dot[k], d) * invstd[k], d) * invstd[k], d) / (double)count, d);
        }
        if (!(j.a.shift = typed(shift, c, d)) || !(j.a.slope = typed(slope, c, d))) return;
    }
    if (HAS(out[2])) store(out[2].t, j.a.sum, c);
    for (int64_t k = 0; k < c; ++k) j.a.dot[k] *= invstd[k];
    if (HAS(out[1])) store(out[1].t, j.a.dot, c);
    if (!dx || !to || !x->numel) return;
    j.a.y = rush_ptr(to);
    int64_t tasks = j.a.inner == 1 ? j.a.batch : j.a.batch * c;
    rush_parallel_for(tasks, 1 + 32768 * tasks / (x->numel + 1), run_apply_back, &j);
    if (!direct) rush_copy_into(lies, to);
}

static rush_tensor *per_channel(rush_tensor *t, const rush_tensor *x)
{
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < x->ndim; ++d) size[d] = d == 1 ? -1 : 1;
    return T("view", V(t), rush_v_ints(size, x->ndim));
}

static void norm_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[X].t, *w = T_(s->in[W]), *rstd;
    if (!g) return;
    if (!rush_grad_enabled()) {
        rush_value out[3];
        if (TN(out, "native_batch_norm_backward", V(g), V(x), s->in[W], s->in[MEAN], s->in[VAR], s->out[1], s->out[2], s->in[TRAINING], s->in[EPS],
               INTS(rush_needs(s, X), rush_needs(s, W), rush_needs(s, B))))
            return;
        for (int k = 0; k < 3; ++k) s->gin[k] = T_(out[k]);
        return;
    }
    int64_t room[RUSH_MAXDIM];
    int n = 0;
    for (int d = 0; d < x->ndim; ++d)
        if (d != 1) room[n++] = d;
    rush_value dims = rush_v_ints(room, n);
    rush_tensor *hat, *gw = w ? mul(g, per_channel(w, x)) : g;
    if (s->in[TRAINING].i) {
        hat = rush_normalised(x, dims, D_(s->in[EPS]), true, &rstd);
        if (rush_needs(s, X)) s->gin[X] = rush_norm_gradient(gw, hat, rstd, dims, true);
    } else {
        rstd = per_channel(rsqrt(add(s->in[VAR].t, D_(s->in[EPS]))), x);
        hat = mul(sub(x, per_channel(s->in[MEAN].t, x)), rstd);
        if (rush_needs(s, X)) s->gin[X] = mul(gw, rstd);
    }
    if (rush_needs(s, W)) s->gin[W] = T("sum.dim_IntList", V(mul(g, hat)), dims);
    if (rush_needs(s, B)) s->gin[B] = T("sum.dim_IntList", V(g), dims);
}

static rush_op op_native_batch_norm = {
    .schema = "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
              "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    .doc = "batch_norm, with the batch's means and the reciprocals of its deviations (empty when not training).",
    .shape = norm_shape, .cpu = norm_cpu, .grad = norm_grad, .saves = "input, weight, running_mean, running_var, result1, result2",
    .flags = RUSH_FIRST_GRAD,
};
static rush_op op_native_batch_norm_backward = {
    .schema = "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, "
              "Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc = "Gradients of native_batch_norm for input, weight, bias.",
    .shape = back_shape, .cpu = back_cpu, .flags = RUSH_HIDDEN,
};

/* ---- the other names ---- */

static int batch_norm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value r[3];
    if (TN(r, "native_batch_norm", in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7])) return -1;
    out[0] = r[0];
    return 0;
}

/* PyTorch's has room for what a vendor's kernel keeps, also where it is the CPU's that runs. */
static int batch_norm_open(const rush_op *op, const rush_value *in, rush_value *out)
{
    return T("empty.memory_format", INTS(0), V(RUSH_U8)) ? batch_norm_run(op, in, out) : -1;
}

static int legit_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return TN(out, "native_batch_norm", in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]);
}

static int no_stats_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return TN(out, "native_batch_norm", in[0], in[1], in[2], RUSH_NONE, RUSH_NONE, in[3], in[4], in[5]);
}

static int no_training_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return TN(out, "native_batch_norm", in[0], in[1], in[2], in[3], in[4], V(false), in[5], in[6]);
}

/* The fourth result is what another library would keep for its backward. */
static int reserve(const rush_value *in, rush_value *out, int i)
{
    int64_t none = 0;
    return rush_out_t(out, i, in[0].t, RUSH_U8, 1, &none) ? 0 : -1;
}

static int with_update_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return TN(out, "native_batch_norm", in[0], in[1], in[2], in[3], in[4], V(true), in[5], in[6]) || reserve(in, out, 3);
}

static int no_update_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return TN(out, "native_batch_norm", in[0], in[1], in[2], in[3], in[4], V(false), in[5], in[6]) || reserve(in, out, 3);
}

static int impl_index_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (TN(out, "native_batch_norm", in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]) || reserve(in, out, 3)) return -1;
    out[4] = rush_v_int(0);
    return 0;
}

static int functional_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *mean = T("clone", in[3]), *var = T("clone", in[4]);
    if (TN(out, "native_batch_norm", in[0], in[1], in[2], V(mean), V(var), in[5], in[6], in[7])) return -1;
    out[3] = rush_v_tensor(mean);
    out[4] = rush_v_tensor(var);
    return 0;
}

static rush_op op_batch_norm = {
    .schema = "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, "
              "float eps, bool cudnn_enabled) -> Tensor",
    .doc = "(input - mean) / sqrt(var + eps) * weight + bias per channel, dim 1 (Ioffe and Szegedy 2015). When training, mean and var are the "
           "batch's, and the running ones follow them by momentum; else they are the running ones.",
    .run = batch_norm_run, .open = batch_norm_open,
};
static rush_op op_legit = {
    .schema = "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, "
              "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    .doc = "native_batch_norm, whose signature says what it changes.", .run = legit_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};
static rush_op op_legit_no_stats = {
    .schema = "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    .doc = "native_batch_norm without running statistics.", .run = no_stats_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};
static rush_op op_legit_no_training = {
    .schema = "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
              "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    .doc = "native_batch_norm by the running statistics.", .run = no_training_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};
static rush_op op_legit_functional = {
    .schema = "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, "
              "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    .doc = "native_batch_norm that returns the new running statistics instead of changing the old.", .run = functional_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};
static rush_op op_with_update = {
    .schema = "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, "
              "float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    .doc = "native_batch_norm when training.", .run = with_update_run, .flags = RUSH_HIDDEN,
};
static rush_op op_no_update = {
    .schema = "_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, "
              "float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    .doc = "native_batch_norm when not training.", .run = no_update_run, .flags = RUSH_HIDDEN,
};
static rush_op op_impl_index = {
    .schema = "_batch_norm_impl_index(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
              "float momentum, float eps, bool cudnn_enabled) -> (Tensor, Tensor, Tensor, Tensor, int)",
    .doc = "native_batch_norm, and which library did it: always 0.", .run = impl_index_run, .flags = RUSH_HIDDEN,
};

/* ---- batch_norm_update_stats: in = input, running_mean, running_var, momentum ---- */

static int update_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    RUSH_CHECK(x->ndim >= 2 && rush_dtype_is_float(x->dtype), RUSH_RUNTIME_ERROR, "batch_norm_update_stats needs a floating tensor of two or more dims");
    RUSH_CHECK(x->numel, RUSH_RUNTIME_ERROR, "input tensor must have at least one element, but got input_sizes = %s", rush_shape_of(x));
    int64_t c = x->size[1];
    for (int k = 1; k <= 2; ++k)
        RUSH_CHECK(!HAS(in[k]) || (in[k].t->numel == c && in[k].t->ndim < 2 && rush_dtype_is_float(in[k].t->dtype)), RUSH_RUNTIME_ERROR,
                   "running_%s should be %lld floating elements in one dim, not of shape %s and %s", k == 1 ? "mean" : "var", (long long)c, rush_shape_of(in[k].t),
                   rush_dtype_name(in[k].t->dtype));
    return rush_out_t(out, 0, x, x->dtype, 1, &c) && rush_out_t(out, 1, x, x->dtype, 1, &c) ? 0 : -1;
}

static void update_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    int64_t c = x->size[1];
    rush_dtype d = x->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
    double *mean = numbers(NULL, c, 0), *var = numbers(NULL, c, 0);
    job j = {.half = RUSH_F32};
    if (!c || !mean || !var || (!(j.a.x = read_as(&j, x, d, x->dtype == d && channels_last(x))) && x->numel)) return;
    if (statistics(&j, d, x->dtype == RUSH_BF16 ? RUSH_BF16 : d, mean, var, T_(in[1]), T_(in[2]), D_(in[3]))) return;
    store(out[0].t, mean, c);
    store(out[1].t, var, c);
}

static rush_op op_update_stats = {
    .schema = "batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum) -> (Tensor, Tensor)",
    .doc = "The batch's mean and variance per channel, followed by the running ones.",
    .shape = update_shape, .cpu = update_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

/* ---- instance norm: batch norm of (1, batch * channels, ...) ---- */

static rush_tensor *repeated(rush_value v, int64_t n) { return HAS(v) ? T("repeat", v, INTS(n)) : NULL; }

static int instance_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    bool own = in[5].i; /* use_input_stats */
    RUSH_CHECK(own || (HAS(in[3]) && HAS(in[4])), RUSH_RUNTIME_ERROR, "Expected running_mean and running_var to be defined when use_input_stats is false");
    RUSH_CHECK(x->ndim >= 2, RUSH_RUNTIME_ERROR, "instance_norm needs an input of two or more dims, not of shape %s", rush_shape_of(x));
    int64_t b = x->size[0], c = x->size[1], size[RUSH_MAXDIM];
    memcpy(size, x->size, sizeof *size * x->ndim);
    size[0] = 1, size[1] = b * c;
    rush_tensor *mean = repeated(in[3], b), *var = repeated(in[4], b);
    rush_tensor *flat = T("reshape", V(T("contiguous", V(x))), rush_v_ints(size, x->ndim));
    rush_value r[3];
    if (TN(r, "native_batch_norm", V(flat), V(repeated(in[1], b)), V(repeated(in[2], b)), V(mean), V(var), in[5], in[6], in[7])) return -1;
    /* The running statistics become the batch's averages. */
    rush_tensor *running[2] = {T_(in[3]), T_(in[4])}, *now[2] = {mean, var};
    for (int k = 0; k < 2 && own; ++k) {
        if (!running[k] || !now[k]) continue;
        rush_tensor *average = T("mean.dim", V(T("view", V(now[k]), INTS(b, c))), INTS(0));
        if (average) T("copy_", V(running[k]), V(average));
    }
    return rush_result(out, T("view", V(r[0].t), rush_v_ints(x->size, x->ndim)));
}

static rush_op op_instance_norm = {
    .schema = "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, "
              "float momentum, float eps, bool cudnn_enabled) -> Tensor",
    .doc = "batch_norm of each sample by itself (Ulyanov et al. 2016).", .run = instance_run,
};

RUSH_FAMILY(batch_norm, &op_native_batch_norm, &op_native_batch_norm_backward, &op_batch_norm, &op_legit, &op_legit_no_stats,
            &op_legit_no_training, &op_legit_functional, &op_with_update, &op_no_update, &op_impl_index, &op_update_stats, &op_instance_norm)
