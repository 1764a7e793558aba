/* scan.c - running sums, products, extremes along a dim, and what is made of differences of neighbours. */
#include "kernels/cpu/scan.h"
#include "op/formula.h"
#include "op/watch.h"
#include "tensor/backend.h"
#include <complex.h>
#include <math.h>

/* ---- one way to run all of them ---- */

static int type_of(rush_dtype d)
{
    switch (d) {
    case RUSH_F64: return SCAN_F64;
    case RUSH_C64: case RUSH_C32: return SCAN_C64;
    case RUSH_C128: return SCAN_C128;
    default: return rush_dtype_is_float(d) ? SCAN_F32 : SCAN_I64;
    }
}

typedef struct job {
    rush_scan s;
    rush_scan_fn fn;
} job;

static void run_job(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    j->fn(&j->s, begin, end);
}

#define LONG 16384 /* elements of one block of a long row */

/* Few long rows: blocks are summed, then scanned from what precedes them. */
static void long_sums(job *j, int type, int64_t outer)
{
    int64_t blocks = (j->s.n + LONG - 1) / LONG, row = j->s.n * (int64_t)(type == SCAN_F32 ? 4 : type == SCAN_C128 ? 16 : 8);
    j->s.block = LONG;
    j->s.totals = rush_scope_alloc((size_t)blocks * 16);
    if (!j->s.totals) return;
    for (int64_t o = 0; o < outer; ++o) {
        j->fn = rush_k_scan->totals[type];
        rush_parallel_for(blocks, 2, run_job, j);
        rush_k_scan->before[type](&j->s, 0, blocks);
        j->fn = rush_k_scan->sum_blocks[type];
        rush_parallel_for(blocks, 2, run_job, j);
        j->s.x = (const char *)j->s.x + row;
        j->s.y = (char *)j->s.y + row;
    }
}

static bool is_even(const rush_tensor *x, int d) { return x->ndim && x->size[d] > 1 && x->stride[d] == 0; }

/* What was expanded along dimension d: its first numbers, of size 1 there. */
static rush_tensor *first_of(const rush_tensor *x, int d)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, x->size, sizeof *size * x->ndim);
    size[d] = 1;
    return rush_tensor_alias(x, x->ndim, size, x->stride, x->offset);
}

static void scan(rush_tensor *x, int64_t dim, const rush_scan_fn *fns, rush_tensor *y, rush_tensor *index, bool min)
{
    static const uint8_t computes[] = {RUSH_I64, RUSH_F32, RUSH_F64, RUSH_C64, RUSH_C128};
    int type = type_of(y->dtype), d = rush_dim_wrap(dim, y->ndim);
    if (!y->numel) return;
    if (!fns[type]) {
        rush_fail(RUSH_NOT_IMPLEMENTED, "not implemented for %s", rush_dtype_name(y->dtype));
        return;
    }
    int64_t n = y->ndim ? y->size[d] : 1, outer = 1, inner = 1;
    for (int k = 0; k < d; ++k) outer *= y->size[k];
    for (int k = d + 1; k < y->ndim; ++k) inner *= y->size[k];
    bool long_rows = fns == rush_k_scan->sum && inner == 1 && outer < 4 && n >= 4 * LONG;
    bool same = inner == 1 && is_even(x, d) && !long_rows && (fns == rush_k_scan->sum || fns == rush_k_scan->prod);
    rush_tensor *from = rush_cast_copy(same ? first_of(x, d) : x, computes[type]);
    bool direct = y->dtype == computes[type] && rush_contiguous(y);
    rush_tensor *to = direct ? y : rush_tensor_new(computes[type], y->device, y->ndim, y->size);
    if (!from || !to) return;
    job j = {{rush_ptr(from), rush_ptr(to), index ? rush_ptr(index) : NULL, n, inner, min, same}, fns[type]};
    if (long_rows) long_sums(&j, type, outer);
    else rush_parallel_for(outer, RUSH_MAX(1, 32768 / (n * inner)), run_job, &j);
    if (!direct) rush_copy_into(y, to);
}

/* ---- sums and products: in self, dim, dtype ---- */

static int sum_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    rush_dtype d = HAS(in[2]) ? (rush_dtype)in[2].i : rush_dtypes[x->dtype].category < 2 ? RUSH_I64 : x->dtype;
    if (rush_dim_wrap(in[1].i, x->ndim) < 0) return -1;
    RUSH_CHECK(d != RUSH_BOOL || x->device.type == RUSH_META || !x->numel || !x->ndim, RUSH_NOT_IMPLEMENTED, "\"%s_out_cpu\" not implemented for 'Bool'", op->base);
    return rush_out_t(out, 0, x, d, x->ndim, x->size) ? 0 : -1;
}

