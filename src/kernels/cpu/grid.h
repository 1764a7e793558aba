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

struct rush_grid_kernels {
    rush_grid_loop quantize[GRID_TYPES], quantize_channels[GRID_TYPES], dequantize[GRID_TYPES], dequantize_channels[GRID_TYPES];
};
RUSH_KERNEL_TABLE(grid);

#endif
