/* fft.c - torch.fft: three transforms (complex, real to complex, complex to real) and what is composed of them.
 *
 * A transform over several dims goes dim by dim over a contiguous complex copy. Lines are transformed as many together
 * as a vector has numbers; few or very long ones alone.
 */
#include "kernels/cpu/fft.h"
#include "op/formula.h"
#include <math.h>

/* ---- plans, kept by length: a small table, oldest out ---- */

typedef struct kept {
    rush_fft_plan *plan;
    int64_t n;
    int type, forward, users;
    uint64_t used;
} kept;

static struct {
    kept slot[32];
    uint64_t clock;
} plans;

static kept *take_plan(int type, int64_t n, bool forward)
{
    rush_lock(RUSH_LOCK_FFT);
    kept *found = NULL, *oldest = NULL;
    for (size_t i = 0; i < RUSH_COUNT(plans.slot); ++i) {
        kept *k = &plans.slot[i];
        if (k->plan && k->n == n && k->type == type && k->forward == forward) found = k;
        if (!k->users && (!oldest || !k->plan || (oldest->plan && k->used < oldest->used))) oldest = k;
    }
    if (!found && oldest) {
        rush_fft_plan *made = rush_k_fft->plan[type](n, forward);
        if (made) {
            if (oldest->plan) rush_k_fft->end[oldest->type](oldest->plan);
            *oldest = (kept){.plan = made, .n = n, .type = type, .forward = forward};
            found = oldest;
        }
    } else if (!found) {
        rush_fail(RUSH_RUNTIME_ERROR, "too many transforms at once");
    }
    if (found) {
        ++found->users;
        found->used = ++plans.clock;
    }
    rush_unlock(RUSH_LOCK_FFT);
    return found;
}

static void give_plan(kept *k)
{
    rush_lock(RUSH_LOCK_FFT);
    --k->users;
    rush_unlock(RUSH_LOCK_FFT);
}

/* ---- lines along one dim of contiguous tensors ---- */

typedef struct lines {
    const char *x;
    char *y;
    int64_t count, inner;                       /* of lines; how many stand side by side */
    int64_t x_outer, x_inner, y_outer, y_inner; /* bytes from one to the next, outside the dim and inside */
    rush_fft_lines job;
    const rush_fft_plan *plan;
    int type;
    size_t item; /* of a complex number */
    atomic_bool failed;
} lines;

enum { LONG = 1 << 14, FEW = 4 };

static bool together(int64_t n, int64_t count) { return count >= FEW && n <= LONG; }

static void run_together(void *arg, int64_t begin, int64_t end)
{
    lines *l = arg;
    const int lanes = rush_k_fft->lanes[l->type];
    void *scratch = malloc(rush_k_fft->scratch[l->type](l->plan, true));
    if (!scratch) l->failed = true;
    rush_fft_lines job = l->job;
    for (int64_t i = begin; scratch && i < end; ++i) {
        int count = (int)RUSH_MIN(lanes, l->count - i * lanes);
        for (int k = 0; k < count; ++k) {
            int64_t line = i * lanes + k, a = line / l->inner, b = line % l->inner;
            job.x[k] = l->x + a * l->x_outer + b * l->x_inner;
            job.y[k] = l->y + a * l->y_outer + b * l->y_inner;
        }
        rush_k_fft->run_many[l->type](l->plan, &job, count, scratch);
    }
    free(scratch);
}

/* Complex lines, in place. */
static void run_alone(void *arg, int64_t begin, int64_t end)
{
    lines *l = arg;
    const int64_t n = l->job.n, step = l->inner * (int64_t)l->item;
    char *scratch = malloc(rush_k_fft->scratch[l->type](l->plan, false)), *block = malloc((size_t)n * l->item);
    if (!scratch || !block) l->failed = true;
    for (int64_t i = begin; i < end && !l->failed; ++i) {
        char *at = l->y + i / l->inner * l->y_outer + i % l->inner * l->y_inner, *line = l->inner == 1 ? at : block;
        for (int64_t k = 0; k < n && line != at; ++k) memcpy(line + k * (int64_t)l->item, at + k * step, l->item);
        rush_k_fft->run[l->type](l->plan, line, scratch);
        for (int64_t k = 0; k < 2 * n && l->job.scale != 1; ++k)
            if (l->type) ((double *)(void *)line)[k] *= l->job.scale;
            else ((float *)(void *)line)[k] *= (float)l->job.scale;
        for (int64_t k = 0; k < n && line != at; ++k) memcpy(at + k * step, line + k * (int64_t)l->item, l->item);
    }
    free(scratch);
    free(block);
}

/* The transforms of n points along dim of contiguous x to contiguous y (which may be x), times scale; x and y differ in that
 * dim's size only. y_last: of what is contiguous in y dim is the last. -1 and an error. */
static int transform_lines(const rush_tensor *x, rush_tensor *y, int dim, bool y_last, int64_t n, int kind, bool forward, double scale)
{
    int64_t inner = 1, outer = 1;
    for (int d = 0; d < dim; ++d) outer *= x->size[d];
    for (int d = dim + 1; d < x->ndim; ++d) inner *= x->size[d];
    const int type = rush_dtype_real(x->dtype) == RUSH_F64;
    const int64_t y_step = y_last ? 1 : inner, y_inner = y_last ? y->size[dim] : 1;
    const int64_t xs = rush_dtypes[x->dtype].size, ys = rush_dtypes[y->dtype].size, real = type ? 8 : 4;
    if (!y->numel || !x->numel) return 0;
    kept *k = take_plan(kind != RUSH_FFT_COMPLEX && n % 2 == 0 ? 2 + type : type, n, forward);
    if (!k) return -1;
    lines l = {.x = rush_ptr(x), .y = rush_ptr(y), .count = outer * inner, .inner = inner, .x_outer = x->size[dim] * inner * xs, .x_inner = xs,
               .y_outer = y->size[dim] * inner * ys, .y_inner = y_inner * ys, .plan = k->plan, .type = type, .item = (size_t)real * 2,
               .job = {.kind = kind, .n = n, .have = x->size[dim], .x_step = inner * xs / real, .y_step = y_step * ys / real, .scale = scale}};
    if (kind != RUSH_FFT_COMPLEX || together(n, l.count)) {
        const int64_t lanes = rush_k_fft->lanes[type];
        rush_parallel_for((l.count + lanes - 1) / lanes, RUSH_MAX(1, 32768 / (n * lanes)), run_together, &l);
    } else {
        rush_parallel_for(l.count, RUSH_MAX(1, 8192 / n), run_alone, &l);
    }
    give_plan(k);
    RUSH_CHECK(!l.failed, RUSH_MEMORY_ERROR, "out of memory for a transform of length %lld", (long long)n);
    return 0;
}

