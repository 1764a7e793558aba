/* quant.c - products of matrices of few bits. quant.h says which, and how their operands lie.
 *
 * One row is bound by the bytes of the weight, which are read once, as they lie; many rows take them from the cache, four rows
 * at a time. Bytes are multiplied by the processor's own sum of four products where it has one (AVX512-VNNI, which no instruction set
 * level includes: looked for when the library is loaded), else as 16-bit numbers in pairs.
 */
#include "kernels/cpu/quant.h"
#include "kernels/cpu/simd.h"

#include <math.h>

#define AHEAD 2048 /* bytes: how far a weight that is read once is asked for before it is needed */

/* ---- bytes ---- */

#if VBYTES == 64
#define F(x) x##_pairs
#define STEP 32
#define ACC __m512i
#define SIGNED __m512i
#define LOAD_SIGNED(p) _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(p)))
#define LOAD_UNSIGNED(p) _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(p)))
#define ONES _mm512_set1_epi16(1)
#define BYTES(s, a, b) _mm512_add_epi32(s, _mm512_madd_epi16(a, b))
#define LANES_OF(s) _mm512_reduce_add_epi32(s)
#include "kernels/cpu/quant_bytes.inc"
#define HAS_FOURS 1
#pragma GCC push_options
#pragma GCC target("avx512vnni")
#define F(x) x##_fours
#define STEP 64
#define ACC __m512i
#define SIGNED __m512i
#define LOAD_SIGNED(p) _mm512_loadu_si512(p)
#define LOAD_UNSIGNED(p) _mm512_loadu_si512(p)
#define ONES _mm512_set1_epi8(1)
#define BYTES(s, a, b) _mm512_dpbusd_epi32(s, a, b)
#define LANES_OF(s) _mm512_reduce_add_epi32(s)
#include "kernels/cpu/quant_bytes.inc"
#pragma GCC pop_options
#elif VBYTES == 32
static inline int32_t lanes_of(__m256i s)
{
    int32_t lane[8], sum = 0;
    _mm256_storeu_si256((__m256i *)lane, s);
    for (int i = 0; i < 8; ++i) sum = (int32_t)((uint32_t)sum + (uint32_t)lane[i]);
    return sum;
}
#define F(x) x##_pairs
#define STEP 16
#define ACC __m256i
#define SIGNED __m256i
#define LOAD_SIGNED(p) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#define LOAD_UNSIGNED(p) _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#define ONES _mm256_set1_epi16(1)
#define BYTES(s, a, b) _mm256_add_epi32(s, _mm256_madd_epi16(a, b))
#define LANES_OF(s) lanes_of(s)
#include "kernels/cpu/quant_bytes.inc"
#else
typedef uint32_t lanes_u32 __attribute__((vector_size(16))); /* unsigned, so that sums wrap around */
typedef int16_t bytes_in_16 __attribute__((vector_size(16)));
static inline bytes_in_16 signed_8(const int8_t *p)
{
    int8_t v __attribute__((vector_size(8)));
    memcpy(&v, p, 8);
    return __builtin_convertvector(v, bytes_in_16);
}
static inline bytes_in_16 unsigned_8(const uint8_t *p)
{
    uint8_t v __attribute__((vector_size(8)));
    memcpy(&v, p, 8);
    return __builtin_convertvector(v, bytes_in_16);
}
static inline lanes_u32 pairs(lanes_u32 s, bytes_in_16 a, bytes_in_16 b)
{
#if defined(__SSE2__)
    return s + (lanes_u32)__builtin_ia32_pmaddwd128(a, b);
#else
    for (int i = 0; i < 4; ++i) s[i] += (uint32_t)(a[2 * i] * b[2 * i]) + (uint32_t)(a[2 * i + 1] * b[2 * i + 1]);
    return s;
#endif
}
#define F(x) x##_pairs
#define STEP 8
#define ACC lanes_u32
#define SIGNED bytes_in_16
#define LOAD_SIGNED(p) signed_8(p)
#define LOAD_UNSIGNED(p) unsigned_8(p)
#define ONES ((bytes_in_16){1, 1, 1, 1, 1, 1, 1, 1})
#define BYTES(s, a, b) pairs(s, a, b)
#define LANES_OF(s) ((s)[0] + (s)[1] + (s)[2] + (s)[3])
#include "kernels/cpu/quant_bytes.inc"
#endif

