/* pointwise_misc.c - elementwise loops whose operands are not all of one type. */
#include "kernels/cpu/pointwise.h"
#include <math.h>

typedef struct sixteen { uint64_t half[2]; } sixteen;

#define WHERE(T)                                                                                            \
    static void where_##T(char *const *p, int64_t n, const rush_pw_args *args, unsigned one)                              \
    {                                                                                                       \
        T *R = (T *)p[0];                                                                                   \
        const uint8_t *C = (const uint8_t *)p[1];                                                           \
        const T *X = (const T *)p[2], *Y = (const T *)p[3];                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                                 \
        {                                                                                                   \
            const T x = X[i], y = Y[i];                                                                     \
            R[i] = C[i] ? x : y;                                                                            \
        }                                                                                                   \
    }
WHERE(uint8_t)
WHERE(uint16_t)
WHERE(uint32_t)
WHERE(uint64_t)
WHERE(sixteen)

#define FREXP(T, F)                                                                                         \
    static void frexp_##T(char *const *p, int64_t n, const rush_pw_args *args, unsigned one)                              \
    {                                                                                                       \
        const T *X = (const T *)p[2];                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            int e = 0;                                                                                      \
            ((T *)p[0])[i] = F(X[i], &e);                                                            \
            ((int32_t *)p[1])[i] = X[i] - X[i] == 0 ? e : 0;                                                \
        }                                                                                                   \
    }
FREXP(float, frexpf)
FREXP(double, frexp)

/* Bits of a half type as an integer of the same order, and what lies beyond the infinities. */
static int order(uint16_t bits)
{
    return bits & 0x8000 ? -(bits & 0x7fff) : bits;
}
static void nextafter_bits(char *const *p, int64_t n, uint16_t infinity, uint16_t nan)
{
    const uint16_t *X = (const uint16_t *)p[1], *Y = (const uint16_t *)p[2];
    for (int64_t i = 0; i < n; i++) {
        uint16_t x = X[i], y = Y[i], r;
        int ox = order(x), oy = order(y);
        if ((x & 0x7fff) > infinity || (y & 0x7fff) > infinity) r = nan;
        else if (ox == oy) r = y;
        else if (ox == 0) r = oy > 0 ? 1 : 0x8001;
        else r = (uint16_t)((ox < oy) == (ox > 0) ? x + 1 : x - 1);
        ((uint16_t *)p[0])[i] = r;
    }
}
static void nextafter_f16(char *const *p, int64_t n, const rush_pw_args *args, unsigned one)
{
    nextafter_bits(p, n, 0x7c00, 0x7e00);
}
static void nextafter_bf16(char *const *p, int64_t n, const rush_pw_args *args, unsigned one)
{
    nextafter_bits(p, n, 0x7f80, 0x7fc0);
}

/* Signs are the upper bit, of NaN too. */
#define SIGN(name, operation)                                                                               \
    static void name(char *const *p, int64_t n, const rush_pw_args *args, unsigned one)                     \
    {                                                                                                       \
        const uint16_t *X = (const uint16_t *)p[1];                                                         \
        uint16_t *R = (uint16_t *)p[0];                                                                     \
        for (int64_t i = 0; i < n; i++) R[i] = (uint16_t)(X[i] operation);                                  \
    }
SIGN(neg_half, ^0x8000)
SIGN(abs_half, &0x7fff)

RUSH_KERNELS(pw_misc) = {
    .where = {[1] = where_uint8_t, [2] = where_uint16_t, [4] = where_uint32_t, [8] = where_uint64_t, [16] = where_sixteen},
    .nextafter_f16 = nextafter_f16, .nextafter_bf16 = nextafter_bf16, .neg_half = neg_half, .abs_half = abs_half,
    .frexp_f32 = frexp_float, .frexp_f64 = frexp_double,
};
