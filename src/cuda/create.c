/* create.c - tensors made of numbers, triangles, complex numbers of two reals, running sums. */
#include "cuda/column.h"
#include "op/formula.h"
#include <stdio.h>
#include <stdlib.h>

#define SELF (in[0].t)

/* ---- arange ---- */

static void arange_from(rush_tensor *t, rush_value start, rush_value step)
{
    cuda_rows p = {.i = {cuda_int(start), cuda_int(step)}, .re = {rush_to_double(start), rush_to_double(step)}};
    bool whole = rush_dtypes[t->dtype].category <= 1;
    rush_tensor *to = rush_contiguous(t) ? t : rush_tensor_new(t->dtype, t->device, t->ndim, t->size);
    rush_value operand[1] = {V(to)};
    if (to && !cuda_rows_run(whole ? "range_i64" : "range_f64", 1, 1, operand, (const uint8_t[]){whole ? RUSH_I64 : RUSH_F64}, &p) && to != t) rush_copy_into(t, to);
}
static void arange_end(const rush_op *op, const rush_value *in, rush_value *out) { arange_from(out[0].t, rush_v_int(0), rush_v_int(1)); }
static void arange_start(const rush_op *op, const rush_value *in, rush_value *out) { arange_from(out[0].t, in[0], rush_v_int(1)); }
static void arange_step(const rush_op *op, const rush_value *in, rush_value *out) { arange_from(out[0].t, in[0], in[2]); }

/* ---- few numbers, made on the host and copied ---- */

static void made_on_host(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value args[64], there[1];
    rush_tensor *to = out[0].t;
    for (int i = 0; i < op->nargs; i++) {
        args[i] = in[i];
        if (in[i].kind == RUSH_V_TENSOR && !(args[i].t = (rush_tensor *)rush_on_host(in[i].t))) return;
    }
    there[0] = rush_v_tensor(rush_tensor_new(to->dtype, (rush_device){RUSH_CPU, -1}, to->ndim, to->size));
    if (!there[0].t) return;
    op->cpu(op, args, there);
    rush_tensor *packed = rush_contiguous(to) ? to : rush_tensor_new(to->dtype, to->device, to->ndim, to->size);
    if (rush_failed() || !to->numel) return;
    if (!cuda_upload(to->device, rush_ptr(packed), rush_ptr(there[0].t), (size_t)to->numel * rush_dtypes[to->dtype].size) && packed != to) rush_copy_into(to, packed);
}

/* ---- triangles ---- */

static void triangle(const rush_value *in, rush_value *out, bool upper)
{
    rush_tensor *x = SELF;
    int64_t rows = x->size[x->ndim - 2], cols = x->size[x->ndim - 1], limit = INT64_MAX / 4, k = RUSH_MAX(-limit, RUSH_MIN(in[1].i, limit));
    if (!x->numel) return;
    rush_tensor *r = T("arange", V(rows), rush_v_dtype(RUSH_I64), ON(x)), *c = T("arange", V(cols), rush_v_dtype(RUSH_I64), ON(x));
    r = r ? T("unsqueeze", V(T("add.Scalar", V(r), V(k))), V((int64_t)1)) : NULL;
    rush_tensor *kept = !r || !c ? NULL : upper ? T("ge.Tensor", V(c), V(r)) : T("le.Tensor", V(c), V(r));
    rush_tensor *made = kept ? T("where.ScalarOther", V(kept), V(x), V((int64_t)0)) : NULL;
    if (made) rush_copy_into(out[0].t, made);
}
static void tril(const rush_op *op, const rush_value *in, rush_value *out) { triangle(in, out, false); }
static void triu(const rush_op *op, const rush_value *in, rush_value *out) { triangle(in, out, true); }

/* ---- complex numbers ---- */

static void complex_of(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    if (!to->numel) return;
    rush_tensor *both = T("view_as_real", V(to));
    rush_tensor *a = both ? T("select.int", V(both), V((int64_t)-1), V((int64_t)0)) : NULL, *b = both ? T("select.int", V(both), V((int64_t)-1), V((int64_t)1)) : NULL;
    if (a && b && !rush_copy_into(a, in[0].t)) rush_copy_into(b, in[1].t);
}

/* ---- running sums and the like ---- */

enum { SCAN_ABREAST = 16 }; /* lines side by side that are worth a thread each */

