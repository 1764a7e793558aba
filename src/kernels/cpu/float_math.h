/* float_math.h - functions of <math.h> for floats, as straight-line code that the compiler puts inside vector loops.
 *
 * Each is right to less than one unit in the last place, mostly to a little more than half of one, and gives the same bits in
 * every lane, in what a loop leaves over, and on every processor with a fused multiply-add. What is largest in a sum is kept in
 * two floats, the second of which is what rounding took from the first; polynomials have minimax coefficients of our own.
 * Conditions choose between results at the end: the compiler makes two paths of a loop of those that stand at the beginning.
 *
 * plain_NAME is right for numbers that need no care, which ordinary_NAME tells: loops look at a block of numbers first.
 */
#ifndef RUSH_FLOAT_MATH_H
#define RUSH_FLOAT_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#ifdef __FMA__
#define STEP(a, b, c) __builtin_fmaf(a, b, c)
#define FMA(a, b, c) __builtin_fmaf(a, b, c) /* where a product has more bits than a float */
#define WIDE_STEP(a, b, c) __builtin_fma(a, b, c)
#else
#define STEP(a, b, c) ((a) * (b) + (c))
#define FMA(a, b, c) ((float)((double)(a) * (double)(b) + (double)(c)))
#define WIDE_STEP(a, b, c) ((a) * (b) + (c))
#endif

typedef union float_bits {
    float f;
    uint32_t u;
    int32_t i;
} float_bits;

#define FLOAT_SHIFT 0x1.8p23f /* adding it rounds to an integer in the low bits */
#define LN2_LONG 0.693145752f /* few bits, so that its multiples are exact; LN2_REST is what it lacks */
#define LN2_REST 1.42860677e-6f

/* ---- exp, exp2, expm1: 2^n e^r ---- */

/* (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2 */
INLINE float exp_series(float r)
{
    float p = 0.00138390309f;
    p = STEP(p, r, 0.00836919714f);
    p = STEP(p, r, 0.0416681021f);
    p = STEP(p, r, 0.166665167f);
    return STEP(p, r, 0.49999994f);
}

/* e^r; n in the low bits of k. */
INLINE float exp_fraction(float x, uint32_t *k)
{
    const float_bits t = {.f = STEP(x, 1.44269504f, FLOAT_SHIFT)};
    const float n = t.f - FLOAT_SHIFT, z = STEP(n, -LN2_LONG, x), r = STEP(n, -LN2_REST, z); /* z is exact */
    const float h = 1 + z, l = STEP(r * r, exp_series(r), STEP(n, -LN2_REST, z - (h - 1)));
    *k = t.u;
    return h + l;
}

/* (2^r - 1 - r ln 2) / r^2 for |r| <= 1/2 */
INLINE float exp2_series(float r)
{
    float p = 0.000133317182f;
    p = STEP(p, r, 0.00133879366f);
    p = STEP(p, r, 0.00962544698f);
    p = STEP(p, r, 0.0555036627f);
    return STEP(p, r, 0.240225941f);
}
INLINE float exp2_fraction(float x, uint32_t *k)
{
    const float_bits t = {.f = x + FLOAT_SHIFT};
    const float r = x - (t.f - FLOAT_SHIFT), p = exp2_series(r);
    const float h = FMA(r, 0.693147182f, 1.0f), l = FMA(r * r, p, FMA(r, 0.693147182f, 1 - h));
    *k = t.u;
    return h + l;
}

INLINE float scaled(float p, uint32_t k)
{
    float_bits y = {.f = p};
    y.u += k << 23;
    return y.f;
}

/* The same where the result may be subnormal (x < low), 0 (x < none) or infinite (x > high). */
INLINE float scaled_far(float x, float p, uint32_t k, float none, float low, float high)
{
    const bool tiny = x < low;
    float y = scaled(p, tiny ? k + 32 : k);
    y = tiny ? y * 0x1p-32f : y;
    y = x < none ? 0 : y;
    return x <= high ? y : x + INFINITY;
}

