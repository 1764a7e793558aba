/* convert.c - n elements from any dtype to any other, strided.
 *
 * Thirteen types have loops of their own, each to each. The rest (half types, eight-bit floats, complex32)
 * pass through blocks of float or complex64; quantized types are the integers they are stored as.
 * Numbers out of an integer's range become what PyTorch's x86 build makes of them.
 */
#include "base/convert.h"
#include "kernels/cpu/isa.h"

#include <complex.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef float complex c64;
typedef double complex c128;
typedef bool truth; /* bool is a macro, and would expand too early below */

/* ---- one number to one number ---- */

static inline uint32_t u32_of(double x)
{
    return x >= 0x1p31 ? (uint32_t)(int32_t)(x - 0x1p31) ^ 0x80000000u : (uint32_t)(int32_t)x;
}

static inline uint64_t u64_of(double x)
{
    return x >= 0x1p63 ? (uint64_t)(int64_t)(x - 0x1p63) ^ 0x8000000000000000u : (uint64_t)(int64_t)x;
}

/* the target's own way from a floating number; narrow integers wrap */
#define FLT_truth(x) ((x) != 0)
#define FLT_uint8_t(x) ((uint8_t)(int64_t)(x))
#define FLT_int8_t(x) ((int8_t)(int32_t)(x))
#define FLT_int16_t(x) ((int16_t)(int32_t)(x))
#define FLT_int32_t(x) ((int32_t)(x))
#define FLT_int64_t(x) ((int64_t)(x))
#define FLT_uint16_t(x) ((uint16_t)(int32_t)(x))
#define FLT_uint32_t(x) u32_of(x)
#define FLT_uint64_t(x) u64_of(x)
#define FLT_float(x) ((float)(x))
#define FLT_double(x) ((double)(x))
#define FLT_c64(x) ((c64)(x))
#define FLT_c128(x) ((c128)(x))
#define INT_truth(x) ((x) != 0)
#define INT_uint8_t(x) ((uint8_t)(x))
#define INT_int8_t(x) ((int8_t)(x))
#define INT_int16_t(x) ((int16_t)(x))
#define INT_int32_t(x) ((int32_t)(x))
#define INT_int64_t(x) ((int64_t)(x))
#define INT_uint16_t(x) ((uint16_t)(x))
#define INT_uint32_t(x) ((uint32_t)(x))
#define INT_uint64_t(x) ((uint64_t)(x))
#define INT_float(x) ((float)(x))
#define INT_double(x) ((double)(x))
#define INT_c64(x) ((c64)(float)(x))
#define INT_c128(x) ((c128)(double)(x))
#define REAL_c64(x) crealf(x)
#define REAL_c128(x) creal(x)
#define CPX_truth(S, x) ((x) != 0)
#define CPX_uint8_t(S, x) FLT_uint8_t(REAL_##S(x))
#define CPX_int8_t(S, x) FLT_int8_t(REAL_##S(x))
#define CPX_int16_t(S, x) FLT_int16_t(REAL_##S(x))
#define CPX_int32_t(S, x) FLT_int32_t(REAL_##S(x))
#define CPX_int64_t(S, x) FLT_int64_t(REAL_##S(x))
#define CPX_uint16_t(S, x) FLT_uint16_t(REAL_##S(x))
#define CPX_uint32_t(S, x) FLT_uint32_t(REAL_##S(x))
#define CPX_uint64_t(S, x) FLT_uint64_t(REAL_##S(x))
#define CPX_float(S, x) FLT_float(REAL_##S(x))
#define CPX_double(S, x) FLT_double(REAL_##S(x))
#define CPX_c64(S, x) ((c64)(x))
#define CPX_c128(S, x) ((c128)(x))

#define VIA_INT(S, D, x) INT_##D(x)
#define VIA_FLT(S, D, x) FLT_##D(x)
#define VIA_CPX(S, D, x) CPX_##D(S, x)

typedef void (*loop_fn)(char *restrict d, int64_t ds, const char *restrict s, int64_t ss, int64_t n);

#define LOOP(S, D, VIA)                                                                                     \
    static void S##_to_##D(char *restrict d, int64_t ds, const char *restrict s, int64_t ss, int64_t n)     \
    {                                                                                                       \
        if (ds == sizeof(D) && ss == sizeof(S)) {                                                           \
            for (int64_t i = 0; i < n; i++) ((D *)d)[i] = VIA(S, D, ((const S *)s)[i]);                     \
        } else {                                                                                            \
            for (int64_t i = 0; i < n; i++) *(D *)(d + i * ds) = VIA(S, D, *(const S *)(s + i * ss));       \
        }                                                                                                   \
    }
