/* index.c - elements taken from, and put to, places that an array of offsets names. */
#include "kernels/cpu/index.h"
#include <complex.h>
#include <math.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef struct sixteen { uint64_t a, b; } sixteen;

/* ---- moving elements of any type ---- */

#define T uint8_t
#define NAME(x) x##_1
#include "kernels/cpu/index_move.inc"
#define T uint16_t
#define NAME(x) x##_2
#include "kernels/cpu/index_move.inc"
#define T uint32_t
#define NAME(x) x##_4
#include "kernels/cpu/index_move.inc"
#define T uint64_t
#define NAME(x) x##_8
#include "kernels/cpu/index_move.inc"
#define T sixteen
#define NAME(x) x##_16
#include "kernels/cpu/index_move.inc"

static int64_t outside(const int64_t *index, int64_t n, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)(high - low);
    int bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (uint64_t)(index[i] - low) >= span;
    if (!bad) return -1;
    for (int64_t i = 0; i < n; i++)
        if (index[i] < low || index[i] >= high) return i;
    return -1;
}

#define BLOCK 2048 /* offsets that are checked and then used while they are in the cache */

static void take(char **p, const int64_t *s, int64_t n, const void *arg);

static void take_checked(char **p, const int64_t *s, int64_t n, const rush_at *at)
{
    rush_at plain = *at;
    plain.limit = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = RUSH_MIN(BLOCK, n - i), wrong = 0;
        char *q[3] = {p[0] + i * s[0], p[1] + i * s[1], p[2] + i * s[2]};
        if (s[2] == 8) wrong = outside((const int64_t *)q[2], m, 0, at->limit) >= 0;
        else if (s[2] == 0) wrong = outside((const int64_t *)q[2], 1, 0, at->limit) >= 0;
        else
            for (int64_t k = 0; k < m; k++) wrong |= (uint64_t)*(const int64_t *)(q[2] + k * s[2]) >= (uint64_t)at->limit;
        if (wrong) __atomic_store_n(at->bad, 1, __ATOMIC_RELAXED);
        else take(q, s, m, &plain);
    }
}

static void take(char **p, const int64_t *s, int64_t n, const void *arg)
{
    const rush_at *at = arg;
    if (at->limit) {
        take_checked(p, s, n, at);
        return;
    }
    if (s[2] == 0 && s[0] == (int64_t)at->size && s[1] == (int64_t)at->size) {
        memcpy(p[0], p[1] + *(const int64_t *)p[2] * at->scale, (size_t)n * at->size);
        return;
    }
    switch (at->size) {
    case 1: take_1(p, s, n, at->scale); break;
    case 2: take_2(p, s, n, at->scale); break;
    case 4: take_4(p, s, n, at->scale); break;
    case 8: take_8(p, s, n, at->scale); break;
    default: take_16(p, s, n, at->scale);
    }
}

static void put(char **p, const int64_t *s, int64_t n, const void *arg)
{
    const rush_at *at = arg;
    if (s[2] == 0 && s[0] == (int64_t)at->size && s[1] == (int64_t)at->size) {
        memmove(p[0] + *(const int64_t *)p[2] * at->scale, p[1], (size_t)n * at->size);
        return;
    }
    switch (at->size) {
    case 1: put_1(p, s, n, at->scale); break;
    case 2: put_2(p, s, n, at->scale); break;
    case 4: put_4(p, s, n, at->scale); break;
    case 8: put_8(p, s, n, at->scale); break;
    default: put_16(p, s, n, at->scale);
    }
}

/* ---- combining with what is there ---- */

static inline float half_load(uint16_t h)
{
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    return rush_f16_to_f32(h);
#endif
}

static inline uint16_t half_store(float f)
{
#if defined(__F16C__)
    return _cvtss_sh(f, 0);
#else
    return rush_f32_to_f16(f);
#endif
}

/* NaN wins, whichever side it is on */
#define FMIN(a, b) ((a) != (a) ? (a) : (b) != (b) ? (b) : (b) < (a) ? (b) : (a))
#define FMAX(a, b) ((a) != (a) ? (a) : (b) != (b) ? (b) : (b) > (a) ? (b) : (a))
#define IMIN(a, b) ((b) < (a) ? (b) : (a))
#define IMAX(a, b) ((b) > (a) ? (b) : (a))
#define SAME(x) (x)