static int transform_dim(rush_tensor *t, int dim, bool forward, double scale)
{
    return transform_lines(t, t, dim, false, t->size[dim], RUSH_FFT_COMPLEX, forward, scale);
}

static double scale_of(const rush_tensor *t, rush_value dims, int64_t norm)
{
    double n = 1;
    for (uint32_t i = 0; i < dims.n; ++i) n *= (double)t->size[rush_dim_wrap(dims.ints[i], t->ndim)];
    return norm == 0 ? 1 : norm == 1 ? 1 / sqrt(n) : 1 / n;
}

static void scale(rush_tensor *t, double k)
{
    if (k == 1) return;
    int64_t n = t->numel * (rush_dtype_is_complex(t->dtype) ? 2 : 1);
    if (rush_dtype_real(t->dtype) == RUSH_F64) for (int64_t i = 0; i < n; ++i) ((double *)rush_ptr(t))[i] *= k;
    else for (int64_t i = 0; i < n; ++i) ((float *)rush_ptr(t))[i] *= (float)k;
}

/* ---- the three records: ATen's names; normalization 0 none, 1 by sqrt(n), 2 by n ---- */

/* Dims counted from 0, each once; `to` has room for RUSH_MAXDIM. */
static int read_dims(const rush_tensor *x, rush_value dims, int64_t *to)
{
    bool seen[RUSH_MAXDIM] = {false};
    for (uint32_t i = 0; i < dims.n; ++i) {
        int d = rush_dim_wrap(dims.ints[i], x->ndim);
        if (d < 0) return -1;
        RUSH_CHECK(!seen[d], RUSH_RUNTIME_ERROR, "FFT dims must be unique");
        seen[d] = true;
        to[i] = d;
    }
    return 0;
}

/* Kernels do not fail over dims: they are told apart here. */
static int check_dims(const rush_tensor *x, rush_value dims)
{
    int64_t read[RUSH_MAXDIM];
    if (read_dims(x, dims, read)) return -1;
    RUSH_CHECK(x->ndim || !dims.n, RUSH_RUNTIME_ERROR, "FFT dims must be unique");
    return 0;
}

/* ---- results as they lie in PyTorch's memory: the transformed dims innermost ---- */

/* Sorts n dims by their strides, the largest first; of equal ones the order stays. */
static void sort_dims(int n, int *dim, const int64_t *stride)
{
    for (int i = 1; i < n; ++i) {
        int d = dim[i], at = i;
        for (; at > 0 && stride[dim[at - 1]] < stride[d]; --at) dim[at] = dim[at - 1];
        dim[at] = d;
    }
}

/* Result 0, of this size. keeps_last: the last of the dims, along which one side is real, is the innermost whatever its stride. */
static int out_ordered(rush_value *out, const rush_tensor *x, rush_dtype dtype, const int64_t *size, rush_value dims, bool keeps_last)
{
    if (HAS(out[0])) return rush_out_t(out, 0, x, dtype, x->ndim, size) ? 0 : -1;
    if (rush_numel_of(x->ndim, size) < 0) return -1;
    bool transformed[RUSH_MAXDIM] = {false};
    int order[RUSH_MAXDIM], lead = 0, end = x->ndim, n = (int)dims.n;
    int64_t stride[RUSH_MAXDIM], next = 1;
    for (int i = 0; i < x->ndim; ++i) order[i] = i;
    for (int i = 0; i < n; ++i) transformed[rush_dim_wrap(dims.ints[i], x->ndim)] = true;
    for (;; ++lead) { /* the others to the front, by exchanges with the last one: so ties are where PyTorch has them */
        while (lead < end && !transformed[order[lead]]) ++lead;
        while (lead < end && transformed[order[end - 1]]) --end;
        if (lead >= end) break;
        int d = order[lead];
        order[lead] = order[--end];
        order[end] = d;
    }
    for (int i = 0; i < n; ++i) order[lead + i] = rush_dim_wrap(dims.ints[i], x->ndim);
    sort_dims(lead, order, x->stride);
    sort_dims(n - keeps_last, order + lead, x->stride);
    for (int i = x->ndim - 1; i >= 0; --i) {
        stride[order[i]] = next;
        next *= RUSH_MAX(size[order[i]], 1);
    }
    return rush_result(out, rush_tensor_new_strided(dtype, x->device, x->ndim, size, stride));
}

/* One dim of contiguous x, which in y is the innermost and the others are as they were: written there as it is computed. */
static bool run_into_last(const rush_value *in, rush_tensor *y, int64_t n, int kind, bool forward, double scale)
{
    const rush_tensor *x = in[0].t;
    const int dim = in[1].n == 1 ? rush_dim_wrap(in[1].ints[0], x->ndim) : -1;
    if (dim < 0 || !rush_contiguous(x) || x->flags & (RUSH_T_CONJ | RUSH_T_NEG) || !x->numel || !y->numel || y->stride[dim] != 1 || !together(n, y->numel / y->size[dim]))
        return false;
    int64_t next = y->size[dim];
    for (int d = y->ndim - 1; d >= 0; --d) {
        if (d == dim) continue;
        if (y->stride[d] != next && y->size[d] != 1) return false;
        next *= y->size[d];
    }
    transform_lines(x, y, dim, true, n, kind, forward, scale);
    return true;
}