INLINE bool ordinary_exp(float x) { return (x > -87) & (x < 88.5f); }
INLINE bool ordinary_exp2(float x) { return (x > -126) & (x < 128); }
#define EXPONENTIAL(name, none, low, high)                                                                \
    INLINE float plain_##name(float x)                                                                    \
    {                                                                                                     \
        uint32_t k;                                                                                       \
        const float p = name##_fraction(x, &k);                                                           \
        return scaled(p, k);                                                                              \
    }                                                                                                     \
    INLINE float float_##name(float x)                                                                    \
    {                                                                                                     \
        uint32_t k;                                                                                       \
        const float p = name##_fraction(x, &k);                                                           \
        return scaled_far(x, p, k, none, low, high);                                                      \
    }
EXPONENTIAL(exp, -104, -87, 88.7228317f)
EXPONENTIAL(exp2, -151, -126, 127.999992f)
#undef EXPONENTIAL

INLINE float float_expm1(float x)
{
    const float_bits t = {.f = STEP(x, 1.44269504f, FLOAT_SHIFT)}, half = {.u = (t.u << 23) + 0x3f000000}; /* 2^n / 2: n reaches 128 */
    const float n = t.f - FLOAT_SHIFT, z = STEP(n, -LN2_LONG, x), c = n * LN2_REST, r = z - c;
    const float w = STEP(r * r, exp_series(r), -c), m = half.f - 0.5f, h = STEP(half.f, z, m);
    float y = 2 * (h + (STEP(half.f, w, STEP(half.f, z, m - h)) + (half.f - m - 0.5f)));
    y = __builtin_fabsf(x) < 0x1p-60f ? x : y;
    y = x < -17.5f ? -1 : y;
    return x <= 89 ? y : x + INFINITY;
}

/* ---- log, log2, log10, log1p: n ln 2 + log(1 + f), sqrt(1/2) <= 1 + f <= sqrt(2) ---- */

/* log(1 + f) - f and `more` */
INLINE float log_series(float f, float more)
{
    const float s = f * f;
    float p = -0.0764112324f;
    p = STEP(p, f, 0.127658352f);
    p = STEP(p, f, -0.131593913f);
    p = STEP(p, f, 0.142009586f);
    p = STEP(p, f, -0.166233376f);
    p = STEP(p, f, 0.200012609f);
    p = STEP(p, f, -0.250008225f);
    p = STEP(p, f, 0.333333313f);
    return STEP(s, -0.5f, STEP(f * s, p, more));
}

/* The bits of 2^n, less those of 1. */
INLINE uint32_t exponent_of(float_bits b) { return (b.u - 0x3f3504f3) & 0xff800000; }

/* f of a normal number, and n 2^23. */
INLINE float log_fraction(float x, float *n)
{
    float_bits b = {.f = x};
    const uint32_t k = exponent_of(b);
    b.u -= k;
    *n = (float)(int32_t)k;
    return b.f - 1;
}

INLINE float log_fraction_any(float x, float *n)
{
    const float_bits b = {.f = x};
    float k, f = log_fraction(x < 0x1p-126f ? x * 0x1p24f : x, &k);
    *n = b.u < 0x00800000 ? k - 24 * 0x1p23f : k;
    return f;
}

/* f + n ln 2 + small */
INLINE float log_sum(float f, float n, float small)
{
    const float h = STEP(n, 0x1p-23f * LN2_LONG, f), l = STEP(n, 0x1p-23f * LN2_LONG, -h) + f;
    return h + (l + STEP(n, 0x1p-23f * LN2_REST, small));
}
INLINE float log_natural(float f, float n) { return log_sum(f, n, log_series(f, 0)); }
/* (f + ...) (unit + unit_rest) + n (step + step_rest) */
INLINE float log_other(float f, float n, float unit, float unit_rest, float step, float step_rest)
{
    const float small = log_series(f, 0), t = f * unit, rest = FMA(f, unit_rest, FMA(f, unit, -t));
    const float h = FMA(n, step, t), l = FMA(n, step, -h) + t;
    return h + (l + FMA(small, unit, FMA(n, step_rest, rest)));
}
INLINE float log_binary(float f, float n) { return log_other(f, n, 1.44269502f, 1.92596303e-8f, 0x1p-23f, 0); }
INLINE float log_decimal(float f, float n) { return log_other(f, n, 0.434294492f, -1.010305e-8f, 0x1p-23f * 0.30103001f, 0x1p-23f * -1.43209888e-8f); }

