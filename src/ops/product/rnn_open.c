/* rnn_open.c - recurrent layers by the operations that PyTorch makes of them, for those who look at operations.
 *
 * Its cells work in place on pieces of their products. An LSTM of floats on the CPU is one operation per layer and
 * direction there, mkldnn_rnn_layer; here that is a formula over _lstm_layer.
 */
#include "ops/geometry.h"
#include "ops/product/rnn.h"

static rush_tensor *add_into(rush_tensor *a, rush_tensor *b) { return a && b ? T_INPLACE("add.Tensor", V(a), V(b)) : NULL; }
static rush_tensor *mul_into(rush_tensor *a, rush_tensor *b) { return a && b ? T_INPLACE("mul.Tensor", V(a), V(b)) : NULL; }
static rush_tensor *sigmoid_into(rush_tensor *a) { return a ? T_INPLACE("sigmoid", V(a)) : NULL; }
static rush_tensor *tanh_into(rush_tensor *a) { return a ? T_INPLACE("tanh", V(a)) : NULL; }

/* The parts of n gates. */
static rush_tensor **parts(rush_tensor *x, int n)
{
    rush_value all[RUSH_MAXOUT];
    if (!x || TN(all, "unsafe_chunk", V(x), V(n), V(1))) return NULL;
    RUSH_CHECK_NULL(all[0].n == (uint32_t)n, RUSH_RUNTIME_ERROR, "%d gates were expected in %s", n, rush_shape_of(x));
    return all[0].tensors;
}

static int lstm_step(rush_tensor *sum, rush_tensor *w_hr, rush_tensor **h, rush_tensor **c)
{
    rush_tensor **gate = parts(sum, 4);
    if (!gate) return -1;
    rush_tensor *i = sigmoid_into(gate[0]), *f = sigmoid_into(gate[1]), *g = tanh_into(gate[2]), *o = sigmoid_into(gate[3]);
    rush_tensor *kept = mul(f, *c);
    *c = add_into(kept, mul(i, g));
    *h = mul(o, tanh_(*c));
    if (w_hr) *h = matmul(*h, T("t", V(w_hr)));
    return *h ? 0 : -1;
}

static int gru_step(rush_tensor *x, const rush_rnn_weights *w, rush_tensor **h)
{
    rush_tensor **from_x = parts(rush_rnn_input(x, w), 3), **from_h = from_x ? parts(rush_rnn_project(*h, w->w_hh, w->b_hh), 3) : NULL;
    if (!from_h) return -1;
    rush_tensor *reset = sigmoid_into(add_into(from_h[0], from_x[0])), *keep = sigmoid_into(add_into(from_h[1], from_x[1]));
    rush_tensor *now = tanh_into(add(from_x[2], mul_into(from_h[2], reset)));
    *h = add_into(mul_into(sub(*h, now), keep), now);
    return *h ? 0 : -1;
}

int rush_cell_opened(int kind, rush_tensor *x, const rush_rnn_weights *w, rush_tensor **h, rush_tensor **c)
{
    if (kind == RUSH_GRU) return gru_step(x, w, h);
    rush_tensor *sum = rush_rnn_project(*h, w->w_hh, w->b_hh); /* before the input's: derivatives come in the order of the calls */
    sum = add_into(sum, rush_rnn_input(x, w));
    if (kind == RUSH_LSTM) return lstm_step(sum, w->w_hr, h, c);
    *h = kind == RUSH_TANH_CELL ? tanh_(sum) : T("relu", V(sum));
    return *h ? 0 : -1;
}

/* ---- one layer of an LSTM, one direction, as an operation ---- */

enum { X, W_IH, W_HH, B_IH, B_HH, H0, C0, REVERSE, SIZES, MODE, UNITS, LAYERS, BIASES, BIDIRECTIONAL, BATCH_FIRST, TRAIN }; /* arguments of mkldnn_rnn_layer */

