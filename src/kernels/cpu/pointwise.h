/* pointwise.h - the loops made from src/kernels/pointwise.def, one table per type that is computed in. */
#ifndef RUSH_POINTWISE_KERNELS_H
#define RUSH_POINTWISE_KERNELS_H

#include "kernels/cpu/isa.h"

#define ROW(id, ...) RUSH_PW_##id,
typedef enum rush_pw_id {
#include "kernels/pointwise.def"
    RUSH_PW_COUNT
} rush_pw_id;
#undef ROW

/* The arguments a, b, c, d of a row, each as a real, an imaginary and an integer number. */
typedef struct rush_pw_args {
    double re[4], im[4];
    int64_t i[4];
} rush_pw_args;

/* n contiguous elements: p[0] is written, p[1].. are read. p[0] may be one of the others. Bit k of `one`: operand k has
 * one element only. Loops of two operands take 1 and 2 (x, y), those of three 4 and 6 (z; y and z); otherwise it is 0. */
typedef void (*rush_pw_kernel)(char *const *p, int64_t n, const rush_pw_args *, unsigned one);
#define RUSH_PW_ONES(operands) ((operands) == 2 ? 1u << 0 | 1u << 1 | 1u << 2 : (operands) == 3 ? 1u << 0 | 1u << 4 | 1u << 6 : 1u)

/* Indexed by rush_pw_id; NULL where the type has no such loop. */
struct rush_pw_bool_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
struct rush_pw_u8_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
struct rush_pw_i32_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
struct rush_pw_i64_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
struct rush_pw_u64_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
struct rush_pw_f32_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
struct rush_pw_f64_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
struct rush_pw_c64_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
struct rush_pw_c128_kernels { rush_pw_kernel loop[RUSH_PW_COUNT]; };
RUSH_KERNEL_TABLE(pw_bool);
RUSH_KERNEL_TABLE(pw_u8);
RUSH_KERNEL_TABLE(pw_i32);
RUSH_KERNEL_TABLE(pw_i64);
RUSH_KERNEL_TABLE(pw_u64);
RUSH_KERNEL_TABLE(pw_f32);
RUSH_KERNEL_TABLE(pw_f64);
RUSH_KERNEL_TABLE(pw_c64);
RUSH_KERNEL_TABLE(pw_c128);

/* What does not fit a row: choosing by a condition, and results of another make than the operands. */
struct rush_pw_misc_kernels {
    rush_pw_kernel where[17]; /* by element size; p: result, condition (bool), if true, if false */
    rush_pw_kernel nextafter_f16, nextafter_bf16, neg_half, abs_half; /* on the bits */
    rush_pw_kernel frexp_f32, frexp_f64; /* p: mantissa, exponent (int32), number */
};
RUSH_KERNEL_TABLE(pw_misc);

#endif
