/* pointwise_misc.c - elementwise loops whose operands are not all of one type. */
#include "kernels/cpu/pointwise.h"
#include <math.h>

typedef struct sixteen { uint64_t half[2]; } sixteen;

#define WHERE(T)                                                                                            \
    static void where_##T(char *const *p, int64_t n, const rush_pw_args *args)                              \
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
    static void frexp_##T(char *const *p, int64_t n, const rush_pw_args *args)                              \
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

RUSH_KERNELS(pw_misc) = {
    .where = {[1] = where_uint8_t, [2] = where_uint16_t, [4] = where_uint32_t, [8] = where_uint64_t, [16] = where_sixteen},
    .frexp_f32 = frexp_float, .frexp_f64 = frexp_double,
};