/* y, or what logarithms make of infinity, NaN and of x <= 0. */
INLINE float log_edges(float x, float y)
{
    const float_bits b = {.f = x}, bad = {.u = b.u << 1 ? 0x7fc00000 : 0xff800000};
    y = x == INFINITY ? x : y;
    return x > 0 ? y : bad.f;
}

#define LOGARITHM(name, how)                                                                              \
    INLINE bool ordinary_##name(float x) { return (x >= 0x1p-126f) & (x < INFINITY); }                    \
    INLINE float plain_##name(float x)                                                                    \
    {                                                                                                     \
        float n, f = log_fraction(x, &n);                                                                 \
        return how(f, n);                                                                                 \
    }                                                                                                     \
    INLINE float float_##name(float x)                                                                    \
    {                                                                                                     \
        float n, f = log_fraction_any(x, &n);                                                             \
        return log_edges(x, how(f, n));                                                                   \
    }
LOGARITHM(log, log_natural)
LOGARITHM(log2, log_binary)
LOGARITHM(log10, log_decimal)
#undef LOGARITHM

/* Of 1 + x, with what its rounding took. */
INLINE float float_log1p(float x)
{
    const float_bits y = {.f = 1 + x};
    const uint32_t k = exponent_of(y);
    const int32_t down = (int32_t)(0x3f800000 - k);
    const float_bits m = {.u = y.u - k}, scale = {.i = down < 0 ? 0 : down}; /* 2^-n, which large numbers do not need */
    const float f = m.f - 1, lost = (x - (y.f - 1)) * scale.f, v = f + lost;
    const float r = __builtin_copysignf(log_sum(f, (float)(int32_t)k, log_series(v, lost)), x);
    const float_bits bad = {.u = x == -1 ? 0xff800000 : 0x7fc00000};
    const float known = x == INFINITY ? x : r;
    return x > -1 ? known : bad.f;
}

/* ---- sin, cos: in double, x = n pi + r ---- */

typedef union double_bits {
    double f;
    uint64_t u;
} double_bits;

#define DOUBLE_SHIFT 0x1.8p52
#ifdef __FMA__
#define NEAR_ANGLE 0x1p40f
#define LESS_PI(x, n) __builtin_fma(-(n), 1.2246467991473532e-16, __builtin_fma(-(n), 3.141592653589793, x))
#else /* multiples of pi in parts of few bits are exact */
#define NEAR_ANGLE 0x1p20f
#define LESS_PI(x, n) ((x) - (n) * 3.1415926534682512 - (n) * 1.2154200996344899e-10 - (n) * 1.6667485837041758e-19)
#endif

/* sin r for |r| <= pi / 2, the sign changed by n's last bit */
INLINE float sin_series(double r, uint64_t n)
{
    const double_bits b = {.f = r}, v = {.u = b.u ^ n << 63};
    const double u = r * r;
    double p = 2.6057683341557317e-6;
    p = WIDE_STEP(p, u, -0.00019809598395875842);
    p = WIDE_STEP(p, u, 0.0083330662029150758);
    p = WIDE_STEP(p, u, -0.16666659549550476);
    return (float)(v.f * WIDE_STEP(p, u, 1.0));
}

INLINE bool ordinary_sin(float x) { return __builtin_fabsf(x) < NEAR_ANGLE; }
INLINE float plain_sin(float x)
{
    const double_bits t = {.f = WIDE_STEP((double)x, 0.31830988618379067, DOUBLE_SHIFT)};
    const double n = t.f - DOUBLE_SHIFT;
    return sin_series(LESS_PI((double)x, n), t.u);
}
INLINE bool ordinary_cos(float x) { return ordinary_sin(x); }
INLINE float plain_cos(float x)
{
    const double_bits t = {.f = WIDE_STEP((double)x, 0.31830988618379067, -0.5) + DOUBLE_SHIFT};
    const double n = t.f - DOUBLE_SHIFT + 0.5;
    return sin_series(LESS_PI((double)x, n), t.u + 1);
}

