/* rnn.h - recurrent layers: what rnn.c, which runs them, and rnn_open.c, which takes them apart as PyTorch does, share. */
#ifndef RUSH_RNN_H
#define RUSH_RNN_H

#include "op/formula.h"

enum { RUSH_TANH_CELL, RUSH_RELU_CELL, RUSH_LSTM, RUSH_GRU };

/* Those of one direction of one layer. w_ih: NULL where the input's product is made for all steps at once; w_hr, if there
 * is one, projects the new h (LSTM). */
typedef struct rush_rnn_weights {
    rush_tensor *w_ih, *b_ih, *w_hh, *b_hh, *w_hr;
} rush_rnn_weights;

/* One step: h and c are replaced by the new ones. */
typedef int (*rush_cell_step)(int kind, rush_tensor *x, const rush_rnn_weights *, rush_tensor **h, rush_tensor **c);

/* The step by PyTorch's calls, in place where it works so. */
int rush_cell_opened(int kind, rush_tensor *x, const rush_rnn_weights *, rush_tensor **h, rush_tensor **c);

/* The whole stack of layers. */
typedef struct rush_rnn {
    int kind;
    rush_cell_step step;    /* rush_cell_opened: by PyTorch's calls */
    rush_tensor *x, *h, *c; /* x (T, B, in) or packed rows; states (layers * directions, B, H) */
    rush_tensor **params;
    uint32_t nparams;
    bool biases, train, bidirectional, batch_first;
    int64_t layers;
    double dropout;
    const int64_t *sizes; /* of packed sequences */
    int64_t steps;
} rush_rnn;

/* An LSTM's layer as one operation, where PyTorch hands it to oneDNN as one. */
bool rush_lstm_is_whole(const rush_rnn *);
int rush_lstm_whole(const rush_rnn *, rush_tensor *x, rush_tensor *h0, rush_tensor *c0, rush_tensor **params, bool reverse, rush_value *out);

static inline rush_tensor *rush_rnn_project(rush_tensor *x, rush_tensor *w, rush_tensor *b) { return T("linear", V(x), V(w), V(b)); }
static inline rush_tensor *rush_rnn_input(rush_tensor *x, const rush_rnn_weights *w) { return w->w_ih ? rush_rnn_project(x, w->w_ih, w->b_ih) : x; }

#endif
