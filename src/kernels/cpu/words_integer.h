/* words_integer.h - the words of pointwise.def for integers and bool. The includer defines T and IS_BOOL. Sums and
 * products wrap around; a division by zero, which the shape rule has refused, gives 0. */
#pragma GCC diagnostic ignored "-Wtype-limits"
#if !defined(__clang__)
#ifndef __CUDACC__
#pragma GCC optimize("wrapv")
#endif
#endif

#define K(v) ((T)(v))

static inline T product(T x, T y) { return (T)(x * y); }
static inline T times(T x, T y) { return (T)(x * y); }
static inline T plus_times(T x, T a, T y) { return (T)(x + a * y); }
static inline T less_times(T x, T a, T y) { return (T)(x - a * y); }
static inline T plus_product(T x, T y, T z) { return (T)(x + y * z); }
static inline bool is_nan(T x) { return false; }
static inline bool is_inf(T x) { return false; }
static inline bool is_finite(T x) { return true; }
static inline T finite_of(T x, T nan, T high, T low) { return x; }
static inline T imaginary(T x) { return 0; }
static inline T conjugate(T x) { return x; }
static inline T sign_of(T x) { return (T)((x > 0) - (x < 0)); }
static inline bool sign_bit(T x) { return x < 0; }
static inline T larger(T x, T y) { return x > y ? x : y; }
static inline T smaller(T x, T y) { return x < y ? x : y; }
static inline T at_least(T x, T low) { return x < low ? low : x; }
static inline T at_most(T x, T high) { return x > high ? high : x; }

#define HAS_F 0
#define HAS_C 0
#define REAL_T T
#define ARG(k) CAST(args->i[k])
#if IS_BOOL
#define HAS_B 1
#define HAS_I 0
#define CAST(v) (T)((v) != 0)
static inline T complement(T x) { return !x; }
#else
#define HAS_B 0
#define HAS_I 1
#define CAST(v) (T)(v)
static inline T complement(T x) { return (T)~x; }
static inline T absolute(T x) { return x < 0 ? (T)-x : x; }
#define floor(v) (v)
#define ceil(v) (v)
#define trunc(v) (v)
#define round_even(v) (v)

/* Integers of up to 32 bits are divided as floating point numbers, which is exact and goes in vectors. */
static inline T plain_mod(T x, T y) { return y == 0 || (y == (T)-1 && (T)-1 < 0) ? 0 : (T)(x % y); }
static inline T trunc_div(T x, T y)
{
    const bool turns = y == (T)-1 && (T)-1 < 0;
    const T by = y == 0 || turns ? 1 : y;
    const T q = sizeof(T) == 1 ? (T)((float)x / (float)by) : sizeof(T) == 4 ? (T)((double)x / (double)by) : x / by;
    return y == 0 ? 0 : turns ? (T)(0 - (uint64_t)x) : q;
}
static inline T trunc_mod(T x, T y) { return sizeof(T) > 4 ? plain_mod(x, y) : y == 0 ? 0 : (T)(x - trunc_div(x, y) * y); }
static inline T floor_mod(T x, T y)
{
    T r = trunc_mod(x, y);
    return (r != 0) & ((r < 0) != (y < 0)) ? (T)(r + y) : r;
}
static inline T floor_div(T x, T y)
{
    const T q = trunc_div(x, y), r = (T)(x - q * y);
    return (y != 0) & (r != 0) & ((x < 0) != (y < 0)) ? (T)(q - 1) : q;
}
#if defined(__AVX512DQ__)
/* So are those of 64 bits where they are small enough (see pointwise_loops.inc). */
static inline bool hard_quotient(T x, T y)
{
    const T edge = (T)1 << (sizeof(T) == 8 ? 51 : 0);
    return (x >= edge) | (x <= -edge) | (y >= edge) | (y <= -edge) | (y == 0);
}
static inline T div_quick(T x, T y) { return (T)((double)x / (double)y); }
static inline T mod_quick(T x, T y) { return x - div_quick(x, y) * y; }
static inline T floor_mod_quick(T x, T y)
{
    const T r = mod_quick(x, y);
    return r + ((r != 0) & ((r < 0) != (y < 0)) ? y : 0);
}
static inline T floor_div_quick(T x, T y)
{
    const T q = div_quick(x, y), r = x - q * y;
    return q - ((r != 0) & ((r < 0) != (y < 0)) ? 1 : 0);
}
#endif
static inline T power(T x, T y)
{
    if (y < 0) return x == 1 ? 1 : x == (T)-1 ? (y % 2 ? (T)-1 : 1) : 0;
    T r = 1;
    for (; y; y /= 2, x = (T)((uint64_t)x * (uint64_t)x)) /* unsigned: it may wrap around */
        if (y % 2) r = (T)((uint64_t)r * (uint64_t)x);
    return r;
}
static inline T gcd(T x, T y)
{
    while (y) {
        T r = plain_mod(x, y);
        x = y, y = r;
    }
    return absolute(x);
}
static inline T lcm(T x, T y)
{
    T g = gcd(x, y);
    return g == 0 ? 0 : absolute((T)((uint64_t)(x / g) * (uint64_t)y));
}
static inline T shift_left(T x, T y)
{
    return y < 0 || y >= (T)(8 * sizeof(T)) ? 0 : (T)((uint64_t)x << y);
}
static inline T shift_right(T x, T y)
{
    const T most = (T)(8 * sizeof(T) - ((T)-1 < 0)); /* of signed numbers the sign stays */
    if (y < 0 || y >= most) return (T)-1 < 0 ? (T)(x >> most) : 0;
    return (T)(x >> y);
}
#endif
