/* fused.h - what kernels stand on that are written while a program runs (fuse.c): elements of each operand as values of T, and back.
 *
 * Who includes it has defined FUSED_DOUBLE: T is double if it is 1, float if it is 0. A thread does V elements that lie one behind the other. A value is
 * what memory of its dtype would hold: results of half types are rounded between the steps, as if each were stored.
 */
#include "cuda/rows.h"
#include "cuda/special.h"
#define inline __device__ inline
#if FUSED_DOUBLE
#define T double
#define F(name) name
#else
#define T float
#define F(name) name##f
#endif
#include "kernels/cpu/words_real.h"

template <int DTYPE> struct held { typedef float type; };
template <> struct held<RUSH_F64> { typedef double type; };
template <> struct held<RUSH_F16> { typedef uint16_t type; };
template <> struct held<RUSH_BF16> { typedef uint16_t type; };
template <> struct held<RUSH_BOOL> { typedef uint8_t type; };

template <int DTYPE> FN T opened(typename held<DTYPE>::type v)
{
    if (DTYPE == RUSH_F16) return (T)f16_to_float((uint16_t)v);
    if (DTYPE == RUSH_BF16) return (T)bf16_to_float((uint16_t)v);
    return DTYPE == RUSH_BOOL ? (T)(v != 0) : (T)v;
}
template <int DTYPE> FN typename held<DTYPE>::type closed(T v)
{
    if (DTYPE == RUSH_F16) return float_to_f16((float)v);
    if (DTYPE == RUSH_BF16) return float_to_bf16((float)v);
    return (typename held<DTYPE>::type)v;
}
template <int DTYPE> FN T rounded(T v) { return opened<DTYPE>(closed<DTYPE>(v)); }

template <int DTYPE, int V> FN results<T, V> along(const char *p, int64_t i)
{
    typedef typename held<DTYPE>::type memory;
    const results<memory, V> from = *(const results<memory, V> *)(p + i * (int64_t)sizeof(memory));
    results<T, V> x;
    for (int j = 0; j < V; j++) x.v[j] = opened<DTYPE>(from.v[j]);
    return x;
}
template <int DTYPE, int V> FN void written(char *p, int64_t i, const results<T, V> &x)
{
    typedef typename held<DTYPE>::type memory;
    results<memory, V> to;
    for (int j = 0; j < V; j++) to.v[j] = closed<DTYPE>(x.v[j]);
    *(results<memory, V> *)(p + i * (int64_t)sizeof(memory)) = to;
}
template <int V> FN results<T, V> same(T v)
{
    results<T, V> x;
    for (int j = 0; j < V; j++) x.v[j] = v;
    return x;
}
template <int DTYPE, int V> FN results<T, V> only(const char *p) { return same<V>(opened<DTYPE>(*(const typename held<DTYPE>::type *)p)); }

/* Of NDIM dimensions; the outermost has whatever is left. */
template <int DTYPE, int NDIM, int V> FN results<T, V> strided(const char *p, const cuda_strided &s, int64_t i)
{
    results<T, V> x;
    for (int j = 0; j < V; j++) {
        const char *from = p;
        int64_t rest = i + j;
        for (int d = 0; d < NDIM; d++) {
            int64_t next = 0, at = rest;
            if (d + 1 < NDIM) {
                if ((rest | s.size[d]) >> 32) next = rest / s.size[d];
                else next = (uint32_t)rest / (uint32_t)s.size[d]; /* divisions of 64 bits are slow */
                at = rest - next * s.size[d];
            }
            from += at * s.stride[d];
            rest = next;
        }
        x.v[j] = opened<DTYPE>(*(const typename held<DTYPE>::type *)from);
    }
    return x;
}

/* A step's row for each element; x, y, z and a, b, c, d are what the row calls them. */
#define STEP(to, DTYPE, x_, y_, z_, a_, b_, c_, d_, value)                                                 \
    results<T, V> to;                                                                                       \
    for (int j = 0; j < V; j++) {                                                                           \
        [[maybe_unused]] const T x = (x_).v[j], y = (y_).v[j], z = (z_).v[j];                               \
        [[maybe_unused]] const T a = (T)(a_), b = (T)(b_), c = (T)(c_), d = (T)(d_);                        \
        to.v[j] = rounded<DTYPE>(value);                                                                    \
    }

enum { FUSED_VECTOR = 16 / sizeof(T) };
#define FUSED(name)                                                                                         \
    template <int V> FN void name##_of(const cuda_fused &p, int64_t i);                                     \
    KERNEL(name, cuda_fused)                                                                                \
    {                                                                                                       \
        const int64_t whole = p.vector ? p.n / FUSED_VECTOR : 0;                                            \
        for (int64_t i = FIRST; i < whole; i += ALL) name##_of<FUSED_VECTOR>(p, i * FUSED_VECTOR);          \
        for (int64_t i = whole * FUSED_VECTOR + FIRST; i < p.n; i += ALL) name##_of<1>(p, i);               \
    }                                                                                                       \
    template <int V> FN void name##_of(const cuda_fused &p, int64_t i)

#if FUSED_DOUBLE
#define nextafter(v, w) step_to(v, w)
#else
#include "kernels/cpu/words_float.h"
#endif
