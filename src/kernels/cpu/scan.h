/* scan.h - running sums, products and extremes along one dim of (outer, n, inner) contiguous memory. */
#ifndef RUSH_KERNELS_SCAN_H
#define RUSH_KERNELS_SCAN_H

#include "kernels/cpu/isa.h"

typedef struct rush_scan {
    const void *x;
    void *y;
    int64_t *index; /* of extremes */
    int64_t n, inner;
    bool min;
    bool same;      /* a row of x is one number, n times; inner is 1 */
    void *totals;   /* of blocks of one long row: a double (int64, double complex) each */
    int64_t block;
} rush_scan;

typedef void (*rush_scan_fn)(const rush_scan *, int64_t begin, int64_t end); /* of the outer rows */

/* Lines of the derivative of running products, and the strides from one of their numbers to the next. */
typedef struct rush_scan_lines {
    int64_t n, result, g, x, y;
} rush_scan_lines;

typedef void (*rush_scan_line_fn)(char **p, const void *lines); /* p: the starts of the result, g, x, y */

enum { SCAN_I64, SCAN_F32, SCAN_F64, SCAN_C64, SCAN_C128, SCAN_TYPES };

struct rush_scan_kernels {
    rush_scan_fn sum[SCAN_TYPES], prod[SCAN_TYPES];
    /* One long row in blocks: their totals, what precedes each instead, and the running sums from there. The blocks are
     * the same for any number of threads. */
    rush_scan_fn totals[SCAN_TYPES], before[SCAN_TYPES], sum_blocks[SCAN_TYPES];
    rush_scan_fn best[SCAN_TYPES]; /* values and indices; a NaN stays; no complex */
    rush_scan_fn lse[SCAN_TYPES];  /* float32, float64 only */
    rush_scan_line_fn prod_back[SCAN_TYPES]; /* as lse: the running sum of g y from the end, over x */
};
RUSH_KERNEL_TABLE(scan);

#endif
