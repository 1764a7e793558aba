/* pool.h - maxima and means over windows, of contiguous planes (one image's channel each). */
#ifndef RUSH_POOL_H
#define RUSH_POOL_H

#include "kernels/cpu/isa.h"

/* Three dimensions always; those that are missing have size 1 in front. */
typedef struct rush_pool {
    int64_t planes;
    int64_t space[3], result[3], kernel[3], stride[3], dilation[3], before[3];
    bool count_padding;   /* means: zeros around the image count */
    int64_t divisor;      /* means: 0 for the number of elements */
    bool apart;           /* means: divided by the windows' sides one after the other */
    /* Irregular windows [begin, end) of each dimension's results instead of kernel, stride and so on;
     * `each`: a set of its own for each plane. */
    const int64_t *begin[3], *end[3];
    bool each;
} rush_pool;

/* Indices are of the plane's elements, one after the other; NULL where they are not wanted. */
struct rush_pool_kernels {
    void (*max_f32)(const rush_pool *, const float *x, float *y, int64_t *index);
    void (*max_f64)(const rush_pool *, const double *x, double *y, int64_t *index);
    void (*max_i64)(const rush_pool *, const int64_t *x, int64_t *y, int64_t *index);
    void (*mean_f32)(const rush_pool *, const float *x, float *y);
    void (*mean_f64)(const rush_pool *, const double *x, double *y);
    void (*mean_i64)(const rush_pool *, const int64_t *x, int64_t *y);
    void (*mean_back_f32)(const rush_pool *, const float *g, float *gx);
    void (*mean_back_f64)(const rush_pool *, const double *g, double *gx);
    /* gx[index] += g (add) or = g, in planes of `space` elements, `result` indices each; gx is zero before */
    void (*scatter_f32)(int64_t planes, int64_t result, int64_t space, const float *g, const int64_t *index, float *gx, bool add);
    void (*scatter_f64)(int64_t planes, int64_t result, int64_t space, const double *g, const int64_t *index, double *gx, bool add);
    /* The same of images with their channels last; windows are the same for all planes. */
    void (*max_last_f32)(const rush_pool *, int64_t channels, const float *x, float *y, int64_t *index);
    void (*max_last_f64)(const rush_pool *, int64_t channels, const double *x, double *y, int64_t *index);
    void (*mean_last_f32)(const rush_pool *, int64_t channels, const float *x, float *y);
    void (*mean_last_f64)(const rush_pool *, int64_t channels, const double *x, double *y);
    void (*mean_back_last_f32)(const rush_pool *, int64_t channels, const float *g, float *gx);
    void (*mean_back_last_f64)(const rush_pool *, int64_t channels, const double *g, double *gx);
    void (*scatter_last_f32)(int64_t images, int64_t channels, int64_t result, int64_t space, const float *g, const int64_t *index, float *gx, bool add);
    void (*scatter_last_f64)(int64_t images, int64_t channels, int64_t result, int64_t space, const double *g, const int64_t *index, double *gx, bool add);
};
RUSH_KERNEL_TABLE(pool);

#endif