#define COMBINE(T_, C_, load, store, min, max, scaled, id)                                                  \
    static void add_##id(char **p, const int64_t *s, int64_t n, const void *arg)                            \
    COMBINE_LOOP(T_, C_, load, store, a + b)                                                                \
    static void scaled_##id(char **p, const int64_t *s, int64_t n, const void *arg)                         \
    COMBINE_LOOP(T_, C_, load, store, a + (C_)(scaled) * b)                                                 \
    static void mul_##id(char **p, const int64_t *s, int64_t n, const void *arg)                            \
    COMBINE_LOOP(T_, C_, load, store, a * b)                                                                \
    static void min_##id(char **p, const int64_t *s, int64_t n, const void *arg)                            \
    COMBINE_LOOP(T_, C_, load, store, min(a, b))                                                            \
    static void max_##id(char **p, const int64_t *s, int64_t n, const void *arg)                            \
    COMBINE_LOOP(T_, C_, load, store, max(a, b))

#define COMBINE_LOOP(T_, C_, load, store, result)                                                           \
    {                                                                                                       \
        const rush_at *at = arg;                                                                            \
        if (s[2] == 0 && s[0] == sizeof(T_) && s[1] == sizeof(T_)) {                                        \
            T_ *d = (T_ *)(p[0] + *(const int64_t *)p[2] * at->scale);                                      \
            const T_ *v = (const T_ *)p[1];                                                                 \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                             \
            {                                                                                               \
                C_ a = load(d[i]), b = load(v[i]);                                                          \
                d[i] = (T_)store(result);                                                                   \
            }                                                                                               \
            return;                                                                                         \
        }                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            T_ *d = (T_ *)(p[0] + i * s[0] + *(const int64_t *)(p[2] + i * s[2]) * at->scale);              \
            C_ a = load(*d), b = load(*(const T_ *)(p[1] + i * s[1]));                                      \
            *d = (T_)store(result);                                                                         \
        }                                                                                                   \
    }

COMBINE(uint8_t, uint8_t, SAME, SAME, IMIN, IMAX, at->whole, u8)
COMBINE(int8_t, int8_t, SAME, SAME, IMIN, IMAX, at->whole, i8)
COMBINE(int16_t, int16_t, SAME, SAME, IMIN, IMAX, at->whole, i16)
COMBINE(int32_t, int32_t, SAME, SAME, IMIN, IMAX, at->whole, i32)
COMBINE(int64_t, int64_t, SAME, SAME, IMIN, IMAX, at->whole, i64)
COMBINE(uint16_t, uint16_t, SAME, SAME, IMIN, IMAX, at->whole, u16)
COMBINE(uint32_t, uint32_t, SAME, SAME, IMIN, IMAX, at->whole, u32)
COMBINE(uint64_t, uint64_t, SAME, SAME, IMIN, IMAX, at->whole, u64)
COMBINE(float, float, SAME, SAME, FMIN, FMAX, at->alpha[0], f32)
COMBINE(double, double, SAME, SAME, FMIN, FMAX, at->alpha[0], f64)
COMBINE(uint16_t, float, half_load, half_store, FMIN, FMAX, at->alpha[0], f16)
COMBINE(uint16_t, float, rush_bf16_to_f32, rush_f32_to_bf16, FMIN, FMAX, at->alpha[0], bf16)

/* bool: a sum is "or", a product "and" */
#define truth_load(x) ((x) != 0)
#define truth_store(x) ((x) != 0)
COMBINE(uint8_t, int, truth_load, truth_store, IMIN, IMAX, at->whole, truth)

#define COMPLEX(R_, C_, id, result)                                                                         \
    static void id(char **p, const int64_t *s, int64_t n, const void *arg)                                  \
    {                                                                                                       \
        const rush_at *at = arg;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            C_ *d = (C_ *)(p[0] + i * s[0] + *(const int64_t *)(p[2] + i * s[2]) * at->scale);              \
            C_ a = *d, b = *(const C_ *)(p[1] + i * s[1]);                                                  \
            *d = result;                                                                                    \
        }                                                                                                   \
    }