/* Pieces of `unit` columns for the threads, each of some 64 thousand products at least; n is counted in units. */
static int64_t grain(int64_t unit, int64_t m, int64_t k)
{
    return RUSH_MAX(65536 / RUSH_MAX(m * k * unit, 1), 1);
}

static void bytes(const rush_byte_product *g)
{
    if (g->m <= 0 || g->n <= 0) return;
    void (*columns)(void *, int64_t, int64_t) = byte_columns_pairs;
#if HAS_FOURS
    if (__builtin_cpu_supports("avx512vnni")) columns = byte_columns_fours;
#endif
    rush_parallel_for(g->n, RUSH_MAX(grain(1, g->m, g->k), 16), columns, (void *)g);
}

static void above(uint8_t *to, const int8_t *a, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) to[i] = (uint8_t)a[i] ^ 128;
}

/* ---- int8 weights ---- */

static inline float lanes_sum(vf v)
{
#if VBYTES == 64
    return _mm512_reduce_add_ps((__m512)v);
#else
    return vf_sum(v);
#endif
}

/* VF bytes as floats; GCC makes single steps of a conversion of vectors. */
static inline vf bytes_as_floats(const int8_t *p)
{
#if VBYTES == 64
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
#elif VBYTES == 32
    return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#else
    return (vf){p[0], p[1], p[2], p[3]};
#endif
}

static inline __attribute__((always_inline)) void int8_tile(int rows, int columns, const rush_weight_product *g, int64_t i, int64_t j)
{
    const float *a = g->a + i * g->k;
    const int8_t *w = (const int8_t *)g->w + j * g->k;
    int64_t k = g->k, p = 0;
    vf s[4][4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (int c = 0; c < columns; ++c) s[r][c] = (vf){0};
    for (; p + VF <= k; p += VF)
#pragma GCC unroll 4
        for (int c = 0; c < columns; ++c) {
            vf y = bytes_as_floats(w + c * k + p);
#pragma GCC unroll 4
            for (int r = 0; r < rows; ++r) s[r][c] = vf_fma(vf_load(a + r * k + p), y, s[r][c]);
        }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (int c = 0; c < columns; ++c) {
            float sum = lanes_sum(s[r][c]);
            for (int64_t x = p; x < k; ++x) sum += a[r * k + x] * (float)w[c * k + x];
            g->c[(i + r) * g->n + j + c] = sum * ((const float *)g->scale)[j + c];
        }
}

static void int8_full(const rush_weight_product *g, int64_t i, int64_t j) { int8_tile(4, 4, g, i, j); }

/* One row, whose weight is read in order. */
static void int8_row(const rush_weight_product *g, int64_t i, int64_t j)
{
    const float *a = g->a + i * g->k;
    for (int64_t c = j; c < j + 4; ++c) {
        const int8_t *w = (const int8_t *)g->w + c * g->k;
        int64_t p = 0;
        vf s[4] = {0};
        for (; p + 4 * VF <= g->k; p += 4 * VF) {
            __builtin_prefetch(w + p + AHEAD);
#pragma GCC unroll 4
            for (int x = 0; x < 4; ++x) s[x] = vf_fma(vf_load(a + p + x * VF), bytes_as_floats(w + p + x * VF), s[x]);
        }
        float sum = lanes_sum((s[0] + s[1]) + (s[2] + s[3]));
        for (; p < g->k; ++p) sum += a[p] * (float)w[p];
        g->c[i * g->n + c] = sum * ((const float *)g->scale)[c];
    }
}

static void int8_one(const rush_weight_product *g, int64_t i, int64_t j) { int8_tile(1, 1, g, i, j); }

/* Columns 4 * begin to 4 * end: the same tiles whatever the pieces are. */
static void int8_columns(void *arg, int64_t begin, int64_t end)
{
    const rush_weight_product *g = arg;
    int64_t last = RUSH_MIN(4 * end, g->n);
    for (int64_t j0 = 4 * begin; j0 < last; j0 += 64)
        for (int64_t i = 0, rows; i < g->m; i += rows) {
            rows = i + 4 <= g->m ? 4 : 1;
            for (int64_t j = j0; j < RUSH_MIN(j0 + 64, last); j += 4) {
                if (j + 4 > g->n)
                    for (int64_t r = 0; r < rows; ++r)
                        for (int64_t c = j; c < g->n; ++c) int8_one(g, i + r, c);
                else if (rows == 4) int8_full(g, i, j);
                else int8_row(g, i, j);
            }
        }
}

static void int8_weight(const rush_weight_product *g)
{
    rush_parallel_for((g->n + 3) / 4, grain(4, g->m, g->k), int8_columns, (void *)g);
}

/* ---- int4 weights ---- */

#define FULL RUSH_INT4_BLOCK
#define HALF (FULL / VF / 2) /* vectors of the columns in the low halves of a block's bytes */

/* The 64 columns of one p as numbers -8 to 7. */
static inline __attribute__((always_inline)) void nibbles(const uint8_t *w, vf v[2 * HALF])
{
#if VBYTES == 64
    const __m512 number = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
#pragma GCC unroll 2
    for (int h = 0; h < HALF; ++h) {
        __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(w + h * VF)));
        v[h] = (vf)_mm512_permutexvar_ps(both, number); /* looks at four bits */
        v[HALF + h] = (vf)_mm512_permutexvar_ps(_mm512_srli_epi32(both, 4), number);
    }
