/* decoder.h - the steps of a language model between its products: norms, rotations, gates, attention over a cache of halves. Rows lie side by side. */
#ifndef RUSH_KERNELS_DECODER_H
#define RUSH_KERNELS_DECODER_H

#include "kernels/cpu/isa.h"

/* Attention of m rows, the first at `position`, over all keys and values up to their own. Heads come in groups of heads / kv_heads that share both. */
typedef struct rush_attend {
    int64_t m, heads, kv_heads, head; /* head: elements, a multiple of 16 */
    int64_t position, context;        /* context: places of the cache, a multiple of 64 */
    const float *q;                   /* (m, heads, head) */
    const uint16_t *keys;             /* (kv_heads, head, context), float16: scores of neighbours are computed side by side */
    const uint16_t *values;           /* (kv_heads, context, head) */
    float *to;                        /* (m, heads, head) */
} rush_attend;

typedef struct rush_norm {
    const float *weight, *bias; /* bias NULL: none */
    float eps;
    bool centred; /* the mean is taken off first: a layer norm, else of root mean square */
} rush_norm;

struct rush_decoder_kernels {
    /* x / sqrt(mean(x^2) + eps) * weight + bias of m rows of n; in place is fine */
    void (*norm)(const rush_norm *, const float *x, float *to, int64_t m, int64_t n);
    /* pairs of elements (2 i, 2 i + 1), or (i, dims / 2 + i), of each of the heads turned by the angle of their row: turns (m, dims / 2, 2) has cosines and sines */
    void (*turn)(float *x, const float *turns, int64_t m, int64_t heads, int64_t head, int64_t dims, bool halves);
    void (*gate)(float *x, const float *y, int64_t n); /* x = silu(x) * y */
    void (*gelu)(float *x, int64_t n); /* by tanh */
    void (*keep)(const float *x, uint16_t *to, int64_t n, int64_t step); /* as float16, elements `step` apart */
    int (*attend)(const rush_attend *); /* -1 and an error when there is no memory */
    /* c (m, n) = a (m, k) w' (n, k) for w of float32, float16 or bfloat16 */
    void (*dense)(rush_dtype, const float *a, const void *w, float *c, int64_t m, int64_t n, int64_t k);
};
RUSH_KERNEL_TABLE(decoder);

#endif