/* Elements that the kernel reads and writes in whole vectors: of the type that is computed in, or of those that it knows besides. */
static bool in_vectors(const cuda_scan *p, rush_dtype computed, int vector)
{
    const int x_item = (int)rush_dtypes[p->dtype].size, y_item = (int)rush_dtypes[p->y_dtype].size;
    const bool known = p->dtype == computed || (computed == RUSH_I64 && (p->dtype == RUSH_I32 || p->dtype <= RUSH_U8)) ||
                       (computed == RUSH_F32 && (p->dtype == RUSH_F16 || p->dtype == RUSH_BF16));
    int64_t x = (int64_t)(size_t)p->x, y = (int64_t)(size_t)p->y;
    for (int k = 0; k < p->ndim; k++) x |= p->in[k], y |= p->out[k];
    return known && !p->lazy && p->x_step == x_item && p->y_step == y_item && !(x % (x_item * vector)) && !(y % (y_item * vector));
}

/* Who scans what. A line is cut while there are too few for the device. */
static int launch_scan(rush_device d, const char *kernel, cuda_scan *p, rush_dtype computed)
{
    const int vector = 16 / (int)rush_dtypes[computed].size;
    const int64_t warp = 32 * vector * SCAN_VECTORS, threads = 2048 * cuda_devices[d.index].processors;
    p->down = p->ndim && p->size[0] >= SCAN_ABREAST && llabs(p->in[0]) < llabs(p->x_step);
    p->plain = in_vectors(p, computed, vector);
    int64_t unit = 1, wanted = 1; /* elements that are not cut, and pieces that are wanted */
    if (p->down) {
        p->lanes = 1, wanted = threads / 2 / p->lines;
        while (unit * unit < p->length) unit++; /* as long to walk as the totals before it */
    } else if (p->length <= warp || (p->length <= 4 * warp && p->lines >= threads / 32)) {
        for (p->lanes = 1; p->lanes < 32 && p->lanes * vector * SCAN_VECTORS < p->length;) p->lanes *= 2;
        unit = p->length;
    } else {
        p->lanes = CUDA_THREADS, unit = CUDA_THREADS * vector * SCAN_VECTORS, wanted = threads / 512 / p->lines;
    }
    const int64_t most = (p->length + unit - 1) / unit, pieces = RUSH_MAX(1, RUSH_MIN(wanted, most));
    p->piece = (most + pieces - 1) / pieces * unit;
    p->pieces = (p->length + p->piece - 1) / p->piece;
    const int64_t blocks = cuda_blocks_of(p->lines * p->pieces, p->lanes);
    if (p->pieces > 1) {
        rush_tensor *totals = rush_tensor_new(RUSH_C128, d, 1, (const int64_t[]){p->lines * p->pieces}); /* accumulators have 16 bytes at most */
        if (!totals) return -1;
        p->totals = rush_ptr(totals), p->only_totals = 1;
        if (cuda_launch_blocks(d, kernel, p, blocks)) return -1;
        p->only_totals = 0;
    }
    return cuda_launch_blocks(d, kernel, p, blocks);
}

static int run_scan(const char *name, const rush_tensor *x, int64_t at, rush_tensor *y, rush_tensor *index)
{
    char kernel[32];
    cuda_scan p = {.x = rush_ptr(x), .y = rush_ptr(y), .index = index ? rush_ptr(index) : NULL, .dtype = x->dtype, .lazy = x->flags & (RUSH_T_CONJ | RUSH_T_NEG),
                   .y_dtype = y->dtype, .lines = 1, .length = 1};
    const int category = rush_dtypes[y->dtype].category;
    const rush_dtype computed = category < 2 ? RUSH_I64 : category == 2 ? (y->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32) : y->dtype == RUSH_C128 ? RUSH_C128 : RUSH_C64;
    int dim = rush_dim_wrap(at, x->ndim);
    if (!x->numel) return 0;
    for (int d = x->ndim - 1; d >= 0; d--) {
        int64_t in = x->stride[d] * (int64_t)rush_dtypes[x->dtype].size, out = y->stride[d] * (int64_t)rush_dtypes[y->dtype].size;
        int64_t to = index ? index->stride[d] * 8 : 0;
        if (d == dim) {
            p.length = x->size[d], p.x_step = in, p.y_step = out, p.index_step = to;
            continue;
        }
        RUSH_CHECK(p.ndim < CUDA_DIMS, RUSH_NOT_IMPLEMENTED, "tensors of more than %d dimensions are not scanned on device 'cuda'", CUDA_DIMS);
        p.size[p.ndim] = x->size[d], p.in[p.ndim] = in, p.out[p.ndim] = out, p.at[p.ndim++] = to;
        p.lines *= x->size[d];
    }
    snprintf(kernel, sizeof kernel, "%s_%s", name, cuda_word(computed));
    return launch_scan(x->device, kernel, &p, computed);
}

