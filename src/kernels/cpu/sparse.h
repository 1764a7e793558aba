/* sparse.h - products with a matrix in rows of entries (CSR): row i has columns col[start[i] .. start[i + 1]) and values v. */
#ifndef RUSH_KERNELS_SPARSE_H
#define RUSH_KERNELS_SPARSE_H

#include "kernels/cpu/isa.h"

typedef struct rush_rows {
    const int64_t *start, *col;
    const void *v;
    int64_t height, width; /* dense: of the blocks that are the entries (BSR); 1 and 1 without */
} rush_rows;

struct rush_sparse_kernels {
    /* Rows [begin, end) of c = a b; b and c are contiguous, `width` wide. For f32, f64, c64, c128 and i64. */
    void (*dense[RUSH_DTYPES])(void *c, const rush_rows *a, const void *b, int64_t width, int64_t begin, int64_t end);
    /* The values of c = a b for rows [begin, end), whose columns are known; `room` has a zero for each column of b. */
    void (*sparse[RUSH_DTYPES])(const rush_rows *c, const rush_rows *a, const rush_rows *b, void *room, int64_t begin, int64_t end);
    /* to[e] = the product of row i[e] of a and row j[e] of b, `width` wide, for e in [begin, end) */
    void (*sampled[RUSH_DTYPES])(void *to, const void *a, const void *b, const int64_t *i, const int64_t *j, int64_t width, int64_t begin, int64_t end);
};
RUSH_KERNEL_TABLE(sparse);

#endif
