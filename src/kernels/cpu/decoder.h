/* decoder.h - the steps of a language model between its products: norms, rotations, gates, attention over a cache. Rows lie side by side. */
#ifndef RUSH_KERNELS_DECODER_H
#define RUSH_KERNELS_DECODER_H

#include "kernels/cpu/isa.h"

enum { RUSH_KEYS = 64 }; /* whose elements lie side by side: all of a key are near, where they are written */

/* Attention of m rows, the first at `position`, over all keys and values up to their own. Heads come in groups of heads / kv_heads that share both. */
typedef struct rush_attend {
    int64_t m, heads, kv_heads, head; /* head: elements, a multiple of 16 */
    int64_t position, context;        /* context: places of the cache, a multiple of RUSH_KEYS */
    const float *q;                   /* (m, heads, head) */
    const void *keys;                 /* (kv_heads, context / RUSH_KEYS, head, RUSH_KEYS), float16 or int8: scores of neighbours are computed side by side */
    const void *values;               /* (kv_heads, context, head) */
    const float *key_scale, *value_scale; /* (kv_heads, context) of int8; NULL: float16 */
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
    /* n elements from `at` on, `step` apart: as float16, or, if there is a place for it, by a scale as int8 */
    void (*keep)(const float *x, void *to, int64_t at, int64_t n, int64_t step, float *scale);
    int (*attend)(const rush_attend *); /* -1 and an error when there is no memory */
    /* c (m, n) = a (m, k) w' (n, k) for w of float32, float16 or bfloat16 */
    void (*dense)(rush_dtype, const float *a, const void *w, float *c, int64_t m, int64_t n, int64_t k);
};
RUSH_KERNEL_TABLE(decoder);

#endif
