/* words_real.h - the words of pointwise.def for float and double. The includer defines T and F(name), which is the C
 * function of that name for T (expf for float). */
#include "base/special.h"
#include "kernels/cpu/libmvec.h"

#define K(v) ((T)(v))
#if defined(__FMA__) || defined(RUSH_ON_DEVICE)
#define MULADD(v, w, u) F(fma)(v, w, u)
#else
#define MULADD(v, w, u) ((v) * (w) + (u))
#endif

static inline T product(T x, T y) { return (T)(x * y); }
static inline T times(T x, T y) { return x * y; }
/* rounded once where the processor can */
static inline T plus_times(T x, T a, T y) { return MULADD(a, y, x); }
static inline T less_times(T x, T a, T y) { return MULADD(-a, y, x); }
static inline T plus_product(T x, T y, T z) { return MULADD(y, z, x); }
static inline bool is_nan(T x) { return x != x; }
static inline bool is_inf(T x) { return F(fabs)(x) == K(INFINITY); }
static inline bool is_finite(T x) { return F(fabs)(x) < K(INFINITY); }
static inline T finite_of(T x, T nan, T high, T low) { return x != x ? nan : is_finite(x) ? x : x > 0 ? high : low; }
static inline T imaginary(T x) { return 0; }
static inline T conjugate(T x) { return x; }
static inline T absolute(T x) { return F(fabs)(x); }
static inline T abs_square(T x) { return x * x; }
static inline T sign_of(T x) { return (T)((x > 0) - (x < 0)); }
static inline bool sign_bit(T x) { return F(copysign)(K(1), x) < 0; }
static inline T phase(T x) { return x != x ? x : x < 0 ? K(3.14159265358979323846) : 0; }
/* NaN wins, whichever side it is on */
static inline T larger(T x, T y) { return (x > y) | (x != x) ? x : y; }
static inline T smaller(T x, T y) { return (x < y) | (x != x) ? x : y; }
/* by a bound that is not NaN */
static inline T at_least(T x, T low) { return x < low ? low : x; }
static inline T at_most(T x, T high) { return x > high ? high : x; }
static inline T round_even(T x) { return F(rint)(x); }
static inline T rsqrt_of(T x) { return 1 / F(sqrt)(x); }
static inline T one_less_square(T x) { return MULADD(-x, x, K(1)); }
static inline T odds(T x) { return x / (1 - x); }

static inline T trunc_div(T x, T y) { return F(trunc)(x / y); }
static inline T trunc_mod(T x, T y) { return F(fmod)(x, y); }
/* Like Python's % and //, from the remainder of the truncated quotient: the remainder has the divisor's sign */
static inline T floor_mod_of(T r, T y) { return (r != 0) & ((r < 0) != (y < 0)) ? r + y : r; }
static inline T floor_div_of(T x, T y, T r)
{
    const T q = (x - r) / y - ((r != 0) & ((r < 0) != (y < 0)) ? K(1) : K(0)), whole = F(floor)(q);
    const T near = whole + (q - whole > K(0.5) ? K(1) : K(0));
    return y == 0 ? x / y : F(copysign)(near, x / y); /* where it is 0 the sign is open */
}
static inline T floor_mod(T x, T y) { return floor_mod_of(trunc_mod(x, y), y); }
static inline T floor_div(T x, T y) { return floor_div_of(x, y, trunc_mod(x, y)); }

/* The same in vectors, for quotients that are not huge (see pointwise_loops.inc). In double, x - y trunc(x / y) is exact
 * for floats; for doubles a fused multiply-add gives it, and a quotient rounded up to the next integer shows in its sign. */
#if defined(__FMA__)
#define QUICK_LIMIT (sizeof(T) == 4 ? K(0x1p28) : K(0x1p51))
#else
#define QUICK_LIMIT (sizeof(T) == 4 ? K(0x1p28) : K(0))
#endif
static inline bool hard_quotient(T x, T y) { return !(F(fabs)(x / y) < QUICK_LIMIT) | (F(fabs)(y) == K(INFINITY)); }
static inline T trunc_mod_quick(T x, T y)
{
    const double a = (double)x, b = (double)y, q = __builtin_trunc(a / b);
#if defined(__FMA__)
    const double r = __builtin_fma(-q, b, a);
#else
    const double r = a - q * b;
#endif
    const double mended = sizeof(T) > 4 && (((r < 0) & (a > 0)) | ((r > 0) & (a < 0))) ? r + __builtin_copysign(b, a) : r;
    return F(copysign)((T)mended, x);
}
#define HAS_QUICK 1
#define QUICK_fmod(x, y) trunc_mod_quick(x, y)
#define QUICK_remainder(x, y) floor_mod_of(trunc_mod_quick(x, y), y)
#define QUICK_floor_divide(x, y) floor_div_of(x, y, trunc_mod_quick(x, y))

