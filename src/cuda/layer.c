/* layer.c - layers of networks as products and kernels: recurrent ones, a product and a kernel (cell.cu) for each step; attention, whose
 * scores are kept whole.
 */
#include "cuda/column.h"
#include "op/formula.h"
#include <stdio.h>

/* ---- recurrent layers, in one direction: arrays of (steps, batch, units) ---- */

static rush_tensor *step(rush_tensor *t, int64_t k) { return t ? T("select.int", V(t), V((int64_t)0), V(k)) : NULL; }

static int run_cell(const char *cell, const rush_tensor *on, cuda_cell *p)
{
    char kernel[32];
    snprintf(kernel, sizeof kernel, "%s_%s", cell, cuda_word(on->dtype));
    return rush_failed() ? -1 : cuda_launch(on->device, kernel, p, p->batch * p->units);
}

/* t's memory; t may be NULL once an error is pending */
static void *ptr(const rush_tensor *t) { return t ? rush_ptr(t) : NULL; }

/* in x, h0, c0, w_hh, b_hh, reverse. out y, hT, cT, gates, cells */
static void lstm_layer(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *h = in[1].t, *c = rush_contiguous_copy(in[2].t), *y = out[0].t, *gates = out[3].t, *cells = out[4].t, *turned = T("t", in[3]);
    if (!c || rush_copy_into(gates, x)) return;
    if (HAS(in[4]) && !CUDA_INPLACE("add.Tensor", V(gates), in[4])) return;
    for (int64_t i = 0, n = x->size[0]; i < n && !rush_failed(); i++) {
        const int64_t t = in[5].i ? n - 1 - i : i;
        rush_tensor *g = step(gates, t), *c_new = step(cells, t), *h_new = step(y, t);
        if (!g || !c_new || !h_new || cuda_multiply(h, turned, g, g, RUSH_NONE, rush_v_int(1))) return;
        cuda_cell p = {.gates = ptr(g), .state = ptr(c), .to = ptr(c_new), .more = ptr(h_new), .batch = y->size[1], .units = y->size[2]};
        if (run_cell("lstm", y, &p)) return;
        h = h_new, c = c_new;
    }
    if (!rush_copy_into(out[1].t, h)) rush_copy_into(out[2].t, c);
}

/* The gradient of the last state, or zeros. */
static int start_from(rush_tensor *to, rush_value g) { return HAS(g) ? rush_copy_into(to, g.t) : rush_device_fill(to, rush_v_int(0)); }

/* in gy, ghT, gcT, c0, w_hh, gates, cells, reverse. out: gradients of x, h0, c0 */
static void lstm_layer_backward(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *gates = in[5].t, *cells = in[6].t, *w = in[4].t, *dx = out[0].t, *dh = out[1].t, *dc = out[2].t, *c0 = rush_contiguous_copy(in[3].t);
    if (!c0 || start_from(dh, in[1]) || start_from(dc, in[2])) return;
    for (int64_t n = cells->size[0], i = n - 1; i >= 0 && !rush_failed(); i--)
        rush_scope() {
            const int64_t t = in[7].i ? n - 1 - i : i, before = in[7].i ? t + 1 : t - 1;
            if (HAS(in[0]) && !CUDA_INPLACE("add.Tensor", V(dh), V(step(in[0].t, t)))) break;
            rush_tensor *g = step(dx, t), *c = i ? step(cells, before) : c0;
            cuda_cell p = {.gates = ptr(step(gates, t)), .state = ptr(c), .state_new = ptr(step(cells, t)), .dh = ptr(dh), .to = ptr(g), .more = ptr(dc),
                           .batch = cells->size[1], .units = cells->size[2]};
            if (!run_cell("lstm_back", cells, &p)) cuda_multiply(g, w, NULL, dh, RUSH_NONE, RUSH_NONE);
        }
}

