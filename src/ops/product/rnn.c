/* rnn.c - recurrent layers: RNN, LSTM, GRU, over padded and packed sequences, and their cells.
 *
 * A layer in one direction is one operation of its own (_lstm_layer, _gru_layer): the input's product with its
 * weights for all steps comes in, the steps run here with the cell's kernel, and the way back collects the gradients
 * of all steps so that each weight's is a single product. Other types, the plain RNN, packed sequences and second
 * derivatives run the cells as formulas, step by step.
 */
#include "autograd/autograd.h"
#include "kernels/cpu/rnn.h"
#include "ops/geometry.h"
#include "ops/product/product.h"
#include "ops/product/rnn.h"

/* ---- cells as formulas ---- */

static rush_tensor *piece(rush_tensor *x, int dim, int64_t begin, int64_t n) { return T("narrow", V(x), V(dim), V(begin), V(n)); }

static int cell_step(int kind, rush_tensor *x, const rush_rnn_weights *w, rush_tensor **h, rush_tensor **c)
{
    rush_tensor *hh = rush_rnn_project(*h, w->w_hh, w->b_hh);
    x = rush_rnn_input(x, w);
    if (!x || !hh) return -1;
    if (kind == RUSH_TANH_CELL || kind == RUSH_RELU_CELL) {
        rush_tensor *sum = add(x, hh);
        *h = kind == RUSH_TANH_CELL ? tanh_(sum) : T("relu", V(sum));
    } else if (kind == RUSH_LSTM) {
        rush_tensor *sum = add(x, hh);
        int64_t n = (*c)->size[(*c)->ndim - 1];
        rush_tensor *i = sigmoid(piece(sum, -1, 0, n)), *f = sigmoid(piece(sum, -1, n, n)), *g = tanh_(piece(sum, -1, 2 * n, n));
        rush_tensor *o = sigmoid(piece(sum, -1, 3 * n, n));
        *c = add(mul(f, *c), mul(i, g));
        *h = mul(o, tanh_(*c));
        if (w->w_hr) *h = mm(*h, T("t", V(w->w_hr)));
    } else {
        int64_t n = (*h)->size[(*h)->ndim - 1];
        rush_tensor *r = sigmoid(add(piece(x, -1, 0, n), piece(hh, -1, 0, n))), *z = sigmoid(add(piece(x, -1, n, n), piece(hh, -1, n, n)));
        rush_tensor *new = tanh_(add(piece(x, -1, 2 * n, n), mul(r, piece(hh, -1, 2 * n, n))));
        *h = add(new, mul(z, sub(*h, new)));
    }
    return rush_failed() ? -1 : 0;
}

static int check_cell(const rush_tensor *x, const rush_tensor *h, const rush_tensor *w_ih, const rush_tensor *w_hh, int gates)
{
    RUSH_CHECK(x->ndim == 1 || x->ndim == 2, RUSH_RUNTIME_ERROR, "Expected input to be 1D or 2D, got %dD instead", x->ndim);
    RUSH_CHECK(w_ih->ndim == 2 && w_hh->ndim == 2 && h->ndim == x->ndim, RUSH_RUNTIME_ERROR, "Expected weights of 2 dimensions and a hidden state of %d, got %s, %s and %s",
               x->ndim, rush_shape_of(w_ih), rush_shape_of(w_hh), rush_shape_of(h));
    RUSH_CHECK(x->size[x->ndim - 1] == w_ih->size[1], RUSH_RUNTIME_ERROR, "input has inconsistent input_size: got %lld expected %lld",
               (long long)x->size[x->ndim - 1], (long long)w_ih->size[1]);
    RUSH_CHECK(h->size[h->ndim - 1] == w_hh->size[1], RUSH_RUNTIME_ERROR, "hidden0 has inconsistent hidden_size: got %lld, expected %lld",
               (long long)h->size[h->ndim - 1], (long long)w_hh->size[1]);
    RUSH_CHECK(x->ndim == 1 || x->size[0] == h->size[0], RUSH_RUNTIME_ERROR, "Input batch size %lld doesn't match hidden0 batch size %lld",
               (long long)x->size[0], (long long)h->size[0]);
    RUSH_CHECK(w_hh->size[0] == gates * w_hh->size[1], RUSH_RUNTIME_ERROR, "weight_hh has shape %s, expected %d rows per unit", rush_shape_of(w_hh), gates);
    return 0;
}

static int lstm_cell(rush_cell_step step, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[1].n == 2, RUSH_RUNTIME_ERROR, "lstm_cell expects two hidden states");
    rush_tensor *h = in[1].tensors[0], *c = in[1].tensors[1];
    if (check_cell(in[0].t, h, in[2].t, in[3].t, 4)) return -1;
    RUSH_CHECK(in[0].t->ndim == 1 || (c->ndim && in[0].t->size[0] == c->size[0]), RUSH_RUNTIME_ERROR,
               "Input batch size %lld doesn't match hidden1 batch size %lld", (long long)in[0].t->size[0], (long long)(c->ndim ? c->size[0] : 1));
    RUSH_CHECK(c->ndim == h->ndim && c->size[c->ndim - 1] == in[3].t->size[1], RUSH_RUNTIME_ERROR,
               "hidden1 has inconsistent hidden_size: got %lld, expected %lld", (long long)(c->ndim ? c->size[c->ndim - 1] : 1), (long long)in[3].t->size[1]);
    if (step(RUSH_LSTM, in[0].t, &(rush_rnn_weights){in[2].t, T_(in[4]), in[3].t, T_(in[5]), NULL}, &h, &c)) return -1;
    out[0] = rush_v_tensor(h);
    out[1] = rush_v_tensor(c);
    return 0;
}

static int one_cell(int kind, rush_cell_step step, const rush_value *in, rush_value *out)
{
    rush_tensor *h = in[1].t;
    if (check_cell(in[0].t, h, in[2].t, in[3].t, kind == RUSH_GRU ? 3 : 1)) return -1;
    return step(kind, in[0].t, &(rush_rnn_weights){in[2].t, T_(in[4]), in[3].t, T_(in[5]), NULL}, &h, NULL) ? -1 : rush_result(out, h);
}

