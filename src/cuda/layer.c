/* layer.c - recurrent layers: a product and a kernel (cell.cu) for each step. */
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

const cuda_kernel cuda_layer_kernels[] = {
    {"_lstm_layer", lstm_layer}, {"_lstm_layer_backward", lstm_layer_backward}, {"_gru_layer", gru_layer}, {"_gru_layer_backward", gru_layer_backward}, {0}};