#elif VBYTES == 32
    const __m256i low = _mm256_set1_epi32(15), eight = _mm256_set1_epi32(8);
#pragma GCC unroll 4
    for (int h = 0; h < HALF; ++h) {
        __m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(w + h * VF)));
        v[h] = (vf)_mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_and_si256(both, low), eight));
        v[HALF + h] = (vf)_mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(both, 4), eight));
    }
#else
    for (int h = 0; h < HALF; ++h, w += 4) {
        v[h] = (vf){(float)(w[0] & 15), (float)(w[1] & 15), (float)(w[2] & 15), (float)(w[3] & 15)} - 8;
        v[HALF + h] = (vf){(float)(w[0] >> 4), (float)(w[1] >> 4), (float)(w[2] >> 4), (float)(w[3] >> 4)} - 8;
    }
#endif
}

/* The pairs of scale and zero of columns [j, j + n) of a group. */
static void pairs_of(const rush_weight_product *g, int64_t group, int64_t j, int64_t n, float *to)
{
    int64_t at = (group * g->n + j) * 2;
    if (!g->scale_bf16) memcpy(to, (const float *)g->scale + at, sizeof(float) * 2 * (size_t)n);
    else
        for (int64_t x = 0; x < 2 * n; ++x) {
            uint32_t bits = (uint32_t)((const uint16_t *)g->scale)[at + x] << 16;
            memcpy(to + x, &bits, 4);
        }
}

static inline float sum_of(const float *a, int64_t n)
{
    vf s = {0};
    for (int64_t p = 0; p < n; p += VF) s += vf_load(a + p); /* groups are multiples of 32 */
    return lanes_sum(s);
}

/* A block of 64 columns of up to 4 rows of c. Of each group the numbers are summed as they are, then scaled. One row has two chains of
 * additions per column, since it would wait for one. */
