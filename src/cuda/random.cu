/* random.cu - random numbers as PyTorch draws them on CUDA: a Philox counter of its own for each thread of its launch.
 *
 * Element i belongs to thread i % stride (stride threads in all), which draws four words at a time for elements that lie `stride` apart,
 * or together. So element i is a function of seed, offset and i alone, however many threads there are here.
 */
#include "cuda/rows.h"
#include "cuda/philox.h"

enum { UNIFORM, NORMAL, LOG_NORMAL, EXPONENTIAL, GEOMETRIC, CAUCHY, BERNOULLI, INTEGER }; /* ops/create/random.h */

/* (0, 1] of 32 bits; of 53 bits by two words */
FN float unit(uint32_t x) { return (float)x * 2.3283064365386963e-10f + 1.1641532182693481e-10f; }
FN double unit(uint32_t x, uint32_t y) { return (double)((uint64_t)x ^ (uint64_t)y << 21) * 1.1102230246251565e-16 + 5.5511151231257827e-17; }

/* Box and Muller's pair from words k, k + 1 (float) or all four (double). */
FN float normal_float(const philox_words &r, int k)
{
    const float u = unit(r.w[k & ~1]), v = (float)r.w[k | 1] * 1.4629180792671596e-9f + 7.3145903963357981e-10f, size = sqrtf(-2 * logf(u));
    return size * (k & 1 ? cosf(v) : sinf(v));
}
FN double normal_double(const philox_words &r, int k)
{
    const double u = unit(r.w[0], r.w[1]), v = unit(r.w[2], r.w[3]) * 6.283185307179586476925286766559, size = sqrt(-2 * log(u));
    return size * (k & 1 ? cos(v) : sin(v));
}

template <class T> FN T transformed(const cuda_sample &p, T u, T normal)
{
    const T a = (T)p.a, b = (T)p.b, tiny = sizeof(T) == 4 ? (T)5.9604644775390625e-8 : (T)1.1102230246251565e-16; /* half of epsilon */
    switch (p.of) {
    case UNIFORM: {
        const T v = u * (b - a) + a;
        return v == b ? a : v; /* [from, to) */
    }
    case NORMAL: return normal * b + a;
    case LOG_NORMAL: return exp(normal * b + a);
    case EXPONENTIAL: return -1 / a * (u >= 1 - tiny ? -tiny : log(u));
    case GEOMETRIC: return ceil(log(u) / log1p(-a));
    case CAUCHY: {
        const T v = u > 1 - tiny ? 1 - tiny : u < tiny ? tiny : u;
        return a + b * tan((T)3.14159265358979323846 * (v - (T)0.5));
    }
    default: return u < a;
    }
}

template <class T> FN void sample(const cuda_sample &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.w.n; i += ALL) {
        int64_t far[1], round = p.together ? i / p.unroll / p.stride : i / p.stride, thread = p.together ? i / p.unroll % p.stride : i % p.stride;
        const int k = (int)(p.together ? i % p.unroll : round % p.unroll);
        const uint64_t draw = p.offset / 4 + (uint64_t)(p.together ? round : round / p.unroll);
        philox_words c = {{(uint32_t)draw, (uint32_t)(draw >> 32), (uint32_t)thread, (uint32_t)((uint64_t)thread >> 32)}};
        const philox_words r = philox(c, (uint32_t)p.seed, (uint32_t)(p.seed >> 32));
        locate<1>(p.w, i, far);
        char *to = (char *)p.w.p[0] + far[0];
        if (p.of == INTEGER) {
            const uint64_t word = p.wide ? (uint64_t)r.w[2 * k] << 32 ^ r.w[2 * k + 1] : r.w[k];
            store<int64_t>(to, p.w.dtype[0], (int64_t)((p.range ? word % p.range : word) + (uint64_t)p.base));
        } else if (sizeof(T) == 8) {
            store<T>(to, p.w.dtype[0], transformed<T>(p, (T)unit(r.w[2 * k], r.w[2 * k + 1]), (T)normal_double(r, k)));
        } else {
            store<T>(to, p.w.dtype[0], transformed<T>(p, (T)unit(r.w[k]), (T)normal_float(r, k)));
        }
    }
}
KERNEL(sample_f32, cuda_sample) { sample<float>(p); }
KERNEL(sample_f64, cuda_sample) { sample<double>(p); }
