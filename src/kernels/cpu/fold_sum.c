/* fold_sum.c - sums, products, any and all. Floats are summed in blocks that join a double; doubles carry their
 * rounding error along. */
#include "base/small_float.h"
#include "kernels/cpu/complex_product.h"
#include "kernels/cpu/fold.h"
#include <complex.h>
#include <math.h>

#define ADD(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define SAME(x) (x)

#define F sum_u8
#define T uint8_t
#define S int64_t
#define A int64_t
#define R int64_t
#define ZERO 0
#define MAP(x) (int64_t)(x)
#define JOIN ADD
#define KEEP ADD
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F sum_i32
#define T int32_t
#define S int64_t
#define A int64_t
#define R int64_t
#define ZERO 0
#define MAP(x) (int64_t)(x)
#define JOIN ADD
#define KEEP ADD
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

/* Integers wrap around, as in two's complement. */
#define F sum_i64
#define T uint64_t
#define S uint64_t
#define A uint64_t
#define R uint64_t
#define ZERO 0
#define MAP SAME
#define JOIN ADD
#define KEEP ADD
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F sum_f32
#define T float
#define S float
#define A double
#define R float
#define ZERO 0
#define MAP SAME
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) (float)(arg->mean ? (a) / arg->count : (a))
#include "kernels/cpu/fold_map.inc"

#define F sum_bf16
#define T uint16_t
#define S float
#define A double
#define R float
#define ZERO 0
#define MAP(x) rush_bf16_to_f32(x)
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) (float)(arg->mean ? (a) / arg->count : (a))
#include "kernels/cpu/fold_map.inc"

#define F sum_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO 0
#define MAP SAME
#define JOIN ADD
#define RESULT(a) (arg->mean ? (a) / arg->count : (a))
#define TWO_SUM
#include "kernels/cpu/fold_map.inc"

#define F sum_c64
#define T float complex
#define S float complex
#define A double complex
#define R float complex
#define ZERO 0
#define MAP SAME
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) (float complex)(arg->mean ? (a) / arg->count : (a))
#include "kernels/cpu/fold_map.inc"

#define F sum_c128
#define T double complex
#define S double complex
#define A double complex
#define R double complex
#define ZERO 0
#define MAP SAME
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) (arg->mean ? (a) / arg->count : (a))
#include "kernels/cpu/fold_map.inc"

#define F nansum_f32
#define T float
#define S float
#define A double
#define R float
#define ZERO 0
#define MAP(x) ((x) == (x) ? (x) : 0)
#define JOIN ADD
#define KEEP ADD
#define RESULT(a) (float)(a)
#include "kernels/cpu/fold_map.inc"

#define F nansum_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO 0
#define MAP(x) ((x) == (x) ? (x) : 0)
#define JOIN ADD
#define RESULT SAME
#define TWO_SUM
#include "kernels/cpu/fold_map.inc"

/* ---- products ---- */

#define F prod_i64
#define T uint64_t
#define S uint64_t
#define A uint64_t
#define R uint64_t
#define ZERO 1
#define MAP SAME
#define JOIN TIMES
#define KEEP TIMES
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F prod_f32
#define T float
#define S float
#define A float
#define R float
#define ZERO 1
#define MAP SAME
#define JOIN TIMES
#define KEEP TIMES
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F prod_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO 1
#define MAP SAME
#define JOIN TIMES
#define KEEP TIMES
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F prod_c64
#define T float complex
#define S float complex
#define A float complex
#define R float complex
#define ZERO 1
#define MAP SAME
#define JOIN times_c64
#define KEEP times_c64
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F prod_c128
#define T double complex
#define S double complex
#define A double complex
#define R double complex
#define ZERO 1
#define MAP SAME
#define JOIN times_c128
#define KEEP times_c128
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

/* ---- the exclusive or of all bits; any, all: of bytes that are 0 or 1 ---- */

#define XOR(a, b) ((a) ^ (b))

#define F xor_i64
#define T uint64_t
#define S uint64_t
#define A uint64_t
#define R uint64_t
#define ZERO 0
#define MAP SAME
#define JOIN XOR
#define KEEP XOR
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define OR(a, b) ((a) | (b))
#define AND(a, b) ((a) & (b))

#define F any
#define T uint8_t
#define S uint8_t
#define A uint8_t
#define R uint8_t
#define ZERO 0
#define MAP SAME
#define JOIN OR
#define KEEP OR
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F all
#define T uint8_t
#define S uint8_t
#define A uint8_t
#define R uint8_t
#define ZERO 1
#define MAP SAME
#define JOIN AND
#define KEEP AND
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define FOLD_NAMED(name, f, from, to, bytes) {from, {to, to}, bytes, start_##f, row_##f, cols_##f, merge_##f, finish_##f, name}
#define FOLD(f, from, to, bytes) FOLD_NAMED(#f, f, from, to, bytes)

RUSH_KERNELS(fold_sum) = {
    .sum_u8 = FOLD(sum_u8, RUSH_U8, RUSH_I64, 8),
    .sum_i32 = FOLD(sum_i32, RUSH_I32, RUSH_I64, 8),
    .sum_i64 = FOLD(sum_i64, RUSH_I64, RUSH_I64, 8),
    .sum_f32 = FOLD(sum_f32, RUSH_F32, RUSH_F32, 8),
    .sum_bf16 = FOLD_NAMED("sum_f32", sum_bf16, RUSH_BF16, RUSH_F32, 8), /* a device's reads all floats */
    .sum_f64 = FOLD(sum_f64, RUSH_F64, RUSH_F64, 16),
    .sum_c64 = FOLD(sum_c64, RUSH_C64, RUSH_C64, 16),
    .sum_c128 = FOLD(sum_c128, RUSH_C128, RUSH_C128, 16),
    .nansum_f32 = FOLD(nansum_f32, RUSH_F32, RUSH_F32, 8),
    .nansum_f64 = FOLD(nansum_f64, RUSH_F64, RUSH_F64, 16),
    .prod_i64 = FOLD(prod_i64, RUSH_I64, RUSH_I64, 8),
    .prod_f32 = FOLD(prod_f32, RUSH_F32, RUSH_F32, 4),
    .prod_f64 = FOLD(prod_f64, RUSH_F64, RUSH_F64, 8),
    .prod_c64 = FOLD(prod_c64, RUSH_C64, RUSH_C64, 8),
    .prod_c128 = FOLD(prod_c128, RUSH_C128, RUSH_C128, 16),
    .xor_i64 = FOLD(xor_i64, RUSH_I64, RUSH_U64, 8),
    .any = FOLD(any, RUSH_BOOL, RUSH_BOOL, 1),
    .all = FOLD(all, RUSH_BOOL, RUSH_BOOL, 1),
};
