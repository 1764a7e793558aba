/* scan.c - running sums and the like; the bodies are in scan.inc. Floats are summed in double, as PyTorch does. */
#include "kernels/cpu/scan.h"
#include <complex.h>
#include <math.h>

enum { WIDE = 64 };

#define ORDERED
#define NAN_(x) false
#define T int64_t
#define A uint64_t /* wraps around */
#define NAME(x) x##_i64
#include "kernels/cpu/scan.inc"
#undef T
#undef A
#undef NAME
#undef NAN_
#define NAN_(x) isnan(x)
#define REAL
#define T float
#define A double
#define NAME(x) x##_f32
#include "kernels/cpu/scan.inc"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_f64
#include "kernels/cpu/scan.inc"
#undef T
#undef A
#undef NAME
#undef REAL
#undef ORDERED
#define T float complex
#define A double complex
#define NAME(x) x##_c64
#include "kernels/cpu/scan.inc"
#undef T
#undef NAME
#define T double complex
#define NAME(x) x##_c128
#include "kernels/cpu/scan.inc"

RUSH_KERNELS(scan) = {
    .sum = {sum_i64, sum_f32, sum_f64, sum_c64, sum_c128},
    .prod = {prod_i64, prod_f32, prod_f64, prod_c64, prod_c128},
    .totals = {totals_i64, totals_f32, totals_f64, totals_c64, totals_c128},
    .before = {before_i64, before_f32, before_f64, before_c64, before_c128},
    .sum_blocks = {sum_blocks_i64, sum_blocks_f32, sum_blocks_f64, sum_blocks_c64, sum_blocks_c128},
    .best = {best_i64, best_f32, best_f64},
    .lse = {NULL, lse_f32, lse_f64},
    .prod_back = {[SCAN_F32] = prod_back_f32, [SCAN_F64] = prod_back_f64},
};