/* Each as a formula of its own, and by PyTorch's calls. */
static int lstm_cell_run(const rush_op *op, const rush_value *in, rush_value *out) { return lstm_cell(cell_step, in, out); }
static int lstm_cell_open(const rush_op *op, const rush_value *in, rush_value *out) { return lstm_cell(rush_cell_opened, in, out); }
#define CELL(name, kind)                                                                                                                             \
    static int name##_run(const rush_op *op, const rush_value *in, rush_value *out) { return one_cell(kind, cell_step, in, out); }                   \
    static int name##_open(const rush_op *op, const rush_value *in, rush_value *out) { return one_cell(kind, rush_cell_opened, in, out); }
CELL(gru_cell, RUSH_GRU)
CELL(tanh_cell, RUSH_TANH_CELL)
CELL(relu_cell, RUSH_RELU_CELL)

#define CELL_ARGS "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"
static rush_op op_lstm_cell = {
    .schema = "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
    .doc = "One step of an LSTM: input (N, in) and states (N, H) to new h and c. Hochreiter and Schmidhuber, 1997.", .run = lstm_cell_run, .open = lstm_cell_open,
};
static rush_op op_gru_cell = {.schema = "gru_cell" CELL_ARGS, .doc = "One step of a GRU. Cho et al., 2014.", .run = gru_cell_run, .open = gru_cell_open};
static rush_op op_rnn_tanh_cell = {.schema = "rnn_tanh_cell" CELL_ARGS, .doc = "One step of an Elman network with tanh.", .run = tanh_cell_run, .open = tanh_cell_open};
static rush_op op_rnn_relu_cell = {.schema = "rnn_relu_cell" CELL_ARGS, .doc = "One step of an Elman network with relu.", .run = relu_cell_run, .open = relu_cell_open};

/* ---- one layer, one direction: x (T, B, gates * H) is the input's product already ---- */

static int out3(rush_value *out, int i, const rush_tensor *on, int64_t a, int64_t b, int64_t c)
{
    return rush_out_t(out, i, on, on->dtype, 3, (int64_t[]){a, b, c}) ? 0 : -1;
}

static char *at(rush_tensor *t, int64_t step) { return (char *)rush_ptr(t) + step * t->size[1] * t->size[2] * rush_dtypes[t->dtype].size; }

/* h (B, H) @ w^T + bias into `to` (B, n), all contiguous memory of one type. */
static int recur(char *to, char *h, rush_tensor *w, rush_tensor *bias, int64_t batch, int64_t units)
{
    size_t mark = rush_scope_open();
    rush_tensor *state = rush_from_blob(h, w->dtype, 2, (int64_t[]){batch, units}, NULL, NULL, NULL);
    rush_tensor *r = state ? rush_rnn_project(state, w, bias) : NULL;
    if (r && r->numel) memcpy(to, rush_ptr(r), (size_t)r->numel * rush_dtypes[r->dtype].size);
    rush_scope_close(mark);
    return rush_failed() ? -1 : 0;
}

/* Small weights are packed once for all steps. Then threads part the batch's rows, which don't meet, and go through all
 * steps without waiting for each other. */
#define PACK_BYTES (1 << 20) /* what a processor's own cache holds */

typedef struct layer_job {
    int64_t steps, b, h;
    int type;
    bool reverse;
    size_t item;
    const char *packed, *bias, *x, *h0, *c0, *gy; /* gy: the gradient of y, or NULL */
    char *y, *gates, *cells, *hh;                 /* hh: room for a product */
    char *dh, *dc, *dx, *dhh;
} layer_job;

static void pack_f32(const rush_weight *w, void *to) { rush_k_rnn->pack[0](w->k, w->n, w->at, w->k_step, w->n_step, to); }
static void pack_f64(const rush_weight *w, void *to) { rush_k_rnn->pack[1](w->k, w->n, w->at, w->k_step, w->n_step, to); }

/* (k, n) packed, or NULL where it doesn't pay (or without memory). */
static const char *packed_weight(const rush_tensor *w, int64_t k, int64_t n, bool transposed, int64_t rows)
{
    int64_t panels = (n + RUSH_RNN_PANEL - 1) / RUSH_RNN_PANEL * RUSH_RNN_PANEL, item = (int64_t)rush_dtypes[w->dtype].size;
    if (rows < 16 || k * panels * item > PACK_BYTES || !n || !k || w->flags & RUSH_T_NEG) return NULL;
    rush_weight packed = {rush_ptr(w), k, n, w->stride[transposed], w->stride[!transposed], .nbytes = (size_t)(k * panels * item),
                          .lay_out = w->dtype == RUSH_F64 ? pack_f64 : pack_f32};
    return rush_laid_out_now(w, &packed);
}

static void by_rows(const layer_job *j, void (*fn)(void *, int64_t, int64_t))
{
    rush_parallel_for(j->b, 1 + 262144 / (j->steps * j->h * j->h + 1), fn, (void *)j);
}

/* Where `row` of step t begins, in an array of (T, B, width). */
#define PLACE(array, t, width) (j->array + ((t) * j->b + begin) * (width) * (int64_t)j->item)

static void lstm_rows(void *arg, int64_t begin, int64_t end)
{
    const layer_job *j = arg;
    int64_t h = j->h, n = end - begin;
    const char *hp = PLACE(h0, 0, h), *cp = PLACE(c0, 0, h);
    for (int64_t k = 0; k < j->steps; ++k) {
        int64_t t = j->reverse ? j->steps - 1 - k : k;
        char *gates = PLACE(gates, t, 4 * h), *c = PLACE(cells, t, h), *y = PLACE(y, t, h);
        rush_k_rnn->product[j->type](n, 4 * h, h, hp, j->packed, j->bias, PLACE(x, t, 4 * h), gates);
        rush_k_rnn->lstm[j->type](n, h, gates, cp, c, y);
        hp = y;
        cp = c;
    }
}

static void lstm_rows_back(void *arg, int64_t begin, int64_t end)
{
    const layer_job *j = arg;
    int64_t h = j->h, n = end - begin;
    for (int64_t k = j->steps - 1; k >= 0; --k) {
        int64_t t = j->reverse ? j->steps - 1 - k : k, before = j->reverse ? t + 1 : t - 1;
        char *dh = PLACE(dh, 0, h), *dx = PLACE(dx, t, 4 * h);
        if (j->gy) rush_k_rnn->add[j->type](n * h, dh, PLACE(gy, t, h));
        rush_k_rnn->lstm_back[j->type](n, h, PLACE(gates, t, 4 * h), k == 0 ? PLACE(c0, 0, h) : PLACE(cells, before, h), PLACE(cells, t, h), dh,
                                       PLACE(dc, 0, h), dx);
        rush_k_rnn->product[j->type](n, h, 4 * h, dx, j->packed, NULL, NULL, dh);
    }
}

