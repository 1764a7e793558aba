/* fold_stat.c - variance, logarithm of the sum of exponentials, vector norms. */
#include "kernels/cpu/fold.h"
#include "kernels/cpu/libmvec.h"
#include "kernels/cpu/quick_exp.h"

#define T float
#define FN(f) f##f32
#define EXP exp_f32
#include "kernels/cpu/fold_stat.inc"

#define T double
#define FN(f) f##f64
#define EXP exp_f64
#include "kernels/cpu/fold_stat.inc"

/* ---- norms: squares of floats are summed in double, so that they don't overflow; those of half types as PyTorch does ---- */

#define SAME(x) (x)
#define ADD(a, b) ((a) + (b))
#define IS_NAN(x) ((x) != (x))
#define LARGER(a, b) ((((b) > (a)) | IS_NAN(b)) ? (b) : (a))
#define SMALLER(a, b) ((((b) < (a)) | IS_NAN(b)) ? (b) : (a))

#define F norm0_f32
#define T float
#define S float
#define A double
#define R float
#define ZERO 0
#define MAP(x) ((x) != 0 ? 1 : 0)
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((float)(a))
#include "kernels/cpu/fold_map.inc"

#define F norm1_f32
#define T float
#define S float
#define A double
#define R float
#define ZERO 0
#define MAP(x) (fabsf(x))
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((float)(a))
#include "kernels/cpu/fold_map.inc"

#define F norm2_f32
#define T float
#define S double
#define A double
#define R float
#define ZERO 0
#define MAP(x) ((double)(x) * (x))
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((float)sqrt(a))
#include "kernels/cpu/fold_map.inc"

#define SQUARE(x) ((x) * (x))

#define F norm2_half
#define T float
#define S float
#define A double
#define R float
#define ZERO 0
#define MAP SQUARE
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((float)sqrt(a))
#include "kernels/cpu/fold_map.inc"

#define F norm_f32
#define T float
#define S float
#define A double
#define R float
#define ZERO 0
#define MAP(x) (powf(fabsf(x), (float)arg->p))
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((float)pow(a, 1 / arg->p))
#include "kernels/cpu/fold_map.inc"

#define F norm_inf_f32
#define T float
#define S float
#define A float
#define R float
#define ZERO 0
#define MAP(x) (fabsf(x))
#define JOIN LARGER
#define KEEP LARGER
#define RESULT(a) ((a))
#include "kernels/cpu/fold_map.inc"

#define F norm_ninf_f32
#define T float
#define S float
#define A float
#define R float
#define ZERO INFINITY
#define MAP(x) (fabsf(x))
#define JOIN SMALLER
#define KEEP SMALLER
#define RESULT(a) ((a))
#include "kernels/cpu/fold_map.inc"

#define F norm0_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO 0
#define MAP(x) ((x) != 0 ? 1 : 0)
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((double)(a))
#include "kernels/cpu/fold_map.inc"

#define F norm1_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO 0
#define MAP(x) (fabs(x))
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((double)(a))
#include "kernels/cpu/fold_map.inc"

#define F norm2_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO 0
#define MAP(x) ((double)(x) * (x))
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((double)sqrt(a))
#include "kernels/cpu/fold_map.inc"

#define F norm_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO 0
#define MAP(x) (pow(fabs(x), (double)arg->p))
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) ((double)pow(a, 1 / arg->p))
#include "kernels/cpu/fold_map.inc"

#define F norm_inf_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO 0
#define MAP(x) (fabs(x))
#define JOIN LARGER
#define KEEP LARGER
#define RESULT(a) ((a))
#include "kernels/cpu/fold_map.inc"

#define F norm_ninf_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO INFINITY
#define MAP(x) (fabs(x))
#define JOIN SMALLER
#define KEEP SMALLER
#define RESULT(a) ((a))
#include "kernels/cpu/fold_map.inc"

#define FOLD_AS(name, f, type, bytes) {type, {type, type}, bytes, start_##f, row_##f, cols_##f, merge_##f, finish_##f, name}
#define FOLD(f, type, bytes) FOLD_AS(#f, f, type, bytes)

RUSH_KERNELS(fold_stat) = {
    .var_f32 = FOLD(var_f32, RUSH_F32, 24),
    .var_f64 = FOLD(var_f64, RUSH_F64, 24),
    .lse_f32 = FOLD(lse_f32, RUSH_F32, 16),
    .lse_f64 = FOLD(lse_f64, RUSH_F64, 16),
    .norm0_f32 = FOLD(norm0_f32, RUSH_F32, sizeof(double)),
    .norm1_f32 = FOLD(norm1_f32, RUSH_F32, sizeof(double)),
    .norm2_f32 = FOLD(norm2_f32, RUSH_F32, sizeof(double)),
    .norm2_half = FOLD_AS("norm2_f32", norm2_half, RUSH_F32, sizeof(double)), /* a device has one for all floats */
    .norm_f32 = FOLD(norm_f32, RUSH_F32, sizeof(double)),
    .norm_inf_f32 = FOLD(norm_inf_f32, RUSH_F32, sizeof(float)),
    .norm_ninf_f32 = FOLD(norm_ninf_f32, RUSH_F32, sizeof(float)),
    .norm0_f64 = FOLD(norm0_f64, RUSH_F64, sizeof(double)),
    .norm1_f64 = FOLD(norm1_f64, RUSH_F64, sizeof(double)),
    .norm2_f64 = FOLD(norm2_f64, RUSH_F64, sizeof(double)),
    .norm_f64 = FOLD(norm_f64, RUSH_F64, sizeof(double)),
    .norm_inf_f64 = FOLD(norm_inf_f64, RUSH_F64, sizeof(double)),
    .norm_ninf_f64 = FOLD(norm_ninf_f64, RUSH_F64, sizeof(double)),
};
