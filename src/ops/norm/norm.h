/* norm.h - what the normalising layers share. */
#ifndef RUSH_OPS_NORM_H
#define RUSH_OPS_NORM_H

#include "ops/reduce/reduce.h"

/* The dtype of statistics: the weight's, which is the input's or float beside a half type; else an error. */
int rush_norm_param_dtype(const rush_tensor *x, const rush_tensor *weight, rush_dtype *);
/* (x - mean) / sigma over dims by operations, and 1 / sigma; not centered: x / root mean square. */
rush_tensor *rush_normalised(rush_tensor *x, rush_value dims, double eps, bool centered, rush_tensor **rstd);
/* The gradient of that by x, by operations: g is the result's gradient, hat the result. */
rush_tensor *rush_norm_gradient(rush_tensor *g, rush_tensor *hat, rush_tensor *rstd, rush_value dims, bool centered);

/* Group norm of (images, pixels, channels), contiguous, of float or double as all its arrays. */
typedef struct rush_pixel_groups {
    const void *x, *dy;
    void *y;              /* the result, or dx; NULL: not wanted */
    const void *w, *b;    /* (channels); NULL: 1 and 0 */
    void *mean, *rstd;    /* (images, groups); written forward, read backward */
    void *dw, *db;        /* (images, channels); NULL: not wanted */
    int64_t images, pixels, channels, groups;
} rush_pixel_groups;
int rush_group_last(const rush_pixel_groups *, double eps, size_t item); /* -1: no memory, as of the next */
int rush_group_last_back(const rush_pixel_groups *, size_t item);

#endif