static inline __attribute__((always_inline)) void int4_block(int rows, const rush_weight_product *g, int64_t i, int64_t j)
{
    const int chains = rows == 1 ? 2 : rows;
    const uint8_t *w = (const uint8_t *)g->w + j * g->k / 2;
    const float *a = g->a + i * g->k;
    float total[4][FULL] = {0}, scale[2 * FULL];
    for (int64_t p0 = 0; p0 < g->k; p0 += g->group) {
        vf s[4][2 * HALF], v[2 * HALF];
#pragma GCC unroll 4
        for (int r = 0; r < chains; ++r)
#pragma GCC unroll 16
            for (int h = 0; h < 2 * HALF; ++h) s[r][h] = (vf){0};
        for (int64_t p = p0; p < p0 + g->group; p += 2) {
            __builtin_prefetch(w + p * 32 + AHEAD);
#pragma GCC unroll 2
            for (int x = 0; x < 2; ++x) {
                nibbles(w + (p + x) * 32, v);
#pragma GCC unroll 4
                for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
                    for (int h = 0; h < 2 * HALF; ++h)
                        s[rows == 1 ? x : r][h] = vf_fma(vf_set(a[r * g->k + p + x]), v[h], s[rows == 1 ? x : r][h]);
            }
        }
        pairs_of(g, p0 / g->group, j, FULL, scale);
        for (int r = 0; r < rows; ++r) {
            float sum[FULL], of_a = sum_of(a + r * g->k + p0, g->group);
            for (int h = 0; h < 2 * HALF; ++h) vf_store(sum + h * VF, rows == 1 ? s[0][h] + s[1][h] : s[r][h]);
            for (int c = 0; c < FULL; ++c) total[r][c] += sum[c] * scale[2 * c] + of_a * scale[2 * c + 1];
        }
    }
    for (int r = 0; r < rows; ++r) memcpy(g->c + (i + r) * g->n + j, total[r], sizeof total[r]);
}

static void int4_full(const rush_weight_product *g, int64_t i, int64_t j) { int4_block(4, g, i, j); }
static void int4_row(const rush_weight_product *g, int64_t i, int64_t j) { int4_block(1, g, i, j); }

/* The last block, of fewer columns. */
static void int4_rest(const rush_weight_product *g, int64_t i, int64_t j)
{
    int64_t wide = g->n - j;
    const uint8_t *w = (const uint8_t *)g->w + j * g->k / 2;
    const float *a = g->a + i * g->k;
    for (int64_t c = 0; c < wide; ++c) {
        float total = 0;
        for (int64_t p0 = 0; p0 < g->k; p0 += g->group) {
            float s = 0, of_a = 0;
            for (int64_t p = p0; p < p0 + g->group; ++p) {
                s += a[p] * (float)((w[(p * wide + c) / 2] >> (c % 2 * 4) & 15) - 8);
                of_a += a[p];
            }
            float scale[2];
            pairs_of(g, p0 / g->group, j + c, 1, scale);
            total += s * scale[0] + of_a * scale[1];
        }
        g->c[i * g->n + j + c] = total;
    }
}

static void int4_columns(void *arg, int64_t begin, int64_t end)
{
    const rush_weight_product *g = arg;
    for (int64_t j = begin * FULL; j < RUSH_MIN(end * FULL, g->n); j += FULL)
        for (int64_t i = 0, rows; i < g->m; i += rows) {
            rows = i + 4 <= g->m ? 4 : 1;
            if (j + FULL > g->n)
                for (int64_t r = 0; r < rows; ++r) int4_rest(g, i + r, j);
            else if (rows == 4) int4_full(g, i, j);
            else int4_row(g, i, j);
        }
}

#if HAS_FOURS
#pragma GCC push_options
#pragma GCC target("avx512vnni,avx512vbmi")
/* One row of bfloat16 by bytes: in each group its numbers are multiples of a power of two, of at most 20 bits (a number of 8 bits is exact unless the largest
 * of the group is 4,096 times as large), which are three digits of 7 bits and a sign. Products and sums are exact from there on. */
typedef struct digits_row {
    int8_t *digit;       /* (3, k), the lowest first */
    int32_t *sum8;       /* of each group: 8 times the sum of the integers */
    float *unit, *sum;   /* of each group: what an integer stands for; the sum of the numbers */
} digits_row;

