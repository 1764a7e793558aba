/* copy.c - conversion between dtypes, transposition of blocks: what the iterator does at a kernel's edge.
 *
 * A conversion is made of contiguous steps over blocks: gather what is strided, widen half types to float,
 * convert between the wide types (convert_to.inc, once per destination), narrow, scatter. The quantized types are
 * left to rush_convert().
 */
#include "base/small_float.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/transpose.h"
#include "tensor/iter.h"
#include <complex.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#define BLOCK 256

typedef uint16_t half;

/* ---- between float and the half types, contiguous ---- */

static void widen_f16(float *restrict d, const half *restrict s, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(s + i))));
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(s + i))));
    for (; i < n; i++) d[i] = _cvtsh_ss(s[i]);
#endif
    for (; i < n; i++) d[i] = rush_f16_to_f32(s[i]);
}

static void narrow_f16(half *restrict d, const float *restrict s, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) _mm256_storeu_si256((void *)(d + i), _mm512_cvtps_ph(_mm512_loadu_ps(s + i), 0));
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) _mm_storeu_si128((void *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), 0));
    for (; i < n; i++) d[i] = _cvtss_sh(s[i], 0);
#endif
    for (; i < n; i++) d[i] = rush_f32_to_f16(s[i]);
}

static void widen_bf16(float *restrict d, const half *restrict s, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) d[i] = rush_bf16_to_f32(s[i]);
}

