/* norm.c - softmax, layer, RMS, group and batch norm, nll_loss: over the kernels of norm.cu, and of others. */
#include "cuda/column.h"
#include "op/formula.h"
#include <stdio.h>

static rush_dtype compute_dtype(const rush_tensor *x) { return x->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32; }
static void *ptr(const rush_tensor *t) { return t ? rush_ptr(t) : NULL; }

/* t, or one of dtype d to be given to it later. */
static rush_tensor *made_for(rush_tensor *t, rush_dtype d) { return !t || (t->dtype == d && rush_contiguous(t)) ? t : rush_tensor_new(d, t->device, t->ndim, t->size); }
static void give(rush_tensor *t, rush_tensor *made)
{
    if (t && made && t != made && !rush_failed()) rush_copy_into(t, made);
}

/* Rows of floats that 256 threads can hold have kernels of their own. */
static int launch(const rush_tensor *on, const char *name, rush_dtype d, cuda_rows_norm *p)
{
    char kernel[32];
    const char *word = d == RUSH_F64 ? "f64" : "f32";
    p->inner = RUSH_MAX(p->inner, 1);
    p->team = p->inner > 1 ? 8 : CUDA_THREADS;
    if (p->inner == 1 && p->n <= CUDA_THREADS * CUDA_HELD && d == RUSH_F32 && !p->span) {
        const size_t all = (size_t)p->x | (size_t)p->dy | (size_t)p->w | (size_t)p->b | (size_t)p->y | (size_t)p->n * sizeof(float);
        word = all % 16 ? "held" : "lined";
        for (p->team = 32; p->team * CUDA_HELD < p->n;) p->team *= 2;
    }
    snprintf(kernel, sizeof kernel, "%s_%s", name, word);
    return p->rows && p->n ? cuda_launch_blocks(on->device, kernel, p, cuda_blocks_of(p->rows, p->team)) : 0;
}

/* ---- softmax ---- */

static void softmax_of(rush_tensor *x, rush_tensor *g, rush_tensor *out, int64_t dim, bool log)
{
    rush_dtype d = compute_dtype(out);
    int at = rush_dim_wrap(dim, out->ndim);
    rush_tensor *xc = rush_cast_copy(x, d), *gc = rush_cast_copy(g, d), *to = made_for(out, d);
    if (!xc || (g && !gc) || !to || !out->numel) return;
    cuda_rows_norm p = {.x = ptr(xc), .dy = ptr(gc), .y = ptr(to), .n = out->ndim ? out->size[at] : 1, .inner = 1, .log = log};
    for (int k = at + 1; k < out->ndim; k++) p.inner *= out->size[k];
    p.rows = out->numel / p.n;
    if (!launch(out, g ? "softmax_back" : "softmax", d, &p)) give(out, to);
}
static void softmax(const rush_op *op, const rush_value *in, rush_value *out) { softmax_of(in[0].t, NULL, out[0].t, in[1].i, false); }
static void log_softmax(const rush_op *op, const rush_value *in, rush_value *out) { softmax_of(in[0].t, NULL, out[0].t, in[1].i, true); }
static void softmax_back(const rush_op *op, const rush_value *in, rush_value *out) { softmax_of(in[1].t, in[0].t, out[0].t, in[2].i, false); }
static void log_softmax_back(const rush_op *op, const rush_value *in, rush_value *out) { softmax_of(in[1].t, in[0].t, out[0].t, in[2].i, true); }

/* ---- rows ---- */

typedef struct rows {
    int64_t rows, n, span, groups;
    double eps;
} rows;

