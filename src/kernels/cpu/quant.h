/* quant.h - products of matrices of few bits: int8 times int8, floats times int8 or int4 weights.
 *
 * Rows of `a`, of int8 weights and of results lie side by side. Sums of integers are exact; sums of floats are made in
 * float32 in an order that depends on the sizes alone. Threads are used where it pays.
 */
#ifndef RUSH_QUANT_KERNELS_H
#define RUSH_QUANT_KERNELS_H

#include "kernels/cpu/isa.h"

/* c[i][j] = sum over p of (a[i][p] - a_zero) * b[j][p] */
typedef struct rush_byte_product {
    int64_t m, n, k;
    const uint8_t *a; /* (m, k) */
    const int8_t *b;  /* (n, k) */
    int32_t *c;       /* (m, n) */
    int32_t a_zero;
} rush_byte_product;

/* c = a w', where the weight w (n, k) has few bits and `scale` makes numbers of them. */
typedef struct rush_weight_product {
    int64_t m, n, k;
    const float *a;     /* (m, k) */
    const void *w;      /* int8: (n, k). int4: columns in blocks of 64, see RUSH_INT4_BLOCK */
    const void *scale;  /* int8: float32 (n). int4: (k / group, n, 2), pairs of scale and zero: (q - 8) * scale + zero */
    float *c;           /* (m, n) */
    int64_t group;      /* int4 only */
    bool scale_bf16;    /* int4 only: the pairs are bfloat16 instead of float32 */
    bool a_bf16;        /* int4 only: a has no more bits than bfloat16 holds */
} rush_weight_product;

/* Int4 weights: for each block of 64 output columns, for each p, 32 bytes; byte x holds column x in its low half and column
 * 32 + x in its high half. In the last block, when it has fewer columns, a byte holds two neighbours. */
#define RUSH_INT4_BLOCK 64

/* c = a w' + bias for int4 weights (n, k / 2), element 2x in the low half of byte x, which mean (q - 8) * scale. The rows of a are
 * rounded to int8 with a scale and a zero point of their own; sums over a group are exact. */
typedef struct rush_rounded_product {
    int64_t m, n, k, groups;        /* groups: scales of a row of w, which divide it */
    const float *a;                 /* (m, k) */
    const uint8_t *w;
    const float *scale, *bias;      /* (n, groups); (n) or NULL */
    float *c;                       /* (m, n) */
} rush_rounded_product;

struct rush_quant_kernels {
    void (*bytes)(const rush_byte_product *);
    void (*above)(uint8_t *to, const int8_t *a, int64_t n); /* a + 128: what rush_byte_product takes, with an a_zero 128 greater */
    void (*int8_weight)(const rush_weight_product *);
    void (*int4_weight)(const rush_weight_product *);
    void (*int4_pack)(uint8_t *to, const int32_t *q, int64_t n, int64_t k); /* of (n, k) numbers 0 to 15 */
    void (*rounded)(const rush_rounded_product *);                         /* leaves an error when there is no memory */
};
RUSH_KERNEL_TABLE(quant);

#endif