/* Larger numbers by integers: r of x and `quarters` right angles more. Of the bits of 2/pi those that make whole turns are left out, and those past 96 more. */
static inline double far_angle(float x, uint32_t quarters, uint32_t *n)
{
    static const uint32_t two_by_pi[] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    const float_bits b = {.f = x};
    const uint32_t first = (b.u >> 23 & 255) - 150 + 30, word = first / 32, bit = first % 32; /* 32 zeros stand before the point */
    const uint64_t m = (b.u & 0x7fffff) | 0x800000;
    unsigned __int128 turn = 0; /* a turn is 2^96 */
    for (uint32_t i = 0; i < 3; i++) {
        const uint64_t pair = (uint64_t)two_by_pi[word + i] << 32 | two_by_pi[word + i + 1];
        turn = (turn << 32) + m * (pair << bit >> 32);
    }
    turn <<= 32;
    turn = x < 0 ? -turn : turn;
    turn += (unsigned __int128)quarters << 126;
    *n = (uint32_t)((turn + ((unsigned __int128)1 << 126)) >> 127); /* half turns */
    return (double)(__int128)(turn - ((unsigned __int128)*n << 127)) * 0x1p-126 * 1.5707963267948966;
}
INLINE float far_sin(float x, uint32_t quarters)
{
    uint32_t n;
    const double r = far_angle(x, quarters, &n);
    return sin_series(r, n);
}
INLINE float float_sin(float x) { return ordinary_sin(x) ? plain_sin(x) : x - x == 0 ? far_sin(x, 0) : x - x; }
INLINE float float_cos(float x) { return ordinary_cos(x) ? plain_cos(x) : x - x == 0 ? far_sin(x, 1) : x - x; }

/* ---- sinh, cosh, tanh ---- */

/* sinh and cosh of n ln 2 + r from those of both: half of 2^n and 2^-n by cosh r - 1 and sinh r. */
typedef struct hyperbolic {
    float z, s, c;                /* sinh r = z + s, cosh r = 1 + c      */
    float sum, difference;        /* of 2^n and 2^-n, a quarter of them  */
    float sum_rest, difference_rest;
} hyperbolic;

INLINE hyperbolic hyperbolic_of(float a)
{
    const float_bits t = {.f = STEP(a, 1.44269504f, FLOAT_SHIFT)}, up = {.u = (t.u << 23) + 0x3e800000};
    const int32_t least = (int32_t)(0x3e800000 - (t.u << 23));
    const float_bits down = {.i = least < 0 ? 0 : least};
    const float n = t.f - FLOAT_SHIFT, z = STEP(n, -LN2_LONG, a), less = n * LN2_REST, r = z - less, u = r * r;
    float s = 0.00836671796f, c = 0.00139330898f;
    s = STEP(s, u, 0.16666542f);
    c = STEP(c, u, 0.0416664854f);
    c = STEP(c, u, 0.5f);
    const float sum = up.f + down.f, difference = up.f - down.f;
    return (hyperbolic){z, STEP(r * u, s, -less), u * c, sum, difference, down.f - (sum - up.f), up.f - difference - down.f};
}
INLINE float float_cosh(float x)
{
    const float a = __builtin_fabsf(x);
    const hyperbolic p = hyperbolic_of(a);
    const float h = FMA(p.z, p.difference, p.sum), l = FMA(p.z, p.difference, p.sum - h) + p.sum_rest;
    const float y = 2 * (h + STEP(p.s, p.difference, STEP(p.c, p.sum, l)));
    return a <= 89.4159851f ? y : a + INFINITY;
}
INLINE float float_sinh(float x)
{
    const float a = __builtin_fabsf(x);
    const hyperbolic p = hyperbolic_of(a);
    const float h = FMA(p.z, p.sum, p.difference), l = FMA(p.z, p.sum, p.difference - h) + p.difference_rest;
    float y = 2 * (h + STEP(p.s, p.sum, STEP(p.c, p.difference, l)));
    y = a <= 89.4159851f ? y : a + INFINITY;
    y = a < 0x1p-60f ? a : y;
    return __builtin_copysignf(y, x);
}

