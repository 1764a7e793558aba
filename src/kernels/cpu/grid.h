/* grid.h - floats to the integers of a grid, and back: loops for rush_iterate().
 *
 * quantize: integers, floats; with channels also a scale and a zero point (float32) for each element.
 * dequantize: floats, integers; the same.
 */
#ifndef RUSH_GRID_KERNELS_H
#define RUSH_GRID_KERNELS_H

#include "kernels/cpu/isa.h"

typedef struct rush_grid {
    float scale, inverse;
    int32_t zero;
} rush_grid;

enum { GRID_I8, GRID_U8, GRID_I32, GRID_TYPES };
typedef void (*rush_grid_loop)(char **p, const int64_t *stride, int64_t n, const void *grid);

/* Sums of products of integers to what they stand for: sums * unit + bias, relu'd if so, on a grid unless the result is float32. */
typedef struct rush_grid_sums {
    int64_t rows, channels;
    const int32_t *sums;      /* (rows, channels) */
    const float *unit, *bias; /* of each channel */
    bool relu;
    rush_grid grid;
    void *to;                 /* (rows, channels) */
} rush_grid_sums;

struct rush_grid_kernels {
    void (*finish[GRID_TYPES])(const rush_grid_sums *);
    void (*finish_f32)(const rush_grid_sums *);
    rush_grid_loop quantize[GRID_TYPES], quantize_channels[GRID_TYPES], dequantize[GRID_TYPES], dequantize_channels[GRID_TYPES];
};
RUSH_KERNEL_TABLE(grid);

#endif