/* Runs a kernel for contiguous results on one that lies otherwise: with the dims of the call in the order of its memory. */
static void run_ordered(rush_kernel kernel, const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *y = out[0].t;
    int order[RUSH_MAXDIM];
    int64_t places[RUSH_MAXDIM], dims[RUSH_MAXDIM], permuted[RUSH_MAXDIM], size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    for (int i = 0; i < y->ndim; ++i) order[i] = i;
    sort_dims(y->ndim, order, y->stride);
    for (int i = 0; i < y->ndim; ++i) {
        permuted[i] = order[i];
        places[order[i]] = i;
        size[i] = y->size[order[i]];
        stride[i] = y->stride[order[i]];
    }
    for (uint32_t i = 0; i < in[1].n; ++i) dims[i] = places[rush_dim_wrap(in[1].ints[i], x->ndim)];
    rush_tensor *from = T("permute", in[0], rush_v_ints(permuted, (size_t)x->ndim)), *to = rush_tensor_alias(y, y->ndim, size, stride, y->offset);
    if (!from || !to) return;
    rush_value result = V(to);
    kernel(op, (const rush_value[]){V(from), rush_v_ints(dims, in[1].n), in[2], in[3]}, &result);
}

static int c2c_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (check_dims(in[0].t, in[1])) return -1;
    RUSH_CHECK(rush_dtype_is_complex(in[0].t->dtype), RUSH_RUNTIME_ERROR, "expects a complex input, got %s", rush_dtype_name(in[0].t->dtype));
    RUSH_CHECK(in[0].t->dtype != RUSH_C32, RUSH_RUNTIME_ERROR, "Unsupported dtype ComplexHalf");
    return out_ordered(out, in[0].t, in[0].t->dtype, in[0].t->size, in[1], false);
}

static void c2c_contiguous(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = out[0].t;
    if (rush_copy_into(y, in[0].t)) return;
    for (uint32_t i = 0; i < in[1].n; ++i) {
        int d = rush_dim_wrap(in[1].ints[i], y->ndim);
        if (d < 0 || transform_dim(y, d, in[3].i, i + 1 == in[1].n ? scale_of(y, in[1], in[2].i) : 1)) return;
    }
}

static void c2c_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = out[0].t;
    if (rush_contiguous(y)) c2c_contiguous(op, in, out);
    else if (!run_into_last(in, y, y->size[in[1].n ? rush_dim_wrap(in[1].ints[0], y->ndim) : 0], RUSH_FFT_COMPLEX, in[3].i, scale_of(y, in[1], in[2].i))) run_ordered(c2c_contiguous, op, in, out);
}

static void c2c_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("_fft_c2c", V(s->g[0]), s->in[1], s->in[2], V(!s->in[3].i));
}

static rush_op op__fft_c2c = {
    .schema = "_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
    .doc = "Complex discrete Fourier transform over dims.", .shape = c2c_shape, .cpu = c2c_cpu, .grad = c2c_grad,
};

static int r2c_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    if (check_dims(x, in[1])) return -1;
    RUSH_CHECK(in[1].n, RUSH_RUNTIME_ERROR, "must transform at least one axis");
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(x->dtype == RUSH_F32 || x->dtype == RUSH_F64, RUSH_RUNTIME_ERROR, "Unsupported dtype %s", rush_dtype_name(x->dtype));
    int last = rush_dim_wrap(in[1].ints[in[1].n - 1], x->ndim);
    if (last < 0) return -1;
    memcpy(size, x->size, sizeof *size * x->ndim);
    if (in[3].i) size[last] = size[last] / 2 + 1;
    return out_ordered(out, x, rush_dtype_complex(x->dtype), size, in[1], true);
}

typedef struct real_lines {
    const char *x;
    char *y;
    int64_t x_step, y_step; /* bytes from line to line */
    const rush_fft_plan *plan;
    void (*run)(const rush_fft_plan *, const void *x, void *y, void *scratch);
    size_t scratch;
    atomic_bool failed;
} real_lines;

static void run_real_alone(void *arg, int64_t begin, int64_t end)
{
    real_lines *l = arg;
    char *scratch = malloc(l->scratch);
    if (!scratch) l->failed = true;
    for (int64_t i = begin; scratch && i < end; ++i) l->run(l->plan, l->x + i * l->x_step, l->y + i * l->y_step, scratch);
    free(scratch);
}

/* Lines of n real numbers (n even) to n / 2 + 1 complex ones, or back: the last dims of contiguous x and y. */
static int transform_rows(const rush_tensor *x, rush_tensor *y, int64_t n, bool forward, double by)
{
    int type = rush_dtype_real(x->dtype) == RUSH_F64;
    kept *k = take_plan(2 + type, n, forward);
    if (!k) return -1;
    int last = x->ndim - 1;
    real_lines l = {rush_ptr(x), rush_ptr(y), x->size[last] * rush_dtypes[x->dtype].size, y->size[last] * rush_dtypes[y->dtype].size, k->plan,
                    forward ? rush_k_fft->run_real[type] : rush_k_fft->run_real_back[type], rush_k_fft->scratch[type](k->plan, false), false};
    rush_parallel_for(x->numel / x->size[last], RUSH_MAX(1, 16384 / n), run_real_alone, &l);
    give_plan(k);
    RUSH_CHECK(!l.failed, RUSH_MEMORY_ERROR, "out of memory for a transform of length %lld", (long long)n);
    scale(y, by);
    return 0;
}