/* False: a number is infinite or none. */
static bool digits_of(const float *a, int64_t k, int64_t group, const digits_row *to)
{
    for (int64_t p0 = 0; p0 < k; p0 += group) {
        uint32_t most = 0; /* the bits of the largest */
        int32_t sum = 0;
        for (int64_t p = p0; p < p0 + group; ++p) {
            uint32_t bits;
            memcpy(&bits, a + p, 4);
            most = RUSH_MAX(most, bits & 0x7fffffff);
        }
        if (most >= 0x7f800000) return false;
        int exponent = RUSH_MAX((int)(most >> 23) - 127, -100);
        float times = ldexpf(1, 18 - exponent);
        for (int64_t p = p0; p < p0 + group; ++p) {
            int32_t q = (int32_t)nearbyintf(a[p] * times), low = ((q + 64) & 127) - 64, rest = (q - low) >> 7, middle = ((rest + 64) & 127) - 64;
            to->digit[p] = (int8_t)low;
            to->digit[k + p] = (int8_t)middle;
            to->digit[2 * k + p] = (int8_t)((rest - middle) >> 7);
            sum += q;
        }
        to->sum8[p0 / group] = 8 * sum;
        to->unit[p0 / group] = ldexpf(1, exponent - 18);
        to->sum[p0 / group] = (float)sum * to->unit[p0 / group];
    }
    return true;
}

/* A block of 64 columns. Four p at a time: their bytes x side by side in lane x; the high halves are taken 16 times as large as they are. */
static void int4_digits_block(const rush_weight_product *g, int64_t j, const digits_row *row, float *to)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), low = _mm512_set1_epi8(15), high = _mm512_set1_epi8(-16);
    const __m512i first = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x01010101)), _mm512_set1_epi32(0x20002000)), second = _mm512_add_epi8(first, _mm512_set1_epi8(16));
    const __mmask64 upper = 0xcccccccccccccccc;
    const uint8_t *w = (const uint8_t *)g->w + j * g->k / 2;
    const uint16_t *pairs = (const uint16_t *)g->scale + 2 * j;
    __m512 total[4] = {0};
    for (int64_t p0 = 0, x = 0; p0 < g->k; p0 += g->group, ++x, pairs += 2 * g->n) {
        __m512i s[3][4] = {0};
        for (int64_t p = p0; p < p0 + g->group; p += 4) {
            __builtin_prefetch(w + p * 32 + AHEAD);
            __builtin_prefetch(w + p * 32 + 64 + AHEAD);
            __m512i a = _mm512_loadu_si512(w + p * 32), b = _mm512_loadu_si512(w + p * 32 + 64);
            __m512i u = _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(first, a), upper, first, b);
            __m512i v = _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(second, a), upper, second, b);
            __m512i q[4] = {_mm512_and_si512(u, low), _mm512_and_si512(v, low), _mm512_and_si512(u, high), _mm512_and_si512(v, high)};
#pragma GCC unroll 3
            for (int d = 0; d < 3; ++d) {
                int32_t four;
                memcpy(&four, row->digit + d * g->k + p, 4);
#pragma GCC unroll 4
                for (int h = 0; h < 4; ++h) s[d][h] = _mm512_dpbusd_epi32(s[d][h], q[h], _mm512_set1_epi32(four));
            }
        }
        const __m512 unit = _mm512_set1_ps(row->unit[x]), sum = _mm512_set1_ps(row->sum[x]);
        const __m512i sum8 = _mm512_set1_epi32(row->sum8[x]);
#pragma GCC unroll 4
        for (int h = 0; h < 4; ++h) {
            __m512i both = _mm512_loadu_si512(pairs + 32 * h), rest = _mm512_add_epi32(s[1][h], _mm512_slli_epi32(s[2][h], 7)), all;
            if (h < 2) all = _mm512_add_epi32(s[0][h], _mm512_slli_epi32(rest, 7));
            else all = _mm512_add_epi32(_mm512_srai_epi32(s[0][h], 4), _mm512_slli_epi32(rest, 3));
            __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), zero = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(-0x10000)));
            total[h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(all, sum8)), _mm512_mul_ps(scale, unit), _mm512_fmadd_ps(sum, zero, total[h]));
        }
    }
    for (int h = 0; h < 4; ++h) _mm512_storeu_ps(to + 16 * h, total[h]);
}
#pragma GCC pop_options

