/* softmax.h - softmax and log_softmax along one dim of (outer, n, inner) contiguous memory, and their way back. */
#ifndef RUSH_KERNELS_SOFTMAX_H
#define RUSH_KERNELS_SOFTMAX_H

#include "kernels/cpu/isa.h"

#define RUSH_SOFTMAX_WIDE 128 /* columns of one task */

/* Index 0 float, 1 double. [begin, end) are of outer * ceil(inner / RUSH_SOFTMAX_WIDE) tasks; x and y may be the same memory. */
typedef struct rush_softmax_rows {
    const void *x, *y, *g;
    void *to;
    int64_t n, inner;
    bool log;
    rush_dtype stored; /* along a row the sum and its logarithm are rounded to that, as in PyTorch */
} rush_softmax_rows;

struct rush_softmax_kernels {
    void (*forward[2])(const rush_softmax_rows *, int64_t begin, int64_t end);  /* x to `to` */
    void (*backward[2])(const rush_softmax_rows *, int64_t begin, int64_t end); /* y and g to `to` */
};
RUSH_KERNEL_TABLE(softmax);

#endif