static rush_tensor *transform_real(const rush_tensor *x, int last, bool onesided, double by)
{
    const int64_t n = x->size[last], count = n ? x->numel / n : 0;
    if (onesided && x->numel && (together(n, count) || (last == x->ndim - 1 && n % 2 == 0))) {
        int64_t size[RUSH_MAXDIM];
        memcpy(size, x->size, sizeof *size * x->ndim);
        size[last] = n / 2 + 1;
        rush_tensor *half = rush_tensor_new(rush_dtype_complex(x->dtype), x->device, x->ndim, size), *from = rush_contiguous_copy(x);
        if (!half || !from) return NULL;
        int failed = together(n, count) ? transform_lines(from, half, last, false, n, RUSH_FFT_REAL, true, by) : transform_rows(from, half, n, true, by);
        return failed ? NULL : half;
    }
    rush_tensor *full = rush_tensor_new(rush_dtype_complex(x->dtype), x->device, x->ndim, x->size);
    if (!full || rush_copy_into(full, x) || transform_dim(full, last, true, by)) return NULL;
    return onesided ? rush_contiguous_copy(T("narrow", V(full), V(last), V(0), V(n / 2 + 1))) : full;
}

static void r2c_contiguous(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    int last = rush_dim_wrap(in[1].ints[in[1].n - 1], x->ndim);
    rush_tensor *half = transform_real(x, last, in[3].i, scale_of(x, in[1], in[2].i));
    for (uint32_t i = 0; half && i + 1 < in[1].n; ++i)
        if (transform_dim(half, rush_dim_wrap(in[1].ints[i], x->ndim), true, 1)) return;
    if (half) rush_copy_into(out[0].t, half);
}

static void r2c_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = out[0].t;
    if (rush_contiguous(y)) r2c_contiguous(op, in, out);
    else if (!in[3].i || !run_into_last(in, y, in[0].t->size[rush_dim_wrap(in[1].ints[0], y->ndim)], RUSH_FFT_REAL, true, scale_of(in[0].t, in[1], in[2].i))) run_ordered(r2c_contiguous, op, in, out);
}

/* The half of a Hermitian signal of n numbers along dim, what stands for two of them times k. */
static rush_tensor *times_inside(rush_tensor *half, int dim, int64_t n, double k)
{
    int64_t twice = half ? n - half->size[dim] : 0, rest = half ? half->size[dim] - 1 - twice : 0;
    if (twice <= 0) return half;
    rush_tensor *parts[3] = {T("narrow", V(half), V(dim), V(0), V(1)), mul(T("narrow", V(half), V(dim), V(1), V(twice)), k)};
    if (rest > 0) parts[2] = T("narrow", V(half), V(dim), V(1 + twice), V(rest));
    return T("cat", rush_v_tensors(parts, rest > 0 ? 3 : 2), V(dim));
}

static void r2c_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[0].t;
    if (!g) return;
    int last = rush_dim_wrap(s->in[1].ints[s->in[1].n - 1], x->ndim);
    int64_t n = x->size[last];
    if (s->in[3].i) s->gin[0] = T("_fft_c2r", V(times_inside(g, last, n, 0.5)), s->in[1], s->in[2], V(n)); /* the other half has no influence of its own */
    else s->gin[0] = T("real", V(T("_fft_c2c", V(g), s->in[1], s->in[2], V(false))));
}

static rush_op op__fft_r2c = {
    .schema = "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    .doc = "Discrete Fourier transform of real numbers; onesided keeps the first half of the last dim.",
    .shape = r2c_shape, .cpu = r2c_cpu, .grad = r2c_grad,
};

static int c2r_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    if (check_dims(x, in[1])) return -1;
    RUSH_CHECK(in[1].n, RUSH_RUNTIME_ERROR, "must transform at least one axis");
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(x->dtype == RUSH_C64 || x->dtype == RUSH_C128, RUSH_RUNTIME_ERROR, "expects a complex input, got %s", rush_dtype_name(x->dtype));
    int last = rush_dim_wrap(in[1].ints[in[1].n - 1], x->ndim);
    if (last < 0) return -1;
    memcpy(size, x->size, sizeof *size * x->ndim);
    size[last] = in[3].i;
    return out_ordered(out, x, rush_dtype_real(x->dtype), size, in[1], true);
}

static void c2r_contiguous(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *y = out[0].t;
    int last = rush_dim_wrap(in[1].ints[in[1].n - 1], x->ndim);
    int64_t n = in[3].i, half = n / 2 + 1, inner = 1, outer = 1;
    const double by = scale_of(y, in[1], in[2].i);
    rush_tensor *work = rush_tensor_new(x->dtype, x->device, x->ndim, x->size);
    if (!work || rush_copy_into(work, x)) return;
    for (uint32_t i = 0; i + 1 < in[1].n; ++i)
        if (transform_dim(work, rush_dim_wrap(in[1].ints[i], x->ndim), false, 1)) return;
    if (y->numel && x->numel && rush_contiguous(y)) {
        if (together(n, y->numel / n)) {
            transform_lines(work, y, last, false, n, RUSH_FFT_REAL_BACK, false, by);
            return;
        }
        if (last == x->ndim - 1 && n % 2 == 0 && x->size[last] >= half) {
            transform_rows(work, y, n, false, by);
            return;
        }
    }
    rush_tensor *full = rush_tensor_new(x->dtype, x->device, y->ndim, y->size);
    if (!full || !y->numel) return;
    for (int d = 0; d < last; ++d) outer *= x->size[d];
    for (int d = last + 1; d < x->ndim; ++d) inner *= x->size[d];
    size_t item = rush_dtypes[x->dtype].size, part = item / 2;
    for (int64_t o = 0; o < outer; ++o) /* the other half is the conjugate, backwards */
        for (int64_t j = 0; j < n; ++j) {
            bool mirrored = j >= half;
            int64_t from = mirrored ? n - j : j;
            char *to = (char *)rush_ptr(full) + (o * n + j) * inner * item;
            if (from >= x->size[last]) {
                memset(to, 0, inner * item);
                continue;
            }
            memcpy(to, (char *)rush_ptr(work) + (o * x->size[last] + from) * inner * item, inner * item);
            for (int64_t i = 0; mirrored && i < inner; ++i)
                if (part == 4) ((float *)to)[2 * i + 1] *= -1;
                else ((double *)to)[2 * i + 1] *= -1;
        }
    bool real_ends = n > 0;
    for (int64_t o = 0; real_ends && o < outer; ++o) /* what makes no real result is not looked at */
        for (int64_t i = 0; i < inner; ++i)
            for (int64_t j = 0; j < n; j += n % 2 == 0 && n > 1 ? n / 2 : n) {
                char *at = (char *)rush_ptr(full) + ((o * n + j) * inner + i) * item + part;
                memset(at, 0, part);
            }
    if (transform_dim(full, last, false, by)) return;
    rush_convert(rush_ptr(y), y->dtype, (int64_t)part, rush_ptr(full), full->dtype, (int64_t)item, y->numel);
}

