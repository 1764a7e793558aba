/* resample.c - upsampling one dimension at a time, and sampling images at the points of a grid.
 *
 * Both come down to taps: a few places with weights. Upsampling's are made by the caller; a grid point's are
 * found here once and serve all channels, forward and back. The body is resample.inc.
 */
#include "kernels/cpu/resample.h"

#include <math.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- nearest neighbours, by the size of elements ---- */

typedef struct nearest_job {
    const rush_nearest *r;
    const char *x;
    char *y;
    int repeats; /* every element of a row as often as this; 0 if it isn't so regular */
} nearest_job;

#define ROW(T)                                                                                                \
    static void row_##T(const T *restrict x, T *restrict y, const int64_t *from, int64_t n, int64_t m, int repeats) \
    {                                                                                                         \
        if (repeats == 2)                                                                                     \
            for (int64_t i = 0; i < n; ++i) y[2 * i] = y[2 * i + 1] = x[i];                                   \
        else                                                                                                  \
            for (int64_t i = 0; i < m; ++i) y[i] = x[from[i]];                                                \
    }
ROW(uint8_t)
ROW(uint16_t)
ROW(uint32_t)
ROW(uint64_t)
#undef ROW

static void nearest_rows(void *arg, int64_t begin, int64_t end)
{
    const nearest_job *j = arg;
    const rush_nearest *r = j->r;
    const int64_t item = r->item, bytes = r->m[2] * item;
    const char *before = NULL;
    for (int64_t at = begin; at < end; ++at) {
        int64_t y1 = at % r->m[1], z = at / r->m[1] % r->m[0], o = at / (r->m[1] * r->m[0]);
        const char *x = j->x + ((o * r->n[0] + r->from[0][z]) * r->n[1] + r->from[1][y1]) * r->n[2] * item;
        void *y = j->y + at * bytes;
        if (x == before) memcpy(y, (char *)y - bytes, (size_t)bytes);
        else if (item == 4) row_uint32_t((const void *)x, y, r->from[2], r->n[2], r->m[2], j->repeats);
        else if (item == 2) row_uint16_t((const void *)x, y, r->from[2], r->n[2], r->m[2], j->repeats);
        else if (item == 8) row_uint64_t((const void *)x, y, r->from[2], r->n[2], r->m[2], j->repeats);
        else if (item == 1) row_uint8_t((const void *)x, y, r->from[2], r->n[2], r->m[2], j->repeats);
        else
            for (int64_t i = 0; i < r->m[2]; ++i) memcpy((char *)y + i * item, x + r->from[2][i] * item, (size_t)item);
        before = x;
    }
}

static void nearest(const rush_nearest *r, const void *x, void *y)
{
    nearest_job j = {r, x, y, r->m[2] % r->n[2] ? 0 : (int)(r->m[2] / r->n[2])};
    for (int64_t i = 0; i < r->m[2] && j.repeats; ++i)
        if (r->from[2][i] != i / j.repeats) j.repeats = 0;
    rush_parallel_for(r->outer * r->m[0] * r->m[1], most(1, 32768 / most(1, r->m[2] * r->item)), nearest_rows, &j);
}

/* ---- bytes ---- */

typedef struct bytes_job {
    const rush_taps *t;
    const int16_t *weight;
    int bits;
    int64_t stride, outer, inner; /* of weights; of x and y */
    const uint8_t *x;
    uint8_t *y;
} bytes_job;

static inline uint8_t byte_of(int32_t sum, int bits) /* sums begin with half of what is shifted out */
{
    int32_t v = sum >> bits;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* One pixel of 3 or 4 channels that lie together: the sum of count pixels. */
#if defined(__AVX2__)
/* Four pixels: the first two side by side in the lower half, the others in the upper one. */
static inline __attribute__((always_inline)) __m256i four(__m128i near, const int16_t *w, const int channels)
{
    const char no = -128, a = (char)channels, b = (char)(2 * a), c = (char)(3 * a), last = a == 4;
    const __m256i pairs = _mm256_setr_epi8(0, no, a, no, 1, no, a + 1, no, 2, no, a + 2, no, last ? 3 : no, no, last ? a + 3 : no, no, //
                                           b, no, c, no, b + 1, no, c + 1, no, b + 2, no, c + 2, no, last ? b + 3 : no, no, last ? c + 3 : no, no);
    int64_t weights;
    memcpy(&weights, w, sizeof weights);
    const __m256i spread = _mm256_permutevar8x32_epi32(_mm256_set1_epi64x(weights), _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
    return _mm256_madd_epi16(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(near), pairs), spread);
}

static inline __attribute__((always_inline)) void pixel(int bits, const int16_t *w, int count, const uint8_t *x, const uint8_t *end, uint8_t *y, const int channels)
{
    __m256i sum = _mm256_setzero_si256();
    if (end - x >= count * channels + 16)
        for (int k = 0; k < count; k += 4) sum = _mm256_add_epi32(sum, four(_mm_loadu_si128((const void *)(x + k * channels)), w + k, channels));
    else
        for (int k = 0; k < count; k += 4) {
            uint8_t near[16] = {0}; /* nothing is read behind the last pixel */
            memcpy(near, x + k * channels, (size_t)least(16, end - x - k * channels));
            sum = _mm256_add_epi32(sum, four(_mm_loadu_si128((const void *)near), w + k, channels));
        }
    __m128i both = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    both = _mm_sra_epi32(_mm_add_epi32(both, _mm_set1_epi32(1 << (bits - 1))), _mm_cvtsi32_si128(bits));
    both = _mm_packs_epi32(both, both);
    int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(both, both));
    memcpy(y, &bytes, (size_t)channels);
}
#else
static inline void pixel(int bits, const int16_t *w, int count, const uint8_t *x, const uint8_t *end, uint8_t *y, const int channels)
{
    (void)end;
    for (int c = 0; c < channels; ++c) {
        int32_t sum = 1 << (bits - 1);
        for (int k = 0; k < count; ++k) sum += x[k * channels + c] * w[k];
        y[c] = byte_of(sum, bits);
    }
}
#endif