/* in x, h0, w_hh, b_hh, reverse. out y, hT, gates */
static void gru_layer(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = rush_contiguous_copy(in[0].t), *h = rush_contiguous_copy(in[1].t), *y = out[0].t, *turned = T("t", in[2]);
    rush_tensor *products = x && h ? rush_tensor_new(x->dtype, x->device, 2, x->size + 1) : NULL;
    if (!products) return;
    for (int64_t i = 0, n = x->size[0]; i < n && !rush_failed(); i++) {
        const int64_t t = in[4].i ? n - 1 - i : i;
        rush_tensor *h_new = step(y, t);
        if (cuda_multiply(h, turned, T_(in[3]), products, RUSH_NONE, rush_v_int(1))) return;
        cuda_cell p = {.x = ptr(step(x, t)), .products = ptr(products), .state = ptr(h), .gates = ptr(step(out[2].t, t)), .to = ptr(h_new), .batch = y->size[1], .units = y->size[2]};
        if (run_cell("gru", y, &p)) return;
        h = h_new;
    }
    rush_copy_into(out[1].t, h);
}

/* in gy, ghT, h0, w_hh, y, gates, reverse. out: gradients of x, h0, and of the recurrent products */
static void gru_layer_backward(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = in[4].t, *gates = in[5].t, *w = in[3].t, *dh = out[1].t, *h0 = rush_contiguous_copy(in[2].t);
    if (!h0 || start_from(dh, in[1])) return;
    for (int64_t n = y->size[0], i = n - 1; i >= 0 && !rush_failed(); i--)
        rush_scope() {
            const int64_t t = in[6].i ? n - 1 - i : i, before = in[6].i ? t + 1 : t - 1;
            if (HAS(in[0]) && !CUDA_INPLACE("add.Tensor", V(dh), V(step(in[0].t, t)))) break;
            rush_tensor *dhh = step(out[2].t, t);
            cuda_cell p = {.gates = ptr(step(gates, t)), .state = ptr(i ? step(y, before) : h0), .products = ptr(dh), .to = ptr(step(out[0].t, t)), .more = ptr(dhh),
                           .batch = y->size[1], .units = y->size[2]};
            if (!run_cell("gru_back", y, &p)) cuda_multiply(dhh, w, dh, dh, RUSH_NONE, rush_v_int(1));
        }
}

/* ---- attention over (batch, heads, rows, width) ---- */

typedef struct attention {
    rush_tensor *q, *k, *v, *scores;          /* of the type that is computed in, (batch * heads, rows, width); keys and values for each head */
    int64_t batch, heads, group, rows, keys;
    double scale;
    rush_dtype dtype;
} attention;

/* (batch, heads, rows, width) as (batch * heads, rows, width) of dtype; `group` heads of queries share one of keys */
static rush_tensor *flat(rush_tensor *t, rush_dtype dtype, int64_t group)
{
    t = to_dtype(t, dtype);
    if (group > 1) t = T("repeat_interleave.self_int", V(t), V(group), V((int64_t)1));
    return t ? T("reshape", V(t), INTS(t->size[0] * t->size[1], t->size[2], t->size[3])) : NULL;
}

static int scores_of(attention *a, const rush_value *qkv, rush_value causal, rush_value mask, rush_value scale)
{
    const rush_tensor *q = qkv[0].t, *k = qkv[1].t;
    *a = (attention){.batch = q->size[0], .heads = q->size[1], .group = RUSH_MAX(q->size[1] / RUSH_MAX(k->size[1], 1), 1), .rows = q->size[2], .keys = k->size[2],
                     .dtype = q->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32};
    a->scale = HAS(scale) ? rush_to_double(scale) : 1 / __builtin_sqrt((double)RUSH_MAX(q->size[3], 1));
    a->q = flat(qkv[0].t, a->dtype, 1), a->k = flat(qkv[1].t, a->dtype, a->group), a->v = flat(qkv[2].t, a->dtype, a->group);
    rush_tensor *s = rush_failed() ? NULL : rush_tensor_new(a->dtype, q->device, 3, (int64_t[]){a->batch * a->heads, a->rows, a->keys});
    if (!s || cuda_multiply(a->q, transpose(a->k, 1, 2), NULL, s, rush_v_float(a->scale), RUSH_NONE)) return -1;
    if (I_(causal)) {
        rush_tensor *seen = T("tril", V(T("ones", INTS(a->rows, a->keys), rush_v_dtype(RUSH_BOOL), ON(q))));
        s = T("masked_fill.Scalar", V(s), V(logical_not(seen)), V(-__builtin_inf()));
    }
    if (HAS(mask)) {
        rush_tensor *wide = T("view", V(s), INTS(a->batch, a->heads, a->rows, a->keys));
        wide = mask.t->dtype == RUSH_BOOL ? T("masked_fill.Scalar", V(wide), V(logical_not(mask.t)), V(-__builtin_inf())) : add(wide, to_dtype(mask.t, a->dtype));
        s = wide ? reshape_to(wide, s) : NULL;
    }
    a->scores = s;
    return s ? 0 : -1;
}