static void gru_rows(void *arg, int64_t begin, int64_t end)
{
    const layer_job *j = arg;
    int64_t h = j->h, n = end - begin;
    const char *hp = PLACE(h0, 0, h);
    for (int64_t k = 0; k < j->steps; ++k) {
        int64_t t = j->reverse ? j->steps - 1 - k : k;
        char *y = PLACE(y, t, h), *hh = PLACE(hh, 0, 3 * h);
        rush_k_rnn->product[j->type](n, 3 * h, h, hp, j->packed, j->bias, NULL, hh);
        rush_k_rnn->gru[j->type](n, h, PLACE(x, t, 3 * h), hh, hp, PLACE(gates, t, 4 * h), y);
        hp = y;
    }
}

static void gru_rows_back(void *arg, int64_t begin, int64_t end)
{
    const layer_job *j = arg;
    int64_t h = j->h, n = end - begin;
    for (int64_t k = j->steps - 1; k >= 0; --k) {
        int64_t t = j->reverse ? j->steps - 1 - k : k, before = j->reverse ? t + 1 : t - 1;
        char *dh = PLACE(dh, 0, h), *dhh = PLACE(dhh, t, 3 * h);
        if (j->gy) rush_k_rnn->add[j->type](n * h, dh, PLACE(gy, t, h));
        rush_k_rnn->gru_back[j->type](n, h, PLACE(gates, t, 4 * h), k == 0 ? PLACE(h0, 0, h) : PLACE(y, before, h), dh, PLACE(dx, t, 3 * h), dhh);
        rush_k_rnn->product[j->type](n, h, 3 * h, dhh, j->packed, NULL, dh, dh);
    }
}

static const char *bias_of(rush_value v)
{
    rush_tensor *b = T_(v) ? rush_contiguous_copy(T_(v)) : NULL;
    return b ? rush_ptr(b) : NULL;
}

/* x (T, B, gates * H), states (B, H), weights (gates * H, H), a bias or none: of one type, float or double */
static int check_layer(rush_tensor *x, rush_tensor *h0, rush_tensor *c0, rush_tensor *w, rush_tensor *bias, int gates)
{
    RUSH_CHECK(x->dtype == RUSH_F32 || x->dtype == RUSH_F64, RUSH_NOT_IMPLEMENTED, "a recurrent layer is not implemented for %s", rush_dtype_name(x->dtype));
    RUSH_CHECK(x->dtype == h0->dtype && x->dtype == w->dtype && (!c0 || c0->dtype == x->dtype) && (!bias || bias->dtype == x->dtype), RUSH_RUNTIME_ERROR,
               "inputs, states and weights of a recurrent layer must have one dtype");
    bool fits = x->ndim == 3 && w->ndim == 2 && h0->ndim == 2 && w->size[0] == gates * w->size[1] && x->size[2] == w->size[0] && x->size[0] > 0 &&
                h0->size[0] == x->size[1] && h0->size[1] == w->size[1] && (!c0 || rush_same_sizes(c0, h0)) && (!bias || (bias->ndim == 1 && bias->size[0] == w->size[0]));
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "products %s, states %s and weights %s of a recurrent layer do not fit", rush_shape_of(x), rush_shape_of(h0), rush_shape_of(w));
    return 0;
}

static int state_out(rush_value *out, int i, const rush_tensor *like) { return rush_out_t(out, i, like, like->dtype, 2, like->size) ? 0 : -1; }

/* LSTM: in x, h0, c0, w_hh, b_hh, reverse. out y (T,B,H), hT, cT (B,H), gates (T,B,4H), cells (T,B,H) */
static int lstm_layer_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *w = in[3].t;
    if (check_layer(x, in[1].t, in[2].t, w, T_(in[4]), 4)) return -1;
    int64_t steps = x->size[0], b = x->size[1], h = w->size[1];
    return out3(out, 0, x, steps, b, h) || state_out(out, 1, in[1].t) || state_out(out, 2, in[1].t) || out3(out, 3, x, steps, b, 4 * h) ||
           out3(out, 4, x, steps, b, h) ? -1 : 0;
}

static void add_to(char *to, const char *from, int64_t n, int type)
{
    if (type) for (int64_t i = 0; i < n; ++i) ((double *)to)[i] += ((const double *)from)[i];
    else for (int64_t i = 0; i < n; ++i) ((float *)to)[i] += ((const float *)from)[i];
}

static void lstm_layer_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = rush_contiguous_copy(in[0].t), *h0 = rush_contiguous_copy(in[1].t), *c0 = rush_contiguous_copy(in[2].t), *w = in[3].t;
    if (!x || !h0 || !c0) return;
    int64_t steps = x->size[0], b = x->size[1], h = w->size[1];
    bool reverse = in[5].i;
    int d = x->dtype == RUSH_F64;
    size_t item = rush_dtypes[x->dtype].size;
    char *hp = rush_ptr(h0), *cp = rush_ptr(c0);
    layer_job job = {.steps = steps, .b = b, .h = h, .type = d, .reverse = reverse, .item = item, .x = rush_ptr(x), .h0 = hp, .c0 = cp,
                     .y = rush_ptr(out[0].t), .gates = rush_ptr(out[3].t), .cells = rush_ptr(out[4].t), .bias = bias_of(in[4]),
                     .packed = packed_weight(w, h, 4 * h, true, steps * b)};
    if (rush_failed()) return;
    if (job.packed) {
        by_rows(&job, lstm_rows);
        hp = at(out[0].t, reverse ? 0 : steps - 1);
        cp = at(out[4].t, reverse ? 0 : steps - 1);
    }
    for (int64_t k = 0; k < steps && !job.packed; ++k) {
        int64_t t = reverse ? steps - 1 - k : k;
        char *gates = at(out[3].t, t);
        if (recur(gates, hp, w, T_(in[4]), b, h)) return;
        add_to(gates, at(x, t), b * 4 * h, d);
        rush_k_rnn->lstm[d](b, h, gates, cp, at(out[4].t, t), at(out[0].t, t));
        hp = at(out[0].t, t);
        cp = at(out[4].t, t);
    }
    if (b * h > 0) memcpy(rush_ptr(out[1].t), hp, (size_t)(b * h) * item), memcpy(rush_ptr(out[2].t), cp, (size_t)(b * h) * item);
}