static void c2r_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = out[0].t;
    if (rush_contiguous(y)) c2r_contiguous(op, in, out);
    else if (!run_into_last(in, y, in[3].i, RUSH_FFT_REAL_BACK, false, scale_of(y, in[1], in[2].i))) run_ordered(c2r_contiguous, op, in, out);
}

static void c2r_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    int last = rush_dim_wrap(s->in[1].ints[s->in[1].n - 1], g->ndim);
    s->gin[0] = times_inside(T("_fft_r2c", V(g), s->in[1], s->in[2], V(true)), last, g->size[last], 2.0);
}

static rush_op op__fft_c2r = {
    .schema = "_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
    .doc = "Inverse transform of a Hermitian half to real numbers.", .shape = c2r_shape, .cpu = c2r_cpu, .grad = c2r_grad,
};

/* ---- torch.fft ---- */

static int norm_mode(rush_value norm, bool forward)
{
    if (!HAS(norm) || !strcmp(norm.s, "backward")) return forward ? 0 : 2;
    if (!strcmp(norm.s, "forward")) return forward ? 2 : 0;
    if (!strcmp(norm.s, "ortho")) return 1;
    rush_fail(RUSH_RUNTIME_ERROR, "Invalid normalization mode: \"%s\"", norm.s);
    return -1;
}

static rush_tensor *promoted(rush_tensor *x, bool complex)
{
    rush_dtype d = x->dtype;
    if (rush_dtypes[d].category < 2) d = rush_default_dtype();
    RUSH_CHECK_NULL(d == RUSH_F32 || d == RUSH_F64 || d == RUSH_C64 || d == RUSH_C128, RUSH_RUNTIME_ERROR, "Unsupported dtype %s", rush_dtype_name(d));
    if (complex) d = rush_dtype_is_complex(d) ? d : rush_dtype_complex(d);
    return d == x->dtype ? x : to_dtype(x, d);
}

/* x with dim cut or padded with zeros to n. */
static rush_tensor *sized(rush_tensor *x, int dim, int64_t n)
{
    if (!x || x->size[dim] == n) return x;
    if (x->size[dim] > n) return T("narrow", V(x), V(dim), V(0), V(n));
    int64_t pad[2 * RUSH_MAXDIM] = {0};
    int at = x->ndim - 1 - dim;
    pad[2 * at + 1] = n - x->size[dim];
    return T("constant_pad_nd", V(x), rush_v_ints(pad, 2 * (at + 1)), V(0));
}

enum kind { FFT, IFFT, RFFT, IRFFT, HFFT, IHFFT };

/* dims and sizes of a call: `s` and `dim` may be missing. Sizes are of the signal. */
static int resolve(rush_tensor *x, rush_value s, rush_value dim, int64_t *dims, int64_t *sizes)
{
    int n = 0;
    if (HAS(dim)) {
        if (read_dims(x, dim, dims)) return -1;
        n = (int)dim.n;
        RUSH_CHECK(!HAS(s) || s.n == dim.n, RUSH_RUNTIME_ERROR, "When given, dim and shape arguments must have the same length");
    } else if (HAS(s)) {
        RUSH_CHECK((int)s.n <= x->ndim, RUSH_RUNTIME_ERROR, "Got shape with %u values but input tensor only has %d dimensions.", s.n, x->ndim);
        for (uint32_t i = 0; i < s.n; ++i) dims[n++] = x->ndim - (int)s.n + (int)i;
    } else {
        for (int d = 0; d < x->ndim; ++d) dims[n++] = d;
    }
    for (int i = 0; i < n; ++i) {
        sizes[i] = HAS(s) && s.ints[i] != -1 ? s.ints[i] : -1;
        RUSH_CHECK(sizes[i] == -1 || sizes[i] > 0, RUSH_RUNTIME_ERROR, "Invalid number of data points (%lld) specified", (long long)sizes[i]);
    }
    return n;
}

