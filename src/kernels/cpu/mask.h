/* mask.h - what a byte mask chooses: counting, packing, spreading, filling. Bytes other than 0 mean true. */
#ifndef RUSH_KERNELS_MASK_H
#define RUSH_KERNELS_MASK_H

#include "kernels/cpu/isa.h"

typedef struct rush_masked_value {
    size_t size;
    char value[16];
} rush_masked_value;

struct rush_mask_kernels {
    int64_t (*count)(const uint8_t *mask, int64_t n);
    /* the chosen elements of src, of `size` bytes, one after the other; how many */
    int64_t (*pack)(char *dst, const char *src, const uint8_t *mask, int64_t n, size_t size);
    /* dst[i] = the next element of src, where mask[i]; how many were used */
    int64_t (*spread)(char *dst, const char *src, const uint8_t *mask, int64_t n, size_t size);
    /* base + i for each chosen i; how many */
    int64_t (*positions)(int64_t *dst, const uint8_t *mask, int64_t n, int64_t base);
    /* a loop of the iterator, arg a rush_masked_value: p[0] = p[2] ? value : p[1] */
    void (*fill)(char **p, const int64_t *stride, int64_t n, const void *arg);
};
RUSH_KERNEL_TABLE(mask);

#endif