#if VBYTES == 32
/* The upper halves, rounded to the nearest, in words; NaN as 0x7fc0. */
static inline __m256i rounded_to_bf16(__m256 x)
{
    const __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    return _mm256_blendv_epi8(up, _mm256_set1_epi32(0x7fc0), _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
#endif

static void narrow_bf16(half *restrict d, const float *restrict s, int64_t n)
{
    int64_t i = 0;
#if VBYTES == 32
    for (; i + 16 <= n; i += 16) {
        __m256i low = rounded_to_bf16(_mm256_loadu_ps(s + i)), high = rounded_to_bf16(_mm256_loadu_ps(s + i + 8));
        _mm256_storeu_si256((void *)(d + i), _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8));
    }
#endif
#pragma omp simd
    for (int64_t k = i; k < n; k++) {
        rush_float_bits x = {.f = s[k]};
        uint32_t rounded = (x.u + 0x7fff + ((x.u >> 16) & 1)) >> 16;
        d[k] = (half)((x.u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
    }
}

/* ---- between float and the eight-bit types, contiguous ---- */

static float wide_of[RUSH_F8E8M0FNU - RUSH_F8E4M3FN + 1][256];
static pthread_once_t listed = PTHREAD_ONCE_INIT;

static void list_values(void)
{
    for (rush_dtype d = RUSH_F8E4M3FN; d <= RUSH_F8E8M0FNU; d++)
        for (int c = 0; c < 256; c++) wide_of[d - RUSH_F8E4M3FN][c] = rush_f8_to_f32(d, (uint8_t)c);
}

static void widen_f8(float *restrict to, const uint8_t *restrict from, rush_dtype d, int64_t n)
{
    pthread_once(&listed, list_values);
    const float *of = wide_of[d - RUSH_F8E4M3FN];
    for (int64_t i = 0; i < n; i++) to[i] = of[from[i]];
}

#define NARROW(d)                                                                           \
    case d:                                                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) to[i] = rush_f32_to_f8(d, from[i]); \
        return;
static void narrow_f8(uint8_t *restrict to, const float *restrict from, rush_dtype d, int64_t n)
{
    switch (d) {
        NARROW(RUSH_F8E4M3FN) NARROW(RUSH_F8E5M2) NARROW(RUSH_F8E4M3FNUZ) NARROW(RUSH_F8E5M2FNUZ) NARROW(RUSH_F8E8M0FNU)
    default: return;
    }
}

/* ---- between the wide types, contiguous ---- */

typedef void (*step)(void *restrict dst, const void *restrict src, rush_dtype from, int64_t n);

#define D_T uint8_t
#define D_NAME to_bool
#define OF_INT(x) ((x) != 0)
#define OF_FLOAT(x) ((x) != 0)
#define OF_COMPLEX(re, im) ((re) != 0 || (im) != 0)
#include "kernels/cpu/convert_to.inc"

/* Out-of-range floats go through the signed type that the processor converts to, as C++ compilers have it. */
#define D_T uint8_t
#define D_NAME to_u8
#define OF_INT(x) (uint8_t)(x)
#define OF_FLOAT(x) (uint8_t)(int64_t)(x)
#include "kernels/cpu/convert_to.inc"

#define D_T int8_t
#define D_NAME to_i8
#define OF_INT(x) (int8_t)(x)
#define OF_FLOAT(x) (int8_t)(int32_t)(x)
#include "kernels/cpu/convert_to.inc"

#define D_T int16_t
#define D_NAME to_i16
#define OF_INT(x) (int16_t)(x)
#define OF_FLOAT(x) (int16_t)(int32_t)(x)
#include "kernels/cpu/convert_to.inc"

#define D_T uint16_t
#define D_NAME to_u16
#define OF_INT(x) (uint16_t)(x)
#define OF_FLOAT(x) (uint16_t)(int32_t)(x)
#include "kernels/cpu/convert_to.inc"

#define D_T int32_t
#define D_NAME to_i32
#define OF_INT(x) (int32_t)(x)
#define OF_FLOAT(x) (int32_t)(x)
#include "kernels/cpu/convert_to.inc"

#define D_T uint32_t
#define D_NAME to_u32
#define OF_INT(x) (uint32_t)(x)
#define OF_FLOAT(x) ((x) >= 0x1p31f ? (uint32_t)(int32_t)((x) - 0x1p31f) ^ 0x80000000u : (uint32_t)(int32_t)(x))
#include "kernels/cpu/convert_to.inc"

#define D_T int64_t
#define D_NAME to_i64
#define OF_INT(x) (int64_t)(x)
#define OF_FLOAT(x) (int64_t)(x)
#include "kernels/cpu/convert_to.inc"

#define D_T uint64_t
#define D_NAME to_u64
#define OF_INT(x) (uint64_t)(x)
#define OF_FLOAT(x) ((x) >= 0x1p63f ? (uint64_t)(int64_t)((x) - 0x1p63f) ^ 0x8000000000000000u : (uint64_t)(int64_t)(x))
#include "kernels/cpu/convert_to.inc"

#define D_T float
#define D_NAME to_f32
#define OF_INT(x) (float)(x)
#define OF_FLOAT(x) (float)(x)
#include "kernels/cpu/convert_to.inc"

#define D_T double
#define D_NAME to_f64
#define OF_INT(x) (double)(x)
#define OF_FLOAT(x) (double)(x)
#include "kernels/cpu/convert_to.inc"

/* Complex destinations are pairs: written through a struct, which keeps signed zeros and infinities as they are. */
typedef struct pair32 { float re, im; } pair32;
typedef struct pair64 { double re, im; } pair64;

#define D_T pair32
#define D_NAME to_c64
#define OF_INT(x) (pair32){(float)(x), 0}
#define OF_FLOAT(x) (pair32){(float)(x), 0}
#define OF_COMPLEX(r, i) (pair32){(float)(r), (float)(i)}
#include "kernels/cpu/convert_to.inc"

#define D_T pair64
#define D_NAME to_c128
#define OF_INT(x) (pair64){(double)(x), 0}
#define OF_FLOAT(x) (pair64){(double)(x), 0}
#define OF_COMPLEX(r, i) (pair64){(double)(r), (double)(i)}
#include "kernels/cpu/convert_to.inc"

static const step steps[RUSH_DTYPES] = {
    [RUSH_BOOL] = to_bool, [RUSH_U8] = to_u8, [RUSH_I8] = to_i8, [RUSH_I16] = to_i16, [RUSH_I32] = to_i32,
    [RUSH_I64] = to_i64, [RUSH_U16] = to_u16, [RUSH_U32] = to_u32, [RUSH_U64] = to_u64, [RUSH_F32] = to_f32,
    [RUSH_F64] = to_f64, [RUSH_C64] = to_c64, [RUSH_C128] = to_c128,
};

/* ---- strides ---- */

/* Every k-th element, where k is small and known to the compiler: channels of an image. */
#define EVERY(T, k)                                                                                     \
    if (size == sizeof(T) && ss == k * (int64_t)sizeof(T)) {                                            \
        for (int64_t i = 0; i < n; i++) ((T *)d)[i] = ((const T *)s)[k * i];                            \
        return true;                                                                                    \
    }
#define EVERY_SIZE(k) EVERY(uint8_t, k) EVERY(uint16_t, k) EVERY(uint32_t, k) EVERY(uint64_t, k)
static bool every(char *restrict d, const char *restrict s, int64_t ss, int64_t n, size_t size)
{
    EVERY_SIZE(2) EVERY_SIZE(3) EVERY_SIZE(4)
    return false;
}

/* One element repeated, and backwards, as flip reads. */
#define NEAR(T)                                                                                        \
    if (size == sizeof(T) && ss == 0) {                                                                 \
        const T v = *(const T *)s;                                                                      \
        for (int64_t i = 0; i < n; i++) ((T *)d)[i] = v;                                                \
        return true;                                                                                    \
    }                                                                                                   \
    if (size == sizeof(T) && ss == -(int64_t)sizeof(T)) {                                               \
        for (int64_t i = 0; i < n; i++) ((T *)d)[i] = ((const T *)s)[-i];                               \
        return true;                                                                                    \
    }
static bool near(char *restrict d, const char *restrict s, int64_t ss, int64_t n, size_t size)
{
    NEAR(uint8_t) NEAR(uint16_t) NEAR(uint32_t) NEAR(uint64_t)
    return false;
}

/* dst and src are of `size` bytes, which is the element's or 0 (then the element is repeated). */
static void copy_strided(char *d, int64_t ds, const char *s, int64_t ss, int64_t n, size_t size)
{
    int64_t i;
    if (ds == (int64_t)size && near(d, s, ss, n, size)) return;
    if (ds == (int64_t)size && n >= 16 && every(d, s, ss, n, size)) return;
    switch (size) {
    case 1:
        for (i = 0; i < n; i++) d[i * ds] = s[i * ss];
        break;
    case 2:
        for (i = 0; i < n; i++) *(uint16_t *)(d + i * ds) = *(const uint16_t *)(s + i * ss);
        break;
    case 4:
        for (i = 0; i < n; i++) *(uint32_t *)(d + i * ds) = *(const uint32_t *)(s + i * ss);
        break;
    case 8:
        for (i = 0; i < n; i++) *(uint64_t *)(d + i * ds) = *(const uint64_t *)(s + i * ss);
        break;
    default:
        for (i = 0; i < n; i++) memcpy(d + i * ds, s + i * ss, size);
    }
}

static bool is_f8(rush_dtype d) { return d >= RUSH_F8E4M3FN && d <= RUSH_F8E8M0FNU; }

/* Is it computed with as float (or as complex float)? */
static bool is_half(rush_dtype d) { return d == RUSH_F16 || d == RUSH_BF16 || d == RUSH_C32 || is_f8(d); }

/* Contiguous, n <= BLOCK. */
static void convert_block(void *dst, rush_dtype dd, const void *src, rush_dtype sd, int64_t n)
{
    float wide[2 * BLOCK], narrow[2 * BLOCK];
    if (sd == RUSH_C32) {
        widen_f16(wide, src, 2 * n);
        src = wide, sd = RUSH_C64;
    } else if (is_f8(sd)) {
        widen_f8(wide, src, sd, n);
        src = wide, sd = RUSH_F32;
    } else if (is_half(sd)) {
        (sd == RUSH_F16 ? widen_f16 : widen_bf16)(wide, src, n);
        src = wide, sd = RUSH_F32;
    }
    if (!is_half(dd)) {
        steps[dd](dst, src, sd, n);
        return;
    }
    rush_dtype middle = dd == RUSH_C32 ? RUSH_C64 : RUSH_F32;
    if (sd != middle) {
        steps[middle](narrow, src, sd, n);
        src = narrow;
    }
    if (is_f8(dd)) narrow_f8(dst, src, dd, n);
    else if (dd == RUSH_BF16) narrow_bf16(dst, src, n);
    else narrow_f16(dst, src, dd == RUSH_C32 ? 2 * n : n);
}

static void convert(void *dst, rush_dtype dd, int64_t ds, const void *src, rush_dtype sd, int64_t ss, int64_t n)
{
    int64_t dsize = rush_dtypes[dd].size, ssize = rush_dtypes[sd].size;
    if (!n) return; /* nothing may lie at NULL */
    if (dd == sd) {
        if (ds == dsize && ss == ssize) memcpy(dst, src, (size_t)(n * dsize));
        else copy_strided(dst, ds, src, ss, n, (size_t)dsize);
        return;
    }
    bool direct = ds == dsize && ss == ssize;
    if (direct && sd == RUSH_F16 && dd == RUSH_F32) { widen_f16(dst, src, n); return; }
    if (direct && sd == RUSH_BF16 && dd == RUSH_F32) { widen_bf16(dst, src, n); return; }
    if (direct && dd == RUSH_F16 && sd == RUSH_F32) { narrow_f16(dst, src, n); return; }
    if (direct && dd == RUSH_BF16 && sd == RUSH_F32) { narrow_bf16(dst, src, n); return; }
    if ((!steps[dd] && !is_half(dd)) || (!steps[sd] && !is_half(sd))) {
        rush_convert(dst, dd, ds, src, sd, ss, n);
        return;
    }
    if (direct && !is_half(dd) && !is_half(sd)) {
        steps[dd](dst, src, sd, n);
        return;
    }
    char in[BLOCK * 16] __attribute__((aligned(64))), out[BLOCK * 16] __attribute__((aligned(64)));
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = RUSH_MIN(BLOCK, n - i);
        const char *s = (const char *)src + i * ss;
        char *d = (char *)dst + i * ds;
        if (ss != ssize) {
            copy_strided(in, ssize, s, ss, m, (size_t)ssize);
            s = in;
        }
        convert_block(ds == dsize ? d : out, dd, s, sd, m);
        if (ds != dsize) copy_strided(d, ds, out, dsize, m, (size_t)dsize);
    }
}

/* ---- rows ---- */

/* Rows of at least a vector V: the last one of a row overlaps the one before it. */
#define ROWS(V)                                                                                         \
    if (bytes >= (int64_t)sizeof(V)) {                                                                  \
        const int64_t last = bytes - (int64_t)sizeof(V);                                                \
        for (int64_t r = 0; r < rows; r++, dst += drow, src += srow) {                                  \
            for (int64_t i = 0; i < last; i += (int64_t)sizeof(V)) *(V *)(dst + i) = *(const V *)(src + i); \
            *(V *)(dst + last) = *(const V *)(src + last);                                              \
        }                                                                                               \
        return;                                                                                         \
    }
#define PIECE(size) char piece_##size __attribute__((vector_size(size), aligned(1), may_alias))
typedef PIECE(2);
typedef PIECE(4);
typedef PIECE(8);
typedef PIECE(16);
typedef PIECE(32);

static void copy_rows(char *dst, int64_t drow, const char *src, int64_t srow, int64_t rows, int64_t bytes)
{
    if (bytes >= 2048) {
        for (int64_t r = 0; r < rows; r++) memcpy(dst + r * drow, src + r * srow, (size_t)bytes);
        return;
    }
    ROWS(piece_32) ROWS(piece_16) ROWS(piece_8) ROWS(piece_4) ROWS(piece_2) ROWS(char)
}

/* ---- transposition ---- */

#if defined(__clang__)
#define PICK(V, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(V, a, b, ...) __builtin_shuffle(a, b, (V){__VA_ARGS__})
#endif

/* n by n elements, in log2(n) rounds: each deals the upper and the lower half of the rows into each other, element by element. */
#define TRANSPOSE(name, T, n, rounds, LOW, HIGH)                                                \
    typedef T name##_row __attribute__((vector_size(n * sizeof(T)), aligned(sizeof(T)), may_alias)); \
    typedef T name##_index __attribute__((vector_size(n * sizeof(T))));                         \
    static inline void name(char *dst, int64_t drow, const char *src, int64_t srow)             \
    {                                                                                           \
        name##_row a[n], b[n];                                                                  \
        for (int i = 0; i < n; i++) a[i] = *(const name##_row *)(src + i * srow);               \
        for (int round = 0; round < rounds; round++) {                                          \
            for (int i = 0; i < n / 2; i++) {                                                   \
                b[2 * i] = PICK(name##_index, a[i], a[i + n / 2], LOW);                         \
                b[2 * i + 1] = PICK(name##_index, a[i], a[i + n / 2], HIGH);                    \
            }                                                                                   \
            for (int i = 0; i < n; i++) a[i] = b[i];                                            \
        }                                                                                       \
        for (int i = 0; i < n; i++) *(name##_row *)(dst + i * drow) = a[i];                     \
    }
#define LOW4 0, 4, 1, 5
#define HIGH4 2, 6, 3, 7
#define LOW8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
TRANSPOSE(transpose_longs, uint64_t, 4, 2, LOW4, HIGH4)
TRANSPOSE(transpose_halves, uint16_t, 8, 3, LOW8, HIGH8)
TRANSPOSE(transpose_bytes, uint8_t, 16, 4, LOW16, HIGH16)
#if VBYTES >= 32
static inline void transpose_words(char *dst, int64_t drow, const char *src, int64_t srow)
{
    __m256 v[8];
    for (int i = 0; i < 8; i++) v[i] = _mm256_loadu_ps((const float *)(src + i * srow));
    turn8(v);
    for (int i = 0; i < 8; i++) _mm256_storeu_ps((float *)(dst + i * drow), v[i]);
}
#else
TRANSPOSE(transpose_words, uint32_t, 8, 3, LOW8, HIGH8)
#endif

/* k planes into elements of k numbers that lie together, for k known to the compiler. */
#define JOIN(T, k)                                                                                      \
    if (size == sizeof(T) && cols == k) {                                                               \
        for (int64_t r = 0; r < rows; r++)                                                              \
            for (int c = 0; c < k; c++) ((T *)dst)[r * k + c] = ((const T *)(src + c * srow))[r];       \
        return true;                                                                                    \
    }
#define JOIN_SIZE(k) JOIN(uint8_t, k) JOIN(uint16_t, k) JOIN(uint32_t, k) JOIN(uint64_t, k)
static bool join(char *restrict dst, const char *restrict src, int64_t srow, int64_t rows, int64_t cols, size_t size)
{
    JOIN_SIZE(2) JOIN_SIZE(3) JOIN_SIZE(4)
    return false;
}

/* Of those elements that make n by n blocks. Rows that lie far apart are gone along, those of src or those of dst. */
#define BY_BLOCKS(T, n, block)                                                                          \
    if (size == sizeof(T)) {                                                                            \
        down = rows / n * n, across = cols / n * n;                                                     \
        bool along = srow > drow;                                                                       \
        for (int64_t i = 0; i < (along ? across : down); i += n)                                        \
            for (int64_t k = 0; k < (along ? down : across); k += n) {                                  \
                int64_t r = along ? k : i, c = along ? i : k;                                           \
                block(dst + r * drow + c * (int64_t)sizeof(T), drow, src + c * srow + r * (int64_t)sizeof(T), srow);              \
            }                                                                                           \
    }

static void transpose(char *dst, int64_t drow, const char *src, int64_t srow, int64_t rows, int64_t cols, size_t size)
{
    int64_t down = 0, across = 0;
    if (drow == cols * (int64_t)size && join(dst, src, srow, rows, cols, size)) return;
#if VBYTES == 64
    if (size == 4 && drow % 4 == 0 && srow % 4 == 0) {
        transpose16((float *)dst, drow / 4, (const float *)src, srow / 4, cols, rows);
        return;
    }
#endif
    BY_BLOCKS(uint64_t, 4, transpose_longs)
    BY_BLOCKS(uint32_t, 8, transpose_words)
    BY_BLOCKS(uint16_t, 8, transpose_halves)
    BY_BLOCKS(uint8_t, 16, transpose_bytes)
    for (int64_t r = 0, end; r < rows; r = end) { /* eight rows at a time, so that a line of src is read once */
        end = RUSH_MIN(r + 8, r < down ? down : rows);
        for (int64_t c = r < down ? across : 0; c < cols; c++)
            copy_strided(dst + r * drow + c * (int64_t)size, drow, src + c * srow + r * (int64_t)size, (int64_t)size, end - r, size);
    }
}

/* ---- lazy bits ---- */

static void lazy(void *p, rush_dtype d, int64_t n, int flags)
{
    bool conjugate = flags & RUSH_T_CONJ, negate = flags & RUSH_T_NEG;
    float *f = p;
    double *e = p;
    switch (d) {
    case RUSH_C64:
        for (int64_t i = 0; i < n; i++) {
            f[2 * i] = negate ? -f[2 * i] : f[2 * i];
            f[2 * i + 1] = negate != conjugate ? -f[2 * i + 1] : f[2 * i + 1];
        }
        break;
    case RUSH_C128:
        for (int64_t i = 0; i < n; i++) {
            e[2 * i] = negate ? -e[2 * i] : e[2 * i];
            e[2 * i + 1] = negate != conjugate ? -e[2 * i + 1] : e[2 * i + 1];
        }
        break;
    case RUSH_F32:
        for (int64_t i = 0; i < n && negate; i++) f[i] = -f[i];
        break;
    case RUSH_F64:
        for (int64_t i = 0; i < n && negate; i++) e[i] = -e[i];
        break;
    case RUSH_C32: /* the sign is the top bit of each half */
        for (int64_t i = 0; i < n; i++) {
            half *h = (half *)p + 2 * i;
            h[0] ^= negate ? 0x8000 : 0;
            h[1] ^= negate != conjugate ? 0x8000 : 0;
        }
        break;
    case RUSH_F16:
    case RUSH_BF16:
        for (int64_t i = 0; i < n && negate; i++) ((half *)p)[i] ^= 0x8000;
        break;
    default: /* integers */
        for (int64_t i = 0; i < n && negate; i++) {
            int64_t v;
            char *at = (char *)p + i * rush_dtypes[d].size;
            rush_convert(&v, RUSH_I64, 0, at, d, 0, 1);
            v = -v;
            rush_convert(at, d, 0, &v, RUSH_I64, 0, 1);
        }
    }
}

RUSH_KERNELS(copy) = {.convert = convert, .rows = copy_rows, .transpose = transpose, .lazy = lazy};
