/* rnn.h - the pointwise part of recurrent cells, one time step of a batch; float and double. */
#ifndef RUSH_KERNELS_RNN_H
#define RUSH_KERNELS_RNN_H

#include "kernels/cpu/isa.h"

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
};
RUSH_KERNEL_TABLE(rnn);

#endif
