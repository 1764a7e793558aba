/* pool.h - maxima and means over windows, of contiguous planes (one image's channel each). */
#ifndef RUSH_POOL_H
#define RUSH_POOL_H

#include "kernels/cpu/isa.h"

/* Three dimensions always; those that are missing have size 1 in front. */
typedef struct rush_pool {
    int64_t planes;
    int64_t channels;     /* of images with their channels last, 0 for planes one after the other */
    int64_t space[3], result[3], kernel[3], stride[3], dilation[3], before[3];
    bool count_padding;   /* means: zeros around the image count */
    int64_t divisor;      /* means: 0 for the number of elements */
    bool apart;           /* means: divided by the windows' sides one after the other */
    /* Irregular windows [begin, end) of each dimension's results instead of kernel, stride and so on;
     * `each`: a set of its own for each plane. */
    const int64_t *begin[3], *end[3];
    bool each;
} rush_pool;

/* Of elements of one type. Indices are of the plane's elements, one after the other; NULL where they are not wanted.
 * Windows of images with their channels last are the same for all planes. */
typedef struct rush_pool_of {
    void (*max)(const rush_pool *, const void *x, void *y, int64_t *index);
    void (*mean)(const rush_pool *, const void *x, void *y);
    /* of floating types alone */
    void (*mean_back)(const rush_pool *, const void *g, void *gx);
    /* gx[index] += g (add) or = g, in planes of `space` elements, `result` indices each; gx is zero before */
    void (*scatter)(int64_t planes, int64_t channels, int64_t result, int64_t space, const void *g, const int64_t *index, void *gx, bool add);
} rush_pool_of;
struct rush_pool_kernels {
    rush_pool_of f32, f64, i64;
};
RUSH_KERNEL_TABLE(pool);

#endif
