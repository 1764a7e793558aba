/* reduce.c - how two arrays become one, per dtype and operation: what collectives reduce with. */
#include "dist/group.h"

#define LOOP(name, T, from, to, expr)                                    \
    static void name(void *out, const void *x, const void *y, size_t n) \
    {                                                                    \
        const T *p = x, *q = y;                                          \
        T *o = out;                                                      \
        for (size_t i = 0; i < n; i++) {                                 \
            __typeof__(from(p[i])) a = from(p[i]), b = from(q[i]);       \
            o[i] = (T)to(expr);                                          \
        }                                                                \
    }
#define SAME(x) (x)
#define BIT(x) ((x) != 0)
/* Sums and products wrap around: of integers they are done without a sign. */
#define NUMBERS(name, T, U, from, to)                    \
    LOOP(name##_sum, T, from, to, (U)a + (U)b)           \
    LOOP(name##_product, T, from, to, (U)a * (U)b)       \
    LOOP(name##_min, T, from, to, b < a ? b : a)         \
    LOOP(name##_max, T, from, to, a < b ? b : a)
#define INTEGERS(name, T, U)                             \
    NUMBERS(name, T, U, SAME, SAME)                      \
    LOOP(name##_band, T, SAME, SAME, a & b)              \
    LOOP(name##_bor, T, SAME, SAME, a | b)               \
    LOOP(name##_bxor, T, SAME, SAME, a ^ b)

INTEGERS(u8, uint8_t, unsigned)
INTEGERS(i8, int8_t, unsigned)
INTEGERS(i16, int16_t, unsigned)
INTEGERS(i32, int32_t, uint32_t)
INTEGERS(i64, int64_t, uint64_t)
INTEGERS(u16, uint16_t, unsigned)
INTEGERS(u32, uint32_t, uint32_t)
INTEGERS(u64, uint64_t, uint64_t)
NUMBERS(f16, uint16_t, float, rush_f16_to_f32, rush_f32_to_f16)
NUMBERS(bf16, uint16_t, float, rush_bf16_to_f32, rush_f32_to_bf16)
NUMBERS(f32, float, float, SAME, SAME)
NUMBERS(f64, double, double, SAME, SAME)
LOOP(bool_or, uint8_t, BIT, SAME, a | b)
LOOP(bool_and, uint8_t, BIT, SAME, a & b)
LOOP(bool_xor, uint8_t, BIT, SAME, a ^ b)

#define FLOATS_ROW(name) {name##_sum, name##_sum, name##_product, name##_min, name##_max}
#define INTEGERS_ROW(name) {name##_sum, name##_sum, name##_product, name##_min, name##_max, name##_band, name##_bor, name##_bxor}

/* In the order of rush_reduce: sum, average (which is divided afterwards), product, min, max, and, or, exclusive or. */
static const rush_reduction reductions[RUSH_DTYPES][RUSH_REDUCE_OPS] = {
    [RUSH_BOOL] = {bool_or, NULL, bool_and, bool_and, bool_or, bool_and, bool_or, bool_xor},
    [RUSH_U8] = INTEGERS_ROW(u8), [RUSH_I8] = INTEGERS_ROW(i8), [RUSH_I16] = INTEGERS_ROW(i16), [RUSH_I32] = INTEGERS_ROW(i32),
    [RUSH_I64] = INTEGERS_ROW(i64), [RUSH_U16] = INTEGERS_ROW(u16), [RUSH_U32] = INTEGERS_ROW(u32), [RUSH_U64] = INTEGERS_ROW(u64),
    [RUSH_F16] = FLOATS_ROW(f16), [RUSH_BF16] = FLOATS_ROW(bf16), [RUSH_F32] = FLOATS_ROW(f32), [RUSH_F64] = FLOATS_ROW(f64),
};

rush_reduction rush_reduction_of(rush_dtype dtype, rush_reduce op)
{
    if (op == RUSH_REDUCE_PREMUL_SUM) op = RUSH_REDUCE_SUM;
    return op >= 0 && op < RUSH_REDUCE_OPS ? reductions[dtype][op] : NULL;
}

/* Divides n sums by the number of ranks. */
void rush_average(void *data, rush_dtype dtype, size_t n, int ranks)
{
    switch (dtype) {
#define DIVIDE(D, T, from, to)                                                       \
    case D:                                                                          \
        for (size_t i = 0; i < n; i++) ((T *)data)[i] = (T)to(from(((T *)data)[i]) / ranks); \
        break;
    DIVIDE(RUSH_F16, uint16_t, rush_f16_to_f32, rush_f32_to_f16)
    DIVIDE(RUSH_BF16, uint16_t, rush_bf16_to_f32, rush_f32_to_bf16)
    DIVIDE(RUSH_F32, float, SAME, SAME)
    DIVIDE(RUSH_F64, double, SAME, SAME)
    DIVIDE(RUSH_U8, uint8_t, SAME, SAME)
    DIVIDE(RUSH_I8, int8_t, SAME, SAME)
    DIVIDE(RUSH_I16, int16_t, SAME, SAME)
    DIVIDE(RUSH_I32, int32_t, SAME, SAME)
    DIVIDE(RUSH_I64, int64_t, SAME, SAME)
    DIVIDE(RUSH_U16, uint16_t, SAME, SAME)
    DIVIDE(RUSH_U32, uint32_t, SAME, (uint32_t))
    DIVIDE(RUSH_U64, uint64_t, SAME, SAME)
    default: break;
    }
}

void rush_scale(void *data, rush_dtype dtype, size_t n, double factor)
{
    if (factor == 1) return;
    float f = (float)factor;
    switch (dtype) {
#define SCALE(D, T, by, from, to)                                                    \
    case D:                                                                          \
        for (size_t i = 0; i < n; i++) ((T *)data)[i] = (T)to(from(((T *)data)[i]) * by); \
        break;
    SCALE(RUSH_F16, uint16_t, f, rush_f16_to_f32, rush_f32_to_f16)
    SCALE(RUSH_BF16, uint16_t, f, rush_bf16_to_f32, rush_f32_to_bf16)
    SCALE(RUSH_F32, float, f, SAME, SAME)
    SCALE(RUSH_F64, double, factor, SAME, SAME)
    case RUSH_C64: rush_scale(data, RUSH_F32, 2 * n, factor); break;
    case RUSH_C128: rush_scale(data, RUSH_F64, 2 * n, factor); break;
    default: break;
    }
}
