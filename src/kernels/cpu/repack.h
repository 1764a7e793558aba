/* repack.h - float32 and bfloat16 matrices brought into the layouts that oneDNN computes in, and back.
 *
 * All is a transposition of 16 rows of 16 elements, which differ in where the vectors of 16 go. Steps are in elements.
 * The table is empty for instruction sets without vectors of 16: oneDNN then reorders by itself.
 */
#ifndef RUSH_REPACK_H
#define RUSH_REPACK_H

#include "kernels/cpu/isa.h"

struct rush_repack_kernels {
    /* to[c * to_row + r] = from[r * from_row + c] for r < rows, c < columns */
    void (*transpose)(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns);
    /* Weights of 16 outputs and 16 inputs: from[o * row + i * taps + k] goes to to[o + i * in_step + k * tap_step] ... */
    void (*outputs)(float *to, int64_t in_step, int64_t tap_step, const float *from, int64_t row, int64_t taps);
    /* ... and from there to back[o * row + i * taps + k], */
    void (*outputs_back)(float *back, int64_t row, const float *from, int64_t in_step, int64_t tap_step, int64_t taps);
    /* or to to[i + o * out_step + k * tap_step]. */
    void (*inputs)(float *to, int64_t out_step, int64_t tap_step, const float *from, int64_t row, int64_t taps);
    /* Rows of bfloat16 in pairs, 32 rows of n (a multiple of 16): to[(r / 2) * 2 n + 2 c + r % 2] = from[r * row + c] */
    void (*pairs)(uint16_t *to, const uint16_t *from, int64_t row, int64_t n);
};
RUSH_KERNEL_TABLE(repack);

#endif
