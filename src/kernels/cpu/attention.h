/* attention.h - the row-wise part of attention: scores to weights, and back. Float and double. */
#ifndef RUSH_KERNELS_ATTENTION_H
#define RUSH_KERNELS_ATTENTION_H

#include "kernels/cpu/isa.h"

/* Index 0 float, 1 double. Scores s: `rows` rows of n, `ld` elements apart. */
struct rush_attention_kernels {
    /* s += mask; bytes per step of the mask along rows and columns; a bool mask keeps where true. Key c of row r
     * is dropped where causal and c > first + r. */
    void (*mask[2])(void *s, int64_t rows, int64_t n, int64_t ld, const char *mask, bool is_bool, int64_t row_step, int64_t column_step,
                    bool causal, int64_t first);
    /* s becomes softmax(s) by rows; lse its logarithm of the sum. A row without any key becomes zeros. With `inverse` the rows stay
     * exp(s - largest), which it would multiply to be that. */
    void (*softmax[2])(void *s, int64_t rows, int64_t n, int64_t ld, void *lse, void *inverse);
    /* s becomes exp(s - lse) */
    void (*weights[2])(void *s, int64_t rows, int64_t n, int64_t ld, const void *lse);
    /* dp becomes p * (dp - sum(dout * out)) * scale */
    void (*back[2])(void *dp, const void *p, int64_t rows, int64_t n, int64_t ld, const void *delta, double scale);
};
RUSH_KERNEL_TABLE(attention);

#endif