/* The layer as formulas: where its own derivative has to be differentiated, and for other types. */
static int layer_by_steps(rush_cell_step step, int kind, rush_tensor *x, rush_tensor *h, rush_tensor *c, const rush_rnn_weights *w, bool reverse,
                          rush_value *out)
{
    int64_t steps = x->size[0];
    rush_value xs[RUSH_MAXOUT];
    rush_tensor **ys = rush_scope_alloc(sizeof *ys * RUSH_MAX(steps, 1));
    if (!ys || TN(xs, "unbind.int", V(x), V(0))) return -1;
    for (int64_t k = 0; k < steps; ++k) {
        int64_t t = reverse ? steps - 1 - k : k;
        if (step(kind, xs[0].tensors[t], w, &h, &c)) return -1;
        ys[t] = h;
    }
    int64_t size[3] = {0, h->size[0], h->size[1]};
    rush_tensor *y = steps ? T("stack", rush_v_tensors(ys, steps)) : T("empty.memory_format", rush_v_ints(size, 3), rush_v_dtype(h->dtype), ON(h));
    out[0] = rush_v_tensor(y);
    out[1] = rush_v_tensor(h);
    out[2] = rush_v_tensor(c);
    return rush_failed() ? -1 : 0;
}

/* create_graph: run the formulas on the saved arguments again and ask the engine. */
static void second_order(rush_grads *s, int kind, int nstates)
{
    rush_value again[RUSH_MAXOUT] = {0};
    rush_tensor *leaves[5], *got[5], *roots[3], *gs[3];
    int which[5], n = 0, m = 0;
    rush_tensor *c = nstates == 2 ? s->in[2].t : NULL;
    int iw = nstates + 1, ib = nstates + 2;
    const rush_rnn_weights w = {.w_hh = s->in[iw].t, .b_hh = T_(s->in[ib])};
    if (layer_by_steps(cell_step, kind, s->in[0].t, s->in[1].t, c, &w, s->in[ib + 1].i, again)) return;
    for (int i = 0; i < 5; ++i)
        if (i <= ib && rush_needs(s, i)) which[n] = i, leaves[n++] = s->in[i].t;
    for (int i = 0; i <= nstates; ++i)
        if (s->g[i]) roots[m] = again[i].t, gs[m++] = s->g[i];
    if (!m || rush_grad_of(m, roots, gs, n, leaves, got, true, true, true)) return;
    for (int i = 0; i < n; ++i) s->gin[which[i]] = got[i];
}

/* A gradient that may be missing, contiguous, in the result where it is summed up. */
static int start_from(rush_tensor *to, rush_value g)
{
    if (HAS(g)) return rush_copy_into(to, g.t);
    rush_zero_into(to);
    return 0;
}

static rush_tensor *flat(rush_tensor *t, int64_t columns) { return T("reshape", V(t), INTS(-1, columns)); }

/* y shifted by one step: the state that each step started from, (T, B, H). */
static rush_tensor *states_before(rush_tensor *y, rush_tensor *h0, bool reverse)
{
    int64_t steps = y->size[0];
    rush_tensor *first = unsqueeze(h0, 0), *rest = piece(y, 0, reverse ? 1 : 0, steps - 1);
    rush_tensor *both[2] = {reverse ? rest : first, reverse ? first : rest};
    return T("cat", rush_v_tensors(both, 2), V(0));
}

/* dh += the gradient of this step's output */
static void add_step(rush_tensor *dh, rush_tensor *gy, int64_t t)
{
    rush_tensor *now = gy ? rush_from_blob(at(gy, t), gy->dtype, 2, dh->size, NULL, NULL, NULL) : NULL;
    if (now) T_INPLACE("add.Tensor", V(dh), V(now));
}

/* The product of a step's gates' gradients (B, n) and the weights. */
static rush_tensor *step_back(rush_tensor *gates, int64_t t, rush_tensor *w)
{
    rush_tensor *g = rush_from_blob(at(gates, t), gates->dtype, 2, gates->size + 1, NULL, NULL, NULL);
    return g ? mm(g, w) : NULL;
}

static int check_gradient(rush_value g, const rush_tensor *like, const char *name)
{
    RUSH_CHECK(!HAS(g) || (rush_same_sizes(g.t, like) && g.t->dtype == like->dtype), RUSH_RUNTIME_ERROR, "the gradient %s must be %s of size %s", name,
               rush_dtype_name(like->dtype), rush_shape_of(like));
    return 0;
}

/* What the way forward gave: contiguous, of x's type. */
static int check_saved(const rush_tensor *t, const rush_tensor *y, int64_t width)
{
    RUSH_CHECK(t->dtype == y->dtype && t->ndim == 3 && t->size[0] == y->size[0] && t->size[1] == y->size[1] && t->size[2] == width && rush_contiguous(t),
               RUSH_RUNTIME_ERROR, "a recurrent layer has no saved tensor %s", rush_shape_of(t));
    return 0;
}

/* in gy, ghT, gcT, c0, w_hh, gates, cells, reverse. out: gradients of x, h0, c0 */
static int lstm_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *c0 = in[3].t, *w = in[4].t, *gates = in[5].t, *cells = in[6].t;
    if (check_layer(gates, c0, NULL, w, NULL, 4) || check_saved(cells, cells, w->size[1]) || check_saved(gates, cells, 4 * w->size[1]) ||
        check_gradient(in[0], cells, "of y") || check_gradient(in[1], c0, "of h") || check_gradient(in[2], c0, "of c")) return -1;
    return out3(out, 0, gates, gates->size[0], gates->size[1], gates->size[2]) || state_out(out, 1, c0) || state_out(out, 2, c0) ? -1 : 0;
}

static void lstm_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *gates = in[5].t, *cells = in[6].t, *w = in[4].t, *dx = out[0].t, *dh = out[1].t, *dc = out[2].t;
    rush_tensor *c0 = rush_contiguous_copy(in[3].t), *gy = HAS(in[0]) ? rush_contiguous_copy(in[0].t) : NULL;
    int64_t steps = cells->size[0], b = cells->size[1], h = cells->size[2];
    if (!c0 || start_from(dh, in[1]) || start_from(dc, in[2])) return;
    bool reverse = in[7].i;
    int d = cells->dtype == RUSH_F64;
    layer_job job = {.steps = steps, .b = b, .h = h, .type = d, .reverse = reverse, .item = rush_dtypes[cells->dtype].size, .c0 = rush_ptr(c0),
                     .gates = rush_ptr(gates), .cells = rush_ptr(cells), .gy = gy ? rush_ptr(gy) : NULL, .dh = rush_ptr(dh), .dc = rush_ptr(dc),
                     .dx = rush_ptr(dx), .packed = packed_weight(w, 4 * h, h, false, steps * b)};
    if (rush_failed()) return;
    if (job.packed) by_rows(&job, lstm_rows_back);
    for (int64_t k = steps - 1; k >= 0 && !job.packed; --k) {
        int64_t t = reverse ? steps - 1 - k : k, before = reverse ? t + 1 : t - 1;
        size_t mark = rush_scope_open();
        add_step(dh, gy, t);
        char *c = k == 0 ? rush_ptr(c0) : at(cells, before);
        rush_k_rnn->lstm_back[d](b, h, at(gates, t), c, at(cells, t), rush_ptr(dh), rush_ptr(dc), at(dx, t));
        rush_tensor *back = step_back(dx, t, w);
        if (back) rush_copy_into(dh, back);
        rush_scope_close(mark);
        if (rush_failed()) return;
    }
}