static rush_tensor *transform(enum kind kind, bool one, rush_tensor *x, rush_value s, rush_value dim, rush_value norm)
{
    int64_t dims[RUSH_MAXDIM], sizes[RUSH_MAXDIM];
    int n = resolve(x, s, dim, dims, sizes);
    if (n < 0) return NULL;
    bool to_real = kind == IRFFT || kind == HFFT, from_real = kind == RFFT || kind == IHFFT;
    RUSH_CHECK_NULL(!from_real || !rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "%sfft%s expects a real%s input tensor, but got %s",
                    kind == RFFT ? "r" : "ih", one ? "" : "n", one ? "" : "-valued", rush_dtype_word(x->dtype));
    RUSH_CHECK_NULL(n > 0 || kind == FFT || kind == IFFT, RUSH_RUNTIME_ERROR, "must transform at least one axis");
    RUSH_CHECK_NULL(x->ndim > 0 || n == 0, RUSH_INDEX_ERROR, "Dimension specified as -1 but tensor has no dimensions");
    x = promoted(x, !from_real);
    if (!x) return NULL;
    if (n == 0) return x;
    bool forward = kind == FFT || kind == RFFT || kind == HFFT; /* which way `norm` reads */
    int64_t last = sizes[n - 1] > 0 ? sizes[n - 1] : to_real ? 2 * (x->size[dims[n - 1]] - 1) : x->size[dims[n - 1]];
    for (int i = 0; i < n; ++i) {
        int64_t points = i == n - 1 ? last : sizes[i] > 0 ? sizes[i] : x->size[dims[i]];
        RUSH_CHECK_NULL(points > 0, RUSH_RUNTIME_ERROR, "Invalid number of data points (%lld) specified", (long long)points);
        x = sized(x, (int)dims[i], i == n - 1 && to_real ? last / 2 + 1 : points);
        if (!x) return NULL;
    }
    int mode = norm_mode(norm, forward);
    if (!x || mode < 0) return NULL;
    rush_value d = rush_v_ints(dims, n);
    switch (kind) {
    case FFT: return T("_fft_c2c", V(x), d, V(mode), V(true));
    case IFFT: return T("_fft_c2c", V(x), d, V(mode), V(false));
    case RFFT: return T("_fft_r2c", V(x), d, V(mode), V(true));
    case IRFFT: return T("_fft_c2r", V(x), d, V(mode), V(last));
    case HFFT: /* the real result of a Hermitian signal: forward over the other dims, conjugate for the last */
        if (n > 1) x = T("_fft_c2c", V(x), rush_v_ints(dims, n - 1), V(mode), V(true));
        return x ? T("_fft_c2r", V(T("resolve_conj", V(conj_(x)))), rush_v_ints(dims + n - 1, 1), V(mode), V(last)) : NULL;
    case IHFFT: {
        rush_tensor *y = T("_fft_r2c", V(x), rush_v_ints(dims + n - 1, 1), V(mode), V(true));
        y = y ? T("resolve_conj", V(conj_(y))) : NULL;
        return n > 1 && y ? T("_fft_c2c", V(y), rush_v_ints(dims, n - 1), V(mode), V(false)) : y;
    }
    }
    return NULL;
}

static int one_dim(enum kind kind, const rush_value *in, rush_value *out)
{
    rush_value n = HAS(in[1]) ? INTS(in[1].i) : RUSH_NONE;
    RUSH_CHECK(!HAS(in[1]) || in[1].i > 0, RUSH_RUNTIME_ERROR, "Invalid number of data points (%lld) specified", (long long)in[1].i);
    return rush_result(out, transform(kind, true, in[0].t, n, INTS(in[2].i), in[3]));
}

static int many_dims(enum kind kind, const rush_value *in, rush_value *out) { return rush_result(out, transform(kind, false, in[0].t, in[1], in[2], in[3])); }

#define KIND(name, KIND)                                                                                      \
    static int name##_run(const rush_op *op, const rush_value *in, rush_value *out) { return one_dim(KIND, in, out); }           \
    static int name##n_run(const rush_op *op, const rush_value *in, rush_value *out) { return many_dims(KIND, in, out); }        \
    static rush_op op_fft_##name = {                                                                          \
        .schema = "fft_" #name "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",         \
        .doc = "torch.fft." #name ": along one dim, n points.", .run = name##_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_KIND | RUSH_AUTOCAST_F32};  \
    static rush_op op_fft_##name##2 = {                                                                       \
        .schema = "fft_" #name "2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor", \
        .doc = "torch.fft." #name "2: over two dims.", .run = name##n_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_KIND | RUSH_AUTOCAST_F32};          \
    static rush_op op_fft_##name##n = {                                                                       \
        .schema = "fft_" #name "n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", \
        .doc = "torch.fft." #name "n: over several dims.", .run = name##n_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_KIND | RUSH_AUTOCAST_F32};
KIND(fft, FFT)
KIND(ifft, IFFT)
KIND(rfft, RFFT)
KIND(irfft, IRFFT)
KIND(hfft, HFFT)
KIND(ihfft, IHFFT)

static rush_tensor *frequencies(int64_t n, double d, bool half, const rush_value *factory)
{
    rush_dtype dtype = HAS(factory[0]) ? (rush_dtype)factory[0].i : rush_default_dtype();
    RUSH_CHECK_NULL(rush_dtypes[dtype].category >= 2, RUSH_RUNTIME_ERROR, "%sfftfreq requires a floating point or complex dtype", half ? "r" : "");
    RUSH_CHECK_NULL(n > 0 || !half, RUSH_RUNTIME_ERROR, "n must be positive, got %lld", (long long)n);
    int64_t positive = n - n / 2, count = half ? n / 2 + 1 : n;
    rush_tensor *k = T("arange", V(count), rush_v_dtype(dtype), RUSH_NONE, factory[2]);
    if (!half && k) k = T("where.self", V(lt(k, (double)positive)), V(k), V(sub(k, (double)n)));
    return k ? mul(k, 1 / ((double)n * d)) : NULL;
}

static int fftfreq_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, frequencies(in[0].i, in[1].f, false, in + 2)); }
static int rfftfreq_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, frequencies(in[0].i, in[1].f, true, in + 2)); }

