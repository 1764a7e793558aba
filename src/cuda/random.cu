/* random.cu - random numbers as PyTorch draws them on CUDA: a Philox counter of its own for each thread of its launch.
 *
 * Element i belongs to thread i % stride (stride threads in all), which draws four words at a time for elements that lie `stride` apart,
 * or together. So element i is a function of seed, offset and i alone, however many threads there are here.
 */
#include "cuda/rows.h"
#include "cuda/philox.h"

enum { UNIFORM, NORMAL, LOG_NORMAL, EXPONENTIAL, GEOMETRIC, CAUCHY, BERNOULLI, INTEGER, UNIT }; /* ops/create/random.h, and the number as it was drawn, (0, 1] */

/* (0, 1] of 32 bits; of 53 bits by two words */
FN float unit(uint32_t x) { return (float)x * 2.3283064365386963e-10f + 1.1641532182693481e-10f; }
FN double unit(uint32_t x, uint32_t y) { return (double)((uint64_t)x ^ (uint64_t)y << 21) * 1.1102230246251565e-16 + 5.5511151231257827e-17; }

/* What PyTorch calls for float: the instructions of the device that are quick, and off in the last bits. */
#ifdef __CUDACC__
FN float quick_log(float x) { return __logf(x); }
FN float quick_log1p(float x) { return __logf(1 + x); }
FN float quick_exp(float x) { return __expf(x); }
FN float quick_tan(float x) { return __tanf(x); }
FN void sine_cosine(float x, float &s, float &c) { __sincosf(x, &s, &c); }
FN void sine_cosine_pi(double x, double &s, double &c) { sincospi(x, &s, &c); }
#else
FN float quick_log(float x) { return logf(x); }
FN float quick_log1p(float x) { return log1pf(x); }
FN float quick_exp(float x) { return expf(x); }
FN float quick_tan(float x) { return tanf(x); }
FN void sine_cosine(float x, float &s, float &c) { s = sinf(x), c = cosf(x); }
FN void sine_cosine_pi(double x, double &s, double &c) { s = sin(x * M_PI), c = cos(x * M_PI); }
#endif
FN double quick_log(double x) { return log(x); }
FN double quick_log1p(double x) { return log1p(x); }
FN double quick_exp(double x) { return exp(x); }
FN double quick_tan(double x) { return tan(x); }

/* Box and Muller's pair from words k, k + 1 (float) or all four (double). */
FN float normal_float(const philox_words &r, int k)
{
    const float u = unit(r.w[k & ~1]), v = (float)r.w[k | 1] * 1.4629180792671596e-9f + 7.3145903963357981e-10f, size = sqrtf(-2 * logf(u));
    float s, c;
    sine_cosine(v, s, c);
    return (k & 1 ? c : s) * size;
}
FN double normal_double(const philox_words &r, int k)
{
    const double u = unit(r.w[0], r.w[1]), v = (double)((uint64_t)r.w[2] ^ (uint64_t)r.w[3] << 21) * 2.2204460492503131e-16 + 1.1102230246251565e-16, size = sqrt(-2 * log(u));
    double s, c;
    sine_cosine_pi(v, s, c);
    return (k & 1 ? c : s) * size;
}

/* v as a number of the dtype that it is stored as */
FN float rounded(int dtype, float v) { return dtype == RUSH_F16 ? f16_to_float(float_to_f16(v)) : dtype == RUSH_BF16 ? bf16_to_float(float_to_bf16(v)) : v; }
FN double rounded(int, double v) { return v; }

template <class T> FN T transformed(const cuda_sample &p, T u, T normal)
{
    const T a = (T)p.a, b = (T)p.b, epsilon = sizeof(T) == 4 ? (T)1.1920928955078125e-7 : (T)2.220446049250313e-16;
    switch (p.of) {
    case UNIFORM: {
        const int dtype = p.w.dtype[0];
        const T from = rounded(dtype, a), to = rounded(dtype, b), v = rounded(dtype, u * rounded(dtype, to - from) + from);
        return v == to ? from : v; /* [from, to) */
    }
    case NORMAL: return normal * b + a;
    case LOG_NORMAL: return quick_exp(normal * b + a);
    case EXPONENTIAL: return -1 / a * (u >= 1 - epsilon / 2 ? -epsilon / 2 : quick_log(u));
    case GEOMETRIC: return ceil(quick_log(u) / quick_log1p(-a));
    case CAUCHY: {
        const T v = sizeof(T) == 8 ? u : u > 1 - epsilon ? 1 - epsilon : u < epsilon ? epsilon : u; /* where the tangent of floats ends */
        return a + b * quick_tan((T)3.14159265358979323846 * (v - (T)0.5));
    }
    case UNIT: return u;
    default: return u < a;
    }
}

KERNEL(philox_begin, cuda_philox_state)
{
    if (FIRST == 0) p.to[0] = p.seed, p.to[1] = p.offset;
}

template <class T> FN void sample(const cuda_sample &p)
{
    const cuda_philox from = begun(p.from);
    ROLLED
    for (int64_t i = FIRST; i < p.w.n; i += ALL) {
        int64_t far[1], round = p.together ? i / p.unroll / p.stride : i / p.stride, thread = p.together ? i / p.unroll % p.stride : i % p.stride;
        const int k = (int)(p.together ? i % p.unroll : round % p.unroll);
        const uint64_t draw = from.offset + (uint64_t)(p.together ? round : round / p.unroll);
        philox_words c = {{(uint32_t)draw, (uint32_t)(draw >> 32), (uint32_t)thread, (uint32_t)((uint64_t)thread >> 32)}};
        const philox_words r = philox(c, (uint32_t)from.seed, (uint32_t)(from.seed >> 32));
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

/* Fisher and Yates' shuffle of each run of equal keys, by the thread of its first. */
KERNEL(shuffle_islands, cuda_islands)
{
    const size_t item = p.dtype == RUSH_I32 ? 4 : 8;
    const cuda_philox from = begun(p.from);
    ROLLED
    for (int64_t i = FIRST; i < p.n - 1; i += ALL) {
        const char *key = (const char *)p.key + (size_t)i * item;
        const int64_t own = load<int64_t>(key, p.dtype);
        int64_t size = 1;
        if (load<int64_t>(key + item, p.dtype) != own || (i && load<int64_t>(key - item, p.dtype) == own)) continue;
        while (i + size < p.n && load<int64_t>(key + (size_t)size * item, p.dtype) == own) size++;
        philox_words r = {{0}};
        for (int64_t last = size - 1, drawn = 0; last > 0; last--, drawn++) {
            const uint64_t draw = from.offset + (uint64_t)drawn / 4;
            const philox_words c = {{(uint32_t)draw, (uint32_t)(draw >> 32), (uint32_t)i, (uint32_t)((uint64_t)i >> 32)}};
            if (drawn % 4 == 0) r = philox(c, (uint32_t)from.seed, (uint32_t)(from.seed >> 32));
            const int64_t with = r.w[drawn % 4] % (uint32_t)(last + 1), swap = p.place[i + last];
            p.place[i + last] = p.place[i + with];
            p.place[i + with] = swap;
        }
    }
}