static rush_op op__lstm_layer_backward = {
    .schema = "_lstm_layer_backward(Tensor? gy, Tensor? gh, Tensor? gc, Tensor c0, Tensor w_hh, Tensor gates, Tensor cells, bool reverse) -> "
              "(Tensor, Tensor, Tensor)",
    .doc = "The way back through _lstm_layer: gradients of its input products and first states.", .shape = lstm_back_shape, .cpu = lstm_back_cpu,
    .flags = RUSH_HIDDEN,
};

static void lstm_layer_grad(rush_grads *s)
{
    if (rush_grad_enabled()) return second_order(s, RUSH_LSTM, 2);
    rush_tensor *y = s->out[0].t, *w = s->in[3].t, *h0 = s->in[1].t;
    int64_t h = y->size[2];
    rush_value back[RUSH_MAXOUT];
    if (TN(back, "_lstm_layer_backward", V(s->g[0]), V(s->g[1]), V(s->g[2]), s->in[2], V(w), s->out[3], s->out[4], s->in[5])) return;
    for (int i = 0; i < 3; ++i) s->gin[i] = back[i].t;
    rush_tensor *dx = flat(back[0].t, 4 * h);
    if (rush_needs(s, 3)) s->gin[3] = mm(T("t", V(dx)), flat(states_before(y, h0, s->in[5].i), h));
    if (rush_needs(s, 4)) s->gin[4] = sum_dim(dx, 0, false);
}

static rush_op op__lstm_layer = {
    .schema = "_lstm_layer(Tensor x, Tensor h0, Tensor c0, Tensor w_hh, Tensor? b_hh, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    .node = "MkldnnRnnLayerBackward0",
    .doc = "One direction of an LSTM layer from its input products (T, B, 4H): outputs, last states, gates and cells for the way back.",
    .shape = lstm_layer_shape, .cpu = lstm_layer_cpu, .grad = lstm_layer_grad, .saves = "x, h0, c0, w_hh, b_hh, result0, result3, result4", .flags = RUSH_HIDDEN,
};

/* GRU: in x, h0, w_hh, b_hh, reverse. out y, hT, gates (T,B,4H) */
static int gru_layer_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *w = in[2].t;
    if (check_layer(x, in[1].t, NULL, w, T_(in[3]), 3)) return -1;
    int64_t steps = x->size[0], b = x->size[1], h = w->size[1];
    return out3(out, 0, x, steps, b, h) || state_out(out, 1, in[1].t) || out3(out, 2, x, steps, b, 4 * h) ? -1 : 0;
}

static void gru_layer_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = rush_contiguous_copy(in[0].t), *h0 = rush_contiguous_copy(in[1].t), *w = in[2].t;
    if (!x || !h0) return;
    int64_t steps = x->size[0], b = x->size[1], h = w->size[1];
    rush_tensor *hh = rush_tensor_new(x->dtype, x->device, 2, (int64_t[]){b, 3 * h});
    if (!hh) return;
    int d = x->dtype == RUSH_F64;
    char *hp = rush_ptr(h0);
    layer_job job = {.steps = steps, .b = b, .h = h, .type = d, .reverse = in[4].i, .item = rush_dtypes[x->dtype].size, .x = rush_ptr(x), .h0 = hp,
                     .y = rush_ptr(out[0].t), .gates = rush_ptr(out[2].t), .hh = rush_ptr(hh), .bias = bias_of(in[3]),
                     .packed = packed_weight(w, h, 3 * h, true, steps * b)};
    if (rush_failed()) return;
    if (job.packed) {
        by_rows(&job, gru_rows);
        hp = at(out[0].t, job.reverse ? 0 : steps - 1);
    }
    for (int64_t k = 0; k < steps && !job.packed; ++k) {
        int64_t t = in[4].i ? steps - 1 - k : k;
        if (recur(rush_ptr(hh), hp, w, T_(in[3]), b, h)) return;
        rush_k_rnn->gru[d](b, h, at(x, t), rush_ptr(hh), hp, at(out[2].t, t), at(out[0].t, t));
        hp = at(out[0].t, t);
    }
    if (b * h > 0) memcpy(rush_ptr(out[1].t), hp, (size_t)(b * h) * rush_dtypes[x->dtype].size);
}

/* in gy, ghT, h0, w_hh, y, gates, reverse. out: gradients of x, h0, and of the recurrent products */
static int gru_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *h0 = in[2].t, *w = in[3].t, *y = in[4].t, *gates = in[5].t;
    RUSH_CHECK(w->ndim == 2 && h0->ndim == 2 && y->ndim == 3 && y->dtype == w->dtype && h0->dtype == w->dtype && (w->dtype == RUSH_F32 || w->dtype == RUSH_F64) &&
                   w->size[0] == 3 * w->size[1] && h0->size[1] == w->size[1] && y->size[1] == h0->size[0] && y->size[0] > 0, RUSH_RUNTIME_ERROR,
               "outputs %s, states %s and weights %s of a recurrent layer do not fit", rush_shape_of(y), rush_shape_of(h0), rush_shape_of(w));
    int64_t steps = y->size[0], b = y->size[1], h = w->size[1];
    if (check_saved(y, y, h) || check_saved(gates, y, 4 * h) || check_gradient(in[0], y, "of y") || check_gradient(in[1], h0, "of h")) return -1;
    return out3(out, 0, y, steps, b, 3 * h) || state_out(out, 1, h0) || out3(out, 2, y, steps, b, 3 * h) ? -1 : 0;
}