#define FACTORY "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
static rush_op op_fft_fftfreq = {.schema = "fft_fftfreq(int n, float d=1.0, " FACTORY, .doc = "Frequencies of fft's bins, spacing d.", .run = fftfreq_run};
static rush_op op_fft_rfftfreq = {.schema = "fft_rfftfreq(int n, float d=1.0, " FACTORY, .doc = "Frequencies of rfft's bins.", .run = rfftfreq_run};

static int shift(const rush_value *in, rush_value *out, bool inverse)
{
    rush_tensor *x = in[0].t;
    int n = HAS(in[1]) ? (int)in[1].n : x->ndim;
    int64_t *dims = rush_scope_alloc(2 * (size_t)RUSH_MAX(n, 1) * sizeof *dims), *by = dims + n;
    if (!dims) return -1;
    for (int i = 0; i < n; ++i) {
        dims[i] = HAS(in[1]) ? rush_dim_wrap(in[1].ints[i], x->ndim) : i;
        if (dims[i] < 0) return -1;
        int64_t size = x->size[dims[i]];
        by[i] = inverse ? (size + 1) / 2 : size / 2;
    }
    return rush_result(out, n ? T("roll", V(x), rush_v_ints(by, n), rush_v_ints(dims, n)) : T("clone", V(x)));
}

static int fftshift_run(const rush_op *op, const rush_value *in, rush_value *out) { return shift(in, out, false); }
static int ifftshift_run(const rush_op *op, const rush_value *in, rush_value *out) { return shift(in, out, true); }

static rush_op op_fft_fftshift = {.schema = "fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", .doc = "Moves frequency 0 to the middle.", .run = fftshift_run};
static rush_op op_fft_ifftshift = {.schema = "fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", .doc = "Undoes fftshift.", .run = ifftshift_run};

/* ---- short-time transforms ---- */

/* in: self, n_fft, hop, win, window, center, pad_mode, normalized, onesided, return_complex, align_to_window */
static int stft_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *window = T_(in[4]);
    int64_t n = in[1].i, hop = HAS(in[2]) ? in[2].i : n / 4, win = HAS(in[3]) ? in[3].i : n;
    bool complex = rush_dtype_is_complex(x->dtype) || (window && rush_dtype_is_complex(window->dtype));
    bool one = HAS(in[8]) ? in[8].i : !complex, as_complex = HAS(in[9]) ? in[9].i : complex;
    RUSH_CHECK(HAS(in[9]) || complex, RUSH_RUNTIME_ERROR, "stft requires the return_complex parameter be given for real inputs");
    if (!as_complex && !complex)
        RUSH_WARN_ONCE("stft with return_complex=False is deprecated: torch.view_as_real of the complex result is what it returns.");
    RUSH_CHECK(rush_dtypes[x->dtype].category >= 2, RUSH_RUNTIME_ERROR, "expected a tensor of floating point or complex values");
    RUSH_CHECK(x->ndim == 1 || x->ndim == 2, RUSH_RUNTIME_ERROR, "expected a 1D or 2D tensor");
    RUSH_CHECK(n > 0, RUSH_RUNTIME_ERROR, "expected 0 < n_fft < %lld, but got n_fft=%lld", (long long)x->size[x->ndim - 1], (long long)n);
    if (!window)
        RUSH_WARN_ONCE("A window was not provided. A rectangular window will be applied, which is known to cause spectral leakage. Other windows such as "
                       "torch.hann_window or torch.hamming_window are recommended to reduce spectral leakage. To suppress this warning and use a rectangular "
                       "window, explicitly set `window=torch.ones(n_fft, device=<device>)`.");
    bool single = x->ndim == 1;
    if (single) x = unsqueeze(x, 0);
    if (in[5].i && x) { /* center */
        x = T("pad", V(T("view", V(x), INTS(1, x->size[0], x->size[1]))), INTS(n / 2, n / 2), in[6]);
        x = x ? squeeze(x, 0) : NULL;
    }
    if (!x) return -1;
    int64_t length = x->size[1];
    RUSH_CHECK(n <= length, RUSH_RUNTIME_ERROR, "expected 0 < n_fft < %lld, but got n_fft=%lld", (long long)length, (long long)n);
    RUSH_CHECK(hop > 0, RUSH_RUNTIME_ERROR, "expected hop_length > 0, but got hop_length=%lld", (long long)hop);
    RUSH_CHECK(win > 0 && win <= n, RUSH_RUNTIME_ERROR, "expected 0 < win_length <= n_fft, but got win_length=%lld", (long long)win);
    RUSH_CHECK(!window || (window->ndim == 1 && window->size[0] == win), RUSH_RUNTIME_ERROR, "expected a 1D window tensor of size equal to win_length=%lld, but got window with size %s",
               (long long)win, window ? rush_shape_of(window) : "[]");
    RUSH_CHECK(!complex || !one, RUSH_RUNTIME_ERROR, "Cannot have onesided output if window or input is complex");
    if (win < n) {
        int64_t left = (n - win) / 2;
        if (!window) window = T("ones", INTS(win), rush_v_dtype(x->dtype), ON(x));
        window = window ? T("constant_pad_nd", V(window), INTS(left, n - win - left), V(0)) : NULL;
    }
    rush_tensor *frames = T("unfold", V(x), V(1), V(n), V(hop)); /* (B, frames, n) */
    if (window) frames = mul(frames, window);
    rush_value dim = INTS(2), norm = V(in[7].i ? 1 : 0);
    if (!frames) return -1;
    rush_tensor *y = complex ? T("_fft_c2c", V(rush_dtype_is_complex(frames->dtype) ? frames : to_dtype(frames, rush_dtype_complex(frames->dtype))), dim, norm, V(true))
                             : T("_fft_r2c", V(frames), dim, norm, V(one));
    y = y ? transpose(y, 1, 2) : NULL;
    if (single) y = y ? squeeze(y, 0) : NULL;
    return rush_result(out, as_complex || !y ? y : T("view_as_real", V(y)));
}