/* The scores' softmax, which is nearer than exp(scores - lse); rows without any key, which only masks make, are zeros. */
static rush_tensor *weights(const attention *a, rush_value mask)
{
    rush_tensor *p = T("_softmax", V(a->scores), V((int64_t)-1), V(false));
    return HAS(mask) && p ? T("masked_fill.Scalar", V(p), V(T("all.dim", V(eq(a->scores, -__builtin_inf())), V((int64_t)-1), V(true))), V(0.0)) : p;
}

/* in: query, key, value, dropout_p, is_causal, attn_mask, scale. out: output, logsumexp, 0 where a row has no key */
static void attend(const rush_op *op, const rush_value *in, rush_value *out)
{
    attention a;
    rush_tensor *to = out[0].t;
    if (!to->numel || scores_of(&a, in, in[4], in[5], in[6])) return;
    rush_tensor *lse = T("logsumexp", V(a.scores), INTS(-1), V(false));
    lse = lse ? T("masked_fill.Scalar", V(lse), V(eq(lse, -__builtin_inf())), V(0.0)) : NULL;
    rush_tensor *p = lse ? weights(&a, in[5]) : NULL, *y = p ? T("bmm", V(p), V(a.v)) : NULL;
    if (y && !rush_copy_into(out[1].t, reshape_to(lse, out[1].t))) rush_copy_into(to, reshape_to(y, to));
}

/* Gradients of keys or values: the heads of a group are summed. */
static void deliver(const attention *a, rush_tensor *g, rush_tensor *to)
{
    if (g && a->group > 1) g = sum_dim(T("view", V(g), INTS(a->batch, to->size[1], a->group, to->size[2], to->size[3])), 2, false);
    if (g) rush_copy_into(to, reshape_to(g, to));
}

/* in: grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale */
static void attend_backward(const rush_op *op, const rush_value *in, rush_value *out)
{
    attention a;
    for (int i = 0; i < 3; i++)
        if (rush_device_fill(out[i].t, rush_v_int(0))) return;
    if (!in[0].t->numel || !in[2].t->numel || scores_of(&a, in + 1, in[7], in[8], in[9])) return;
    rush_tensor *g = flat(in[0].t, a.dtype, 1), *y = flat(in[4].t, a.dtype, 1), *p = weights(&a, in[8]);
    if (!g || !y || !p) return;
    rush_tensor *dp = T("bmm", V(g), V(transpose(a.v, 1, 2))), *delta = sum_dim(mul(g, y), -1, true);
    rush_tensor *ds = dp && delta ? mul(mul(p, sub(dp, delta)), a.scale) : NULL;
    if (!ds) return;
    rush_tensor *dq = T("bmm", V(ds), V(a.k));
    if (dq) rush_copy_into(out[0].t, reshape_to(dq, out[0].t));
    deliver(&a, T("bmm", V(transpose(ds, 1, 2)), V(a.q)), out[1].t);
    deliver(&a, T("bmm", V(transpose(p, 1, 2)), V(g)), out[2].t);
}

const cuda_kernel cuda_layer_kernels[] = {
    {"_lstm_layer", lstm_layer}, {"_lstm_layer_backward", lstm_layer_backward}, {"_gru_layer", gru_layer}, {"_gru_layer_backward", gru_layer_backward},
    {"_scaled_dot_product_flash_attention_for_cpu", attend}, {"_scaled_dot_product_flash_attention_for_cpu_backward", attend_backward}, {0}};