static rush_tensor *as_result(const rush_value *in, rush_value *out)
{
    return in[0].t->dtype == out[0].t->dtype ? in[0].t : rush_cast_copy(in[0].t, out[0].t->dtype);
}

static void cumsum_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = as_result(in, out);
    if (x) scan(x, in[1].i, rush_k_scan->sum, out[0].t, NULL, false);
}

static void cumprod_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = as_result(in, out);
    if (x) scan(x, in[1].i, rush_k_scan->prod, out[0].t, NULL, false);
}

static rush_tensor *flip(rush_tensor *x, int64_t dim) { return x && x->ndim ? T("flip", V(x), INTS(dim)) : x; }
static rush_tensor *cumsum(rush_tensor *x, int64_t dim) { return x ? T("cumsum", V(x), V(dim)) : NULL; }
static rush_tensor *reverse_cumsum(rush_tensor *x, int64_t dim) { return flip(cumsum(flip(x, dim), dim), dim); }

static void cumsum_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = to_dtype(reverse_cumsum(s->g[0], s->in[1].i), s->in[0].t->dtype);
}

static rush_op op_cumsum = {
    .schema = "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", .method = RUSH_METHODS,
    .doc = "Running sum along dim.", .shape = sum_shape, .cpu = cumsum_cpu, .grad = cumsum_grad, .flags = RUSH_OUT_CASTS,
};

static rush_tensor *part(rush_tensor *x, int64_t dim, int64_t from, int64_t n) { return x ? T("narrow", V(x), V(dim), V(from), V(n)) : NULL; }

static rush_tensor *joined(rush_tensor *a, rush_tensor *b, int64_t dim)
{
    return a && b ? T("cat", rush_v_tensors((rush_tensor *[]){a, b}, 2), V(dim)) : NULL;
}

/* h[i] = b[i] + a[i] h[i + 1] along a dimension, by doubling (Hillis and Steele, Data parallel algorithms, 1986): after each
 * turn a and b stand for twice as many steps. */
static rush_tensor *recurrence(rush_tensor *a, rush_tensor *b, int64_t dim)
{
    int64_t n = b->size[dim];
    for (int64_t step = 1; a && b && step < n; step *= 2) {
        rush_tensor *first = part(a, dim, 0, n - step);
        b = joined(add(part(b, dim, 0, n - step), mul(first, part(b, dim, step, n - step))), part(b, dim, n - step, step), dim);
        a = joined(mul(first, part(a, dim, step, n - step)), part(a, dim, n - step, step), dim);
    }
    return b;
}

/* Is there a zero in x? What was expanded is looked at once, unless somebody sees the operations. */
static bool has_zero(rush_tensor *x)
{
    if (!rush_has_data(x)) return false;
    for (int d = 0; x && d < x->ndim && !rush_is_watched(x); ++d)
        if (is_even(x, d)) x = part(x, d, 0, 1);
    rush_tensor *zeros = T("any", V(eq(x, 0)));
    return zeros && rush_number_of(zeros) != 0;
}

/* Real numbers whose lines along d lie in memory in one piece, and nobody who would see another operation than PyTorch's. */
static bool is_one_pass(rush_tensor *g, rush_tensor *x, rush_tensor *y, int d)
{
    return (y->dtype == RUSH_F32 || y->dtype == RUSH_F64) && g->dtype == y->dtype && y->device.type == RUSH_CPU && y->stride[d] == 1 && g->layout == RUSH_STRIDED
        && !rush_is_watched(g) && !rush_is_watched(x) && !rush_is_watched(y);
}

