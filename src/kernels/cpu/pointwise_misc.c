/* pointwise_misc.c - elementwise loops whose operands are not all of one type. */
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/libmvec.h"

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

#define OF_REALS(T, F)                                                                                      \
    static void pair_##T(char *const *p, int64_t n, const rush_pw_args *args)                               \
    {                                                                                                       \
        T *R = (T *)p[0];                                                                                   \
        const T *X = (const T *)p[1], *Y = (const T *)p[2];                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) R[2 * i] = X[i], R[2 * i + 1] = Y[i];           \
    }                                                                                                       \
    static void polar_##T(char *const *p, int64_t n, const rush_pw_args *args)                              \
    {                                                                                                       \
        T *R = (T *)p[0];                                                                                   \
        const T *X = (const T *)p[1], *Y = (const T *)p[2];                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                                 \
        {                                                                                                   \
            R[2 * i] = X[i] * F(cos)(Y[i]);                                                                 \
            R[2 * i + 1] = X[i] * F(sin)(Y[i]);                                                             \
        }                                                                                                   \
    }                                                                                                       \
    static void frexp_##T(char *const *p, int64_t n, const rush_pw_args *args)                              \
    {                                                                                                       \
        const T *X = (const T *)p[2];                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            int e = 0;                                                                                      \
            ((T *)p[0])[i] = F(frexp)(X[i], &e);                                                            \
            ((int32_t *)p[1])[i] = X[i] - X[i] == 0 ? e : 0;                                                \
        }                                                                                                   \
    }
#define FLOAT(name) name##f
#define DOUBLE(name) name
OF_REALS(float, FLOAT)
OF_REALS(double, DOUBLE)

RUSH_KERNELS(pw_misc) = {
    .where = {[1] = where_uint8_t, [2] = where_uint16_t, [4] = where_uint32_t, [8] = where_uint64_t, [16] = where_sixteen},
    .pair_f32 = pair_float, .pair_f64 = pair_double,
    .polar_f32 = polar_float, .polar_f64 = polar_double,
    .frexp_f32 = frexp_float, .frexp_f64 = frexp_double,
};
