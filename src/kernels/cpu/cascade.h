/* cascade.h - sums of floats in the order of PyTorch's: in blocks of 16 whose sums are summed in blocks again.
 *
 * Each of n1 outputs, `stride1` elements apart in x and `out_stride` in the output, gets the sum of n0 elements added,
 * `stride0` apart. The way says what lies along memory, and so which elements share a vector.
 */
#ifndef RUSH_CASCADE_H
#define RUSH_CASCADE_H

#include "kernels/cpu/isa.h"

typedef enum rush_cascade_way { RUSH_CASCADE_ROWS, RUSH_CASCADE_COLUMNS, RUSH_CASCADE_ROWS_ONE, RUSH_CASCADE_COLUMNS_ONE } rush_cascade_way;

#define RUSH_CASCADE_LANES 8  /* from so many elements or columns on vectors are used */
#define RUSH_CASCADE_GROUP 32 /* columns of a call may be parted at multiples of this */

struct rush_cascade_kernels {
    void (*sum)(rush_cascade_way way, const float *x, int64_t n0, int64_t stride0, int64_t n1, int64_t stride1, float *out, int64_t out_stride);
    /* One long row in pieces: `blocks` gives how many there are (0: too short), `some` sums [begin, end) of them, each to
     * RUSH_CASCADE_GROUP elements of `partial`, and `join` makes the sum of the row of them and of what is behind the last. */
    int64_t (*blocks)(int64_t n);
    void (*some)(const float *x, int64_t n, int64_t begin, int64_t end, float *partial);
    float (*join)(const float *x, int64_t n, const float *partial);
};
RUSH_KERNEL_TABLE(cascade);

#endif