#define EACH_TARGET(DO, S, VIA)                                                                             \
    DO(S, truth, VIA) DO(S, uint8_t, VIA) DO(S, int8_t, VIA) DO(S, int16_t, VIA) DO(S, int32_t, VIA)         \
    DO(S, int64_t, VIA) DO(S, uint16_t, VIA) DO(S, uint32_t, VIA) DO(S, uint64_t, VIA) DO(S, float, VIA)    \
    DO(S, double, VIA) DO(S, c64, VIA) DO(S, c128, VIA)
#define EACH_PAIR(DO, S, VIA) EACH_TARGET(DO, S, VIA)

EACH_PAIR(LOOP, truth, VIA_INT)
EACH_PAIR(LOOP, uint8_t, VIA_INT)
EACH_PAIR(LOOP, int8_t, VIA_INT)
EACH_PAIR(LOOP, int16_t, VIA_INT)
EACH_PAIR(LOOP, int32_t, VIA_INT)
EACH_PAIR(LOOP, int64_t, VIA_INT)
EACH_PAIR(LOOP, uint16_t, VIA_INT)
EACH_PAIR(LOOP, uint32_t, VIA_INT)
EACH_PAIR(LOOP, uint64_t, VIA_INT)
EACH_PAIR(LOOP, float, VIA_FLT)
EACH_PAIR(LOOP, double, VIA_FLT)
EACH_PAIR(LOOP, c64, VIA_CPX)
EACH_PAIR(LOOP, c128, VIA_CPX)

/* Which of the thirteen a dtype is, -1 for those that need a way round. */
static const int8_t native[RUSH_DTYPES] = {
    [RUSH_BOOL] = 0, [RUSH_U8] = 1, [RUSH_I8] = 2, [RUSH_I16] = 3, [RUSH_I32] = 4, [RUSH_I64] = 5, [RUSH_U16] = 6,
    [RUSH_U32] = 7, [RUSH_U64] = 8, [RUSH_F32] = 9, [RUSH_F64] = 10, [RUSH_C64] = 11, [RUSH_C128] = 12,
    [RUSH_QINT8] = 2, [RUSH_QUINT8] = 1, [RUSH_QINT32] = 4, [RUSH_F16] = -1, [RUSH_BF16] = -1, [RUSH_C32] = -1,
    [RUSH_F8E4M3FN] = -1, [RUSH_F8E5M2] = -1, [RUSH_F8E4M3FNUZ] = -1, [RUSH_F8E5M2FNUZ] = -1, [RUSH_F8E8M0FNU] = -1,
};

#define ENTRY(S, D, VIA) S##_to_##D,
static const loop_fn loops[13][13] = {
    {EACH_TARGET(ENTRY, truth, )}, {EACH_TARGET(ENTRY, uint8_t, )}, {EACH_TARGET(ENTRY, int8_t, )},
    {EACH_TARGET(ENTRY, int16_t, )}, {EACH_TARGET(ENTRY, int32_t, )}, {EACH_TARGET(ENTRY, int64_t, )},
    {EACH_TARGET(ENTRY, uint16_t, )}, {EACH_TARGET(ENTRY, uint32_t, )}, {EACH_TARGET(ENTRY, uint64_t, )},
    {EACH_TARGET(ENTRY, float, )}, {EACH_TARGET(ENTRY, double, )}, {EACH_TARGET(ENTRY, c64, )},
    {EACH_TARGET(ENTRY, c128, )},
};

/* ---- small types to and from a block of floats ---- */

static void f16_to_float(float *restrict d, const char *s, int64_t ss, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    if (ss == 2)
        for (; i + 16 <= n; i += 16)
            _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(s + 2 * i))));
#elif defined(__F16C__)
    if (ss == 2)
        for (; i + 8 <= n; i += 8)
            _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + 2 * i))));
#endif
    for (; i < n; i++) d[i] = rush_f16_to_f32(*(const uint16_t *)(s + i * ss));
}

