/* words_complex.h - the words of pointwise.def for complex numbers. The includer defines T, REAL_T and F(name), the C
 * function of that name (cexpf for float complex). */
#include "kernels/cpu/libmvec.h"
#include <complex.h>
#undef I

#define K(v) ((T)(REAL_T)(v))

static inline REAL_T re_of(T x) { return __real__ x; }
static inline REAL_T im_of(T x) { return __imag__ x; }
/* re + i*im without the NaN that im * I makes of infinities */
static inline T make(REAL_T re, REAL_T im) { return __builtin_complex(re, im); }

static inline T scale(T x, REAL_T s) { return make(re_of(x) * s, im_of(x) * s); }
/* without C's care for infinities, as PyTorch multiplies */
static inline T product(T x, T y)
{
    return make(re_of(x) * re_of(y) - im_of(x) * im_of(y), re_of(x) * im_of(y) + im_of(x) * re_of(y));
}
/* Products and quotients as PyTorch's vectors have them: each product of the one is rounded before it is added or subtracted, so that z times its
 * conjugate is real (APART: GCC fuses pairs of them even with contraction off); the other is Smith's (1962), times the reciprocal of the divisor. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define APART(x) __builtin_assoc_barrier(x)
#elif __has_builtin(__arithmetic_fence)
#define APART(x) __arithmetic_fence(x)
#endif
#endif
#ifndef APART
#define APART(x) (x)
#endif
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define MULADD(v, w, u) R(fma)(v, w, u)
#else
#define MULADD(v, w, u) ((v) * (w) + (u))
#endif
static inline T product_apart(T x, T y)
{
    return make(APART(re_of(x) * re_of(y)) - APART(im_of(x) * im_of(y)), APART(re_of(x) * im_of(y)) + APART(im_of(x) * re_of(y)));
}
static inline T quotient(T x, T y)
{
    const REAL_T a = re_of(x), b = im_of(x), c = re_of(y), d = im_of(y), size_c = R(fabs)(c), size_d = R(fabs)(d);
    const bool wide = size_c >= size_d, zero = size_c == 0 && size_d == 0;
    const REAL_T more = wide ? c : d, less = wide ? d : c, part = less / more, one = 1 / MULADD(less, part, more);
    const REAL_T re = MULADD(wide ? b : a, part, wide ? a : b) * one, im = MULADD(wide ? -a : b, part, wide ? b : -a) * one;
    return make(zero ? a / size_c : re, zero ? b / size_d : im);
}
static inline T times(T x, T y) { return im_of(x) == 0 ? scale(y, re_of(x)) : x * y; }
static inline T plus_times(T x, T a, T y) { return x + times(a, y); }
static inline T less_times(T x, T a, T y) { return x - times(a, y); }
static inline T plus_product(T x, T y, T z) { return x + product(y, z); }
static inline T conjugate(T x) { return make(re_of(x), -im_of(x)); }
static inline REAL_T imaginary(T x) { return im_of(x); }
static inline REAL_T absolute(T x) { return R(hypot)(re_of(x), im_of(x)); }
static inline REAL_T abs_square(T x) { return re_of(x) * re_of(x) + im_of(x) * im_of(x); }
static inline REAL_T phase(T x) { return R(atan2)(im_of(x), re_of(x)); }
static inline bool is_nan(T x) { return re_of(x) != re_of(x) || im_of(x) != im_of(x); }
static inline bool is_inf(T x) { return isinf(re_of(x)) || isinf(im_of(x)); }
static inline bool is_finite(T x) { return isfinite(re_of(x)) && isfinite(im_of(x)); }
static inline REAL_T part_of(REAL_T x, T nan, T high, T low)
{
    return x != x ? re_of(nan) : !isinf(x) ? x : x > 0 ? re_of(high) : re_of(low);
}
static inline T finite_of(T x, T nan, T high, T low)
{
    return make(part_of(re_of(x), nan, high, low), part_of(im_of(x), nan, high, low));
}
static inline T one_less_square(T x) { return K(1) - x * x; }
static inline T sign_of(T x)
{
    REAL_T r = absolute(x);
    return r == 0 ? 0 : make(re_of(x) / r, im_of(x) / r);
}
static inline T rsqrt_of(T x) { return 1 / F(sqrt)(x); }
static inline T power(T x, T y)
{
    if (y == 0) return 1;
    if (x == 0) return re_of(y) > 0 ? (T)0 : make(R(nan)(""), R(nan)(""));
    if (im_of(y) == 0 && re_of(y) == 2) return x * x;
    return F(pow)(x, y);
}
static inline T exp2_of(T x) { return F(exp)(scale(x, (REAL_T)0.69314718055994530942)); }
/* exp(x) - 1 without cancellation for small x */
static inline T expm1_of(T x)
{
    REAL_T half = R(sin)(im_of(x) / 2), e = R(expm1)(re_of(x));
    return make(e * R(cos)(im_of(x)) - 2 * half * half, (e + 1) * R(sin)(im_of(x)));
}
static inline T log_scaled(T x, REAL_T s) { return scale(F(log)(x), s); }
/* log(1 + x): of the length by log1p of the square's excess where it is close to one */
static inline T log1p_of(T x)
{
    REAL_T re = re_of(x), im = im_of(x), a = R(fabs)(re) + R(fabs)(im);
    if (!(a < (REAL_T)0.5)) return F(log)(1 + x);
    return make(R(log1p)(re * (2 + re) + im * im) / 2, R(atan2)(im, 1 + re));
}
static inline T log_add_exp(T x, T y)
{
    if (re_of(x) < re_of(y)) {
        T swap = x;
        x = y, y = swap;
    }
    if (is_inf(x) && re_of(x) == re_of(y) && !is_nan(x) && !is_nan(y)) return re_of(x) < 0 ? x : F(log)(F(exp)(x) + F(exp)(y));
    return x + log1p_of(F(exp)(y - x));
}
static inline T log_add_exp2(T x, T y)
{
    return scale(log_add_exp(scale(x, (REAL_T)0.69314718055994530942), scale(y, (REAL_T)0.69314718055994530942)),
                 (REAL_T)1.44269504088896340736);
}

#define sqrt(v) F(sqrt)(v)
#define exp(v) F(exp)(v)
#define one_and_exp(v) (K(1) + exp(v))
#define exp2(v) exp2_of(v)
#define expm1(v) expm1_of(v)
#define log(v) F(log)(v)
#define log2(v) log_scaled(v, (REAL_T)1.44269504088896340736)
#define log10(v) log_scaled(v, (REAL_T)0.43429448190325182765)
#define log1p(v) log1p_of(v)
#define sin(v) F(sin)(v)
#define cos(v) F(cos)(v)
#define tan(v) F(tan)(v)
#define asin(v) F(asin)(v)
#define acos(v) F(acos)(v)
#define atan(v) F(atan)(v)
#define sinh(v) F(sinh)(v)
#define cosh(v) F(cosh)(v)
#define tanh(v) F(tanh)(v)
#define asinh(v) F(asinh)(v)
#define acosh(v) F(acosh)(v)
#define atanh(v) F(atanh)(v)

#define HAS_B 0
#define HAS_I 0
#define HAS_F 0
#define HAS_C 1
#define ARG(k) make((REAL_T)args->re[k], (REAL_T)args->im[k])
#define CAST(v) (v)
