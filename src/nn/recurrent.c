/* recurrent.c - RNN, LSTM, GRU over the operations that run whole sequences.
 *
 * Inputs are (x, h, c) with h and c (layers * directions, batch, hidden), zeros when missing; results (y, h, c).
 */
#include "nn/module.h"

#include <stdio.h>

typedef struct recurrent_settings {
    const rush_op *op;
    int gates;
    int64_t hidden;
    rush_nn_recurrent_options o;
} recurrent_settings;

static int recurrent_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const recurrent_settings *s = m->data;
    rush_tensor *x = in[0], *h = n > 1 ? in[1] : NULL, *c = n > 2 ? in[2] : NULL;
    bool lstm = s->gates == 4;
    RUSH_CHECK(x->ndim == 2 || x->ndim == 3, RUSH_VALUE_ERROR, "%s: Expected input to be 2D or 3D, got %dD", m->kind->name, x->ndim);
    bool alone = x->ndim == 2; /* one sequence without a batch */
    if (alone) {
        x = T("unsqueeze", V(x), V(s->o.batch_first ? 0 : 1));
        if (h) h = T("unsqueeze", V(h), V(1));
        if (c) c = T("unsqueeze", V(c), V(1));
    }
    if (!x) return -1;
    int64_t batch = x->size[s->o.batch_first ? 0 : 1], size[3] = {s->o.layers * (s->o.bidirectional ? 2 : 1), batch, s->hidden};
    if (!h) h = T("zeros", rush_v_ints(size, 3), rush_v_dtype(x->dtype));
    if (lstm && !c) c = T("zeros", rush_v_ints(size, 3), rush_v_dtype(x->dtype));
    rush_tensor *state[2] = {h, c}, *weights[256];
    int nw = 0;
    for (int i = 0; i < m->nslots && nw < 256; i++) weights[nw++] = m->slots[i].t;
    rush_value hx = lstm ? rush_v_tensors(state, 2) : V(h), result[4];
    for (int i = 0; i < 4; i++) result[i] = RUSH_NONE;
    const rush_value args[] = {V(x), hx, rush_v_tensors(weights, (size_t)nw), V((bool)!s->o.no_bias), V(s->o.layers), V(s->o.dropout),
                               V(m->training), V(s->o.bidirectional), V(s->o.batch_first)};
    if (rush_failed() || rush_call(s->op, args, result)) return -1;
    for (int i = 0; i < (lstm ? 3 : 2); i++) {
        out[i] = result[i].t;
        if (alone) out[i] = T("squeeze.dim", V(out[i]), V(i == 0 && s->o.batch_first ? 0 : 1));
    }
    return rush_failed() ? -1 : lstm ? 3 : 2;
}

static const rush_module_kind rnn = {.name = "RNN", .size = sizeof(recurrent_settings), .forward = recurrent_forward};
static const rush_module_kind lstm_kind = {.name = "LSTM", .size = sizeof(recurrent_settings), .forward = recurrent_forward};
static const rush_module_kind gru = {.name = "GRU", .size = sizeof(recurrent_settings), .forward = recurrent_forward};

static rush_module *recurrent(const rush_module_kind *kind, const char *op, int gates, int64_t in, int64_t hidden, const rush_nn_recurrent_options *o)
{
    RUSH_CHECK_NULL(in > 0, RUSH_VALUE_ERROR, "input_size must be greater than zero");
    RUSH_CHECK_NULL(hidden > 0, RUSH_VALUE_ERROR, "hidden_size must be greater than zero");
    RUSH_CHECK_NULL(o->layers >= 0, RUSH_VALUE_ERROR, "num_layers must be greater than zero");
    rush_module *m = rush_module_new(kind);
    recurrent_settings *s = rush_module_data(m);
    if (!s) return NULL;
    *s = (recurrent_settings){rush_op_find(op), gates, hidden, *o};
    RUSH_CHECK_NULL(s->op, RUSH_NOT_IMPLEMENTED, "there is no operation %s", op);
    RUSH_CHECK_NULL(hidden <= INT64_MAX / 8, RUSH_VALUE_ERROR, "%lld features are too many", (long long)hidden);
    if (!s->o.layers) s->o.layers = 1;
    int directions = o->bidirectional ? 2 : 1;
    RUSH_CHECK_NULL(s->o.layers * directions * 4 <= 256, RUSH_VALUE_ERROR, "%d layers are too many", s->o.layers);
    for (int layer = 0; layer < s->o.layers; layer++)
        for (int d = 0; d < directions; d++) {
            int64_t rows = gates * hidden, from = layer ? hidden * directions : in;
            const char *end = d ? "_reverse" : "";
            static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
            for (int k = 0; k < (o->no_bias ? 2 : 4); k++) {
                char name[64];
                int64_t size[2] = {rows, k == 0 ? from : hidden};
                snprintf(name, sizeof name, "%s_l%d%s", names[k], layer, end);
                rush_module_parameter(m, name, rush_init_fan(rush_weight_new(k < 2 ? 2 : 1, size), hidden));
            }
        }
    return rush_failed() ? NULL : m;
}

rush_module *rush_nn_rnn_with(int64_t in, int64_t hidden, const rush_nn_recurrent_options *o)
{
    o = RUSH_OPTIONS(o);
    return recurrent(&rnn, o->relu ? "rnn_relu.input" : "rnn_tanh.input", 1, in, hidden, o);
}

rush_module *rush_nn_lstm_with(int64_t in, int64_t hidden, const rush_nn_recurrent_options *o)
{
    o = RUSH_OPTIONS(o);
    return recurrent(&lstm_kind, "lstm.input", 4, in, hidden, o);
}

rush_module *rush_nn_gru_with(int64_t in, int64_t hidden, const rush_nn_recurrent_options *o)
{
    o = RUSH_OPTIONS(o);
    return recurrent(&gru, "gru.input", 3, in, hidden, o);
}