static void cumsum(const rush_op *op, const rush_value *in, rush_value *out) { run_scan("cumsum", SELF, in[1].i, out[0].t, NULL); }
static void cumprod(const rush_op *op, const rush_value *in, rush_value *out) { run_scan("cumprod", SELF, in[1].i, out[0].t, NULL); }
static void cummax(const rush_op *op, const rush_value *in, rush_value *out) { run_scan("cummax", SELF, in[1].i, out[0].t, out[1].t); }
static void cummin(const rush_op *op, const rush_value *in, rush_value *out) { run_scan("cummin", SELF, in[1].i, out[0].t, out[1].t); }
static void logcumsumexp(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_dtype_is_complex(SELF->dtype)) cuda_host_run(op, in, out);
    else run_scan("logcumsumexp", SELF, in[1].i, out[0].t, NULL);
}

/* ---- mixed precision; and questions of the host ---- */

static void all_true(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *all = T("all", in[0]);
    if (all) out[0] = rush_v_bool(rush_item(all) != 0);
}

/* In a graph the device itself looks, at each launch. */
static void assert_async(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!cuda_capture(SELF->device)) return op->cpu(op, in, out);
    rush_tensor *truth = to_dtype(SELF, RUSH_BOOL);
    const cuda_assertion p = {.truth = truth ? rush_ptr(truth) : NULL, .fault = cuda_devices[SELF->device.index].fault};
    if (truth) cuda_launch(SELF->device, "assert_true", &p, 1);
}

/* Gradients times inv_scale; found_inf becomes 1 when one of them is not finite. Nobody waits for it. */
static void unscale(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *found = in[1].t, *inverse = in[2].t;
    for (uint32_t i = 0; i < in[0].n && !rush_failed(); i++) {
        rush_tensor *g = in[0].tensors[i], *fine = T("all", V(T("isfinite", V(g))));
        rush_tensor *bad = fine ? to_dtype(logical_not(fine), RUSH_F32) : NULL, *more = bad ? T("maximum", V(found), V(bad)) : NULL;
        if (!more || rush_copy_into(found, reshape_to(more, found))) return;
        rush_tensor *one = reshape_to(inverse, fine); /* without dims it does not promote half types */
        if (!one || !CUDA_INPLACE("mul.Tensor", V(g), V(one))) return;
    }
}

/* in: scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval. Nobody waits for it, either. */
static void update_scale(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *scale = in[0].t, *tracker = in[1].t, *bad = ne(reshape_to(in[2].t, scale), 0.0), *count = add(reshape_to(tracker, scale), (int64_t)1), *grown = mul(scale, in[3].f);
    rush_tensor *full = eq(count, I_(in[5])), *grows = full && grown ? logical_and(full, T("isfinite", V(grown))) : NULL;
    rush_tensor *next = grows ? where(bad, mul(scale, in[4].f), where(grows, grown, scale)) : NULL;
    rush_tensor *left = next ? where(T("logical_or", V(bad), V(full)), T("zeros_like", V(count)), count) : NULL;
    if (left && !rush_copy_into(scale, next)) rush_copy_into(tracker, reshape_to(left, tracker));
}

const cuda_kernel cuda_create_kernels[] = {
    {"_all_true", all_true}, {"_amp_foreach_non_finite_check_and_unscale_", unscale}, {"_amp_update_scale_", update_scale},
    {"_assert_async", assert_async}, {"_assert_async.msg", assert_async},
    {"arange", arange_end}, {"arange.start", arange_start}, {"arange.start_step", arange_step}, {"range", arange_start}, {"range.step", arange_step},
    {"linspace", made_on_host}, {"linspace.Tensor_Tensor", made_on_host}, {"linspace.Tensor_Scalar", made_on_host}, {"linspace.Scalar_Tensor", made_on_host},
    {"logspace", made_on_host}, {"logspace.Tensor_Tensor", made_on_host}, {"logspace.Tensor_Scalar", made_on_host}, {"logspace.Scalar_Tensor", made_on_host},
    {"tril_indices", made_on_host}, {"triu_indices", made_on_host}, {"tril", tril}, {"triu", triu}, {"complex", complex_of},
    {"cumsum", cumsum}, {"cumprod", cumprod}, {"cummax", cummax}, {"cummin", cummin}, {"logcumsumexp", logcumsumexp}, {0}};