static void gru_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = in[4].t, *gates = in[5].t, *w = in[3].t, *dx = out[0].t, *dh = out[1].t, *dhh = out[2].t;
    rush_tensor *h0 = rush_contiguous_copy(in[2].t), *gy = HAS(in[0]) ? rush_contiguous_copy(in[0].t) : NULL;
    int64_t steps = y->size[0], b = y->size[1], h = y->size[2];
    if (!h0 || start_from(dh, in[1])) return;
    bool reverse = in[6].i;
    int d = y->dtype == RUSH_F64;
    layer_job job = {.steps = steps, .b = b, .h = h, .type = d, .reverse = reverse, .item = rush_dtypes[y->dtype].size, .h0 = rush_ptr(h0),
                     .y = rush_ptr(y), .gates = rush_ptr(gates), .gy = gy ? rush_ptr(gy) : NULL, .dh = rush_ptr(dh), .dx = rush_ptr(dx),
                     .dhh = rush_ptr(dhh), .packed = packed_weight(w, 3 * h, h, false, steps * b)};
    if (rush_failed()) return;
    if (job.packed) by_rows(&job, gru_rows_back);
    for (int64_t k = steps - 1; k >= 0 && !job.packed; --k) {
        int64_t t = reverse ? steps - 1 - k : k, before = reverse ? t + 1 : t - 1;
        size_t mark = rush_scope_open();
        add_step(dh, gy, t);
        rush_k_rnn->gru_back[d](b, h, at(gates, t), k == 0 ? (char *)rush_ptr(h0) : at(y, before), rush_ptr(dh), at(dx, t), at(dhh, t));
        rush_tensor *back = step_back(dhh, t, w);
        if (back) T_INPLACE("add.Tensor", V(dh), V(back));
        rush_scope_close(mark);
        if (rush_failed()) return;
    }
}

static rush_op op__gru_layer_backward = {
    .schema = "_gru_layer_backward(Tensor? gy, Tensor? gh, Tensor h0, Tensor w_hh, Tensor y, Tensor gates, bool reverse) -> (Tensor, Tensor, Tensor)",
    .doc = "The way back through _gru_layer: gradients of its input products, first states and recurrent products.", .shape = gru_back_shape,
    .cpu = gru_back_cpu, .flags = RUSH_HIDDEN,
};

static void gru_layer_grad(rush_grads *s)
{
    if (rush_grad_enabled()) return second_order(s, RUSH_GRU, 1);
    rush_tensor *y = s->out[0].t, *w = s->in[2].t, *h0 = s->in[1].t;
    int64_t h = y->size[2];
    rush_value back[RUSH_MAXOUT];
    if (TN(back, "_gru_layer_backward", V(s->g[0]), V(s->g[1]), V(h0), V(w), V(y), s->out[2], s->in[4])) return;
    s->gin[0] = back[0].t;
    s->gin[1] = back[1].t;
    rush_tensor *dhh = flat(back[2].t, 3 * h);
    if (rush_needs(s, 2)) s->gin[2] = mm(T("t", V(dhh)), flat(states_before(y, h0, s->in[4].i), h));
    if (rush_needs(s, 3)) s->gin[3] = sum_dim(dhh, 0, false);
}

static rush_op op__gru_layer = {
    .schema = "_gru_layer(Tensor x, Tensor h0, Tensor w_hh, Tensor? b_hh, bool reverse) -> (Tensor, Tensor, Tensor)", .node = "StackBackward0",
    .doc = "One direction of a GRU layer from its input products (T, B, 3H).",
    .shape = gru_layer_shape, .cpu = gru_layer_cpu, .grad = gru_layer_grad, .saves = "x, h0, w_hh, b_hh, result0, result2", .flags = RUSH_HIDDEN | RUSH_LAST_GRAD_FIRST,
};

/* x: the input's product */
static int layer(const rush_rnn *s, rush_tensor *x, rush_tensor *h, rush_tensor *c, const rush_rnn_weights *w, bool reverse, rush_value *out)
{
    bool fused = x && !w->w_hr && s->step == cell_step && (x->dtype == RUSH_F32 || x->dtype == RUSH_F64) && x->size[0] > 0;
    if (!x) return -1;
    if (fused && s->kind == RUSH_LSTM) return TN(out, "_lstm_layer", V(x), V(h), V(c), V(w->w_hh), V(w->b_hh), V(reverse));
    if (fused && s->kind == RUSH_GRU) return TN(out, "_gru_layer", V(x), V(h), V(w->w_hh), V(w->b_hh), V(reverse));
    return layer_by_steps(s->step, s->kind, x, h, c, w, reverse, out);
}

/* ---- packed sequences: rows of all steps in one tensor, batch_sizes[t] of step t, falling ---- */

static int packed_layer(const rush_rnn *s, rush_tensor *x, rush_tensor *h0, rush_tensor *c0, const rush_rnn_weights *w, bool reverse, rush_value *out)
{
    const int64_t *sizes = s->sizes, steps = s->steps;
    rush_tensor **ys = rush_scope_alloc(sizeof *ys * RUSH_MAX(steps, 1)), **ends = rush_scope_alloc(sizeof *ends * 2 * (steps + 1));
    int64_t *start = rush_scope_alloc(sizeof *start * (steps + 1));
    if (!ys || !ends || !start) return -1;
    start[0] = 0;
    for (int64_t t = 0; t < steps; ++t) start[t + 1] = start[t] + sizes[t];
    rush_tensor *h = h0, *c = c0;
    int64_t n_ends = 0, now = reverse ? sizes[steps - 1] : sizes[0];
    if (reverse) { /* the shortest rows join later, from the front of the time axis */
        h = piece(h0, 0, 0, now);
        c = c0 ? piece(c0, 0, 0, now) : NULL;
    }
    for (int64_t k = 0; k < steps; ++k) {
        int64_t t = reverse ? steps - 1 - k : k, n = sizes[t];
        rush_tensor *rows = reverse ? NULL : piece(x, 0, start[t], n);
        if (n < now) { /* rows that ended: their states are final */
            ends[steps + 1 + n_ends] = c ? piece(c, 0, n, now - n) : NULL;
            ends[n_ends++] = piece(h, 0, n, now - n);
            c = c ? piece(c, 0, 0, n) : NULL;
            h = piece(h, 0, 0, n);
        } else if (n > now) {
            rush_tensor *more = piece(h0, 0, now, n - now), *more_c = c ? piece(c0, 0, now, n - now) : NULL;
            h = T("cat", rush_v_tensors((rush_tensor *[]){h, more}, 2));
            if (c) c = T("cat", rush_v_tensors((rush_tensor *[]){c, more_c}, 2));
        }
        now = n;
        if (reverse) rows = piece(x, 0, start[t], n); /* where PyTorch makes it: derivatives run in the order of the calls */
        if (s->step(s->kind, rows, w, &h, &c)) return -1;
        ys[t] = h;
    }
    rush_tensor **all = rush_scope_alloc(sizeof *all * (n_ends + 1));
    if (!all) return -1;
    out[0] = rush_v_tensor(T("cat", rush_v_tensors(ys, steps)));
    for (int state = 0; state < (c ? 2 : 1); ++state) {
        all[0] = state ? c : h;
        for (int64_t k = 0; k < n_ends; ++k) all[k + 1] = ends[(state ? steps + 1 : 0) + n_ends - 1 - k];
        out[1 + state] = rush_v_tensor(n_ends ? T("cat", rush_v_tensors(all, n_ends + 1)) : all[0]);
    }
    return rush_failed() ? -1 : 0;
}

