/* quick_exp.h - exp as straight-line code that the compiler puts inside a vector loop, for sums of exponentials.
 *
 * 2^k * p(r) with x = k ln 2 + r, |r| <= ln 2 / 2; about one unit in the last place. Results below the smallest
 * normal number are 0; infinities and NaN come out right.
 */
#ifndef RUSH_QUICK_EXP_H
#define RUSH_QUICK_EXP_H

#include <math.h>
#include <stdint.h>

#ifdef __FMA__
#define MULADDF(a, b, c) __builtin_fmaf(a, b, c)
#define MULADD(a, b, c) __builtin_fma(a, b, c)
#else
#define MULADDF(a, b, c) ((a) * (b) + (c))
#define MULADD(a, b, c) ((a) * (b) + (c))
#endif

static inline float exp_f32(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    float z = x < -87.33654f ? -87.33654f : x;
    z = z > 88.72283f ? 88.72283f : z;
    union { float f; uint32_t u; } k = {.f = MULADDF(z, 1.44269504f, shift)};
    float n = k.f - shift;
    float r = MULADDF(n, -0.693145752f, z);
    r = MULADDF(n, -1.42860677e-6f, r);
    float p = 1.38888889e-3f;
    p = MULADDF(p, r, 8.33333333e-3f);
    p = MULADDF(p, r, 4.16666667e-2f);
    p = MULADDF(p, r, 0.166666667f);
    p = MULADDF(p, r, 0.5f);
    p = MULADDF(p * r, r, r) + 1.0f;
    /* 2^n in two factors: n reaches 128 */
    int32_t e = (int32_t)(k.u << 9) >> 9, half = e >> 1;
    union { uint32_t u; float f; } a = {.u = (uint32_t)(half + 127) << 23}, b = {.u = (uint32_t)(e - half + 127) << 23};
    p = p * a.f * b.f;
    p = x < -87.33654f ? 0.0f : p;
    return x > 88.72283f ? INFINITY : p;
}

/* For x <= 0, as in softmax: fewer steps, since 2^n is one factor. NaN stays NaN, -inf gives 0. */
static inline float exp_negative_f32(float x)
{
    const float shift = 12582912.0f;
    float z = x < -87.33654f ? -87.33654f : x;
    union { float f; uint32_t u; } k = {.f = MULADDF(z, 1.44269504f, shift)}, scale;
    float n = k.f - shift;
    float r = MULADDF(n, -0.693145752f, z);
    r = MULADDF(n, -1.42860677e-6f, r);
    float p = 1.38888889e-3f;
    p = MULADDF(p, r, 8.33333333e-3f);
    p = MULADDF(p, r, 4.16666667e-2f);
    p = MULADDF(p, r, 0.166666667f);
    p = MULADDF(p, r, 0.5f);
    p = MULADDF(p, r, 1.0f);
    p = MULADDF(p, r, 1.0f);
    scale.u = (k.u << 23) + 0x3f800000; /* k's low bits are n */
    p *= scale.f;
    return x < -87.33654f ? 0.0f : p;
}

static inline double exp_f64(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52 */
    double z = x < -708.3964185322641 ? -708.3964185322641 : x;
    z = z > 709.782712893384 ? 709.782712893384 : z;
    union { double f; uint64_t u; } k = {.f = MULADD(z, 1.4426950408889634, shift)};
    double n = k.f - shift;
    double r = MULADD(n, -6.93147180369123816490e-01, z);
    r = MULADD(n, -1.90821492927058770002e-10, r);
    double p = 1.6059043836821613e-10;
    p = MULADD(p, r, 2.08767569878681e-9);
    p = MULADD(p, r, 2.505210838544172e-8);
    p = MULADD(p, r, 2.7557319223985893e-7);
    p = MULADD(p, r, 2.7557319223985888e-6);
    p = MULADD(p, r, 2.4801587301587302e-5);
    p = MULADD(p, r, 1.984126984126984e-4);
    p = MULADD(p, r, 1.388888888888889e-3);
    p = MULADD(p, r, 8.333333333333333e-3);
    p = MULADD(p, r, 4.1666666666666664e-2);
    p = MULADD(p, r, 0.16666666666666666);
    p = MULADD(p, r, 0.5);
    p = MULADD(p * r, r, r) + 1.0;
    int64_t e = (int64_t)(k.u << 12) >> 12, half = e >> 1;
    union { uint64_t u; double f; } a = {.u = (uint64_t)(half + 1023) << 52}, b = {.u = (uint64_t)(e - half + 1023) << 52};
    p = p * a.f * b.f;
    p = x < -708.3964185322641 ? 0.0 : p;
    return x > 709.782712893384 ? INFINITY : p;
}

#endif
