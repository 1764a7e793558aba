/* quick_exp.h - exp as straight-line code that the compiler puts inside a vector loop, for sums of exponentials.
 *
 * 2^k * p(r) with x = k ln 2 + r, |r| <= ln 2 / 2; about one unit in the last place. For floats the steps and numbers
 * are those of SLEEF's expf, which is what PyTorch runs in softmax and sigmoid. Results below the smallest normal
 * number are 0; infinities and NaN come out right.
 */
#ifndef RUSH_QUICK_EXP_H
#define RUSH_QUICK_EXP_H

#include <math.h>
#include <stdint.h>

#ifdef __FMA__
#define MULADD32(a, b, c) __builtin_fmaf(a, b, c)
#define MULADD64(a, b, c) __builtin_fma(a, b, c)
#else
#define MULADD32(a, b, c) ((a) * (b) + (c))
#define MULADD64(a, b, c) ((a) * (b) + (c))
#endif

/* The exponent and fraction of x: 2^n * p, n in the low bits of k. */
static inline float exp_parts(float z, uint32_t *k)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    union { float f; uint32_t u; } w = {.f = z * 1.44269504f + shift}; /* two steps: the build contracts nothing */
    float n = w.f - shift;
    float r = MULADD32(n, -0.693145752f, z);
    r = MULADD32(n, -1.42860677e-6f, r);
    float p = 1.98527618e-4f;
    p = MULADD32(p, r, 1.39304355e-3f);
    p = MULADD32(p, r, 8.33336078e-3f);
    p = MULADD32(p, r, 4.16664854e-2f);
    p = MULADD32(p, r, 0.166666672f);
    p = MULADD32(p, r, 0.5f);
    *k = w.u;
    return MULADD32(r * r, p, r) + 1.0f;
}

static inline float exp_f32(float x)
{
    float z = x < -87.33654f ? -87.33654f : x;
    z = z > 88.72283f ? 88.72283f : z;
    uint32_t k;
    float p = exp_parts(z, &k);
    /* 2^n in two factors: n reaches 128 */
    int32_t e = (int32_t)(k << 9) >> 9, half = e >> 1;
    union { uint32_t u; float f; } a = {.u = (uint32_t)(half + 127) << 23}, b = {.u = (uint32_t)(e - half + 127) << 23};
    p = p * a.f * b.f;
    p = x < -87.33654f ? 0.0f : p;
    return x > 88.72283f ? INFINITY : p;
}

/* For x <= 0, as in softmax: fewer steps, since 2^n is one factor. NaN stays NaN, -inf gives 0. */
static inline float exp_negative_f32(float x)
{
    uint32_t k;
    float p = exp_parts(x < -87.33654f ? -87.33654f : x, &k);
    union { uint32_t u; float f; } scale = {.u = (k << 23) + 0x3f800000}; /* k's low bits are n */
    p *= scale.f;
    return x < -87.33654f ? 0.0f : p;
}

/* 1 + exp(x): what vanishes beside 1 need not be right, and what is too large for 2^n alone becomes infinite by the doubling. */
static inline float one_and_exp_f32(float x)
{
    uint32_t k;
    float p = exp_parts(x < -87.0f ? -87.0f : x, &k);
    union { uint32_t u; float f; } half = {.u = (k << 23) + 0x3f000000};
    float sum = MULADD32(2.0f, p * half.f, 1.0f);
    return x > 89.0f ? INFINITY : sum;
}

/* The logarithm of a normal number in the steps of SLEEF's logf, which keeps a quotient and sums in two parts. */
static inline float log_f32(float x)
{
    union { float f; uint32_t u; } m = {.f = x}, high = {.f = x * 1.33333337f};
    int32_t n = (int32_t)(high.u >> 23 & 255) - 127;
    m.u -= (uint32_t)n << 23; /* 3/4 to 3/2 */
    float e = (float)n, below = m.f - 1, above = m.f + 1, above2 = m.f - (above - 1), inverse = 1 / above;
    float q = below * inverse, q2 = MULADD32(-above2, inverse, MULADD32(-above, inverse, 1.0f));
    q2 = MULADD32(q, q2, MULADD32(inverse, below, -q));
    float t = q * q, p = 0.3027294874f;
    p = MULADD32(p, t, 0.3996108174f);
    p = MULADD32(p, t, 0.6666694880f);
    float a = 0.69314718f * e, a2 = MULADD32(-1.90465421e-9f, e, MULADD32(0.69314718f, e, -a));
    float s = a + 2 * q, s2 = a - s + 2 * q + a2 + 2 * q2;
    p *= t * q;
    float sum = s + p;
    sum += s - sum + p + s2;
    return x - x == 0 ? sum : x; /* infinite, or no number */
}

static inline double exp_f64(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52 */
    double z = x < -708.3964185322641 ? -708.3964185322641 : x;
    z = z > 709.782712893384 ? 709.782712893384 : z;
    union { double f; uint64_t u; } k = {.f = MULADD64(z, 1.4426950408889634, shift)};
    double n = k.f - shift;
    double r = MULADD64(n, -6.93147180369123816490e-01, z);
    r = MULADD64(n, -1.90821492927058770002e-10, r);
    double p = 1.6059043836821613e-10;
    p = MULADD64(p, r, 2.08767569878681e-9);
    p = MULADD64(p, r, 2.505210838544172e-8);
    p = MULADD64(p, r, 2.7557319223985893e-7);
    p = MULADD64(p, r, 2.7557319223985888e-6);
    p = MULADD64(p, r, 2.4801587301587302e-5);
    p = MULADD64(p, r, 1.984126984126984e-4);
    p = MULADD64(p, r, 1.388888888888889e-3);
    p = MULADD64(p, r, 8.333333333333333e-3);
    p = MULADD64(p, r, 4.1666666666666664e-2);
    p = MULADD64(p, r, 0.16666666666666666);
    p = MULADD64(p, r, 0.5);
    p = MULADD64(p * r, r, r) + 1.0;
    int64_t e = (int64_t)(k.u << 12) >> 12, half = e >> 1;
    union { uint64_t u; double f; } a = {.u = (uint64_t)(half + 1023) << 52}, b = {.u = (uint64_t)(e - half + 1023) << 52};
    p = p * a.f * b.f;
    p = x < -708.3964185322641 ? 0.0 : p;
    return x > 709.782712893384 ? INFINITY : p;
}

#endif