/* ---- the whole stack of layers ---- */

/* Parameters per layer and direction: those of the input, of the state, their biases, and that which projects the state. */
static int check_params(const rush_rnn *s, int dirs, int plain, int per)
{
    int gates = s->kind == RUSH_LSTM ? 4 : s->kind == RUSH_GRU ? 3 : 1;
    RUSH_CHECK(s->nparams == s->layers * dirs * per, RUSH_RUNTIME_ERROR, "got %u parameters, expected %lld", s->nparams, (long long)(s->layers * dirs * per));
    RUSH_CHECK(s->h->ndim == 3 && s->h->size[0] == s->layers * dirs, RUSH_RUNTIME_ERROR, "Expected hidden size (%lld, ...), got %s",
               (long long)(s->layers * dirs), rush_shape_of(s->h));
    for (uint32_t k = 0; k < s->nparams; ++k) {
        const rush_tensor *p = s->params[k];
        int which = (int)k % per;
        RUSH_CHECK(which < 2 || which == plain ? p->ndim == 2 : p->ndim == 1, RUSH_RUNTIME_ERROR, "parameter %u has the shape %s", k, rush_shape_of(p));
        RUSH_CHECK(which != 1 || per > plain || p->size[0] == gates * p->size[1], RUSH_RUNTIME_ERROR, "weight_hh has shape %s, expected %d rows per unit", rush_shape_of(p), gates);
    }
    RUSH_CHECK(!s->c || (s->c->ndim == 3 && s->c->size[0] == s->h->size[0]), RUSH_RUNTIME_ERROR, "Expected the cell state to have 3 dimensions and as many layers as the hidden state, got %s", rush_shape_of(s->c));
    return 0;
}

/* One direction of one layer, with its parameters. */
static int one_direction(const rush_rnn *s, rush_tensor *x, rush_tensor *h0, rush_tensor *c0, rush_tensor **p, int plain, int per, bool reverse, rush_value *out)
{
    const rush_rnn_weights w = {.w_hh = p[1], .b_hh = s->biases ? p[3] : NULL, .w_hr = per > plain ? p[plain] : NULL};
    if (!h0) return -1;
    if (rush_lstm_is_whole(s)) return rush_lstm_whole(s, x, h0, c0, p, reverse, out);
    rush_tensor *product = rush_rnn_project(x, p[0], s->biases ? p[2] : NULL);
    return s->sizes ? packed_layer(s, product, h0, c0, &w, reverse, out) : layer(s, product, h0, c0, &w, reverse, out);
}

static int run_stack(const rush_rnn *s, rush_value *out)
{
    int dirs = s->bidirectional ? 2 : 1, plain = s->biases ? 4 : 2;
    int per = plain + (s->kind == RUSH_LSTM && s->nparams == s->layers * dirs * (plain + 1));
    if (check_params(s, dirs, plain, per)) return -1;
    rush_value h[RUSH_MAXOUT] = {0}, c[RUSH_MAXOUT] = {0};
    bool whole = rush_lstm_is_whole(s);
    if (!whole && (TN(h, "unbind.int", V(s->h), V(0)) || (s->c && TN(c, "unbind.int", V(s->c), V(0))))) return -1;
    rush_tensor *hs[2 * 64], *cs[2 * 64], *x = s->x;
    for (int64_t l = 0; l < s->layers; ++l) {
        rush_tensor *ys[2];
        for (int d = 0; d < dirs; ++d) {
            int64_t k = l * dirs + d;
            rush_value got[RUSH_MAXOUT] = {0};
            rush_tensor *h0 = whole ? T("select.int", V(s->h), V(0), V(k)) : h[0].tensors[k];
            rush_tensor *c0 = !s->c ? NULL : whole ? T("select.int", V(s->c), V(0), V(k)) : c[0].tensors[k];
            if (one_direction(s, x, h0, c0, s->params + k * per, plain, per, d, got)) return -1;
            ys[d] = got[0].t;
            hs[k] = got[1].t;
            cs[k] = s->kind == RUSH_LSTM ? got[2].t : NULL;
        }
        x = dirs == 2 ? T("cat", rush_v_tensors(ys, 2), V(-1)) : ys[0];
        if (s->dropout > 0 && s->train && l + 1 < s->layers) x = T("dropout", V(x), V(s->dropout), V(true));
        if (!x) return -1;
    }
    out[0] = rush_v_tensor(x);
    out[1] = rush_v_tensor(T("stack", rush_v_tensors(hs, s->layers * dirs)));
    if (s->kind == RUSH_LSTM) out[2] = rush_v_tensor(T("stack", rush_v_tensors(cs, s->layers * dirs)));
    return rush_failed() ? -1 : 0;
}

static int options(rush_rnn *s, const rush_value *in) /* has_biases, num_layers, dropout, train, bidirectional */
{
    s->biases = in[0].i;
    s->layers = in[1].i;
    s->dropout = in[2].f;
    s->train = in[3].i;
    s->bidirectional = in[4].i;
    RUSH_CHECK(s->layers > 0, RUSH_RUNTIME_ERROR, "num_layers must be greater than zero");
    RUSH_CHECK(s->layers <= (s->bidirectional ? 64 : 128), RUSH_NOT_IMPLEMENTED, "more than 128 layers and directions");
    return 0;
}

