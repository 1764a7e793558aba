/* fold.h - ways to reduce: what is kept of the elements seen so far, and how more elements join it.
 *
 * A fold keeps one accumulator per output; n of them lie in one block of n * keeps bytes whose layout is the
 * fold's own business (usually one array per field, so that columns go in vectors). Elements come as rows (many
 * for one output) or as columns (many outputs side by side). Which, in which pieces and on which thread is
 * decided by src/ops/reduce/reduce_run.c from the shape alone, so results don't depend on the number of threads.
 */
#ifndef RUSH_FOLD_H
#define RUSH_FOLD_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/lanes.h"

#define FOLD_WIDTH 1024  /* as many accumulators in one block */
#define FOLD_BLOCK 2048  /* elements of a row summed in the narrow type before they join the wide one */
#define FOLD_ROWS 64     /* the same for columns */
#define FOLD_KEEPS 32    /* the largest accumulator */

typedef struct rush_fold_arg {
    double count;      /* how many elements each output is made of; for means, variances */
    double p;          /* of norms                                                       */
    double correction; /* of variances                                                   */
    bool mean, root;   /* divide the sum by count; the root of the variance              */
} rush_fold_arg;

typedef struct rush_fold {
    uint8_t reads;     /* dtype of the elements that row and cols are given */
    uint8_t writes[2]; /* dtypes that finish writes                         */
    uint16_t keeps;    /* bytes of an accumulator                           */
    void (*start)(void *acc, int64_t n);
    /* len elements from x, which are elements at.. of the reduction, join accumulator j of n */
    void (*row)(void *acc, int64_t n, int64_t j, const void *x, int64_t len, int64_t at, const rush_fold_arg *);
    /* rows of n elements, `stride` elements apart, join n accumulators, one a column */
    void (*cols)(void *acc, int64_t n, const void *x, int64_t rows, int64_t stride, int64_t at, const rush_fold_arg *);
    void (*merge)(void *acc, const void *other, int64_t n); /* other comes later in the reduction */
    void (*finish)(void *const *out, const void *acc, int64_t n, const rush_fold_arg *); /* out[i] may be NULL */
    const char *name;  /* by which devices find theirs */
} rush_fold;

/* Folds by the dtype that they read; src/ops/reduce/reduce.c chooses, other dtypes are read in a wider type. */
struct rush_fold_sum_kernels {
    rush_fold sum_u8, sum_i32, sum_i64, sum_bf16, sum_f32, sum_f64, sum_c64, sum_c128;
    rush_fold nansum_f32, nansum_f64;
    rush_fold prod_i64, prod_f32, prod_f64, prod_c64, prod_c128;
    rush_fold xor_i64;  /* of bits */
    rush_fold any, all; /* of bool */
};
RUSH_KERNEL_TABLE(fold_sum);

struct rush_fold_best_kernels {
    rush_fold max_u8, max_i32, max_i64, max_f32, max_f64;
    rush_fold min_u8, min_i32, min_i64, min_f32, min_f64;
    rush_fold argmax_u8, argmax_i32, argmax_i64, argmax_f32, argmax_f64; /* value and index */
    rush_fold argmin_u8, argmin_i32, argmin_i64, argmin_f32, argmin_f64;
};
RUSH_KERNEL_TABLE(fold_best);

struct rush_fold_stat_kernels {
    rush_fold var_f32, var_f64; /* variance (or its root) and mean */
    rush_fold lse_f32, lse_f64; /* logarithm of the sum of exponentials */
    rush_fold norm0_f32, norm1_f32, norm2_f32, norm_f32, norm_inf_f32, norm_ninf_f32;
    rush_fold norm2_half; /* of half types that were made float */
    rush_fold norm0_f64, norm1_f64, norm2_f64, norm_f64, norm_inf_f64, norm_ninf_f64;
};
RUSH_KERNEL_TABLE(fold_stat);

#endif
