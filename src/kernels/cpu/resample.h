/* resample.h - sums with weights along one dimension (upsampling), and reading at points (grid sampling). */
#ifndef RUSH_RESAMPLE_H
#define RUSH_RESAMPLE_H

#include "kernels/cpu/grid_axis.h"
#include "kernels/cpu/isa.h"

/* Element o of the result is the sum of weight[o * most + t] * x[begin[o] + t], t < count[o]. */
typedef struct rush_taps {
    int64_t n, m;      /* elements of the input and the result along the dimension */
    int64_t most;      /* room per element */
    int64_t *begin, *count;
    double *weight;
    bool repeats;      /* each is one element, with weight 1 */
} rush_taps;

/* Room for the weights of one element as whole numbers: behind the last are zeros, up to a multiple of four. */
static inline int64_t rush_whole_weights(const rush_taps *t) { return (t->most + 3) / 4 * 4; }

/* Nearest neighbours: element (z, y, w) of each result is element (from[0][z], from[1][y], from[2][w]) of `item` bytes. */
typedef struct rush_nearest {
    int64_t outer, n[3], m[3], item;
    const int64_t *from[3];
} rush_nearest;

struct rush_resample_kernels {
    void (*nearest)(const rush_nearest *, const void *x, void *y); /* (outer, space) -> (outer, space) */
    /* Bytes (outer, n, inner) -> (outer, m, inner) in whole numbers: the sum of weights in units of 2^-bits, rounded and kept within a byte. */
    void (*along_u8)(const rush_taps *, const int16_t *weight, int bits, int64_t outer, int64_t inner, const uint8_t *x, uint8_t *y);
    /* x (outer, n, inner) -> y (outer, m, inner), and its transpose gx = W' g */
    void (*along_f32)(const rush_taps *, int64_t outer, int64_t inner, const float *x, float *y);
    void (*along_f64)(const rush_taps *, int64_t outer, int64_t inner, const double *x, double *y);
    void (*along_back_f32)(const rush_taps *, int64_t outer, int64_t inner, const float *g, float *gx);
    void (*along_back_f64)(const rush_taps *, int64_t outer, int64_t inner, const double *g, double *gx);
    void (*grid_f32)(rush_grid_pass, const rush_grid *, const rush_grid_data *);
    void (*grid_f64)(rush_grid_pass, const rush_grid *, const rush_grid_data *);
};
RUSH_KERNEL_TABLE(resample);

#endif