static void float_to_f16(char *d, int64_t ds, const float *restrict s, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    if (ds == 2)
        for (; i + 16 <= n; i += 16)
            _mm256_storeu_si256((__m256i *)(d + 2 * i), _mm512_cvtps_ph(_mm512_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    if (ds == 2)
        for (; i + 8 <= n; i += 8)
            _mm_storeu_si128((__m128i *)(d + 2 * i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) *(uint16_t *)(d + i * ds) = rush_f32_to_f16(s[i]);
}

static void bf16_to_float(float *restrict d, const char *restrict s, int64_t ss, int64_t n)
{
    if (ss == 2)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)d)[i] = (uint32_t)((const uint16_t *)s)[i] << 16;
    else
        for (int64_t i = 0; i < n; i++) d[i] = rush_bf16_to_f32(*(const uint16_t *)(s + i * ss));
}

static inline uint16_t bf16_bits(uint32_t u)
{
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (uint16_t)rounded;
}

static void float_to_bf16(char *restrict d, int64_t ds, const float *restrict s, int64_t n)
{
    const uint32_t *u = (const uint32_t *)s;
    if (ds == 2)
        for (int64_t i = 0; i < n; i++) ((uint16_t *)d)[i] = bf16_bits(u[i]);
    else
        for (int64_t i = 0; i < n; i++) *(uint16_t *)(d + i * ds) = bf16_bits(u[i]);
}

/* Unpacks n elements of a small type; complex32 becomes 2n floats. */
static void unpack(float *d, const char *s, rush_dtype sd, int64_t ss, int64_t n)
{
    if (sd == RUSH_F16) f16_to_float(d, s, ss, n);
    else if (sd == RUSH_BF16) bf16_to_float(d, s, ss, n);
    else if (sd == RUSH_C32 && ss == 4) f16_to_float(d, s, 2, 2 * n);
    else if (sd == RUSH_C32)
        for (int64_t i = 0; i < n; i++) f16_to_float(d + 2 * i, s + i * ss, 2, 2);
    else
        for (int64_t i = 0; i < n; i++) d[i] = rush_f8_to_f32(sd, *(const uint8_t *)(s + i * ss));
}

static void pack(char *d, rush_dtype dd, int64_t ds, const float *s, int64_t n)
{
    if (dd == RUSH_F16) float_to_f16(d, ds, s, n);
    else if (dd == RUSH_BF16) float_to_bf16(d, ds, s, n);
    else if (dd == RUSH_C32 && ds == 4) float_to_f16(d, 2, s, 2 * n);
    else if (dd == RUSH_C32)
        for (int64_t i = 0; i < n; i++) float_to_f16(d + i * ds, 2, s + 2 * i, 2);
    else
        for (int64_t i = 0; i < n; i++) *(uint8_t *)(d + i * ds) = rush_f32_to_f8(dd, s[i]);
}

#define COPY(T)                                                                                             \
    for (int64_t i = 0; i < n; i++) *(T *)(d + i * ds) = *(const T *)(s + i * ss);                          \
    break
typedef struct { uint64_t half[2]; } sixteen;

static void copy(char *d, int64_t ds, const char *s, int64_t ss, int64_t n, int size)
{
    if (ds == size && ss == size) {
        memmove(d, s, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1: COPY(uint8_t);
    case 2: COPY(uint16_t);
    case 4: COPY(uint32_t);
    case 8: COPY(uint64_t);
    default: COPY(sixteen);
    }
}

static void convert(void *dst, rush_dtype dd, int64_t ds, const void *src, rush_dtype sd, int64_t ss, int64_t n)
{
    if (dd == sd) {
        copy(dst, ds, src, ss, n, rush_dtypes[dd].size);
        return;
    }
    int from = native[sd], to = native[dd];
    if (from >= 0 && to >= 0) {
        loops[from][to](dst, ds, src, ss, n);
        return;
    }
    /* A small type on one side or both: through a block of float, or of complex64 where one is complex32. */
    enum { BLOCK = 512 };
    float a[2 * BLOCK], b[2 * BLOCK];
    bool ca = sd == RUSH_C32, cb = dd == RUSH_C32;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = RUSH_MIN(n - at, (int64_t)BLOCK);
        const char *s = (const char *)src + at * ss;
        char *d = (char *)dst + at * ds;
        if (to >= 0) {
            unpack(a, s, sd, ss, k);
            loops[ca ? 11 : 9][to](d, ds, (char *)a, ca ? 8 : 4, k);
            continue;
        }
        if (from >= 0) {
            loops[from][cb ? 11 : 9]((char *)b, cb ? 8 : 4, s, ss, k);
            pack(d, dd, ds, b, k);
            continue;
        }
        unpack(a, s, sd, ss, k);
        if (ca != cb) loops[ca ? 11 : 9][cb ? 11 : 9]((char *)b, cb ? 8 : 4, (char *)a, ca ? 8 : 4, k);
        pack(d, dd, ds, ca != cb ? b : a, k);
    }
}

RUSH_KERNELS(convert) = {.convert = convert};