#define PIXELS(channels)                                                                                              \
    static void pixels##channels(void *arg, int64_t begin, int64_t end) /* rows of them */                            \
    {                                                                                                                 \
        const bytes_job j = *(const bytes_job *)arg;                                                                  \
        const rush_taps t = *j.t;                                                                                     \
        const uint8_t *last = j.x + j.outer * t.n * channels, *x = j.x + begin * t.n * channels;                      \
        uint8_t *y = j.y + begin * t.m * channels;                                                                    \
        for (int64_t r = begin; r < end; ++r, x += t.n * channels)                                                    \
            for (int64_t o = 0; o < t.m; ++o, y += channels)                                                          \
                pixel(j.bits, j.weight + o * j.stride, (int)t.count[o], x + t.begin[o] * channels, last, y, channels); \
    }
PIXELS(3)
PIXELS(4)

static void bytes_rows(void *arg, int64_t begin, int64_t end)
{
    enum { WIDE = 512 };
    const bytes_job *j = arg;
    const rush_taps *t = j->t;
    for (int64_t at = begin; at < end; ++at) {
        const int64_t o = at % t->m;
        const int16_t *w = j->weight + o * j->stride;
        const uint8_t *rows = j->x + (at / t->m * t->n + t->begin[o]) * j->inner;
        for (int64_t c = 0; c < j->inner; c += WIDE) {
            const int n = (int)least(WIDE, j->inner - c);
            int32_t sum[WIDE], count = (int)t->count[o], k = 0;
            const uint8_t *restrict x = rows + c;
            for (int i = 0; i < n; ++i) sum[i] = 1 << (j->bits - 1);
            for (; k + 2 <= count; k += 2, x += 2 * j->inner) {
                const uint8_t *restrict x1 = x + j->inner;
#pragma omp simd
                for (int i = 0; i < n; ++i) sum[i] += x[i] * w[k] + x1[i] * w[k + 1];
            }
            for (; k < count; ++k)
#pragma omp simd
                for (int i = 0; i < n; ++i) sum[i] += x[i] * w[k];
            uint8_t *restrict y = j->y + at * j->inner + c;
#pragma omp simd
            for (int i = 0; i < n; ++i) y[i] = byte_of(sum[i], j->bits);
        }
    }
}

static void along_u8(const rush_taps *t, const int16_t *weight, int bits, int64_t outer, int64_t inner, const uint8_t *x, uint8_t *y)
{
    bytes_job j = {t, weight, bits, rush_whole_weights(t), outer, inner, x, y};
    if (inner == 3 || inner == 4) rush_parallel_for(outer, most(1, 16384 / most(1, t->m)), inner == 3 ? pixels3 : pixels4, &j);
    else rush_parallel_for(outer * t->m, most(1, 16384 / most(1, inner)), bytes_rows, &j);
}

#define AXIS_FN static inline
#define AXIS_UNROLL
#define T float
#define I int32_t
#define F(x) x##_f32
#define FLOOR floorf
#define NEAREST nearbyintf
#define MOD fmodf
#define ABS fabsf
#include "kernels/cpu/resample.inc"

#define T double
#define I int64_t
#define F(x) x##_f64
#define FLOOR floor
#define NEAREST nearbyint
#define MOD fmod
#define ABS fabs
#include "kernels/cpu/resample.inc"

RUSH_KERNELS(resample) = {.nearest = nearest, .along_u8 = along_u8, .along_f32 = along_f32, .along_f64 = along_f64, .along_back_f32 = along_back_f32, .along_back_f64 = along_back_f64,
                          .grid_f32 = grid_f32, .grid_f64 = grid_f64};
