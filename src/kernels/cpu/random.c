/* random.c - mt19937's words by the block, and what is computed from them in bulk.
 *
 * All arithmetic here decides bits that must equal PyTorch's, so multiply-adds are written out as fused or not.
 */
#include "kernels/cpu/random.h"

#include <math.h>

#define N 624
#define M 397

static inline uint32_t twist(uint32_t a, uint32_t b)
{
    return ((a & 0x80000000u) | (b & 0x7fffffffu)) >> 1 ^ (-(b & 1) & 0x9908b0dfu);
}

static void refill(uint32_t *mt)
{
    for (int i = 0; i < N - M; i++) mt[i] = mt[i + M] ^ twist(mt[i], mt[i + 1]);
    for (int i = N - M; i < N - 1; i++) mt[i] = mt[i + M - N] ^ twist(mt[i], mt[i + 1]);
    mt[N - 1] = mt[M - 1] ^ twist(mt[N - 1], mt[0]);
}

static void words(rush_generator *g, uint32_t *restrict out, int64_t n)
{
    while (n > 0) {
        if (g->left == 1) {
            refill(g->mt);
            g->left = N + 1;
            g->next = 0;
        }
        int64_t k = RUSH_MIN(n, (int64_t)g->left - 1);
        const uint32_t *restrict mt = g->mt + g->next;
        for (int64_t i = 0; i < k; i++) {
            uint32_t y = mt[i];
            y ^= y >> 11;
            y ^= y << 7 & 0x9d2c5680u;
            y ^= y << 15 & 0xefc60000u;
            out[i] = y ^ y >> 18;
        }
        g->left -= (int)k;
        g->next += (int)k;
        out += k;
        n -= k;
    }
}

/* ---- uniform ---- */

#define BLOCK 512

static void uniform_f32(rush_generator *g, float *restrict out, int64_t n, float from, float to)
{
    uint32_t w[BLOCK];
    float span = to - from;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = RUSH_MIN(n - at, (int64_t)BLOCK);
        words(g, w, k);
        if (from == 0 && to == 1) {
            for (int64_t i = 0; i < k; i++) out[at + i] = (float)(int32_t)(w[i] & 0xffffff) * 0x1p-24f;
            continue;
        }
        for (int64_t i = 0; i < k; i++) {
            float x = __builtin_fmaf((float)(int32_t)(w[i] & 0xffffff) * 0x1p-24f, span, from);
            out[at + i] = x == to ? from : x; /* rounding may reach the open end */
        }
    }
}

static inline double unit(const uint32_t *w)
{
    uint64_t x = ((uint64_t)w[0] << 32 | w[1]) & (((uint64_t)1 << 53) - 1);
    return (double)(int64_t)x * 0x1p-53;
}

static void uniform_f64(rush_generator *g, double *restrict out, int64_t n, double from, double to)
{
    uint32_t w[2 * BLOCK];
    double span = to - from;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = RUSH_MIN(n - at, (int64_t)BLOCK);
        words(g, w, 2 * k);
        if (from == 0 && to == 1) {
            for (int64_t i = 0; i < k; i++) out[at + i] = unit(w + 2 * i);
            continue;
        }
        for (int64_t i = 0; i < k; i++) {
            double x = __builtin_fma(unit(w + 2 * i), span, from);
            out[at + i] = x == to ? from : x;
        }
    }
}

static void below(rush_generator *g, uint8_t *restrict out, int64_t n, double p)
{
    uint32_t w[2 * BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = RUSH_MIN(n - at, (int64_t)BLOCK);
        words(g, w, 2 * k);
        for (int64_t i = 0; i < k; i++) out[at + i] = unit(w + 2 * i) < p;
    }
}

/* ---- normal ---- */

#define FMA(a, b, c) __builtin_fmaf(a, b, c)