static void cumprod_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[0].t, *y = s->out[0].t;
    int64_t dim = s->in[1].i;
    if (!g) return;
    if (x->dtype != y->dtype) x = to_dtype(x, y->dtype);
    if (!x || x->numel == 0 || x->ndim == 0 || x->size[rush_dim_wrap(dim, x->ndim)] == 1) {
        s->gin[0] = to_dtype(g, s->in[0].t->dtype);
        return;
    }
    int d = rush_dim_wrap(dim, x->ndim);
    bool zeros = has_zero(x);
    if (rush_failed()) return;
    rush_tensor *gx;
    if (!zeros) {
        gx = is_one_pass(g, x, y, d) ? T("_cumprod_backward", V(g), V(x), V(y), V((int64_t)d)) : div_(reverse_cumsum(mul(g, conj_(y)), d), conj_(x));
    } else { /* without dividing: the products before, times what comes of each later factor */
        rush_tensor *xc = conj_(x), *one = T("ones_like", V(part(y, d, 0, 1)));
        rush_tensor *before = joined(one, part(y, d, 0, x->size[d] - 1), d);
        gx = mul(conj_(before), recurrence(joined(part(xc, d, 1, x->size[d] - 1), one, d), g, d));
    }
    s->gin[0] = gx ? to_dtype(gx, s->in[0].t->dtype) : NULL;
}

static rush_op op_cumprod = {
    .schema = "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", .method = RUSH_METHODS,
    .doc = "Running product along dim.", .shape = sum_shape, .cpu = cumprod_cpu, .grad = cumprod_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};

/* The derivative where no number is zero, in one pass. PyTorch's graph of it ends with a division. */

static int cumprod_backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *g = in[0].t, *x = in[1].t, *y = in[2].t;
    int d = rush_dim_wrap(in[3].i, y->ndim);
    if (d < 0) return -1;
    RUSH_CHECK(rush_same_sizes(g, y) && rush_same_sizes(x, y), RUSH_RUNTIME_ERROR, "the gradient has shape %s, self %s, the output %s", rush_shape_of(g),
               rush_shape_of(x), rush_shape_of(y));
    RUSH_CHECK(g->dtype == y->dtype && x->dtype == y->dtype, RUSH_RUNTIME_ERROR, "the gradient is of type %s, self of %s, the output of %s", rush_dtype_word(g->dtype),
               rush_dtype_word(x->dtype), rush_dtype_word(y->dtype));
    RUSH_CHECK(y->dtype == RUSH_F32 || y->dtype == RUSH_F64, RUSH_NOT_IMPLEMENTED, "not implemented for %s", rush_dtype_name(y->dtype));
    return rush_out_t(out, 0, y, y->dtype, y->ndim, y->size) ? 0 : -1;
}

static rush_tensor *as_it_is(rush_tensor *x) { return x->flags & (RUSH_T_CONJ | RUSH_T_NEG) ? rush_cast_copy(x, x->dtype) : x; }

static void cumprod_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *p[4] = {out[0].t, as_it_is(in[0].t), as_it_is(in[1].t), as_it_is(in[2].t)};
    int d = rush_dim_wrap(in[3].i, p[0]->ndim);
    rush_scan_lines l = {p[0]->ndim ? p[0]->size[d] : 1};
    if (!p[1] || !p[2] || !p[3] || !p[0]->numel) return;
    if (p[0]->ndim) l.result = p[0]->stride[d], l.g = p[1]->stride[d], l.x = p[2]->stride[d], l.y = p[3]->stride[d];
    rush_lines(4, p, d, 0, rush_k_scan->prod_back[type_of(p[0]->dtype)], &l);
}

static void cumprod_backward_grad(rush_grads *s)
{
    rush_tensor *gg = s->g[0], *g = s->in[0].t, *x = s->in[1].t, *y = s->in[2].t, *gx = s->out[0].t;
    if (!gg) return;
    int d = rush_dim_wrap(s->in[3].i, y->ndim);
    if (!rush_grad_enabled() && is_even(gg, d) && is_even(x, d)) gg = part(gg, d, 0, 1), x = part(x, d, 0, 1);
    rush_tensor *h = div_(gg, x);
    if (rush_needs(s, 1)) s->gin[1] = mul(neg(h), gx);
    if (!rush_needs(s, 0) && !rush_needs(s, 2)) return;
    rush_tensor *sums = cumsum(h ? expand_to(h, y) : NULL, d);
    if (rush_needs(s, 0)) s->gin[0] = mul(sums, y);
    if (rush_needs(s, 2)) s->gin[2] = mul(sums, g);
}

static rush_op op__cumprod_backward = {
    .schema = "_cumprod_backward(Tensor grad, Tensor self, Tensor output, int dim) -> Tensor", .node = "DivBackward0",
    .doc = "The derivative of cumprod where self has no zero.", .shape = cumprod_backward_shape, .cpu = cumprod_backward_cpu, .grad = cumprod_backward_grad,
    .saves = "grad@output, self, output@grad, result@self", .flags = RUSH_HIDDEN | RUSH_STRIDED_OUT,
};

