/* fold_best.c - the largest and the smallest element, with its index or without. NaN beats all, equals go to the first. */
#include "kernels/cpu/fold.h"
#include <math.h>

#define SAME(x) (x)
#define IS_NAN(x) ((x) != (x))
#define NEVER(x) 0
#define GREATER(a, b) ((a) > (b))
#define LESS(a, b) ((a) < (b))
#define LARGER(a, b) ((b) > (a) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) ? (b) : (a))
/* Of floating numbers: two choices, since GCC makes a jump of one with a combined condition, which doesn't vectorise. */
#define EXTREME(name, T, BETTER)                                                                            \
    static inline T name(T a, T b)                                                                          \
    {                                                                                                       \
        T best = BETTER(b, a) ? b : a;                                                                      \
        return b != b ? b : best;                                                                           \
    }
EXTREME(larger_f32, float, GREATER)
EXTREME(larger_f64, double, GREATER)
EXTREME(smaller_f32, float, LESS)
EXTREME(smaller_f64, double, LESS)

/* ---- the largest ---- */

#define F max_u8
#define T uint8_t
#define S uint8_t
#define A uint8_t
#define R uint8_t
#define ZERO 0
#define MAP SAME
#define EXACT
#define JOIN LARGER
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F max_i32
#define T int32_t
#define S int32_t
#define A int32_t
#define R int32_t
#define ZERO INT32_MIN
#define MAP SAME
#define EXACT
#define JOIN LARGER
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F max_i64
#define T int64_t
#define S int64_t
#define A int64_t
#define R int64_t
#define ZERO INT64_MIN
#define MAP SAME
#define EXACT
#define JOIN LARGER
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F max_f32
#define T float
#define S float
#define A float
#define R float
#define ZERO -INFINITY
#define MAP SAME
#define EXACT
#define JOIN larger_f32
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F max_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO -INFINITY
#define MAP SAME
#define EXACT
#define JOIN larger_f64
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F argmax_u8
#define T uint8_t
#define I int8_t
#define BETTER GREATER
#define BAD NEVER
#define WORST 0
#include "kernels/cpu/fold_arg.inc"

#define F argmax_i32
#define T int32_t
#define I int32_t
#define BETTER GREATER
#define BAD NEVER
#define WORST INT32_MIN
#include "kernels/cpu/fold_arg.inc"

#define F argmax_i64
#define T int64_t
#define I int64_t
#define BETTER GREATER
#define BAD NEVER
#define WORST INT64_MIN
#include "kernels/cpu/fold_arg.inc"

#define F argmax_f32
#define T float
#define I int32_t
#define BETTER GREATER
#define BAD IS_NAN
#define WORST -INFINITY
#include "kernels/cpu/fold_arg.inc"

#define F argmax_f64
#define T double
#define I int64_t
#define BETTER GREATER
#define BAD IS_NAN
#define WORST -INFINITY
#include "kernels/cpu/fold_arg.inc"

/* ---- the smallest ---- */

#define F min_u8
#define T uint8_t
#define S uint8_t
#define A uint8_t
#define R uint8_t
#define ZERO UINT8_MAX
#define MAP SAME
#define EXACT
#define JOIN SMALLER
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F min_i32
#define T int32_t
#define S int32_t
#define A int32_t
#define R int32_t
#define ZERO INT32_MAX
#define MAP SAME
#define EXACT
#define JOIN SMALLER
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F min_i64
#define T int64_t
#define S int64_t
#define A int64_t
#define R int64_t
#define ZERO INT64_MAX
#define MAP SAME
#define EXACT
#define JOIN SMALLER
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F min_f32
#define T float
#define S float
#define A float
#define R float
#define ZERO INFINITY
#define MAP SAME
#define EXACT
#define JOIN smaller_f32
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F min_f64
#define T double
#define S double
#define A double
#define R double
#define ZERO INFINITY
#define MAP SAME
#define EXACT
#define JOIN smaller_f64
#define KEEP JOIN
#define RESULT SAME
#include "kernels/cpu/fold_map.inc"

#define F argmin_u8
#define T uint8_t
#define I int8_t
#define BETTER LESS
#define BAD NEVER
#define WORST UINT8_MAX
#include "kernels/cpu/fold_arg.inc"

#define F argmin_i32
#define T int32_t
#define I int32_t
#define BETTER LESS
#define BAD NEVER
#define WORST INT32_MAX
#include "kernels/cpu/fold_arg.inc"

#define F argmin_i64
#define T int64_t
#define I int64_t
#define BETTER LESS
#define BAD NEVER
#define WORST INT64_MAX
#include "kernels/cpu/fold_arg.inc"

#define F argmin_f32
#define T float
#define I int32_t
#define BETTER LESS
#define BAD IS_NAN
#define WORST INFINITY
#include "kernels/cpu/fold_arg.inc"

#define F argmin_f64
#define T double
#define I int64_t
#define BETTER LESS
#define BAD IS_NAN
#define WORST INFINITY
#include "kernels/cpu/fold_arg.inc"

#define FOLD(f, from, to, bytes) {from, {from, to}, bytes, start_##f, row_##f, cols_##f, merge_##f, finish_##f, #f}

RUSH_KERNELS(fold_best) = {
    .max_u8 = FOLD(max_u8, RUSH_U8, RUSH_U8, sizeof(uint8_t)),
    .max_i32 = FOLD(max_i32, RUSH_I32, RUSH_I32, sizeof(int32_t)),
    .max_i64 = FOLD(max_i64, RUSH_I64, RUSH_I64, sizeof(int64_t)),
    .max_f32 = FOLD(max_f32, RUSH_F32, RUSH_F32, sizeof(float)),
    .max_f64 = FOLD(max_f64, RUSH_F64, RUSH_F64, sizeof(double)),
    .argmax_u8 = FOLD(argmax_u8, RUSH_U8, RUSH_I64, 16),
    .argmax_i32 = FOLD(argmax_i32, RUSH_I32, RUSH_I64, 16),
    .argmax_i64 = FOLD(argmax_i64, RUSH_I64, RUSH_I64, 16),
    .argmax_f32 = FOLD(argmax_f32, RUSH_F32, RUSH_I64, 16),
    .argmax_f64 = FOLD(argmax_f64, RUSH_F64, RUSH_I64, 16),
    .min_u8 = FOLD(min_u8, RUSH_U8, RUSH_U8, sizeof(uint8_t)),
    .min_i32 = FOLD(min_i32, RUSH_I32, RUSH_I32, sizeof(int32_t)),
    .min_i64 = FOLD(min_i64, RUSH_I64, RUSH_I64, sizeof(int64_t)),
    .min_f32 = FOLD(min_f32, RUSH_F32, RUSH_F32, sizeof(float)),
    .min_f64 = FOLD(min_f64, RUSH_F64, RUSH_F64, sizeof(double)),
    .argmin_u8 = FOLD(argmin_u8, RUSH_U8, RUSH_I64, 16),
    .argmin_i32 = FOLD(argmin_i32, RUSH_I32, RUSH_I64, 16),
    .argmin_i64 = FOLD(argmin_i64, RUSH_I64, RUSH_I64, 16),
    .argmin_f32 = FOLD(argmin_f32, RUSH_F32, RUSH_I64, 16),
    .argmin_f64 = FOLD(argmin_f64, RUSH_F64, RUSH_I64, 16),
};