static void norm_rows(const rush_tensor *x, const rush_tensor *w, const rush_tensor *b, const rows *r, rush_tensor *y, rush_tensor *mean, rush_tensor *rstd)
{
    rush_dtype d = compute_dtype(x);
    rush_tensor *xc = rush_cast_copy(x, d), *wc = rush_cast_copy(w, d), *bc = rush_cast_copy(b, d);
    rush_tensor *yc = made_for(y, d), *mc = made_for(mean, d), *rc = made_for(rstd, d);
    if (rush_failed() || !rstd->numel) return;
    cuda_rows_norm p = {.x = ptr(xc), .w = ptr(wc), .b = ptr(bc), .y = ptr(yc), .mean = ptr(mc), .rstd = ptr(rc), .rows = r->rows, .n = r->n, .span = r->span,
                        .groups = r->groups, .eps = r->eps};
    if (!r->n) { /* the mean of nothing */
        if (mc) rush_device_fill(mc, rush_v_float(0));
        rush_device_fill(rc, rush_v_float(__builtin_nan("")));
    } else if (launch(x, "rows_norm", d, &p)) {
        return;
    }
    give(y, yc), give(mean, mc), give(rstd, rc);
}

static void norm_rows_back(const rush_tensor *g, const rush_tensor *x, const rush_tensor *w, const rush_tensor *mean, const rush_tensor *rstd, const rows *r, rush_tensor *dx)
{
    rush_dtype d = compute_dtype(x);
    rush_tensor *gc = rush_cast_copy(g, d), *xc = rush_cast_copy(x, d), *wc = rush_cast_copy(w, d), *mc = rush_cast_copy(mean, d), *rc = rush_cast_copy(rstd, d);
    rush_tensor *to = made_for(dx, d);
    if (rush_failed() || !dx) return;
    cuda_rows_norm p = {.x = ptr(xc), .dy = ptr(gc), .w = ptr(wc), .y = ptr(to), .mean = ptr(mc), .rstd = ptr(rc), .rows = r->rows, .n = r->n, .span = r->span,
                        .groups = r->groups};
    if (!launch(x, "rows_norm_back", d, &p)) give(dx, to);
}

/* x as (rows, n) of the type that is computed in, brought to mean 0 and deviation 1 by what was found. */
static rush_tensor *normal(const rush_tensor *x, const rush_tensor *mean, const rush_tensor *rstd, int64_t rows_)
{
    rush_dtype d = compute_dtype(x);
    rush_tensor *v = T("reshape", V(rush_cast_copy(x, d)), INTS(rows_, -1));
    if (v && mean) v = sub(v, T("reshape", V(rush_cast_copy(mean, d)), INTS(rows_, 1)));
    return v ? mul(v, T("reshape", V(rush_cast_copy(rstd, d)), INTS(rows_, 1))) : NULL;
}

static rows of_shape(const rush_tensor *x, rush_value shape, double eps)
{
    rows r = {.n = 1, .eps = eps};
    for (uint32_t i = 0; i < shape.n; i++) r.n *= shape.ints[i];
    r.rows = 1;
    for (int d = 0; d < x->ndim - (int)shape.n; d++) r.rows *= x->size[d];
    return r;
}

static void layer_norm(const rush_op *op, const rush_value *in, rush_value *out)
{
    rows r = of_shape(in[0].t, in[1], D_(in[4]));
    norm_rows(in[0].t, T_(in[2]), T_(in[3]), &r, out[0].t, out[1].t, out[2].t);
}

/* The sums over rows, as the gradients of weight and bias. */
static void layer_parameters(const rush_tensor *g, const rush_tensor *x, const rush_tensor *mean, const rush_tensor *rstd, const rows *r, rush_tensor *dw, rush_tensor *db)
{
    rush_dtype d = compute_dtype(x);
    if (!r->rows || !r->n) {
        if (dw) rush_device_fill(dw, rush_v_int(0));
        if (db) rush_device_fill(db, rush_v_int(0));
        return;
    }
    rush_tensor *flat = T("reshape", V(rush_cast_copy(g, d)), INTS(r->rows, r->n));
    rush_tensor *w = dw && flat ? sum_dim(mul(flat, normal(x, mean, rstd, r->rows)), 0, false) : NULL, *b = db && flat ? sum_dim(flat, 0, false) : NULL;
    if (w) rush_copy_into(dw, reshape_to(w, dw));
    if (b) rush_copy_into(db, reshape_to(b, db));
}