static rush_op op_stft = {
    .schema = "stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode='reflect', "
              "bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "Short-time Fourier transform of (B, T) or (T): frames of n_fft every hop_length, windowed; result (B, bins, frames).",
    .run = stft_run, .flags = RUSH_AUTOCAST_F32,
};

static int stft_plain_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value args[] = {in[0], in[1], in[2], in[3], in[4], V(false), V("reflect"), in[5], in[6], in[7], RUSH_NONE};
    return stft_run(op, args, out);
}

static rush_op op_stft_plain = {
    .schema = "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, bool? onesided=None, "
              "bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    .doc = "stft without padding at the ends.", .run = stft_plain_run, .flags = RUSH_AUTOCAST_F32,
};

/* in: self, n_fft, hop, win, window, center, normalized, onesided, length, return_complex */
static int istft_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *window = T_(in[4]);
    int64_t n = in[1].i, hop = HAS(in[2]) ? in[2].i : n / 4, win = HAS(in[3]) ? in[3].i : n;
    bool complex = in[9].i, one = HAS(in[7]) ? in[7].i : x->size[x->ndim > 2 ? 1 : 0] != n;
    RUSH_CHECK(rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.");
    RUSH_CHECK(x->ndim == 2 || x->ndim == 3, RUSH_RUNTIME_ERROR, "expected a tensor with 2 or 3 dimensions, but got %d", x->ndim);
    RUSH_CHECK(x->numel, RUSH_RUNTIME_ERROR, "input tensor cannot be empty");
    bool single = x->ndim == 2;
    if (single) x = unsqueeze(x, 0);
    if (!x) return -1;
    RUSH_CHECK(x->size[1] == (one ? n / 2 + 1 : n), RUSH_RUNTIME_ERROR, "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when onesided=%s, but got %lld",
               one ? "True" : "False", (long long)x->size[1]);
    RUSH_CHECK(0 < hop && hop <= win, RUSH_RUNTIME_ERROR, "expected 0 < hop_length <= win_length");
    RUSH_CHECK(0 < win && win <= n, RUSH_RUNTIME_ERROR, "expected 0 < win_length <= n_fft");
    if (!window)
        RUSH_WARN_ONCE("A window was not provided. A rectangular window will be applied. Please provide the same window used by stft to make the inversion "
                       "lossless. To suppress this warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`.");
    RUSH_CHECK(!window || (window->ndim == 1 && window->size[0] == win), RUSH_RUNTIME_ERROR, "Invalid window shape. window has to be 1D and length of `win_length`");
    rush_dtype real = rush_dtype_real(x->dtype);
    if (!window) window = T("ones", INTS(win), rush_v_dtype(real), ON(x));
    if (win < n && window) {
        int64_t left = (n - win) / 2;
        window = T("constant_pad_nd", V(window), INTS(left, n - win - left), V(0));
    }
    x = transpose(x, 1, 2); /* (B, frames, bins) */
    rush_value dim = INTS(2), norm = V(in[6].i ? 1 : 2);
    if (!x || !window) return -1;
    RUSH_CHECK(!complex || !one, RUSH_RUNTIME_ERROR, "complex output needs a two-sided input");
    rush_tensor *frames = complex ? T("_fft_c2c", V(x), dim, norm, V(false))
                        : one ? T("_fft_c2r", V(x), dim, norm, V(n)) : T("_fft_c2r", V(T("narrow", V(x), V(2), V(0), V(n / 2 + 1))), dim, norm, V(n));
    frames = mul(frames, window);
    if (!frames) return -1;
    int64_t count = frames->size[1], total = n + hop * (count - 1);
    RUSH_CHECK(!HAS(in[8]) || in[8].i <= INT64_MAX - n, RUSH_RUNTIME_ERROR, "istft: a signal of %lld samples is too long", (long long)in[8].i);
    rush_tensor *square = mul(window, window);
    rush_tensor *y = T("unfold_backward", V(frames), INTS(frames->size[0], total), V(1), V(n), V(hop));
    rush_tensor *weight = T("unfold_backward", V(T("expand", V(T("view", V(square), INTS(1, 1, n))), INTS(1, count, n))), INTS(1, total), V(1), V(n), V(hop));
    int64_t start = in[5].i ? n / 2 : 0, end = HAS(in[8]) ? start + in[8].i : in[5].i ? total - n / 2 : total;
    int64_t have = RUSH_MIN(end, total);
    y = T("narrow", V(y), V(1), V(start), V(have - start));
    weight = T("narrow", V(weight), V(1), V(start), V(have - start));
    rush_tensor *smallest = weight ? T("amin", V(abs_(weight))) : NULL;
    if (!smallest || TN(out, "_assert_async.msg", V(gt(smallest, 1e-11)), V("window overlap add min: 1"))) return -1;
    y = div_(y, weight);
    if (have < end)
        RUSH_WARN_ONCE("The length of signal is shorter than the length parameter. Zeros are padded to its end: look at center and hop_length.");
    if (have < end && y) y = T("constant_pad_nd", V(y), INTS(0, end - have), V(0));
    return rush_result(out, single && y ? squeeze(y, 0) : y);
}

static rush_op op_istft = {
    .schema = "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, "
              "bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "The signal of which self is the stft: least squares overlap-add. Griffin and Lim, 1984.", .run = istft_run,
};

#define THREE(name) &op_fft_##name, &op_fft_##name##2, &op_fft_##name##n
RUSH_FAMILY(fft, &op__fft_c2c, &op__fft_r2c, &op__fft_c2r, THREE(fft), THREE(ifft), THREE(rfft), THREE(irfft), THREE(hfft), THREE(ihfft),
            &op_fft_fftfreq, &op_fft_rfftfreq, &op_fft_fftshift, &op_fft_ifftshift, &op_stft, &op_stft_plain, &op_istft)
