/* quick_pow.h - powf as straight-line code that the compiler puts inside a vector loop; for processors with a fused multiply-add.
 *
 * x^y = e^(y ln x) in pairs of floats whose sum is the number: the high part, and what it lacks. The steps and numbers are
 * those of SLEEF's powf, which is what PyTorch runs: every result has the same bits.
 */
#ifndef RUSH_QUICK_POW_H
#define RUSH_QUICK_POW_H

#include <math.h>
#include <stdint.h>

typedef struct float_pair {
    float high, low;
} float_pair;
#define INLINE static inline __attribute__((always_inline))
#define FMA(a, b, c) __builtin_fmaf(a, b, c)

INLINE float_pair pair_of_product(float_pair x, float_pair y)
{
    const float p = x.high * y.high;
    return (float_pair){p, FMA(x.high, y.low, FMA(x.low, y.high, FMA(x.high, y.high, -p)))};
}

/* For any two numbers. */
INLINE float_pair pair_of_sum(float_pair x, float_pair y)
{
    const float s = x.high + y.high, v = s - x.high;
    return (float_pair){s, (x.high - (s - v)) + (y.high - v) + (x.low + y.low)};
}

/* The first is the larger one. */
INLINE float_pair pair_of_parts(float_pair x, float_pair y)
{
    const float s = x.high + y.high;
    return (float_pair){s, x.high - s + y.high + x.low + y.low};
}

/* ln x of x >= 0 */
INLINE float_pair pair_of_log(float x)
{
    union { float f; uint32_t u; } bits = {.f = x}, scale, m, high;
    const uint32_t tiny = 0u - (bits.u < 0x00800000); /* all ones below the normal numbers, which are made 2^64 times as large */
    scale.u = 0x3f800000 + (tiny & 64u << 23);
    m.f = x * scale.f;
    high.f = m.f * 1.33333337f;
    const int32_t n = (int32_t)(high.u >> 23 & 255) - 127;
    m.u -= (uint32_t)n << 23; /* 3/4 to 3/2 */
    const float e = (float)(n - (int32_t)(tiny & 64));
    const float_pair below = pair_of_sum((float_pair){-1, 0}, (float_pair){m.f, 0}), above = pair_of_sum((float_pair){1, 0}, (float_pair){m.f, 0});
    const float inverse = 1 / above.high, q = below.high * inverse, q2 = FMA(-above.low, inverse, FMA(-above.high, inverse, 1.0f));
    const float_pair r = {q, FMA(q, q2, FMA(below.low, inverse, FMA(inverse, below.high, -q)))};
    const float s = r.high * r.high;
    const float_pair r2 = {s, FMA(r.high + r.high, r.low, FMA(r.high, r.high, -s))};
    float t = 0.240320355f;
    t = FMA(t, r2.high, 0.285112679f);
    t = FMA(t, r2.high, 0.400007993f);
    const float p = r2.high * t;
    const float_pair series = pair_of_sum((float_pair){p, FMA(r2.low, t, FMA(r2.high, t, -p))}, (float_pair){0.666666627f, 3.69183861e-9f});
    const float a = 0.693147182f * e;
    float_pair l = {a, FMA(-1.90465432e-9f, e, FMA(0.693147182f, e, -a))};
    l = pair_of_parts(l, (float_pair){r.high * 2, r.low * 2});
    return pair_of_parts(l, pair_of_product(pair_of_product(r2, r), series));
}

INLINE float exp_of_pair(float_pair x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    float u = (x.high + x.low) * 1.44269504f;
    u = u > 200 ? 200 : u; /* far enough to overflow, or to end as 0 */
    u = u < -250 ? -250 : u;
    union { float f; uint32_t u; } k = {.f = u + shift};
    const float n = k.f - shift;
    float_pair s = pair_of_sum(x, (float_pair){n * -0.693145752f, 0});
    s = pair_of_sum(s, (float_pair){n * -1.42860677e-6f, 0});
    const float whole = s.high + s.low;
    s = (float_pair){whole, s.high - whole + s.low};
    float p = 1.36324647e-3f;
    p = FMA(p, s.high, 8.36596917e-3f);
    p = FMA(p, s.high, 4.16710824e-2f);
    p = FMA(p, s.high, 0.166665524f);
    p = FMA(p, s.high, 0.499999851f);
    const float q = s.high * s.high, q2 = FMA(s.high + s.high, s.low, FMA(s.high, s.high, -q)), c = q * p;
    float_pair t = pair_of_parts(s, (float_pair){c, FMA(q2, p, FMA(q, p, -c))});
    t = pair_of_parts((float_pair){1, 0}, t);
    const int32_t e = (int32_t)(k.u - 0x4b400000), far = (((e >> 31) + e) >> 6) - (e >> 31); /* 2^e as 2^(32 far) twice and the rest */
    union { uint32_t u; float f; } part = {.u = (uint32_t)(32 * far + 127) << 23}, rest = {.u = (uint32_t)(e - 64 * far + 127) << 23};
    return x.high < -104 ? 0 : (t.high + t.low) * part.f * part.f * rest.f;
}

INLINE float pow_f32(float x, float y)
{
    const float size = __builtin_fabsf(x), half = y * 0.5f;
    const float_pair l = pair_of_log(size);
    const float p = l.high * y;
    float r = exp_of_pair((float_pair){p, FMA(l.low, y, FMA(l.high, y, -p))});
    r = r != r ? INFINITY : r;
    /* Conditions on one of the two are joined with something of the other: alone they would keep loops in which it is fixed from vectorising. */
    const _Bool whole = __builtin_floorf(y) == y, odd = whole & (__builtin_floorf(half) != half), below = __builtin_copysignf(1, x) < 0;
    const float away = (size - 1) * __builtin_copysignf(1, y);
    r = (y - y != 0) & (size == size) ? (away < 0 ? 0 : away == 0 ? 1 : INFINITY) : r;
    r = ((size == 0) | (size == INFINITY)) & (y == y) ? ((y < 0) ^ (size == 0) ? 0 : INFINITY) : r;
    r = odd & below ? -r : r;
    r = (x < 0) & !whole & (size != INFINITY) ? NAN : r;
    r = (x != x) | (y != y) ? x + y : r;
    return (y == 0) | (x == 1) ? 1 : r;
}

#undef INLINE
#undef FMA
#endif