static int check_layer(const rush_value *in, rush_value mode, rush_value sizes)
{
    RUSH_CHECK(mode.i == 2, RUSH_NOT_IMPLEMENTED, "layers of mode %lld: only LSTMs, mode 2", (long long)mode.i);
    RUSH_CHECK(!sizes.n, RUSH_NOT_IMPLEMENTED, "packed sequences");
    RUSH_CHECK(in[X].t->ndim == 3 && in[W_IH].t->ndim == 2, RUSH_RUNTIME_ERROR, "an input (T, N, in) and weights (4 * H, in) are expected, got %s and %s",
               rush_shape_of(in[X].t), rush_shape_of(in[W_IH].t));
    return 0;
}

/* The fourth result is what the way back needs: gates and cells, as bytes. */
static int layer_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT], none = RUSH_NONE;
    if (check_layer(in, in[MODE], in[SIZES])) return -1;
    bool biases = in[BIASES].i;
    rush_tensor *product = T("linear", in[X], in[W_IH], biases ? in[B_IH] : none);
    if (TN(got, "_lstm_layer", V(product), in[H0], in[C0], in[W_HH], biases ? in[B_HH] : none, in[REVERSE])) return -1;
    for (int i = 0; i < 3; ++i) out[i] = got[i];
    rush_tensor *kept = T("cat", rush_v_tensors((rush_tensor *[]){got[3].t, got[4].t}, 2), V(-1));
    return rush_result(&out[3], kept ? T("view.dtype", V(kept), rush_v_dtype(RUSH_U8)) : NULL);
}

/* Arguments of mkldnn_rnn_layer_backward, behind the layer's first seven. */
enum { Y = 7, HY, CY, GY, GHY, GCY, BACK_REVERSE, BACK_MODE, BACK_SIZES = 20, KEPT = 22 };

static rush_tensor *rows_of(rush_tensor *t) { return T("reshape", V(t), INTS(-1, t->size[t->ndim - 1])); }

static int layer_back_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value back[RUSH_MAXOUT];
    rush_tensor *x = in[X].t, *y = in[Y].t, *w = in[W_HH].t;
    if (check_layer(in, in[BACK_MODE], in[BACK_SIZES])) return -1;
    rush_tensor *kept = T("view.dtype", in[KEPT], rush_v_dtype(x->dtype));
    RUSH_CHECK(kept && kept->ndim == 3 && w->ndim == 2 && kept->size[2] == 5 * w->size[1] && y->ndim == 3, RUSH_RUNTIME_ERROR,
               "the workspace is not that of a layer with weights %s", rush_shape_of(w));
    int64_t h = w->size[1], steps = y->size[0];
    rush_tensor *gates = T("contiguous", V(T("narrow", V(kept), V(-1), V(0), V(4 * h)))), *cells = T("contiguous", V(T("narrow", V(kept), V(-1), V(4 * h), V(h))));
    if (TN(back, "_lstm_layer_backward", in[GY], in[GHY], in[GCY], in[C0], in[W_HH], V(gates), V(cells), in[BACK_REVERSE])) return -1;
    bool reverse = in[BACK_REVERSE].i;
    rush_tensor *dx = rows_of(back[0].t), *rest = T("narrow", V(y), V(0), V(reverse ? 1 : 0), V(steps - 1)), *first = unsqueeze(in[H0].t, 0);
    rush_tensor *before = T("cat", rush_v_tensors((rush_tensor *[]){reverse ? rest : first, reverse ? first : rest}, 2), V(0));
    if (!before) return -1;
    rush_tensor *db = sum_dim(dx, 0, false), *to_x = mm(dx, in[W_IH].t);
    out[0] = rush_v_tensor(to_x ? T("view_as", V(to_x), V(x)) : NULL);
    out[1] = rush_v_tensor(mm(T("t", V(dx)), rows_of(x)));
    out[2] = rush_v_tensor(mm(T("t", V(dx)), rows_of(before)));
    out[3] = rush_v_tensor(db);
    out[4] = rush_v_tensor(db ? T("clone", V(db)) : NULL);
    out[5] = back[1];
    out[6] = back[2];
    return rush_failed() ? -1 : 0;
}

