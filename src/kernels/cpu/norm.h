/* norm.h - rows and channels normalised: layer, group, RMS and batch norm, forward and backward.
 *
 * Arrays are contiguous and of one type, float or double ([0] and [1] of each pair). Rows are `n` elements; channels
 * are a tensor (batch, channels, inner). Ranges [begin, end) are what one thread does.
 */
#ifndef RUSH_NORM_H
#define RUSH_NORM_H

#include "kernels/cpu/isa.h"

typedef struct rush_norm_rows {
    const void *x, *dy;    /* (rows, n) */
    const void *w, *b;     /* (n), or (groups * n / span) with spans; NULL: 1 and 0 */
    void *y;               /* the result, or dx; may be NULL */
    void *mean, *rstd;     /* (rows); written forward, read backward; mean NULL for RMS */
    void *dw, *db;         /* backward: (blocks, n) of sums over rows, or with spans (rows * n / span); NULL: not wanted */
    int64_t n;
    int64_t span;          /* 0: each element has its weight; else runs of so many share one ... */
    int64_t groups;        /* ... and rows cycle through so many sets of weights */
    int64_t block;         /* rows of one block of dw and db */
    double eps;
} rush_norm_rows;

typedef struct rush_norm_channels {
    const void *x, *dy;
    void *y;                  /* the result, or dx */
    const void *center, *rstd, *w;     /* (channels), as all that follow; backward */
    const void *scale, *shift; /* forward: x * scale + shift; backward, of inner 1: dx = dy * scale - shift - (x - center) * slope; scale NULL: the next */
    const void *slope;        /* backward: dx = (dy - shift - (x - center) * slope) * rstd * w; NULL: dy * rstd * w */
    void *mean, *spread;      /* moments: the means, and the sums of squares of x - mean */
    double *sum, *dot;        /* sums of dy and of dy * (x - center) */
    int64_t batch, channels, inner;
} rush_norm_channels;

struct rush_norm_kernels {
    void (*rows[2])(const rush_norm_rows *, int64_t begin, int64_t end);
    void (*rows_back[2])(const rush_norm_rows *, int64_t begin, int64_t end); /* begins at a block's first row */
    void (*apply[2])(const rush_norm_channels *, int64_t begin, int64_t end); /* of batch * channels, or of batch when inner is 1 */
    void (*apply_back[2])(const rush_norm_channels *, int64_t begin, int64_t end);
    void (*moments[2])(const rush_norm_channels *, int64_t begin, int64_t end); /* of channels, as the next */
    void (*sums[2])(const rush_norm_channels *, int64_t begin, int64_t end);
};
RUSH_KERNEL_TABLE(norm);

#endif