/* ---- extremes ---- */

static int best_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(!rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "complex numbers have no order");
    if (rush_dim_wrap(in[1].i, x->ndim) < 0) return -1;
    return rush_out_t(out, 0, x, x->dtype, x->ndim, x->size) && rush_out_t(out, 1, x, RUSH_I64, x->ndim, x->size) ? 0 : -1;
}

static void cummax_cpu(const rush_op *op, const rush_value *in, rush_value *out) { scan(in[0].t, in[1].i, rush_k_scan->best, out[0].t, out[1].t, false); }
static void cummin_cpu(const rush_op *op, const rush_value *in, rush_value *out) { scan(in[0].t, in[1].i, rush_k_scan->best, out[0].t, out[1].t, true); }

static void best_grad(rush_grads *s)
{
    if (!s->g[0]) return;
    s->gin[0] = s->in[0].t->numel ? T("scatter_add", V(rush_zeros_like(s->in[0].t)), s->in[1], s->out[1], V(s->g[0])) : rush_zeros_like(s->in[0].t);
}

static rush_op op_cummax = {
    .schema = "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", .method = RUSH_METHOD,
    .doc = "Running maximum along dim, and where it was last met.", .shape = best_shape, .cpu = cummax_cpu, .grad = best_grad, .saves = "indices",
};
static rush_op op_cummin = {
    .schema = "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", .method = RUSH_METHOD,
    .doc = "Running minimum along dim, and where it was last met.", .shape = best_shape, .cpu = cummin_cpu, .grad = best_grad, .saves = "indices",
};

/* ---- logarithm of running sums of exponentials ---- */

/* Of complex numbers: each step adds the smaller exponential to the larger, so that the imaginary part is not cut
 * back to (-pi, pi] where nothing was added. */
typedef struct complex_lines {
    int64_t n, in, out; /* strides in numbers */
} complex_lines;

static double complex sum_of_logs(double complex a, double complex b)
{
    bool larger = creal(b) > creal(a);
    double complex high = larger ? b : a, low = larger ? a : b, e = cexp(low - high);
    if (isnan(creal(a)) || isnan(cimag(a)) || isnan(creal(b)) || isnan(cimag(b))) return __builtin_complex((double)NAN, (double)NAN);
    if (creal(high) == -INFINITY) return -INFINITY; /* nothing was added: it has no direction */
    if (isinf(creal(high))) return creal(low) == creal(high) ? clog(cexp(low) + cexp(high)) : high;
    return high + __builtin_complex(0.5 * log1p(2 * creal(e) + creal(e) * creal(e) + cimag(e) * cimag(e)), atan2(cimag(e), 1 + creal(e)));
}

static void complex_line(char **p, const void *arg)
{
    const complex_lines *l = arg;
    const double complex *x = (const double complex *)(const void *)p[0];
    double complex *y = (double complex *)(void *)p[1], acc = -INFINITY;
    for (int64_t i = 0; i < l->n; ++i) y[i * l->out] = acc = sum_of_logs(acc, x[i * l->in]);
}

static void complex_lse(rush_tensor *x, rush_tensor *y, int64_t dim)
{
    int d = rush_dim_wrap(dim, x->ndim);
    rush_tensor *from = rush_cast_copy(x, RUSH_C128);
    rush_tensor *to = y->dtype == RUSH_C128 ? y : rush_tensor_new(RUSH_C128, y->device, y->ndim, y->size);
    if (!from || !to || !y->numel) return;
    complex_lines l = {x->ndim ? x->size[d] : 1, x->ndim ? from->stride[d] : 1, x->ndim ? to->stride[d] : 1};
    rush_lines(2, (rush_tensor *const[2]){from, to}, d, 0, complex_line, &l);
    if (to != y) rush_copy_into(y, to);
}

static int lse_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(rush_dtypes[x->dtype].category >= 2, RUSH_NOT_IMPLEMENTED, "not implemented for %s", rush_dtype_name(x->dtype));
    if (rush_dim_wrap(in[1].i, x->ndim) < 0) return -1;
    return rush_out_t(out, 0, x, x->dtype, x->ndim, x->size) ? 0 : -1;
}

static void lse_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_dtype_is_complex(in[0].t->dtype)) complex_lse(in[0].t, out[0].t, in[1].i);
    else scan(in[0].t, in[1].i, rush_k_scan->lse, out[0].t, NULL, false);
}