static void layer_grad(rush_grads *s)
{
    rush_value back[RUSH_MAXOUT];
    if (TN(back, "mkldnn_rnn_layer_backward", s->in[X], s->in[W_IH], s->in[W_HH], s->in[B_IH], s->in[B_HH], s->in[H0], s->in[C0], s->out[0], s->out[1],
           s->out[2], V(s->g[0]), V(s->g[1]), V(s->g[2]), s->in[REVERSE], s->in[MODE], s->in[UNITS], s->in[LAYERS], s->in[BIASES], s->in[TRAIN],
           s->in[BIDIRECTIONAL], s->in[SIZES], s->in[BATCH_FIRST], s->out[3])) return;
    for (int i = X; i <= C0; ++i)
        if (rush_needs(s, i) && (s->in[BIASES].i || (i != B_IH && i != B_HH))) s->gin[i] = back[i].t;
}

static rush_op op_layer = {
    .schema = "mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor hx_, Tensor cx_, bool reverse, "
              "int[] batch_sizes, int mode, int hidden_size, int num_layers, bool has_biases, bool bidirectional, bool batch_first, bool train) -> "
              "(Tensor, Tensor, Tensor, Tensor)",
    .doc = "One direction of one LSTM layer over (T, N, in): outputs, last states, and what its derivative needs.", .run = layer_run, .grad = layer_grad,
    .saves = "input, weight0, weight1, weight2, weight3, hx_, cx_, result0, result1, result2, result3", .flags = RUSH_WHOLE};

static rush_op op_layer_backward = {
    .schema = "mkldnn_rnn_layer_backward(Tensor input, Tensor weight1, Tensor weight2, Tensor weight3, Tensor weight4, Tensor hx_, Tensor cx_tmp, "
              "Tensor output, Tensor hy_, Tensor cy_, Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, bool reverse, int mode, int hidden_size, "
              "int num_layers, bool has_biases, bool train, bool bidirectional, int[] batch_sizes, bool batch_first, Tensor workspace) -> "
              "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    .doc = "The derivative of mkldnn_rnn_layer.", .run = layer_back_run, .flags = RUSH_WHOLE | RUSH_HIDDEN};

bool rush_lstm_is_whole(const rush_rnn *s)
{
    bool projected = s->nparams != s->layers * (s->bidirectional ? 2 : 1) * (s->biases ? 4 : 2);
    return s->kind == RUSH_LSTM && s->step == rush_cell_opened && !projected && !s->sizes && s->x->device.type == RUSH_CPU && s->x->dtype == RUSH_F32 && s->x->numel;
}

int rush_lstm_whole(const rush_rnn *s, rush_tensor *x, rush_tensor *h0, rush_tensor *c0, rush_tensor **params, bool reverse, rush_value *out)
{
    rush_tensor *bias[2];
    for (int i = 0; i < 2; ++i) {
        const rush_tensor *w = params[i];
        bias[i] = s->biases ? params[2 + i] : T("zeros", rush_v_ints(w->size, w->ndim), rush_v_dtype(w->dtype), ON(w));
        if (!bias[i]) return -1;
    }
    return TN(out, "mkldnn_rnn_layer", V(x), V(params[0]), V(params[1]), V(bias[0]), V(bias[1]), V(h0), V(c0), V(reverse), rush_v_ints(NULL, 0), V(2),
              V(h0->size[h0->ndim - 1]), V(s->layers), V(s->biases), V(s->bidirectional), V(s->batch_first), V(s->train));
}

RUSH_FAMILY(rnn_open, &op_layer, &op_layer_backward)
