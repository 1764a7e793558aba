/* index.h - elements taken from, and put to, places that an array of offsets names.
 *
 * All are loops over one dimension: p[k] and stride[k] (bytes) of operand k. Where the offsets do not move (stride 0),
 * a whole row is taken or put at one place, which is the fast case. Offsets times `scale` are bytes, and have been
 * checked unless there is a limit. Loops go in order, so what meets at one place meets in a fixed order.
 */
#ifndef RUSH_KERNELS_INDEX_H
#define RUSH_KERNELS_INDEX_H

#include "kernels/cpu/isa.h"

typedef struct rush_at {
    int64_t scale;   /* bytes per unit of an offset */
    size_t size;     /* of an element               */
    double alpha[2]; /* of the scaled sum           */
    int64_t whole;   /* the same for integers       */
    int64_t limit;   /* take: offsets are to be checked against [0, limit); 0: they have been */
    int *bad;        /* take: set to 1 when one is outside, and nothing is taken there        */
} rush_at;

enum { RUSH_PUT_ADD, RUSH_PUT_ADD_SCALED, RUSH_PUT_MUL, RUSH_PUT_MIN, RUSH_PUT_MAX, RUSH_PUTS };

typedef void (*rush_index_loop)(char **p, const int64_t *stride, int64_t n, const void *at);

struct rush_index_kernels {
    rush_index_loop take; /* p[0][i] = (p[1] + offset p[2][i])[i] */
    rush_index_loop put;  /* (p[0] + offset p[2][i])[i] = p[1][i] */
    rush_index_loop combine[RUSH_PUTS][RUSH_DTYPES]; /* the same with +, *, ... in place of =; NULL where there is none */
    /* position of the first of n numbers outside [low, high), -1 when there is none */
    int64_t (*outside)(const int64_t *index, int64_t n, int64_t low, int64_t high);
    /* dst[j] = row index[j] of src, rows of `bytes`, all contiguous; negative numbers count from `rows` */
    void (*take_rows)(char *dst, const char *src, const int64_t *index, int64_t n, int64_t bytes, int64_t rows);
    /* sum[j] += index[j] * scale, negative numbers counting from `size` */
    void (*offsets)(int64_t *sum, const int64_t *index, int64_t n, int64_t size, int64_t scale);
};
RUSH_KERNEL_TABLE(index);

#endif
