/* words_complex.h - the words of pointwise.def for complex numbers of C++, as src/kernels/cpu/words_complex.h has them for those of C.
 * The includer defines REAL_T. Functions beyond arithmetic are those of the standard library (on devices libcu++).
 */
#ifdef __CUDACC__
#include <cuda/std/complex>
#define STD cuda::std
#else
#define STD std
#endif
#define T complex_of<REAL_T>
#define K(v) (complex_of<REAL_T>((REAL_T)(v)))
typedef STD::complex<REAL_T> standard;

FN standard to(T x) { return standard(x.re, x.im); }
FN T from(standard x) { return T(x.real(), x.imag()); }
FN T operator*(int a, T x) { return T(a * x.re, a * x.im); }
FN T operator+(int a, T x) { return T(a + x.re, x.im); }
FN bool operator==(T x, int y) { return x.re == y && x.im == 0; }
FN bool operator!=(T x, int y) { return !(x == y); }

FN T scale(T x, REAL_T s) { return T(x.re * s, x.im * s); }
FN T product(T x, T y) { return x * y; }
FN T times(T x, T y) { return x.im == 0 ? scale(y, x.re) : x * y; }
FN T plus_times(T x, T a, T y) { return x + times(a, y); }
FN T less_times(T x, T a, T y) { return x - times(a, y); }
FN T plus_product(T x, T y, T z) { return x + product(y, z); }
FN T conjugate(T x) { return T(x.re, -x.im); }
FN REAL_T imaginary(T x) { return x.im; }
FN REAL_T absolute(T x) { return ::hypot(x.re, x.im); }
FN REAL_T abs_square(T x) { return x.re * x.re + x.im * x.im; }
FN REAL_T phase(T x) { return ::atan2(x.im, x.re); }
FN bool is_inf_part(REAL_T x) { return ::fabs(x) == (REAL_T)INFINITY; }
FN bool is_nan(T x) { return x.re != x.re || x.im != x.im; }
FN bool is_inf(T x) { return is_inf_part(x.re) || is_inf_part(x.im); }
FN bool is_finite(T x) { return !is_nan(x) && !is_inf(x); }
FN REAL_T part_of(REAL_T x, REAL_T nan, REAL_T high, REAL_T low) { return x != x ? nan : !is_inf_part(x) ? x : x > 0 ? high : low; }
FN T finite_of(T x, T nan, T high, T low) { return T(part_of(x.re, nan.re, high.re, low.re), part_of(x.im, nan.re, high.re, low.re)); }
FN T one_less_square(T x) { return K(1) - x * x; }
FN T sign_of(T x)
{
    REAL_T r = absolute(x);
    return r == 0 ? K(0) : T(x.re / r, x.im / r);
}
FN T root(T x) { return from(STD::sqrt(to(x))); }
FN T exponential(T x) { return from(STD::exp(to(x))); }
FN T logarithm(T x) { return from(STD::log(to(x))); }
FN T rsqrt_of(T x) { return K(1) / root(x); }
FN T power(T x, T y)
{
    if (y == 0) return K(1);
    if (x == 0) return y.re > 0 ? K(0) : T((REAL_T)NAN, (REAL_T)NAN);
    if (y.im == 0 && y.re == 2) return x * x;
    return from(STD::pow(to(x), to(y)));
}
FN T exp2_of(T x) { return exponential(scale(x, (REAL_T)0.69314718055994530942)); }
FN T expm1_of(T x)
{
    REAL_T half = ::sin(x.im / 2), e = ::expm1(x.re);
    return T(e * ::cos(x.im) - 2 * half * half, (e + 1) * ::sin(x.im));
}
FN T log_scaled(T x, REAL_T s) { return scale(logarithm(x), s); }
FN T log1p_of(T x)
{
    REAL_T a = ::fabs(x.re) + ::fabs(x.im);
    if (!(a < (REAL_T)0.5)) return logarithm(1 + x);
    return T(::log1p(x.re * (2 + x.re) + x.im * x.im) / 2, ::atan2(x.im, 1 + x.re));
}
FN T log_add_exp(T x, T y)
{
    if (x.re < y.re) {
        T swap = x;
        x = y, y = swap;
    }
    if (is_inf(x) && x.re == y.re && !is_nan(x) && !is_nan(y)) return x.re < 0 ? x : logarithm(exponential(x) + exponential(y));
    return x + log1p_of(exponential(y - x));
}
FN T log_add_exp2(T x, T y)
{
    const REAL_T l = (REAL_T)0.69314718055994530942;
    return scale(log_add_exp(scale(x, l), scale(y, l)), (REAL_T)1.44269504088896340736);
}

#define WORD(name) FN T name##_word(T x) { return from(STD::name(to(x))); }
WORD(sin) WORD(cos) WORD(tan) WORD(asin) WORD(acos) WORD(atan) WORD(sinh) WORD(cosh) WORD(tanh) WORD(asinh) WORD(acosh) WORD(atanh)
#undef WORD
#define sqrt(v) root(v)
#define exp(v) exponential(v)
#define one_and_exp(v) (K(1) + exp(v))
#define exp2(v) exp2_of(v)
#define expm1(v) expm1_of(v)
#define log(v) logarithm(v)
#define log2(v) log_scaled(v, (REAL_T)1.44269504088896340736)
#define log10(v) log_scaled(v, (REAL_T)0.43429448190325182765)
#define log1p(v) log1p_of(v)
#define sin(v) sin_word(v)
#define cos(v) cos_word(v)
#define tan(v) tan_word(v)
#define asin(v) asin_word(v)
#define acos(v) acos_word(v)
#define atan(v) atan_word(v)
#define sinh(v) sinh_word(v)
#define cosh(v) cosh_word(v)
#define tanh(v) tanh_word(v)
#define asinh(v) asinh_word(v)
#define acosh(v) acosh_word(v)
#define atanh(v) atanh_word(v)

#define HAS_B 0
#define HAS_I 0
#define HAS_F 0
#define HAS_C 1
#define ARG(k) T((REAL_T)args->re[k], (REAL_T)args->im[k])
#define CAST(v) (v)
#define CAST_REAL(v) (v)