static void layer_norm_back(const rush_op *op, const rush_value *in, rush_value *out)
{
    rows r = of_shape(in[1].t, in[2], 0);
    norm_rows_back(in[0].t, in[1].t, T_(in[5]), in[3].t, in[4].t, &r, T_(out[0]));
    layer_parameters(in[0].t, in[1].t, in[3].t, in[4].t, &r, T_(out[1]), T_(out[2]));
}

static void rms_norm(const rush_op *op, const rush_value *in, rush_value *out)
{
    rows r = of_shape(in[0].t, in[1], HAS(in[3]) ? D_(in[3]) : rush_dtypes[compute_dtype(in[0].t)].eps);
    norm_rows(in[0].t, T_(in[2]), NULL, &r, out[0].t, NULL, out[1].t);
}
static void rms_norm_back(const rush_op *op, const rush_value *in, rush_value *out)
{
    rows r = of_shape(in[1].t, in[2], 0);
    norm_rows_back(in[0].t, in[1].t, T_(in[4]), NULL, in[3].t, &r, T_(out[0]));
    layer_parameters(in[0].t, in[1].t, NULL, in[3].t, &r, T_(out[1]), NULL);
}

/* in = input, weight, bias, N, C, HxW, group, eps */
static void group_norm(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t groups = in[6].i, hw = in[5].i, c = in[4].i;
    rows r = {.rows = in[3].i * groups, .n = c / groups * hw, .span = RUSH_MAX(hw, 1), .groups = groups, .eps = D_(in[7])};
    norm_rows(in[0].t, T_(in[1]), T_(in[2]), &r, out[0].t, out[1].t, out[2].t);
}

/* in = grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask */
static void group_norm_back(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t groups = in[8].i, hw = in[7].i, c = in[6].i, n = in[5].i;
    rush_tensor *x = in[1].t, *dw = T_(out[1]), *db = T_(out[2]);
    rows r = {.rows = n * groups, .n = c / groups * hw, .span = RUSH_MAX(hw, 1), .groups = groups};
    norm_rows_back(in[0].t, x, T_(in[4]), in[2].t, in[3].t, &r, T_(out[0]));
    if (!dw && !db) return;
    if (!x->numel) {
        if (dw) rush_device_fill(dw, rush_v_int(0));
        if (db) rush_device_fill(db, rush_v_int(0));
        return;
    }
    rush_tensor *g = T("reshape", V(rush_cast_copy(in[0].t, compute_dtype(x))), INTS(n, c, hw)), *hat = normal(x, in[2].t, in[3].t, r.rows);
    rush_tensor *w = dw && hat ? T("sum.dim_IntList", V(mul(g, T("reshape", V(hat), INTS(n, c, hw)))), INTS(0, 2)) : NULL, *b = db ? T("sum.dim_IntList", V(g), INTS(0, 2)) : NULL;
    if (w) rush_copy_into(dw, w);
    if (b) rush_copy_into(db, b);
}

/* ---- batch norm: in = input, weight, bias, running_mean, running_var, training, momentum, eps ---- */

static rush_value all_but_channels(const rush_tensor *x, int64_t *room)
{
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (d != 1) room[n++] = d;
    return rush_v_ints(room, n);
}

static int follow(rush_tensor *running, rush_tensor *now, double momentum)
{
    rush_tensor *next = add(mul(rush_cast_copy(running, now->dtype), 1 - momentum), mul(now, momentum));
    return next ? rush_copy_into(running, next) : -1;
}