/* pow of the sign and the size: the vector form of pow takes its slow way for negative numbers */
static inline T power(T x, T y)
{
    const T size = F(pow)(F(fabs)(x), y), half = y * K(0.5);
    const bool below = F(copysign)(K(1), x) < 0, whole = F(floor)(y) == y, odd = whole & (F(floor)(half) != half);
    const T turned = below & odd ? -size : size;
    return (x < 0) & !whole & is_finite(x) ? K(NAN) : turned;
}

/* The number next to x on the way to y */
static inline T step_to(T x, T y)
{
    union { T v; int32_t w; int64_t d; } bits = {x}, least = {0};
    if (sizeof(T) == 4) bits.w += (x < y) == (x > 0) ? 1 : -1, least.w = 1;
    else bits.d += (x < y) == (x > 0) ? 1 : -1, least.d = 1;
    const T moved = x == 0 ? F(copysign)(least.v, y) : bits.v;
    return (x != x) | (y != y) ? x + y : x == y ? y : moved;
}

static inline T log_add_exp(T x, T y)
{
    T high = larger(x, y), low = smaller(x, y);
    return high == low && is_inf(high) ? high : high + F(log1p)(F(exp)(low - high));
}
static inline T log_add_exp2(T x, T y)
{
    T high = larger(x, y), low = smaller(x, y);
    return high == low && is_inf(high) ? high : high + F(log1p)(F(exp2)(low - high)) * K(1.44269504088896340736);
}

/* Floats have PyTorch's bits here: see pointwise_f32.c. */
static inline T one_and_exp(T x) { return 1 + F(exp)(x); }

