/* words_integer.h - the words of pointwise.def for integers and bool. The includer defines T and IS_BOOL. Sums and
 * products wrap around; a division by zero, which the shape rule has refused, gives 0. */
#pragma GCC diagnostic ignored "-Wtype-limits"

#define K(v) ((T)(v))

static inline T product(T x, T y) { return (T)(x * y); }
static inline T times(T x, T y) { return (T)(x * y); }
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
#define ARG(k) (T)args->i[k]
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

static inline T trunc_div(T x, T y) { return y == 0 ? 0 : y == (T)-1 && (T)-1 < 0 ? (T)-x : (T)(x / y); }
static inline T trunc_mod(T x, T y) { return y == 0 || (y == (T)-1 && (T)-1 < 0) ? 0 : (T)(x % y); }
static inline T floor_mod(T x, T y)
{
    T r = trunc_mod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;
}
static inline T floor_div(T x, T y)
{
    T q = trunc_div(x, y);
    return trunc_mod(x, y) != 0 && (x < 0) != (y < 0) ? (T)(q - 1) : q;
}
static inline T power(T x, T y)
{
    if (y < 0) return x == 1 ? 1 : x == (T)-1 ? (y % 2 ? (T)-1 : 1) : 0;
    T r = 1;
    for (; y; y /= 2, x = (T)(x * x))
        if (y % 2) r = (T)(r * x);
    return r;
}
static inline T gcd(T x, T y)
{
    while (y) {
        T r = trunc_mod(x, y);
        x = y, y = r;
    }
    return absolute(x);
}
static inline T lcm(T x, T y)
{
    T g = gcd(x, y);
    return g == 0 ? 0 : absolute((T)(x / g * y));
}
static inline T shift_left(T x, T y)
{
    return y < 0 || y >= (T)(8 * sizeof(T)) ? 0 : (T)(x << y);
}
static inline T shift_right(T x, T y)
{
    const T most = (T)(8 * sizeof(T) - ((T)-1 < 0)); /* of signed numbers the sign stays */
    if (y < 0 || y >= most) return (T)-1 < 0 ? (T)(x >> most) : 0;
    return (T)(x >> y);
}
#endif