typedef struct digits_job {
    const rush_weight_product *g;
    digits_row row;
    int64_t i;
} digits_job;

static void int4_digits_columns(void *arg, int64_t begin, int64_t end)
{
    const digits_job *job = arg;
    const rush_weight_product *g = job->g;
    for (int64_t j = begin * FULL; j < RUSH_MIN(end * FULL, g->n); j += FULL)
        if (j + FULL > g->n) int4_rest(g, job->i, j);
        else int4_digits_block(g, j, &job->row, g->c + job->i * g->n + j);
}

/* False: the processor has not got the instructions, a number is infinite or none, or there is no memory. */
static bool int4_digits(const rush_weight_product *g)
{
    int64_t groups = g->k / g->group;
    size_t got, bytes = (size_t)(3 * g->k + 12 * groups);
    char *room = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") ? rush_block_alloc(bytes, &got) : NULL;
    if (!room) return false;
    digits_job job = {g, {.unit = (float *)room, .sum = (float *)room + groups, .sum8 = (int32_t *)room + 2 * groups, .digit = (int8_t *)room + 12 * groups}, 0};
    for (; job.i < g->m && digits_of(g->a + job.i * g->k, g->k, g->group, &job.row); ++job.i)
        rush_parallel_for((g->n + FULL - 1) / FULL, grain(FULL, 1, g->k), int4_digits_columns, &job);
    rush_block_free(room, got);
    return job.i == g->m;
}
#else
static bool int4_digits(const rush_weight_product *g) { return false; }
#endif

static void int4_weight(const rush_weight_product *g)
{
    if (g->a_bf16 && g->scale_bf16 && g->m < 4 && int4_digits(g)) return;
    rush_parallel_for((g->n + FULL - 1) / FULL, grain(FULL, g->m, g->k), int4_columns, (void *)g);
}

typedef struct int4_job {
    uint8_t *to;
    const int32_t *q;
    int64_t n, k;
} int4_job;

static void int4_pack_blocks(void *arg, int64_t begin, int64_t end)
{
    const int4_job *g = arg;
    for (int64_t j = begin * FULL; j < RUSH_MIN(end * FULL, g->n); j += FULL) {
        int64_t wide = RUSH_MIN(FULL, g->n - j), apart = wide == FULL ? FULL / 2 : 1, step = wide == FULL ? 1 : 2;
        uint8_t *to = g->to + j * g->k / 2;
        for (int64_t p = 0; p < g->k; ++p)
            for (int64_t x = 0; x < wide / 2; ++x) {
                const int32_t *q = g->q + (j + x * step) * g->k + p;
                *to++ = (uint8_t)((q[0] & 15) | (q[apart * g->k] & 15) << 4);
            }
    }
}

static void int4_pack(uint8_t *to, const int32_t *q, int64_t n, int64_t k)
{
    int4_job job = {to, q, n, k};
    rush_parallel_for((n + FULL - 1) / FULL, grain(FULL, 1, k), int4_pack_blocks, &job);
}

/* ---- int4 weights, rows of a rounded ---- */

typedef struct rounded_row {
    int16_t *even, *odd; /* (a - its zero point), elements 2x and 2x + 1 */
    float *sum8;         /* of each group, 8 times */
    float scale;
} rounded_row;

/* The grid of a row: 255 steps from the least to the largest number, zero among them. */
static void round_row(const float *a, int64_t k, int64_t group, rounded_row *to)
{
    float low = 0, high = 0;
    for (int64_t p = 0; p < k; ++p) {
        low = a[p] < low ? a[p] : low;
        high = a[p] > high ? a[p] : high;
    }
    float inverse = low == high ? 1 : 255 / (high - low), below = low * inverse, above = high * inverse;
    float zero = -128 + below + 127 + above > 0 ? -128 - below : 127 - above;
    zero = nearbyintf(fminf(fmaxf(zero, -128), 127));
    to->scale = inverse ? 1 / inverse : 0;
    for (int64_t p0 = 0; p0 < k; p0 += group) {
        int32_t sum = 0;
        for (int64_t p = p0; p < p0 + group; ++p) {
            float q = fminf(fmaxf(nearbyintf(a[p] * inverse) + zero, -128), 127) - zero;
            int16_t whole = (int16_t)q;
            (p % 2 ? to->odd : to->even)[p / 2] = whole;
            sum += whole;
        }
        to->sum8[p0 / group] = 8 * (float)sum;
    }
}