/* Means and biased variances of the batch; the running ones follow. */
static int batch_statistics(const rush_tensor *x, rush_tensor *running_mean, rush_tensor *running_var, double momentum, rush_tensor **mean, rush_tensor **var)
{
    rush_dtype d = compute_dtype(x);
    int64_t room[RUSH_MAXDIM], c = x->size[1], count = c ? x->numel / c : 0;
    rush_value got[2], dims = all_but_channels(x, room);
    if (TN(got, "var_mean.correction", V(rush_cast_copy(x, d)), dims, V((int64_t)0), V(false))) return -1;
    *var = got[0].t, *mean = got[1].t;
    if (count && running_mean && follow(running_mean, *mean, momentum)) return -1;
    if (!count || !running_var) return 0;
    return follow(running_var, mul(*var, (double)count / (double)(count - 1)), momentum);
}

/* x, g or y as (n, c, hw): a copy only where the last dimensions are not one. */
static rush_tensor *planes(rush_tensor *t, int64_t *step)
{
    for (int turn = 0; t && turn < 2; turn++) {
        bool one = true;
        for (int d = 2; d + 1 < t->ndim; d++) one &= t->size[d] == 1 || t->stride[d] == t->stride[d + 1] * t->size[d + 1];
        if (one && !(t->flags & (RUSH_T_CONJ | RUSH_T_NEG))) {
            int last = t->ndim - 1;
            while (last > 2 && t->size[last] == 1) last--; /* its stride says nothing */
            for (int k = 0; k < 3; k++) step[k] = k < 2 ? t->stride[k] : t->ndim > 2 ? t->stride[last] : 0;
            for (int k = 0; k < 3; k++) step[k] *= (int64_t)rush_dtypes[t->dtype].size;
            return t;
        }
        t = rush_cast_copy(rush_contiguous_copy(t), t->dtype);
    }
    return t;
}

/* Runs the kernels that are asked for; p has all but the shape. */
static int batch_run(cuda_batch *p, rush_tensor *x, rush_tensor *g, rush_tensor *y, bool sums)
{
    const rush_dtype d = compute_dtype(x);
    const char *word = d == RUSH_F64 ? "f64" : "f32";
    char kernel[32];
    p->n = x->size[0], p->c = x->size[1], p->hw = p->n ? x->numel / p->n / p->c : 1, p->pieces = 1;
    if (!(x = planes(x, p->x_step)) || (g && !(g = planes(g, p->g_step)))) return -1;
    p->last = p->x_step[1] < p->x_step[2];
    p->x = ptr(x), p->g = ptr(g), p->x_dtype = x->dtype, p->g_dtype = g ? g->dtype : 0;
    rush_tensor *by = rush_tensor_new(d, x->device, 2, (const int64_t[]){4, p->c}), *partial = NULL;
    if (!by) return -1;
    p->by = ptr(by);
    if (sums) {
        const int64_t all = p->n * p->hw;
        p->team = p->last && p->c >= 8 ? 8 : CUDA_THREADS, p->teams = CUDA_THREADS / p->team;
        p->pieces = cuda_pieces_of(p->c, p->team, all);
        p->piece = (all + p->pieces - 1) / p->pieces;
        if (!(partial = rush_tensor_new(RUSH_F64, x->device, 3, (const int64_t[]){p->c, p->pieces, 2}))) return -1;
        p->partial = ptr(partial);
        snprintf(kernel, sizeof kernel, "batch_sums_%s", word);
        if (cuda_launch_blocks(x->device, kernel, p, cuda_blocks_of(p->c, p->team) * p->pieces)) return -1;
    }
    snprintf(kernel, sizeof kernel, "batch_finish_%s", word);
    if (cuda_launch(x->device, kernel, p, p->c)) return -1;
    if (!y || !y->numel) return 0;
    rush_tensor *to = planes(y, p->y_step); /* a copy is written over whole */
    if (!to) return -1;
    p->y = ptr(to), p->y_dtype = to->dtype, p->team = 1;
    const int64_t length = p->last ? p->c : p->hw, lines = x->numel / length;
    while (p->team < CUDA_THREADS && p->team < length) p->team *= 2;
    p->teams = CUDA_THREADS / p->team;
    snprintf(kernel, sizeof kernel, "batch_apply_%s", word);
    if (cuda_launch_blocks(x->device, kernel, p, cuda_blocks_of(lines, p->team))) return -1;
    return to == y ? 0 : rush_copy_into(y, to);
}

