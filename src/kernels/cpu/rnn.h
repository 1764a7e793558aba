/* rnn.h - the pointwise part of recurrent cells, one time step of a batch; float and double. */
#ifndef RUSH_KERNELS_RNN_H
#define RUSH_KERNELS_RNN_H

#include "kernels/cpu/isa.h"

#define RUSH_RNN_PANEL 64 /* columns of a packed matrix that lie side by side */

/* All rows are contiguous. B rows (batch), H units. `gates` holds sums and is left with what the activations made of
 * them, which the way back reads. In PyTorch's order: LSTM i f g o, GRU r z n. */
struct rush_rnn_kernels {
    /* gates (B, 4H); c, c_new, h_new (B, H) */
    void (*lstm[2])(int64_t b, int64_t h, void *gates, const void *c, void *c_new, void *h_new);
    /* dh (B, H); dc (B, H) in and out (of the step before); dgates (B, 4H) out */
    void (*lstm_back[2])(int64_t b, int64_t h, const void *gates, const void *c, const void *c_new, const void *dh, void *dc, void *dgates);
    /* x, hh (B, 3H): the two products; gates (B, 4H) out: r z n and the recurrent part of n */
    void (*gru[2])(int64_t b, int64_t h, const void *x, const void *hh, const void *h_old, void *gates, void *h_new);
    /* dh (B, H) in and out (its direct part for the step before); dx, dhh (B, 3H) out */
    void (*gru_back[2])(int64_t b, int64_t h, const void *gates, const void *h_old, void *dh, void *dx, void *dhh);
    void (*add[2])(int64_t n, void *to, const void *x); /* to += x */
    /* A (k, n) matrix of these steps in panels: (p, j) at to[(j / PANEL * k + p) * PANEL + j % PANEL], zeros beyond n. */
    void (*pack[2])(int64_t k, int64_t n, const void *from, int64_t k_step, int64_t n_step, void *to);
    /* to (m, n) = a (m, k) packed + bias (n, or NULL) + more (m, n, or NULL, or `to`); a row's numbers depend on no other row */
    void (*product[2])(int64_t m, int64_t n, int64_t k, const void *a, const void *packed, const void *bias, const void *more, void *to);
};
RUSH_KERNEL_TABLE(rnn);

#endif