/* Cephes' logf for positive x. */
static inline float log_poly(float x)
{
    union { float f; int32_t i; } v = {.f = x};
    float e = (float)((v.i >> 23) - 126);
    v.i = (v.i & 0x7fffff) | 0x3f000000;
    float m = v.f; /* in [0.5, 1) */
    bool low = m < 0.707106781186547524f;
    e = low ? e - 1 : e;
    m = low ? (m - 1) + m : m - 1;
    float z = m * m;
    float y = FMA(7.0376836292e-2f, m, -1.1514610310e-1f);
    y = FMA(y, m, 1.1676998740e-1f);
    y = FMA(y, m, -1.2420140846e-1f);
    y = FMA(y, m, 1.4249322787e-1f);
    y = FMA(y, m, -1.6668057665e-1f);
    y = FMA(y, m, 2.0000714765e-1f);
    y = FMA(y, m, -2.4999993993e-1f);
    y = FMA(y, m, 3.3333331174e-1f);
    y = y * m;
    y = FMA(y, z, e * -2.12194440e-4f);
    y = FMA(-z, 0.5f, y);
    return FMA(e, 0.693359375f, m + y);
}

/* Cephes' sinf and cosf together, for 0 <= x < 8192. */
static inline void sincos_poly(float x, float *sine, float *cosine)
{
    int32_t j = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)j;
    x = FMA(y, -0.78515625f, x);
    x = FMA(y, -2.4187564849853515625e-4f, x);
    x = FMA(y, -3.77489497744594108e-8f, x);
    float z = x * x;
    float c = FMA(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    c = FMA(c, z, 4.166664568298827e-2f);
    c = c * z;
    c = FMA(c, z, -(z * 0.5f)) + 1.0f;
    float s = FMA(-1.9515295891e-4f, z, 8.3321608736e-3f);
    s = FMA(s, z, -1.6666654611e-1f);
    s = FMA(s * z, x, x);
    bool odd = (j & 2) != 0;
    float a = odd ? c : s, b = odd ? s : c;
    *sine = j & 4 ? -a : a;
    *cosine = ~(j - 2) & 4 ? -b : b;
}

static void normal_f32(float *p, int64_t n, float mean, float std)
{
    float a[BLOCK], b[BLOCK];
    for (int64_t at = 0; at < n; at += 2 * BLOCK) {
        int64_t k = RUSH_MIN(n - at, (int64_t)2 * BLOCK) / 2;
        float *q = p + at;
        for (int64_t i = 0; i < k; i += 8) {
            memcpy(a + i, q + 2 * i, 8 * sizeof *a);
            memcpy(b + i, q + 2 * i + 8, 8 * sizeof *b);
        }
#pragma omp simd
        for (int64_t i = 0; i < k; i++) {
            float radius = sqrtf(-2.0f * log_poly(1.0f - a[i])), s, c;
            sincos_poly(6.28318530717958647692f * b[i], &s, &c);
            a[i] = FMA(radius * c, std, mean);
            b[i] = FMA(radius * s, std, mean);
        }
        for (int64_t i = 0; i < k; i += 8) {
            memcpy(q + 2 * i, a + i, 8 * sizeof *a);
            memcpy(q + 2 * i + 8, b + i, 8 * sizeof *b);
        }
    }
}

static void normal_f64(double *p, int64_t n, double mean, double std)
{
    for (int64_t at = 0; at < n; at += 16)
        for (int j = 0; j < 8; j++) {
            double radius = sqrt(-2 * log(1 - p[at + j])), angle = 6.28318530717958647692 * p[at + j + 8];
            p[at + j] = __builtin_fma(radius * cos(angle), std, mean);
            p[at + j + 8] = __builtin_fma(radius * sin(angle), std, mean);
        }
}

RUSH_KERNELS(random) = {
    .words = words, .uniform_f32 = uniform_f32, .uniform_f64 = uniform_f64, .below = below,
    .normal_f32 = normal_f32, .normal_f64 = normal_f64,
};