static void batch_norm(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *mean = T_(in[3]), *var = T_(in[4]);
    const rush_dtype d = compute_dtype(x);
    if (x->ndim < 2 || !x->size[1]) return;
    const bool training = in[5].i, follows = training && x->numel;
    rush_tensor *w = rush_cast_copy(T_(in[1]), d), *b = rush_cast_copy(T_(in[2]), d), *m = rush_cast_copy(mean, d), *v = rush_cast_copy(var, d);
    rush_tensor *saved_mean = training ? made_for(out[1].t, d) : NULL, *saved_rstd = training ? made_for(out[2].t, d) : NULL;
    if (rush_failed()) return;
    cuda_batch p = {.w = ptr(w), .b = ptr(b), .mean = ptr(saved_mean), .rstd = ptr(saved_rstd), .running_mean = training && !follows ? NULL : ptr(m),
                    .running_var = training && !follows ? NULL : ptr(v), .training = training, .momentum = D_(in[6]), .eps = D_(in[7])};
    if (batch_run(&p, x, NULL, out[0].t, training)) return;
    give(T_(out[1]), saved_mean), give(T_(out[2]), saved_rstd);
    if (follows) give(mean, m), give(var, v);
}

/* in = grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask */
static void batch_norm_back(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[1].t, *dx = T_(out[0]), *dw = T_(out[1]), *db = T_(out[2]);
    const rush_dtype d = compute_dtype(x);
    if (x->ndim < 2 || !x->size[1]) return;
    rush_tensor *w = rush_cast_copy(T_(in[2]), d), *mean = rush_cast_copy(in[7].i ? in[5].t : in[3].t, d);
    rush_tensor *rstd = in[7].i ? rush_cast_copy(in[6].t, d) : rsqrt(add(rush_cast_copy(in[4].t, d), D_(in[8])));
    rush_tensor *made_dw = made_for(dw, d), *made_db = made_for(db, d);
    if (rush_failed()) return;
    cuda_batch p = {.w = ptr(w), .mean = ptr(mean), .rstd = ptr(rstd), .dw = ptr(made_dw), .db = ptr(made_db), .training = in[7].i};
    if (batch_run(&p, x, in[0].t, dx, dw || db || in[7].i)) return;
    give(dw, made_dw), give(db, made_db);
}

static void batch_norm_update(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *mean, *var;
    if (in[0].t->size[1] && !batch_statistics(in[0].t, T_(in[1]), T_(in[2]), D_(in[3]), &mean, &var) && !rush_copy_into(out[0].t, mean)) rush_copy_into(out[1].t, var);
}

/* ---- nll_loss: in = self, target, weight, reduction, ignore_index ---- */

/* The kernels' view of labels; *made: x, or room for its gradient, contiguous. */
static int labels_of(cuda_labels *p, rush_tensor *x, rush_tensor *label, rush_value weight, rush_value reduction, rush_value ignore, rush_dtype d)
{
    const int at = x->ndim == 1 ? 0 : 1;
    rush_tensor *l = label->dtype == RUSH_U8 || label->dtype == RUSH_I64 ? rush_contiguous_copy(label) : rush_cast_copy(label, RUSH_I64);
    rush_tensor *w = rush_cast_copy(T_(weight), d);
    if (rush_failed()) return -1;
    *p = (cuda_labels){.weight = ptr(w), .label = ptr(l), .outer = at ? x->size[0] : 1, .n = x->size[at], .inner = 1, .ignore = ignore.i, .byte = l->dtype == RUSH_U8,
                       .each = reduction.i == 0, .mean = reduction.i == 1, .fault = cuda_devices[x->device.index].fault};
    for (int k = at + 1; k < x->ndim; k++) p->inner *= x->size[k];
    return 0;
}

