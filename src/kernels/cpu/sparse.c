/* sparse.c - products with matrices in rows of entries. */
#include "kernels/cpu/sparse.h"
#include <complex.h>

#define T float
#define NAME(x) x##_f32
#include "kernels/cpu/sparse.inc"
#define T double
#define NAME(x) x##_f64
#include "kernels/cpu/sparse.inc"
#define T float complex
#define NAME(x) x##_c64
#include "kernels/cpu/sparse.inc"
#define T double complex
#define NAME(x) x##_c128
#include "kernels/cpu/sparse.inc"
#define T uint64_t
#define NAME(x) x##_i64
#include "kernels/cpu/sparse.inc"

#define EACH(what) {[RUSH_F32] = what##_f32, [RUSH_F64] = what##_f64, [RUSH_C64] = what##_c64, [RUSH_C128] = what##_c128, [RUSH_I64] = what##_i64}

RUSH_KERNELS(sparse) = {.dense = EACH(dense), .sparse = EACH(sparse), .sampled = EACH(sampled)};
