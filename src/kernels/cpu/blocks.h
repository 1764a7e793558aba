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

/* n is a multiple of the block's elements. Threads are used where it pays. */
struct rush_blocks_kernels {
    void (*to_float)(const rush_block_type *, const void *blocks, float *to, int64_t n);
    void (*from_float)(const rush_block_type *, const float *from, void *blocks, int64_t n); /* Q4_0 and Q8_0 */
};
RUSH_KERNEL_TABLE(blocks);

#endif