/* A row of the weight, its numbers 0 to 15 scaled by group, times a row. */
static float rounded_dot(const rush_rounded_product *g, const uint8_t *w, const float *scale, const rounded_row *row)
{
    int64_t half = g->k / 2, group = g->k / g->groups / 2, p = 0;
    float total = 0;
#if VBYTES == 64
    __m512 s = _mm512_setzero_ps();
    __m512i low = _mm512_set1_epi16(15);
    for (; p + 32 <= half; p += 32) { /* lanes 0 to 7 are those of the first 16 bytes, of one group */
        __builtin_prefetch(w + p + AHEAD);
        __m512i both = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(w + p)));
        __m512i sum = _mm512_madd_epi16(_mm512_and_si512(both, low), _mm512_loadu_si512(row->even + p));
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_srli_epi16(both, 4), _mm512_loadu_si512(row->odd + p)));
        __m512 by = _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(scale[p / group]), _mm512_set1_ps(scale[(p + 16) / group]));
        s = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), by, s);
    }
    total = lanes_sum((vf)s);
#elif VBYTES == 32
    __m256 s = _mm256_setzero_ps();
    __m256i low = _mm256_set1_epi16(15);
    for (; p + 16 <= half; p += 16) {
        __m256i both = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(w + p)));
        __m256i sum = _mm256_madd_epi16(_mm256_and_si256(both, low), _mm256_loadu_si256((const __m256i *)(row->even + p)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_srli_epi16(both, 4), _mm256_loadu_si256((const __m256i *)(row->odd + p))));
        s = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(scale[p / group]), s);
    }
    total = lanes_sum((vf)s);
#endif
    while (p < half) {
        int32_t sum = 0;
        int64_t x = p / group, end = RUSH_MIN((x + 1) * group, half);
        for (; p < end; ++p) sum = (int32_t)((uint32_t)sum + (uint32_t)((w[p] & 15) * row->even[p] + (w[p] >> 4) * row->odd[p]));
        total += (float)sum * scale[x];
    }
    for (int64_t x = 0; x < g->groups; ++x) total -= row->sum8[x] * scale[x];
    return total;
}

typedef struct rounded_job {
    const rush_rounded_product *g;
    const rounded_row *row;
    int64_t i;
} rounded_job;

static void rounded_columns(void *arg, int64_t begin, int64_t end)
{
    const rounded_job *job = arg;
    const rush_rounded_product *g = job->g;
    const rounded_row *row = job->row;
    for (int64_t j = begin; j < end; ++j) {
        float sum = rounded_dot(g, g->w + j * g->k / 2, g->scale + j * g->groups, row);
        g->c[job->i * g->n + j] = sum * row->scale + (g->bias ? g->bias[j] : 0);
    }
}

static void rounded(const rush_rounded_product *g)
{
    size_t got, halves = sizeof(int16_t) * (size_t)(g->k / 2);
    char *room = rush_block_alloc(2 * halves + sizeof(float) * (size_t)g->groups, &got);
    if (!room) return;
    rounded_row row = {.even = (int16_t *)room, .odd = (int16_t *)(room + halves), .sum8 = (float *)(room + 2 * halves)};
    for (int64_t i = 0; i < g->m; ++i) {
        round_row(g->a + i * g->k, g->k, g->k / g->groups, &row);
        rounded_job job = {g, &row, i};
        rush_parallel_for(g->n, grain(1, 1, g->k), rounded_columns, &job);
    }
    rush_block_free(room, got);
}

RUSH_KERNELS(quant) = {.bytes = bytes, .above = above, .int8_weight = int8_weight, .int4_weight = int4_weight, .int4_pack = int4_pack, .rounded = rounded};