/* a + a^3 p(a^2) up to 1, then 1 - 2 / (e^2a + 1) */
INLINE float float_tanh(float x)
{
    const float a = __builtin_fabsf(x), u = a * a;
    float_bits far = {.f = a + a};
    far.i = far.i < 0x41a00000 ? far.i : 0x41a00000; /* 20, also of NaN, which is not far */
    uint32_t k;
    const float e = exp_fraction(far.f, &k), whole = STEP(1 / (scaled(e, k) + 1), -2.0f, 1.0f);
    float p = -0.00035836047f;
    p = STEP(p, u, 0.00230113813f);
    p = STEP(p, u, -0.00794593524f);
    p = STEP(p, u, 0.0214866474f);
    p = STEP(p, u, -0.0538798422f);
    p = STEP(p, u, 0.133323461f);
    p = STEP(p, u, -0.333332956f);
    return __builtin_copysignf(a > 1 ? whole : STEP(a * u, p, a), x);
}

/* ---- erf: a + a p(a^2) up to 1, then 1 - 2^p(a - 1) ---- */
INLINE float float_erf(float x)
{
    const float a = __builtin_fabsf(x), u = a * a;
    float_bits most = {.f = a};
    most.i = most.i < 0x407c0000 ? most.i : 0x407c0000; /* 3.94, from where it is 1 */
    const float v = most.f - 1;
    float near = 7.80689588e-05f, far = 0.000198506968f;
    near = STEP(near, u, -0.000799785252f);
    near = STEP(near, u, 0.0051871622f);
    near = STEP(near, u, -0.0268533472f);
    near = STEP(near, u, 0.112835787f);
    near = STEP(near, u, -0.37612626f);
    near = STEP(near, u, 0.128379166f);
    far = STEP(far, v, -0.00238604215f);
    far = STEP(far, v, 0.0139559945f);
    far = STEP(far, v, -0.059703052f);
    far = STEP(far, v, -1.2164011f);
    far = STEP(far, v, -3.80722141f);
    far = STEP(far, v, -2.66841674f);
    const float_bits t = {.f = far + FLOAT_SHIFT};
    const float r = far - (t.f - FLOAT_SHIFT), left = STEP(STEP(exp2_series(r), r, 0.693147182f), r, 1.0f);
    const float whole = 1 - scaled(left, t.u);
    return __builtin_copysignf(a > 1 ? whole : STEP(a, near, a), x);
}

/* ---- atan, asin, acos ---- */

/* (atan t - t) / t^3 of t^2 */
INLINE float atan_series(float u)
{
    float p = 0.00113449048f;
    p = STEP(p, u, -0.00742524024f);
    p = STEP(p, u, 0.0227774289f);
    p = STEP(p, u, -0.044983115f);
    p = STEP(p, u, 0.0676364377f);
    p = STEP(p, u, -0.0882146135f);
    p = STEP(p, u, 0.110612333f);
    p = STEP(p, u, -0.142803431f);
    p = STEP(p, u, 0.199997157f);
    return STEP(p, u, -0.333333284f);
}
INLINE float float_atan(float x)
{
    const float a = __builtin_fabsf(x), by = 1 / a, lost = FMA(-by, a, 1.0f) * -by;
    const bool far = a > 1;
    const float t = far ? -by : a, u = t * t, v = u * t, p = atan_series(u), w = v * p;
    const float h = 1.57079637f + t, l = 1.57079637f - h + t + (STEP(lost * -0.5f, u, lost) - 4.37113883e-8f) + w;
    const float y = a > 0x1p30f ? 1.57079637f : h + l;
    return __builtin_copysignf(far ? y : STEP(v, p, t), x);
}

