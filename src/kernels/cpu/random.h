/* random.h - random words by the block, and the distributions that are made of whole blocks. */
#ifndef RUSH_KERNELS_RANDOM_H
#define RUSH_KERNELS_RANDOM_H

#include "kernels/cpu/isa.h"

struct rush_random_kernels {
    /* The generator's next n words, as rush_random32() would give them. */
    void (*words)(rush_generator *, uint32_t *out, int64_t n);
    /* Uniform in [from, to): one word each for float, two for double. */
    void (*uniform_f32)(rush_generator *, float *out, int64_t n, float from, float to);
    void (*uniform_f64)(rush_generator *, double *out, int64_t n, double from, double to);
    /* 1 where a double drawn uniformly is below p. */
    void (*below)(rush_generator *, uint8_t *out, int64_t n, double p);
    /* Box-Muller in place over n uniform numbers, n a multiple of 16: in each block the first eight are radii, the
     * last eight angles. The float form uses Cephes' polynomials with fused multiply-add, as PyTorch's does. */
    void (*normal_f32)(float *p, int64_t n, float mean, float std);
    void (*normal_f64)(double *p, int64_t n, double mean, double std);
};
RUSH_KERNEL_TABLE(random);

#endif