static void lse_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[0].t, *y = s->out[0].t;
    int64_t dim = s->in[1].i;
    if (!g) return;
    if (!x->numel) {
        s->gin[0] = g;
        return;
    }
    if (rush_dtype_is_complex(x->dtype)) { /* in logarithms, so that large x do not overflow */
        rush_tensor *some = ne(g, 0), *terms = where(some, sub(log_(where(some, g, 1)), conj_(y)), -INFINITY);
        rush_tensor *sum = flip(T("logcumsumexp", V(flip(T("resolve_conj", V(terms)), dim)), V(dim)), dim);
        s->gin[0] = exp_(add(sum, conj_(x)));
        return;
    }
    /* the same, positive and negative gradients apart */
    rush_tensor *zero_log = T("full_like", V(g), V(-INFINITY)), *parts[2];
    for (int k = 0; k < 2; ++k) {
        rush_tensor *w = k ? neg(g) : g, *some = logical_not(le(w, 0.0)), *lw = log_(where(some, w, 1.0));
        rush_tensor *sum = flip(T("logcumsumexp", V(flip(where(some, sub(lw, y), zero_log), dim)), V(dim)), dim);
        parts[k] = exp_(add(sum, x));
    }
    s->gin[0] = sub(parts[0], parts[1]);
}

static rush_op op_logcumsumexp = {
    .schema = "logcumsumexp(Tensor self, int dim) -> Tensor", .method = RUSH_METHOD,
    .doc = "Logarithm of the running sum of exponentials along dim.", .shape = lse_shape, .cpu = lse_cpu, .grad = lse_grad, .saves = "self, result",
};

/* ---- differences of neighbours ---- */

static rush_tensor *end_piece(rush_tensor *x, int d, int64_t from, int64_t n) { return T("narrow", V(x), V(d), V(from), V(n)); }

static int diff_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *parts[3];
    int64_t n = in[1].i, dim = in[2].i;
    int k = 0;
    RUSH_CHECK(x->ndim > 0, RUSH_RUNTIME_ERROR, "diff expects input to be at least one-dimensional");
    RUSH_CHECK(n >= 0, RUSH_RUNTIME_ERROR, "order must be non-negative but got %lld", (long long)n);
    int d = rush_dim_wrap(dim, x->ndim);
    if (d < 0) return -1;
    for (int i = 3; i < 5; ++i)
        if (HAS(in[i])) {
            RUSH_CHECK(in[i].t->ndim == x->ndim, RUSH_RUNTIME_ERROR, "diff expects prepend or append to be the same dimension as input");
            for (int j = 0; j < x->ndim; ++j)
                RUSH_CHECK(j == d || in[i].t->size[j] == x->size[j], RUSH_RUNTIME_ERROR, "diff expects the shape of tensor to prepend or append to match that of input "
                           "except along the differencing dimension; input.size(%d) = %lld, but got tensor.size(%d) = %lld", j, (long long)x->size[j], j, (long long)in[i].t->size[j]);
        }
    if (n == 0) return rush_result(out, T("clone", V(x))); /* without what was to be prepended or appended */
    if (HAS(in[3])) parts[k++] = in[3].t;
    parts[k++] = x;
    if (HAS(in[4])) parts[k++] = in[4].t;
    if (k > 1) x = T("cat", rush_v_tensors(parts, k), V(d));
    if (x && n > x->size[d]) n = x->size[d];
    if (x && n > 1 && (!x->numel || !rush_has_data(x))) { /* there are sizes only, which may be huge */
        x = end_piece(x, d, 0, x->size[d] - (n - 1));
        n = 1;
    }
    rush_keep(x);
    for (; n > 0 && x; --n) {
        size_t mark = rush_scope_open();
        int64_t m = x->size[d];
        rush_tensor *a = end_piece(x, d, RUSH_MIN(1, m), RUSH_MAX(m - 1, 0)), *b = end_piece(x, d, 0, RUSH_MAX(m - 1, 0));
        rush_tensor *step = rush_keep(x->dtype == RUSH_BOOL ? T("logical_xor", V(a), V(b)) : sub(a, b));
        rush_scope_close(mark);
        rush_drop(x); /* no step's result outlives the next */
        x = step;
    }
    rush_park(x);
    return rush_result(out, x);
}

static rush_op op_diff = {
    .schema = "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "n times the differences of neighbours along dim.", .run = diff_run, .flags = RUSH_OUT_CASTS,
};

