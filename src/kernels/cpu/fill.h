/* fill.h - one element repeated, one array added into another, numbers at equal distances: what pasting, padding and ranges are made of. */
#ifndef RUSH_KERNELS_FILL_H
#define RUSH_KERNELS_FILL_H

#include "kernels/cpu/isa.h"

struct rush_fill_kernels {
    /* dst[i] = *value for n elements of `size` bytes (1, 2, 4, 8, 16), `stride` bytes apart */
    void (*fill)(char *dst, int64_t stride, int64_t n, const void *value, size_t size);
    /* A loop of the iterator, per dtype that sums are computed in (NULL: another one serves): p[0] = p[1] + p[2] */
    void (*add[RUSH_DTYPES])(char **p, const int64_t *stride, int64_t n, const void *arg);
    /* to[k] = start + each * (i + k) for k < n, rounded once */
    void (*line_f32)(float *to, float start, float each, int64_t i, int64_t n);
    void (*line_f64)(double *to, double start, double each, int64_t i, int64_t n);
    /* The same for vectors of four, or of eight numbers each of which is counted from the first of its vector, rounded to float */
    void (*lines_f64)(double *to, double start, double each, int64_t i, int64_t n, bool eight);
};
RUSH_KERNEL_TABLE(fill);

#endif
