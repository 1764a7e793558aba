/* vec.hpp - at::vec: a register's worth of numbers, in plain loops of fixed length, which compilers turn into vector instructions. */
#ifndef RUSHLIGHT_AT_VEC_HPP
#define RUSHLIGHT_AT_VEC_HPP

#include "types.hpp"

#ifdef __AVX512F__
#define VECTOR_WIDTH 64
#else
#define VECTOR_WIDTH 32
#endif

namespace at::vec {

template <class T> constexpr bool is_reduced_floating_point_v = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
/* In what numbers of a type are computed. */
template <class T> using vec_scalar_t = std::conditional_t<is_reduced_floating_point_v<T>, float, T>;

/* Partial loads leave zeros. Comparisons give masks: all bits of an element, or none; eq() and its like give 1 or 0. */
template <class T> class Vectorized {
    T values[VECTOR_WIDTH / sizeof(T)];

    template <class F> static Vectorized each(F &&f)
    {
        Vectorized v;
        for (int i = 0; i < size(); ++i) v.values[i] = f(i);
        return v;
    }
    static T mask(bool on)
    {
        T x;
        std::memset(&x, on ? 0xff : 0, sizeof x);
        return x;
    }
    static bool is_set(const T &x)
    {
        unsigned char bytes[sizeof(T)];
        std::memcpy(bytes, &x, sizeof bytes);
        return bytes[sizeof(T) - 1] & 0x80;
    }
    template <class F> static T bits(const T &a, const T &b, F &&f)
    {
        unsigned char x[sizeof(T)], y[sizeof(T)];
        std::memcpy(x, &a, sizeof x), std::memcpy(y, &b, sizeof y);
        for (size_t i = 0; i < sizeof x; ++i) x[i] = static_cast<unsigned char>(f(x[i], y[i]));
        T z;
        std::memcpy(&z, x, sizeof x);
        return z;
    }

public:
    using value_type = T;
    using size_type = int;
    static constexpr int size() { return VECTOR_WIDTH / static_cast<int>(sizeof(T)); }

    Vectorized() : values{} {}
    Vectorized(T x)
    {
        for (T &one : values) one = x;
    }
    template <class... Rest, std::enable_if_t<sizeof...(Rest) + 2 == VECTOR_WIDTH / sizeof(T), int> = 0> Vectorized(T first, T second, Rest... rest) : values{first, second, static_cast<T>(rest)...} {}
    static Vectorized loadu(const void *from, int64_t count = size())
    {
        Vectorized v;
        std::memcpy(v.values, from, static_cast<size_t>(count) * sizeof(T));
        return v;
    }
    void store(void *to, int64_t count = size()) const { std::memcpy(to, values, static_cast<size_t>(count) * sizeof(T)); }
    T operator[](int i) const { return values[i]; }
    T &operator[](int i) { return values[i]; }
    const T *as_array() const { return values; }
    template <class Step = int> static Vectorized arange(T base = T(0), Step step = 1)
    {
        return each([&](int i) { return static_cast<T>(base + static_cast<T>(i) * static_cast<T>(step)); });
    }
    /* b in front, a behind. */
    static Vectorized set(const Vectorized &a, const Vectorized &b, int64_t count = size())
    {
        return each([&](int i) { return i < count ? b[i] : a[i]; });
    }
    template <int64_t chosen> static Vectorized blend(const Vectorized &a, const Vectorized &b)
    {
        return each([&](int i) { return chosen >> i & 1 ? b[i] : a[i]; });
    }
    static Vectorized blendv(const Vectorized &a, const Vectorized &b, const Vectorized &mask)
    {
        return each([&](int i) { return is_set(mask[i]) ? b[i] : a[i]; });
    }
    int zero_mask() const
    {
        int found = 0;
        for (int i = 0; i < size(); ++i) found |= (values[i] == T(0)) << i;
        return found;
    }
    bool has_inf_nan() const
    {
        for (const T &x : values)
            if (!std::isfinite(static_cast<double>(x))) return true;
        return false;
    }

    template <class F> Vectorized map(F &&f) const
    {
        return each([&](int i) { return static_cast<T>(f(values[i])); });
    }
    template <class F> Vectorized map(F &&f, const Vectorized &other) const
    {
        return each([&](int i) { return static_cast<T>(f(values[i], other[i])); });
    }
    template <class F> T reduce(F &&f) const
    {
        T x = values[0];
        for (int i = 1; i < size(); ++i) x = f(x, values[i]);
        return x;
    }
    T reduce_add() const
    {
        return reduce([](T a, T b) { return static_cast<T>(a + b); });
    }
    T reduce_max() const
    {
        return reduce([](T a, T b) { return a < b ? b : a; });
    }

#define VEC_FUNCTION_(name, value)                                                                          \
    Vectorized name() const                                                                                 \
    {                                                                                                       \
        using F = vec_scalar_t<T>;                                                                          \
        return each([&](int i) {                                                                            \
            const F x = static_cast<F>(values[i]);                                                          \
            return static_cast<T>(value);                                                                   \
        });                                                                                                 \
    }
    VEC_FUNCTION_(neg, -x) VEC_FUNCTION_(exp, std::exp(x)) VEC_FUNCTION_(exp_u20, std::exp(x)) VEC_FUNCTION_(fexp_u20, std::exp(x)) VEC_FUNCTION_(exp2, std::exp2(x))
    VEC_FUNCTION_(expm1, std::expm1(x)) VEC_FUNCTION_(log, std::log(x)) VEC_FUNCTION_(log2, std::log2(x)) VEC_FUNCTION_(log10, std::log10(x)) VEC_FUNCTION_(log1p, std::log1p(x))
    VEC_FUNCTION_(sin, std::sin(x)) VEC_FUNCTION_(cos, std::cos(x)) VEC_FUNCTION_(tan, std::tan(x)) VEC_FUNCTION_(sinh, std::sinh(x)) VEC_FUNCTION_(cosh, std::cosh(x))
    VEC_FUNCTION_(tanh, std::tanh(x)) VEC_FUNCTION_(asin, std::asin(x)) VEC_FUNCTION_(acos, std::acos(x)) VEC_FUNCTION_(atan, std::atan(x)) VEC_FUNCTION_(asinh, std::asinh(x))
    VEC_FUNCTION_(acosh, std::acosh(x)) VEC_FUNCTION_(atanh, std::atanh(x)) VEC_FUNCTION_(erf, std::erf(x)) VEC_FUNCTION_(erfc, std::erfc(x)) VEC_FUNCTION_(lgamma, std::lgamma(x))
    VEC_FUNCTION_(sqrt, std::sqrt(x)) VEC_FUNCTION_(rsqrt, F(1) / std::sqrt(x)) VEC_FUNCTION_(reciprocal, F(1) / x) VEC_FUNCTION_(floor, std::floor(x)) VEC_FUNCTION_(ceil, std::ceil(x))
    VEC_FUNCTION_(round, std::nearbyint(x)) VEC_FUNCTION_(trunc, std::trunc(x)) VEC_FUNCTION_(frac, x - std::trunc(x)) VEC_FUNCTION_(sgn, (F(0) < x) - (x < F(0)))
#undef VEC_FUNCTION_
    Vectorized abs() const
    {
        return each([&](int i) { return static_cast<T>(std::is_unsigned_v<T> ? values[i] : static_cast<T>(std::abs(static_cast<std::conditional_t<std::is_unsigned_v<T>, int, vec_scalar_t<T>>>(values[i])))); });
    }
    Vectorized isnan() const
    {
        return each([&](int i) { return mask(values[i] != values[i]); });
    }
#define VEC_FUNCTION_(name)                                                                                 \
    Vectorized name(const Vectorized &other) const                                                          \
    {                                                                                                       \
        using F = vec_scalar_t<T>;                                                                          \
        return each([&](int i) { return static_cast<T>(std::name(static_cast<F>(values[i]), static_cast<F>(other[i]))); }); \
    }
    VEC_FUNCTION_(pow) VEC_FUNCTION_(fmod) VEC_FUNCTION_(atan2) VEC_FUNCTION_(hypot) VEC_FUNCTION_(copysign) VEC_FUNCTION_(nextafter)
#undef VEC_FUNCTION_

#define VEC_OPERATOR_(op)                                                                                   \
    friend Vectorized operator op(const Vectorized &a, const Vectorized &b)                                 \
    {                                                                                                       \
        return each([&](int i) { return static_cast<T>(a[i] op b[i]); });                                   \
    }                                                                                                       \
    Vectorized &operator op##=(const Vectorized &b) { return *this = *this op b; }
    VEC_OPERATOR_(+) VEC_OPERATOR_(-) VEC_OPERATOR_(*) VEC_OPERATOR_(/) VEC_OPERATOR_(<<) VEC_OPERATOR_(>>)
#undef VEC_OPERATOR_
#define VEC_OPERATOR_(op)                                                                                   \
    friend Vectorized operator op(const Vectorized &a, const Vectorized &b)                                 \
    {                                                                                                       \
        return each([&](int i) { return bits(a[i], b[i], [](int x, int y) { return x op y; }); });          \
    }
    VEC_OPERATOR_(&) VEC_OPERATOR_(|) VEC_OPERATOR_(^)
#undef VEC_OPERATOR_
    Vectorized operator~() const { return *this ^ Vectorized(mask(true)); }
    Vectorized operator-() const { return neg(); }
#define VEC_OPERATOR_(op, name)                                                                             \
    Vectorized operator op(const Vectorized &b) const                                                       \
    {                                                                                                       \
        return each([&](int i) { return mask(values[i] op b[i]); });                                        \
    }                                                                                                       \
    Vectorized name(const Vectorized &b) const                                                              \
    {                                                                                                       \
        return each([&](int i) { return static_cast<T>(values[i] op b[i]); });                              \
    }
    VEC_OPERATOR_(==, eq) VEC_OPERATOR_(!=, ne) VEC_OPERATOR_(<, lt) VEC_OPERATOR_(<=, le) VEC_OPERATOR_(>, gt) VEC_OPERATOR_(>=, ge)
#undef VEC_OPERATOR_
};

/* What is not a number wins. */
template <class T> Vectorized<T> maximum(const Vectorized<T> &a, const Vectorized<T> &b)
{
    return a.map([](T x, T y) { return x != x ? x : y != y ? y : x < y ? y : x; }, b);
}
template <class T> Vectorized<T> minimum(const Vectorized<T> &a, const Vectorized<T> &b)
{
    return a.map([](T x, T y) { return x != x ? x : y != y ? y : y < x ? y : x; }, b);
}
template <class T> Vectorized<T> clamp_min(const Vectorized<T> &a, const Vectorized<T> &low)
{
    return a.map([](T x, T y) { return x < y ? y : x; }, low);
}
template <class T> Vectorized<T> clamp_max(const Vectorized<T> &a, const Vectorized<T> &high)
{
    return a.map([](T x, T y) { return y < x ? y : x; }, high);
}
template <class T> Vectorized<T> clamp(const Vectorized<T> &a, const Vectorized<T> &low, const Vectorized<T> &high) { return clamp_max(clamp_min(a, low), high); }
template <class T> Vectorized<T> fmadd(const Vectorized<T> &a, const Vectorized<T> &b, const Vectorized<T> &c) { return a * b + c; }
template <class T> Vectorized<T> fmsub(const Vectorized<T> &a, const Vectorized<T> &b, const Vectorized<T> &c) { return a * b - c; }
template <class T> Vectorized<T> fnmadd(const Vectorized<T> &a, const Vectorized<T> &b, const Vectorized<T> &c) { return c - a * b; }

/* As many elements as the wider of the types has in a register, the rest is 0. */
template <class To, class From> Vectorized<To> convert(const Vectorized<From> &x)
{
    Vectorized<To> y;
    for (int i = 0; i < std::min(Vectorized<To>::size(), Vectorized<From>::size()); ++i) y[i] = static_cast<To>(x[i]);
    return y;
}
template <class From, class To> void convert(const From *from, To *to, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}
/* 16 bits wide numbers: the first half, the second half. */
template <class T> std::tuple<Vectorized<float>, Vectorized<float>> convert_to_float(const Vectorized<T> &x)
{
    Vectorized<float> a, b;
    for (int i = 0; i < a.size(); ++i) a[i] = static_cast<float>(x[i]), b[i] = static_cast<float>(x[a.size() + i]);
    return {a, b};
}
template <class T> Vectorized<T> convert_from_float(const Vectorized<float> &a, const Vectorized<float> &b)
{
    Vectorized<T> x;
    for (int i = 0; i < a.size(); ++i) x[i] = static_cast<T>(a[i]), x[a.size() + i] = static_cast<T>(b[i]);
    return x;
}
inline std::tuple<Vectorized<float>, Vectorized<float>> convert_bfloat16_float(const Vectorized<BFloat16> &x) { return convert_to_float(x); }
inline std::tuple<Vectorized<float>, Vectorized<float>> convert_half_float(const Vectorized<Half> &x) { return convert_to_float(x); }
inline Vectorized<BFloat16> convert_float_bfloat16(const Vectorized<float> &a, const Vectorized<float> &b) { return convert_from_float<BFloat16>(a, b); }
inline Vectorized<Half> convert_float_half(const Vectorized<float> &a, const Vectorized<float> &b) { return convert_from_float<Half>(a, b); }

/* ---- functions over whole arrays; those that take only vectors of floats see the numbers of half types as such ---- */

namespace detail {
template <class To, class T> Vectorized<To> load(const T *from, int64_t n)
{
    Vectorized<To> v;
    for (int64_t i = 0; i < n; ++i) v[static_cast<int>(i)] = static_cast<To>(from[i]);
    return v;
}
template <class T, class> using same = T;
template <class F> void blocks(int64_t n, int width, F &&f)
{
    for (int64_t i = 0; i < n; i += width) f(i, std::min<int64_t>(width, n - i));
}
} // namespace detail

/* out[i] = f(in[i], ...) */
template <class T, class F, class... In> void map_each(const F &f, T *out, int64_t n, const In *...in)
{
    using S = std::conditional_t<std::is_invocable_v<const F &, detail::same<Vectorized<T>, In>...>, T, vec_scalar_t<T>>;
    detail::blocks(n, Vectorized<S>::size(), [&](int64_t i, int64_t count) {
        const auto y = f(detail::load<S>(in + i, count)...);
        for (int64_t k = 0; k < count; ++k) out[i + k] = static_cast<T>(y[static_cast<int>(k)]);
    });
}
template <class T, class F> void map(const F &f, T *out, const T *a, int64_t n) { map_each(f, out, n, a); }
template <class T, class F> void map2(const F &f, T *out, const T *a, const T *b, int64_t n) { map_each(f, out, n, a, b); }
template <class T, class F> void map3(const F &f, T *out, const T *a, const T *b, const T *c, int64_t n) { map_each(f, out, n, a, b, c); }
template <class T, class F> void map4(const F &f, T *out, const T *a, const T *b, const T *c, const T *d, int64_t n) { map_each(f, out, n, a, b, c, d); }

/* The first n elements folded by f, which takes vectors. */
template <class T, class F> T vec_reduce_all(const F &f, Vectorized<T> v, int64_t n = Vectorized<T>::size())
{
    T x = v[0];
    for (int i = 1; i < n; ++i) {
        Vectorized<T> a(x), b(v[i]); /* f may want to refer to them */
        x = f(a, b)[0];
    }
    return x;
}
/* reduce over mapped(in[i], ...), n > 0 of them. */
template <class T, class M, class R, class... In> vec_scalar_t<T> fold_each(const M &mapped, const R &reduce, int64_t n, const In *...in)
{
    using V = Vectorized<vec_scalar_t<T>>;
    V all;
    detail::blocks(n, V::size(), [&](int64_t i, int64_t count) {
        V y = mapped(detail::load<vec_scalar_t<T>>(in + i, count)...);
        all = i ? V::set(all, reduce(all, y), count) : y;
    });
    return vec_reduce_all(reduce, all, std::min<int64_t>(n, V::size()));
}
template <class T, class R> vec_scalar_t<T> reduce_all(const R &reduce, const T *a, int64_t n)
{
    return fold_each<T>([](const auto &x) { return x; }, reduce, n, a);
}
template <class T, class M, class R> vec_scalar_t<T> map_reduce_all(const M &mapped, const R &reduce, const T *a, int64_t n) { return fold_each<T>(mapped, reduce, n, a); }
template <class T, class M, class R> vec_scalar_t<T> map2_reduce_all(const M &mapped, const R &reduce, const T *a, const T *b, int64_t n) { return fold_each<T>(mapped, reduce, n, a, b); }
template <class T, class M, class R> vec_scalar_t<T> map3_reduce_all(const M &mapped, const R &reduce, const T *a, const T *b, const T *c, int64_t n) { return fold_each<T>(mapped, reduce, n, a, b, c); }

} // namespace at::vec
#endif
