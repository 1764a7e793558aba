/* fill.c - one element repeated, and one array added into another. */
#include "kernels/cpu/fill.h"

typedef struct pair64 { double re, im; } pair64;
typedef struct pair32 { float re, im; } pair32;

#define T uint8_t
#define NAME(x) x##_1
#include "kernels/cpu/fill.inc"
#define T uint16_t
#define NAME(x) x##_2
#include "kernels/cpu/fill.inc"
#define T uint32_t
#define NAME(x) x##_4
#include "kernels/cpu/fill.inc"
#define T uint64_t
#define NAME(x) x##_8
#include "kernels/cpu/fill.inc"

static void fill_16(char *dst, int64_t stride, int64_t n, pair64 v)
{
    for (int64_t i = 0; i < n; i++) *(pair64 *)(dst + i * stride) = v;
}

static void fill(char *dst, int64_t stride, int64_t n, const void *value, size_t size)
{
    uint8_t v1;
    uint16_t v2;
    uint32_t v4;
    uint64_t v8;
    pair64 v16;
    switch (size) {
    case 1: memcpy(&v1, value, 1); fill_1(dst, stride, n, v1); break;
    case 2: memcpy(&v2, value, 2); fill_2(dst, stride, n, v2); break;
    case 4: memcpy(&v4, value, 4); fill_4(dst, stride, n, v4); break;
    case 8: memcpy(&v8, value, 8); fill_8(dst, stride, n, v8); break;
    default: memcpy(&v16, value, 16); fill_16(dst, stride, n, v16);
    }
}

static void add_f32(char **p, const int64_t *s, int64_t n, const void *arg)
{
    if (s[0] == 4 && s[1] == 4 && s[2] == 4) {
        float *d = (float *)p[0];
        const float *a = (const float *)p[1], *b = (const float *)p[2];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) d[i] = a[i] + b[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) *(float *)(p[0] + i * s[0]) = *(float *)(p[1] + i * s[1]) + *(float *)(p[2] + i * s[2]);
}

static void add_f64(char **p, const int64_t *s, int64_t n, const void *arg)
{
    for (int64_t i = 0; i < n; i++) *(double *)(p[0] + i * s[0]) = *(double *)(p[1] + i * s[1]) + *(double *)(p[2] + i * s[2]);
}

static void add_c64(char **p, const int64_t *s, int64_t n, const void *arg)
{
    for (int64_t i = 0; i < n; i++) {
        const pair32 *a = (const pair32 *)(p[1] + i * s[1]), *b = (const pair32 *)(p[2] + i * s[2]);
        *(pair32 *)(p[0] + i * s[0]) = (pair32){a->re + b->re, a->im + b->im};
    }
}

static void add_c128(char **p, const int64_t *s, int64_t n, const void *arg)
{
    for (int64_t i = 0; i < n; i++) {
        const pair64 *a = (const pair64 *)(p[1] + i * s[1]), *b = (const pair64 *)(p[2] + i * s[2]);
        *(pair64 *)(p[0] + i * s[0]) = (pair64){a->re + b->re, a->im + b->im};
    }
}

static void add_bool(char **p, const int64_t *s, int64_t n, const void *arg)
{
    for (int64_t i = 0; i < n; i++) p[0][i * s[0]] = p[1][i * s[1]] | p[2][i * s[2]];
}

static void line_f32(float *to, float start, float each, int64_t i, int64_t n)
{
    for (int64_t k = 0; k < n; k++) to[k] = __builtin_fmaf(each, (float)(i + k), start);
}

static void line_f64(double *to, double start, double each, int64_t i, int64_t n)
{
    for (int64_t k = 0; k < n; k++) to[k] = __builtin_fma(each, (double)(i + k), start);
}

static inline __attribute__((always_inline)) void vectors(double *to, double start, double each, int64_t i, int64_t n, int lanes)
{
    for (int64_t v = 0; v < n; v += lanes) {
        double base = __builtin_fma(each, (double)(i + v), start);
        if (lanes == 8) base = (float)base;
        for (int k = 0; k < lanes; ++k) to[v + k] = __builtin_fma(each, (double)k, base);
    }
}

static void lines_f64(double *to, double start, double each, int64_t i, int64_t n, bool eight)
{
    if (eight) vectors(to, start, each, i, n, 8);
    else vectors(to, start, each, i, n, 4);
}

/* Wrapping sums are the same bits for signed and unsigned integers. */
RUSH_KERNELS(fill) = {
    .fill = fill,
    .line_f32 = line_f32,
    .line_f64 = line_f64,
    .lines_f64 = lines_f64,
    .add = {[RUSH_BOOL] = add_bool, [RUSH_U8] = add_1, [RUSH_I8] = add_1, [RUSH_I16] = add_2, [RUSH_U16] = add_2, [RUSH_I32] = add_4,
            [RUSH_U32] = add_4, [RUSH_I64] = add_8, [RUSH_U64] = add_8, [RUSH_F32] = add_f32, [RUSH_F64] = add_f64,
            [RUSH_C64] = add_c64, [RUSH_C128] = add_c128},
};
