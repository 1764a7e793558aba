/* index.c - elements taken from, and put to, places that an array of offsets names. */
#include "kernels/cpu/complex_product.h"
#include "kernels/cpu/index.h"
#include "kernels/cpu/simd.h"
#include <math.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

/* ---- moving elements of any type ---- */

#define BODY "kernels/cpu/index_move.inc"
#include "kernels/cpu/each_size.inc"

static int64_t outside(const int64_t *index, int64_t n, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low;
    int bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (uint64_t)index[i] - (uint64_t)low >= span;
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

/* NaN wins, whichever side it is on. The better one is found by one instruction, of which the compiler is not to make a jump. */
#define FLOAT_BEST(a, b, better)                                                                            \
    ({                                                                                                      \
        __typeof__(a) best = (b) better (a) ? (b) : (a);                                                    \
        IN_REGISTER(best);                                                                                  \
        (b) != (b) && (a) == (a) ? (b) : best;                                                              \
    })
#define FLOAT_MIN(a, b) FLOAT_BEST(a, b, <)
#define FLOAT_MAX(a, b) FLOAT_BEST(a, b, >)

typedef struct halves { uint16_t re, im; } halves;

static inline float complex halves_load(halves h)
{
    return half_load(h.re) + half_load(h.im) * I;
}

static inline halves halves_store(float complex z)
{
    return (halves){half_store(crealf(z)), half_store(cimagf(z))};
}

RUSH_WRAPPING
#define T uint8_t
#define C uint8_t
#define LOAD(x) (x)
#define STORE(x) (uint8_t)(x)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE at->whole
#define NAME(x) x##_u8
#include "kernels/cpu/index_combine.inc"
#define T int8_t
#define C int8_t
#define LOAD(x) (x)
#define STORE(x) (int8_t)(x)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE at->whole
#define NAME(x) x##_i8
#include "kernels/cpu/index_combine.inc"
#define T int16_t
#define C int16_t
#define LOAD(x) (x)
#define STORE(x) (int16_t)(x)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE at->whole
#define NAME(x) x##_i16
#include "kernels/cpu/index_combine.inc"
#define T int32_t
#define C int32_t
#define LOAD(x) (x)
#define STORE(x) (int32_t)(x)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE at->whole
#define NAME(x) x##_i32
#include "kernels/cpu/index_combine.inc"
#define T int64_t
#define C int64_t
#define LOAD(x) (x)
#define STORE(x) (int64_t)(x)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE at->whole
#define NAME(x) x##_i64
#include "kernels/cpu/index_combine.inc"
#define T uint16_t
#define C uint16_t
#define LOAD(x) (x)
#define STORE(x) (uint16_t)(x)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE at->whole
#define NAME(x) x##_u16
#include "kernels/cpu/index_combine.inc"
#define T uint32_t
#define C uint32_t
#define LOAD(x) (x)
#define STORE(x) (uint32_t)(x)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE at->whole
#define NAME(x) x##_u32
#include "kernels/cpu/index_combine.inc"
#define T uint64_t
#define C uint64_t
#define LOAD(x) (x)
#define STORE(x) (uint64_t)(x)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE at->whole
#define NAME(x) x##_u64
#include "kernels/cpu/index_combine.inc"
RUSH_WRAPPING_END
#define T float
#define C float
#define LOAD(x) (x)
#define STORE(x) (x)
#define MIN(a, b) FLOAT_MIN(a, b)
#define MAX(a, b) FLOAT_MAX(a, b)
#define SCALE at->alpha[0]
#define NAME(x) x##_f32
#include "kernels/cpu/index_combine.inc"
#define T double
#define C double
#define LOAD(x) (x)
#define STORE(x) (x)
#define MIN(a, b) FLOAT_MIN(a, b)
#define MAX(a, b) FLOAT_MAX(a, b)
#define SCALE at->alpha[0]
#define NAME(x) x##_f64
#include "kernels/cpu/index_combine.inc"
#define T uint16_t
#define C float
#define LOAD(x) half_load(x)
#define STORE(x) half_store(x)
#define MIN(a, b) FLOAT_MIN(a, b)
#define MAX(a, b) FLOAT_MAX(a, b)
#define SCALE at->alpha[0]
#define NAME(x) x##_f16
#include "kernels/cpu/index_combine.inc"
#define T uint16_t
#define C float
#define LOAD(x) rush_bf16_to_f32(x)
#define STORE(x) rush_f32_to_bf16(x)
#define MIN(a, b) FLOAT_MIN(a, b)
#define MAX(a, b) FLOAT_MAX(a, b)
#define SCALE at->alpha[0]
#define NAME(x) x##_bf16
#include "kernels/cpu/index_combine.inc"

/* bool: a sum is "or", a product "and" */
#define T uint8_t
#define C int
#define LOAD(x) ((x) != 0)
#define STORE(x) ((x) != 0)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define SCALE (at->whole != 0)
#define NAME(x) x##_truth
#include "kernels/cpu/index_combine.inc"

#define T float complex
#define C float complex
#define LOAD(x) (x)
#define STORE(x) (x)
#define SCALE at->alpha[0] + at->alpha[1] * I
#define TIMES(a, b) times_c64(a, b)
#define NAME(x) x##_c64
#include "kernels/cpu/index_combine.inc"
#define T double complex
#define C double complex
#define LOAD(x) (x)
#define STORE(x) (x)
#define SCALE at->alpha[0] + at->alpha[1] * I
#define TIMES(a, b) times_c128(a, b)
#define NAME(x) x##_c128
#include "kernels/cpu/index_combine.inc"
#define T halves
#define C float complex
#define LOAD(x) halves_load(x)
#define STORE(x) halves_store(x)
#define SCALE at->alpha[0] + at->alpha[1] * I
#define TIMES(a, b) times_c64(a, b)
#define NAME(x) x##_c32
#include "kernels/cpu/index_combine.inc"

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