COMPLEX(float, float complex, add_c64, a + b)
COMPLEX(float, float complex, scaled_c64, a + (float complex)(at->alpha[0] + at->alpha[1] * I) * b)
COMPLEX(float, float complex, mul_c64, a * b)
COMPLEX(double, double complex, add_c128, a + b)
COMPLEX(double, double complex, scaled_c128, a + (at->alpha[0] + at->alpha[1] * I) * b)
COMPLEX(double, double complex, mul_c128, a * b)

typedef struct halves { uint16_t re, im; } halves;

static inline float complex halves_load(halves h)
{
    return half_load(h.re) + half_load(h.im) * I;
}

#define HALVES(id, result)                                                                                  \
    static void id(char **p, const int64_t *s, int64_t n, const void *arg)                                  \
    {                                                                                                       \
        const rush_at *at = arg;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            halves *d = (halves *)(p[0] + i * s[0] + *(const int64_t *)(p[2] + i * s[2]) * at->scale);      \
            float complex a = halves_load(*d), b = halves_load(*(const halves *)(p[1] + i * s[1])), r = result;          \
            *d = (halves){half_store(crealf(r)), half_store(cimagf(r))};                                    \
        }                                                                                                   \
    }
HALVES(add_c32, a + b)
HALVES(scaled_c32, a + (float complex)(at->alpha[0] + at->alpha[1] * I) * b)
HALVES(mul_c32, a * b)

/* ---- checks and whole rows ---- */

static void take_rows(char *dst, const char *src, const int64_t *index, int64_t n, int64_t bytes, int64_t rows)
{
    const int64_t ahead = 8;
    for (int64_t j = 0; j < n; j++) {
        if (j + ahead < n) {
            int64_t next = index[j + ahead];
            const char *s = src + (next < 0 ? next + rows : next) * bytes;
            for (int64_t b = 0; b < bytes && b < 512; b += 64) __builtin_prefetch(s + b);
        }
        int64_t row = index[j] < 0 ? index[j] + rows : index[j];
        memcpy(dst + j * bytes, src + row * bytes, (size_t)bytes);
    }
}

static void offsets(int64_t *sum, const int64_t *index, int64_t n, int64_t size, int64_t scale)
{
    for (int64_t j = 0; j < n; j++) sum[j] += (index[j] < 0 ? index[j] + size : index[j]) * scale;
}

#define EVERY(what)                                                                                         \
    {[RUSH_BOOL] = what##_truth, [RUSH_U8] = what##_u8, [RUSH_I8] = what##_i8, [RUSH_I16] = what##_i16, [RUSH_I32] = what##_i32,   \
     [RUSH_I64] = what##_i64, [RUSH_U16] = what##_u16, [RUSH_U32] = what##_u32, [RUSH_U64] = what##_u64, [RUSH_F16] = what##_f16,  \
     [RUSH_BF16] = what##_bf16, [RUSH_F32] = what##_f32, [RUSH_F64] = what##_f64, COMPLEX_##what}
#define COMPLEX_add [RUSH_C32] = add_c32, [RUSH_C64] = add_c64, [RUSH_C128] = add_c128
#define COMPLEX_scaled [RUSH_C32] = scaled_c32, [RUSH_C64] = scaled_c64, [RUSH_C128] = scaled_c128
#define COMPLEX_mul [RUSH_C32] = mul_c32, [RUSH_C64] = mul_c64, [RUSH_C128] = mul_c128
#define COMPLEX_min [RUSH_C64] = NULL
#define COMPLEX_max [RUSH_C64] = NULL

RUSH_KERNELS(index) = {
    .take = take, .put = put, .outside = outside, .take_rows = take_rows, .offsets = offsets,
    .combine = {[RUSH_PUT_ADD] = EVERY(add), [RUSH_PUT_ADD_SCALED] = EVERY(scaled), [RUSH_PUT_MUL] = EVERY(mul), [RUSH_PUT_MIN] = EVERY(min),
                [RUSH_PUT_MAX] = EVERY(max)},
};