/* sqrt(z) for 0 <= z <= 1/4, in two floats: Newton's steps for 1 / sqrt(z) take less time than a division and a root */
INLINE float root_of(float z, float *rest)
{
    const float_bits b = {.f = z}, guess = {.u = 0x5f37642f - (b.u >> 1)};
    const float half = 0.5f * z;
    float y = guess.f;
    y = y * STEP(-half * y, y, 1.5f);
    y = y * STEP(-half * y, y, 1.5f);
    y = y * STEP(-half * y, y, 1.5f);
    const float s = z * y;
    *rest = FMA(-s, s, z) * (0.5f * y);
    return s;
}
/* asin t = t + w, t = a or sqrt((1 - a) / 2), with what t lacks; w in one */
INLINE float asin_parts(float a, float *t)
{
    float rest;
    const bool far = a > 0.5f;
    const float z = far ? (1 - a) * 0.5f : a * a, root = root_of(!far ? 0.25f : z < 0 ? 0 : z, &rest), near = far ? root : a; /* past 1 steps would end in subnormals, which take long */
    float p = 0.0422121324f;
    p = STEP(p, z, 0.0241519678f);
    p = STEP(p, z, 0.0454760529f);
    p = STEP(p, z, 0.0749525204f);
    p = STEP(p, z, 0.166667536f);
    *t = near;
    return STEP(near * z, p, far ? rest : 0);
}
INLINE float float_asin(float x)
{
    const float a = __builtin_fabsf(x);
    float t, w = asin_parts(a, &t);
    const float h = STEP(t, -2.0f, 1.57079637f), l = STEP(t, -2.0f, 1.57079637f - h);
    const float y = h + STEP(w, -2.0f, l - 4.37113883e-8f);
    const float inside = a > 0.5f ? y : t + w;
    return a <= 1 ? __builtin_copysignf(inside, x) : NAN;
}
INLINE float float_acos(float x)
{
    const float a = __builtin_fabsf(x);
    float t, w = asin_parts(a, &t);
    const bool far = a > 0.5f, below = x < 0;
    /* base + by (t + w): pi/2 - asin x, 2 asin t, pi - 2 asin t */
    const float by = far ? (below ? -2.0f : 2.0f) : (below ? 1.0f : -1.0f), base = far ? (below ? 3.14159274f : 0) : 1.57079637f;
    const float rest = far ? (below ? -8.74227766e-8f : 0) : -4.37113883e-8f;
    const float h = STEP(t, by, base), l = STEP(t, by, base - h);
    const float y = h + STEP(w, by, l + rest);
    return a <= 1 ? y : NAN;
}

/* ---- tan: x = n pi/2 + r, tan r or -1 / tan r ---- */

#define NEAR_QUARTER 0x1p17f
INLINE bool ordinary_tan(float x) { return __builtin_fabsf(x) < NEAR_QUARTER; }
INLINE float plain_tan(float x)
{
    const float_bits t = {.f = STEP(x, 0.636619772f, FLOAT_SHIFT)};
    const float n = t.f - FLOAT_SHIFT, z = FMA(n, -1.57079637f, x), less = n * 4.37113883e-8f, r = z + less; /* z is exact, and of whole units of `less` */
    const float rest = STEP(n, 1.71512451e-15f, z - r + less + FMA(n, 4.37113883e-8f, -less)), u = r * r;
    float p = 0.00446514925f;
    p = STEP(p, u, -8.78494538e-05f);
    p = STEP(p, u, 0.010973501f);
    p = STEP(p, u, 0.0212299414f);
    p = STEP(p, u, 0.0540698655f);
    p = STEP(p, u, 0.13332577f);
    p = STEP(p, u, 0.333333522f);
    const float v = r * u, h = FMA(v, p, r), l = FMA(v, p, r - h) + STEP(rest * 1.5f, u, rest), by = 1 / h;
    const float high = t.u & 1 ? -by : h, low = t.u & 1 ? (FMA(by, h, -1.0f) + by * l) * by : l;
    const float y = high + low;
    return __builtin_fabsf(x) < 0x1p-60f ? x : y;
}
INLINE float far_tan(float x)
{
    uint32_t n;
    return (float)tan(far_angle(x, 0, &n));
}
INLINE float float_tan(float x) { return ordinary_tan(x) ? plain_tan(x) : x - x == 0 ? far_tan(x) : x - x; }

#undef INLINE
#undef FMA
#undef STEP
#undef WIDE_STEP

#endif