/* Areas of the trapezoids between neighbours; x positions (or NULL) and a number dx. */
static rush_tensor *trapezoids(rush_tensor *y, rush_tensor *x, rush_value dx, int64_t dim)
{
    int d = rush_dim_wrap(dim, y->ndim);
    if (d < 0) return NULL;
    RUSH_CHECK_NULL(y->ndim > 0 || x == NULL, RUSH_INDEX_ERROR, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
    RUSH_CHECK_NULL(y->dtype != RUSH_BOOL && (!x || x->dtype != RUSH_BOOL), RUSH_RUNTIME_ERROR, "received a bool input, but bool is not supported");
    int64_t n = y->size[d];
    rush_tensor *sum = add(end_piece(y, d, RUSH_MIN(1, n), RUSH_MAX(n - 1, 0)), end_piece(y, d, 0, RUSH_MAX(n - 1, 0)));
    if (!x) return mul(sum, rush_to_double(dx) / 2);
    rush_tensor *step;
    if (x->ndim == 1) {
        RUSH_CHECK_NULL(x->size[0] == n, RUSH_RUNTIME_ERROR, "There must be one `x` value for each sample point");
        int64_t size[RUSH_MAXDIM];
        step = T("diff", V(x));
        for (int k = 0; k < y->ndim; ++k) size[k] = k == d ? RUSH_MAX(n - 1, 0) : 1;
        step = step ? T("view", V(step), rush_v_ints(size, y->ndim)) : NULL;
    } else {
        RUSH_CHECK_NULL(x->ndim > 0, RUSH_INDEX_ERROR, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
        step = T("diff", V(x), V(1), V(x->ndim < y->ndim ? dim - (dim >= 0 ? y->ndim - x->ndim : 0) : dim));
    }
    return div_(mul(sum, step), 2.0);
}

static const char running; /* the row of cumulative_trapezoid */

static int trapezoid_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    bool positions = in[1].kind == RUSH_V_TENSOR;
    rush_tensor *y = in[0].t, *x = positions ? in[1].t : NULL;
    int64_t dim = in[2].i;
    rush_tensor *areas = trapezoids(y, x, in[1], dim);
    if (!areas) return -1;
    return rush_result(out, op->row == &running ? cumsum(areas, dim) : sum_dim(areas, dim, false));
}

/* Equally far apart: all of them less half of the first and the last. */
static int trapezoid_even_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = in[0].t;
    int d = rush_dim_wrap(in[2].i, y->ndim);
    if (d < 0 || !y->ndim || y->dtype == RUSH_BOOL) return trapezoid_run(op, in, out);
    if (!y->size[d]) return rush_result(out, to_dtype(sum_dim(y, d, false), y->dtype));
    RUSH_CHECK(in[1].kind != RUSH_V_BOOL, RUSH_RUNTIME_ERROR, "trapezoid: Currently, we only support dx as a real number.");
    rush_tensor *first = T("select.int", V(y), V((int64_t)d), V((int64_t)0)), *last = T("select.int", V(y), V((int64_t)d), V((int64_t)-1));
    return rush_result(out, T("mul.Scalar", V(sub(sum_dim(y, d, false), mul(add(first, last), 0.5))), in[1]));
}

static rush_op op_trapezoid_x = {.schema = "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", .doc = "Integral of samples at positions x.", .run = trapezoid_run};
static rush_op op_trapezoid_dx = {.schema = "trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", .doc = "Integral of samples dx apart.", .run = trapezoid_even_run};
static rush_op op_cumulative_x = {.row = &running, .schema = "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", .doc = "Running integral of samples at positions x.", .run = trapezoid_run};
static rush_op op_cumulative_dx = {.row = &running, .schema = "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", .doc = "Running integral of samples dx apart.", .run = trapezoid_run};
static rush_op op_trapz_x = {.schema = "trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", .doc = "trapezoid.", .run = trapezoid_run};
static rush_op op_trapz_dx = {.schema = "trapz.dx(Tensor y, *, float dx=1, int dim=-1) -> Tensor", .doc = "trapezoid.", .run = trapezoid_even_run};

RUSH_FAMILY(scan, &op_cumsum, &op_cumprod, &op__cumprod_backward, &op_cummax, &op_cummin, &op_logcumsumexp, &op_diff, &op_trapezoid_x, &op_trapezoid_dx, &op_cumulative_x,
            &op_cumulative_dx, &op_trapz_x, &op_trapz_dx)