static int run_labels(const rush_tensor *on, const char *name, rush_dtype d, const cuda_labels *p, int64_t work)
{
    char kernel[32];
    snprintf(kernel, sizeof kernel, "%s_%s", name, d == RUSH_F64 ? "f64" : "f32");
    return cuda_launch(on->device, kernel, p, work);
}

static void nll(const rush_op *op, const rush_value *in, rush_value *out)
{
    enum { ONE_BLOCK = 1 << 15 }; /* labels */
    cuda_labels p;
    rush_tensor *x = in[0].t, *to = out[0].t, *total = out[1].t;
    const rush_dtype d = compute_dtype(x);
    rush_tensor *xc = rush_cast_copy(x, d), *made = made_for(to, d), *sum = made_for(total, d);
    if (rush_failed() || labels_of(&p, x, in[1].t, in[2], in[3], in[4], d)) return;
    const int64_t n = p.outer * p.inner;
    p.x = ptr(xc), p.y = ptr(made), p.sum = ptr(sum);
    if (p.each) {
        p.sum = NULL;
        if (run_labels(x, "label_each", d, &p, n) || rush_device_fill(total, rush_v_int(0))) return;
        give(to, made);
    } else if (n <= ONE_BLOCK) {
        if (run_labels(x, "label_sum", d, &p, 1)) return;
        give(to, made), give(total, sum);
    } else {
        rush_tensor *losses = rush_tensor_new(d, x->device, 1, &n), *weights = rush_tensor_new(d, x->device, 1, &n);
        if (!losses || !weights) return;
        p.y = ptr(losses), p.sum = ptr(weights);
        if (run_labels(x, "label_each", d, &p, n)) return;
        rush_tensor *all = sum_all(weights), *loss = sum_all(losses);
        if (p.mean) loss = div_(loss, all);
        if (loss && !rush_copy_into(to, loss)) rush_copy_into(total, all);
    }
}

/* in = grad_output, self, target, weight, reduction, ignore_index, total_weight */
static void nll_back(const rush_op *op, const rush_value *in, rush_value *out)
{
    cuda_labels p;
    rush_tensor *to = out[0].t;
    const rush_dtype d = compute_dtype(to);
    rush_tensor *g = rush_cast_copy(in[0].t, d), *total = rush_cast_copy(in[6].t, d), *made = made_for(to, d);
    if (rush_failed() || labels_of(&p, to, in[2].t, in[3], in[4], in[5], d)) return;
    p.g = ptr(g), p.total = ptr(total), p.y = ptr(made);
    if (!run_labels(to, "label_back", d, &p, to->numel)) give(to, made);
}

const cuda_kernel cuda_norm_kernels[] = {
    {"_softmax", softmax}, {"_log_softmax", log_softmax}, {"_softmax_backward_data", softmax_back}, {"_log_softmax_backward_data", log_softmax_back},
    {"native_layer_norm", layer_norm}, {"native_layer_norm_backward", layer_norm_back}, {"_fused_rms_norm", rms_norm}, {"_fused_rms_norm_backward", rms_norm_back},
    {"native_group_norm", group_norm}, {"native_group_norm_backward", group_norm_back}, {"native_batch_norm", batch_norm},
    {"native_batch_norm_backward", batch_norm_back}, {"batch_norm_update_stats", batch_norm_update}, {"nll_loss_forward", nll}, {"nll_loss2d_forward", nll},
    {"nll_loss_backward", nll_back}, {"nll_loss2d_backward", nll_back}, {0}};
