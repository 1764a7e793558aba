/* grid_axis.h - reading images at the points of a grid, the same for the CPU and for devices. */
#ifndef RUSH_GRID_AXIS_H
#define RUSH_GRID_AXIS_H

#include <stdbool.h>
#include <stdint.h>

/* Points of a grid in images (n, channels, space), 2-d ones having space[0] = 1. */
typedef struct rush_grid {
    int64_t n, channels, points; /* points per image */
    int64_t space[3];
    int nd;                      /* 2 or 3 coordinates per point: x, y, z */
    int mode, padding;           /* 0 linear, 1 nearest, 2 cubic; 0 zeros, 1 border, 2 reflection */
    bool align;
} rush_grid;

/* The images are read; the gradients of that; the gradients of those. */
typedef enum rush_grid_pass { RUSH_GRID_READ, RUSH_GRID_BACK, RUSH_GRID_TWICE } rush_grid_pass;

/* All contiguous and of the type that is computed in. What nobody asks for is NULL; of the gradients, `image` and `y` are zero before. */
typedef struct rush_grid_data {
    const void *g, *x, *points;     /* the result's gradient, the images, the points */
    const void *gg_image, *gg_points; /* of RUSH_GRID_TWICE: the gradients of the gradients */
    void *y;                        /* the result; of RUSH_GRID_TWICE the gradient of g */
    void *image, *to_points;        /* the gradients of x and points */
} rush_grid_data;

#endif
