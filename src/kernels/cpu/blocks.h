/* blocks.h - elements of few bits in blocks with scales of their own, as GGUF files hold them. */
#ifndef RUSH_KERNELS_BLOCKS_H
#define RUSH_KERNELS_BLOCKS_H

#include "kernels/cpu/isa.h"

#define BLOCK(number, name, elements, bytes, group, zero) RUSH_BLOCK_##name = number,
enum {
#include "kernels/blocks.def"
    RUSH_BLOCK_MOST = 256 /* elements of a block */
};
#undef BLOCK

typedef struct rush_block_type { /* a row of blocks.def */
    int number;
    const char *name;
    int elements, bytes, group, zero;
} rush_block_type;

static inline const rush_block_type *rush_block_type_of(int number) /* NULL: there is none */
{
#define BLOCK(number, name, ...) {number, #name, __VA_ARGS__},
    static const rush_block_type all[] = {
#include "kernels/blocks.def"
    };
#undef BLOCK
    for (size_t i = 0; i < RUSH_COUNT(all); i++)
        if (all[i].number == number) return &all[i];
    return NULL;
}

/* Rows of floats rounded to int8: each 32 with a scale, so that their largest number becomes 127 or -127. */
typedef struct rush_rounded {
    int64_t k;     /* of a row; a multiple of 32 */
    int8_t *q;     /* (m, k)      */
    float *scale;  /* (m, k / 32) */
    float *sum;    /* (m, k / 16) of q, times its scale */
} rush_rounded;

static inline size_t rush_rounded_bytes(int64_t m, int64_t k) { return (size_t)(m * k + 4 * (m * k / 32) + 4 * (m * k / 16)); }
static inline rush_rounded rush_rounded_at(void *room, int64_t m, int64_t k) /* aligned to 4 bytes */
{
    float *scale = room;
    return (rush_rounded){k, (int8_t *)(scale + m * k / 32 + m * k / 16), scale, scale + m * k / 32};
}

/* c = a w', w (n, k) in blocks, which stay as they are. The sums within 32 products are exact. */
typedef struct rush_block_product {
    const rush_block_type *type;
    int64_t m, n;
    const rush_rounded *a;
    const void *w;
    float *c; /* (m, n) */
} rush_block_product;

/* n is a multiple of the block's elements. Threads are used where it pays. */
struct rush_blocks_kernels {
    void (*to_float)(const rush_block_type *, const void *blocks, float *to, int64_t n);
    void (*from_float)(const rush_block_type *, const float *from, void *blocks, int64_t n);
    void (*round)(const float *a, int64_t m, const rush_rounded *to);
    int (*products)(const rush_block_product *, int n); /* of the same rows; -1 and an error when there is no memory */
};
RUSH_KERNEL_TABLE(blocks);

#endif
