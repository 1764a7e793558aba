/* distance.h - p-norm distances of the rows of two matrices, or of all pairs of rows of one. */
#ifndef RUSH_DISTANCE_H
#define RUSH_DISTANCE_H

#include "kernels/cpu/isa.h"

typedef struct rush_distances {
    double p;
    int64_t batch, n, m, width; /* a (batch, n, width), b (batch, m, width); distances (batch, n, m) */
    bool pairs;                 /* a is b, and only j > i counts: distances (n (n - 1) / 2), row after row */
} rush_distances;

/* Indexed by whether elements are double. */
struct rush_distance_kernels {
    void (*all[2])(const rush_distances *, const void *a, const void *b, void *to);
    void (*back[2])(const rush_distances *, const void *g, const void *a, const void *b, const void *distance, void *ga);
};
RUSH_KERNEL_TABLE(distance);

#endif