/* erf for gelu: in float a quotient of polynomials that is right to 4e-7 and stays within -1..1 */
static inline T erf_quick(T x)
{
    if (sizeof(T) > 4) return F(erf)(x);
    const T c = x < K(-3.92) ? K(-3.92) : x > K(3.92) ? K(3.92) : x, t = c * c;
    T p = K(2.0500835275139145e-06), q = K(3.809173052903104e-05);
    p = MULADD(p, t, K(0.0002848837575260583));
    p = MULADD(p, t, K(0.0037656535143127056));
    p = MULADD(p, t, K(0.05274883581792615));
    p = MULADD(p, t, K(0.1904072898389358));
    p = MULADD(p, t, K(1.1283791461288677));
    q = MULADD(q, t, K(0.0011625447864926641));
    q = MULADD(q, t, K(0.014969289323520218));
    q = MULADD(q, t, K(0.11410945556013918));
    q = MULADD(q, t, K(0.5020768077530653));
    q = MULADD(q, t, K(1));
    const T r = c * p / q;
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

/* Slopes of activations at y, given what the loop has computed */
static inline T gelu_tanh_slope(T y, T t)
{
    T inner = K(0.79788456080286535588) * (1 + 3 * K(0.044715) * y * y);
    return K(0.5) * (1 + t) + K(0.5) * y * (1 - t * t) * inner;
}
static inline T mish_slope(T y, T t, T s) { return t + y * s * (1 - t * t); }

/* Special functions are computed in double, one element at a time */
#define SPECIAL1(word) static inline T word(T x) { return (T)rush_##word((double)x); }
#define SPECIAL2(word) static inline T word(T x, T y) { return (T)rush_##word((double)x, (double)y); }
SPECIAL1(erfcx) SPECIAL2(polygamma) SPECIAL2(gamma_p)
SPECIAL2(gamma_q) SPECIAL2(zeta) SPECIAL1(bessel_i0) SPECIAL1(bessel_i0e) SPECIAL1(bessel_i1) SPECIAL1(bessel_i1e)
SPECIAL1(normal_quantile) SPECIAL1(log_normal_cdf) SPECIAL1(bessel_j0) SPECIAL1(bessel_j1) SPECIAL1(bessel_y0)
SPECIAL1(bessel_y1) SPECIAL1(bessel_k0) SPECIAL1(bessel_k1) SPECIAL1(bessel_k0e) SPECIAL1(bessel_k1e)
SPECIAL1(spherical_j0) SPECIAL1(airy_ai) SPECIAL2(chebyshev_polynomial_t) SPECIAL2(chebyshev_polynomial_u)
SPECIAL2(chebyshev_polynomial_v) SPECIAL2(chebyshev_polynomial_w) SPECIAL2(shifted_chebyshev_polynomial_t)
SPECIAL2(shifted_chebyshev_polynomial_u) SPECIAL2(shifted_chebyshev_polynomial_v)
SPECIAL2(shifted_chebyshev_polynomial_w) SPECIAL2(hermite_polynomial_h) SPECIAL2(hermite_polynomial_he)
SPECIAL2(laguerre_polynomial_l) SPECIAL2(legendre_polynomial_p)

/* Stirling's series from 16 on, to where numbers are brought by the recurrence, and reflected when negative (DLMF 5.5.1,
 * 5.5.3, 5.11.1 and 2). In double vectors for float; double has the careful functions. */
static inline T log_gamma(T x)
{
    if (sizeof(T) > 4) return (T)rush_log_gamma((double)x);
    const bool turned = x < K(0.5);
    const double d = (double)x, u = turned ? 1 - d : d, t = u * (u + 15), sine = sin(3.14159265358979323846 * (d - __builtin_rint(d)));
    const double product = t * (t + 14) * (t + 26) * (t + 36) * (t + 44) * (t + 50) * (t + 54) * (t + 56); /* u (u + 1) ... (u + 15) */
    const double z = u < 16 ? u + 16 : u, w = 1 / (z * z), front = u < 16 ? product : 1;
    const double tail = (1. / 12 + w * (-1. / 360 + w * (1. / 1260 + w * (-1. / 1680 + w * (1. / 1188 - w * (691. / 360360)))))) / z;
    const double main = (z - 0.5) * log(z) - z + 0.91893853320467274178 + tail;
    const double rest = log(turned ? front * 3.14159265358979323846 / __builtin_fabs(sine) : front);
    const double v = (x == 1) | (x == 2) ? 0 : turned ? rest - main : main - rest;
    return __builtin_fabs(d) == INFINITY ? K(INFINITY) : (T)v;
}
static inline T digamma(T x)
{
    if (sizeof(T) > 4) return (T)rush_digamma((double)x);
    const double d = (double)x, r = d - __builtin_rint(d), u = x < 0.5f ? 1 - d : d;
    const bool small = u < 10;
    double product = 1, slope = 0; /* of u (u + 1) ..., whose logarithmic derivative is the sum of 1 / (u + k) */
    for (int k = 0; k < 10; ++k) {
        const double f = small ? u + k : 1;
        slope = small ? slope * f + product : 0;
        product *= f;
    }
    const double z = small ? u + 10 : u, w = 1 / (z * z);
    const double tail = w * (1. / 12 + w * (-1. / 120 + w * (1. / 252 + w * (-1. / 240 + w * (1. / 132 - w * (691. / 32760))))));
    const double there = log(z) - 0.5 / z - tail - slope / product, angle = tan(3.14159265358979323846 * r);
    const double v = x < 0.5f ? there - 3.14159265358979323846 / angle : there;
    const T pole = x == 0 ? -F(copysign)(K(INFINITY), x) : K(NAN);
    return (r == 0) & (x <= 0) ? pole : (T)v;
}

/* In float by M. Giles's polynomials (Approximating the erfinv function, 2010), in double by iteration */
static inline T erfinv(T x)
{
    if (sizeof(T) > 4) return (T)rush_erfinv((double)x);
    const T w = -F(log)((1 - x) * (1 + x)), v = w - K(2.5), u = F(sqrt)(w) - 3;
    T near = K(2.81022636e-08), far = K(-0.000200214257);
    near = K(3.43273939e-07) + near * v;
    near = K(-3.5233877e-06) + near * v;
    near = K(-4.39150654e-06) + near * v;
    near = K(0.00021858087) + near * v;
    near = K(-0.00125372503) + near * v;
    near = K(-0.00417768164) + near * v;
    near = K(0.246640727) + near * v;
    near = K(1.50140941) + near * v;
    far = K(0.000100950558) + far * u;
    far = K(0.00134934322) + far * u;
    far = K(-0.00367342844) + far * u;
    far = K(0.00573950773) + far * u;
    far = K(-0.0076224613) + far * u;
    far = K(0.00943887047) + far * u;
    far = K(1.00167406) + far * u;
    far = K(2.83297682) + far * u;
    const T inside = (w < 5 ? near : far) * x, edge = x * K(INFINITY);
    return F(fabs)(x) == 1 ? edge : inside;
}

#define HAS_B 0
#define HAS_I 0
#define HAS_F 1
#define HAS_C 0
#define REAL_T T
#define ARG(k) (T)args->re[k]
#define CAST(v) (T)(v)