static int padded(int kind, rush_cell_step step, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(kind != RUSH_LSTM || in[1].n == 2, RUSH_RUNTIME_ERROR, "lstm expects two hidden states");
    rush_rnn s = {.kind = kind, .step = step, .x = in[0].t, .h = kind == RUSH_LSTM ? in[1].tensors[0] : in[1].t, .c = kind == RUSH_LSTM ? in[1].tensors[1] : NULL,
                  .params = in[2].tensors, .nparams = in[2].n, .batch_first = in[8].i};
    if (options(&s, in + 3)) return -1;
    RUSH_CHECK(s.x->ndim == 3, RUSH_RUNTIME_ERROR, "input must have 3 dimensions, got %d", s.x->ndim);
    if (s.batch_first) s.x = transpose(s.x, 0, 1);
    if (!s.x) return -1;
    bool whole = rush_lstm_is_whole(&s);
    if (whole) s.x = T("contiguous", V(s.x));
    if (!s.x || run_stack(&s, out)) return -1;
    if (s.batch_first) out[0] = rush_v_tensor(step == cell_step || whole ? transpose(out[0].t, 0, 1) : T("transpose_", out[0], V(0), V(1)));
    return rush_failed() ? -1 : 0;
}

static int packed_run(int kind, rush_cell_step step, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(kind != RUSH_LSTM || in[2].n == 2, RUSH_RUNTIME_ERROR, "lstm expects two hidden states");
    rush_rnn s = {.kind = kind, .step = step, .x = in[0].t, .h = kind == RUSH_LSTM ? in[2].tensors[0] : in[2].t, .c = kind == RUSH_LSTM ? in[2].tensors[1] : NULL,
                  .params = in[3].tensors, .nparams = in[3].n};
    if (options(&s, in + 4)) return -1;
    RUSH_CHECK(in[1].t->ndim == 1 && in[0].t->ndim == 2, RUSH_RUNTIME_ERROR, "packed rows (N, features) and the numbers of rows of each step are expected, got %s and %s",
               rush_shape_of(in[0].t), rush_shape_of(in[1].t));
    s.steps = in[1].t->numel;
    s.sizes = rush_numbers_of(in[1].t);
    if (!s.sizes) return -1;
    RUSH_CHECK(s.steps > 0, RUSH_RUNTIME_ERROR, "batch_sizes must not be empty");
    int64_t total = 0;
    for (int64_t t = 0; t < s.steps; ++t) {
        RUSH_CHECK(s.sizes[t] > 0 && (t == 0 || s.sizes[t] <= s.sizes[t - 1]), RUSH_RUNTIME_ERROR, "batch_sizes must be positive and must not rise");
        RUSH_CHECK(!__builtin_add_overflow(total, s.sizes[t], &total), RUSH_RUNTIME_ERROR, "batch_sizes sum to more rows than data has");
    }
    RUSH_CHECK(total == s.x->size[0], RUSH_RUNTIME_ERROR, "batch_sizes sum to %lld but data has %lld rows", (long long)total, (long long)s.x->size[0]);
    return run_stack(&s, out);
}

#define STACK(name, kind)                                                                                                                            \
    static int name##_input(const rush_op *op, const rush_value *in, rush_value *out) { return padded(kind, cell_step, in, out); }                   \
    static int name##_input_open(const rush_op *op, const rush_value *in, rush_value *out) { return padded(kind, rush_cell_opened, in, out); }       \
    static int name##_data(const rush_op *op, const rush_value *in, rush_value *out) { return packed_run(kind, cell_step, in, out); }                \
    static int name##_data_open(const rush_op *op, const rush_value *in, rush_value *out) { return packed_run(kind, rush_cell_opened, in, out); }
STACK(lstm, RUSH_LSTM)
STACK(gru, RUSH_GRU)
STACK(tanh, RUSH_TANH_CELL)
STACK(relu, RUSH_RELU_CELL)

#define PACKED_LOW .flags = RUSH_AUTOCAST_LOW | RUSH_CROSS_DEVICE /* batch_sizes are on the CPU */
#define LOW .flags = RUSH_AUTOCAST_LOW /* but for GRUs, as in PyTorch */
#define STACK_ARGS "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
#define PADDED(name, hx, results, fn, text, ...)                                                             \
    {.schema = name ".input(Tensor input, " hx " hx, " STACK_ARGS ", bool batch_first) -> " results, .doc = text " over a padded batch (T, N, in).", .run = fn, .open = fn##_open, __VA_ARGS__}
#define PACKED(name, hx, results, fn, text, ...)                                                             \
    {.schema = name ".data(Tensor data, Tensor batch_sizes, " hx " hx, " STACK_ARGS ") -> " results, .doc = text " over a packed batch.", .run = fn, .open = fn##_open, __VA_ARGS__}
static rush_op op_lstm_input = PADDED("lstm", "Tensor[]", "(Tensor, Tensor, Tensor)", lstm_input, "A stack of LSTM layers", LOW);
static rush_op op_lstm_data = PACKED("lstm", "Tensor[]", "(Tensor, Tensor, Tensor)", lstm_data, "A stack of LSTM layers", PACKED_LOW);
static rush_op op_gru_input = PADDED("gru", "Tensor", "(Tensor, Tensor)", gru_input, "A stack of GRU layers", .flags = 0);
static rush_op op_gru_data = PACKED("gru", "Tensor", "(Tensor, Tensor)", gru_data, "A stack of GRU layers", .flags = RUSH_CROSS_DEVICE);
static rush_op op_rnn_tanh_input = PADDED("rnn_tanh", "Tensor", "(Tensor, Tensor)", tanh_input, "A stack of Elman layers with tanh", LOW);
static rush_op op_rnn_tanh_data = PACKED("rnn_tanh", "Tensor", "(Tensor, Tensor)", tanh_data, "A stack of Elman layers with tanh", PACKED_LOW);
static rush_op op_rnn_relu_input = PADDED("rnn_relu", "Tensor", "(Tensor, Tensor)", relu_input, "A stack of Elman layers with relu", LOW);
static rush_op op_rnn_relu_data = PACKED("rnn_relu", "Tensor", "(Tensor, Tensor)", relu_data, "A stack of Elman layers with relu", PACKED_LOW);

RUSH_FAMILY(rnn, &op_lstm_cell, &op_gru_cell, &op_rnn_tanh_cell, &op_rnn_relu_cell, &op__lstm_layer, &op__lstm_layer_backward, &op__gru_layer,
            &op__gru_layer_backward, &op_lstm_input, &op_lstm_data,
            &op_gru_input, &op_gru_data, &op_rnn_tanh_input, &op_rnn_tanh_data, &op_rnn_relu_input, &op_rnn_relu_data)
