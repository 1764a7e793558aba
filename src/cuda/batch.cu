/* batch.cu - batch norm of (n, c, hw): sums of each channel, what follows from them, and one walk over the elements. */
#include "cuda/rows.h"

/* An element's two sums are in double: so the variance is the mean of squares less the mean's square with digits to spare. */
template <class T> FN void batch_sums(const cuda_batch &p)
{
    __shared__ double first[CUDA_THREADS], second[CUDA_THREADS];
    const unsigned team = p.team, teams = p.teams, member = threadIdx.x / teams, mine = threadIdx.x % teams;
    ROLLED
    for (int64_t task = blockIdx.x; task < (p.c + teams - 1) / teams * p.pieces; task += gridDim.x) {
        const int64_t c = task / p.pieces * teams + mine, piece = task % p.pieces, all = p.n * p.hw;
        const int64_t end = (piece + 1) * p.piece < all ? (piece + 1) * p.piece : all;
        double a = 0, b = 0;
        if (c < p.c) {
            const char *x = (const char *)p.x + c * p.x_step[1], *g = (const char *)p.g + c * p.g_step[1];
            const double mean = p.g ? ((const T *)p.mean)[c] : 0;
            for (int64_t i = piece * p.piece + member; i < end; i += team) {
                const int64_t n = (i | p.hw) >> 32 ? i / p.hw : (uint32_t)i / (uint32_t)p.hw, at = i - n * p.hw;
                const double v = near_by<T>(x + n * p.x_step[0] + at * p.x_step[2], p.x_dtype);
                const double u = p.g ? (double)near_by<T>(g + n * p.g_step[0] + at * p.g_step[2], p.g_dtype) : v;
                a += u;
                b += u * (v - mean);
            }
        }
        first[threadIdx.x] = a, second[threadIdx.x] = b;
        __syncthreads();
        for (unsigned s = team / 2; s; s /= 2) {
            if (member < s) {
                first[threadIdx.x] += first[threadIdx.x + s * teams];
                second[threadIdx.x] += second[threadIdx.x + s * teams];
            }
            __syncthreads();
        }
        if (member || c >= p.c) continue;
        p.partial[2 * (c * p.pieces + piece)] = first[threadIdx.x];
        p.partial[2 * (c * p.pieces + piece) + 1] = second[threadIdx.x];
    }
}

template <class T> FN void batch_finish(const cuda_batch &p)
{
    ROLLED
    for (int64_t c = FIRST; c < p.c; c += ALL) {
        const double count = (double)p.n * (double)p.hw, weight = p.w ? ((const T *)p.w)[c] : 1;
        double a = 0, b = 0, mean, rstd;
        for (int64_t k = 0; k < p.pieces && p.partial; k++) a += p.partial[2 * (c * p.pieces + k)], b += p.partial[2 * (c * p.pieces + k) + 1];
        T *by = (T *)p.by + c;
        if (p.g) {
            mean = ((const T *)p.mean)[c], rstd = ((const T *)p.rstd)[c];
            if (p.dw) ((T *)p.dw)[c] = (T)(b * rstd);
            if (p.db) ((T *)p.db)[c] = (T)a;
            by[0] = (T)(rstd * weight);
            by[p.c] = p.training ? (T)(-rstd * rstd * rstd * weight * b / count) : (T)0;
            by[2 * p.c] = (T)mean;
            by[3 * p.c] = p.training ? (T)(-rstd * weight * a / count) : (T)0;
            continue;
        }
        if (p.training) {
            mean = a / count;
            const double square = b / count - mean * mean, variance = square < 0 ? 0 : square; /* NaN stays */
            rstd = 1 / sqrt(variance + p.eps);
            if (p.running_mean) ((T *)p.running_mean)[c] = (T)((1 - p.momentum) * ((T *)p.running_mean)[c] + p.momentum * mean);
            if (p.running_var) ((T *)p.running_var)[c] = (T)((1 - p.momentum) * ((T *)p.running_var)[c] + p.momentum * variance * (count / (count - 1)));
            ((T *)p.mean)[c] = (T)mean;
            ((T *)p.rstd)[c] = (T)rstd;
        } else {
            mean = ((const T *)p.running_mean)[c], rstd = 1 / sqrt(((const T *)p.running_var)[c] + p.eps);
        }
        by[0] = (T)(rstd * weight);
        by[p.c] = 0;
        by[2 * p.c] = (T)mean;
        by[3 * p.c] = p.b ? ((const T *)p.b)[c] : (T)0;
    }
}

/* y = (x - mean) scale + shift; back: y = g scale + (x - mean) other + shift. A team of threads goes along what lies together. */
template <class T> FN void batch_apply(const cuda_batch &p)
{
    const unsigned team = p.team, teams = p.teams, member = threadIdx.x % team;
    const int64_t lines = p.last ? p.n * p.hw : p.n * p.c, length = p.last ? p.c : p.hw, below = p.last ? p.hw : p.c;
    const int along = p.last ? 1 : 2, across = p.last ? 2 : 1;
    ROLLED
    for (int64_t line = (int64_t)blockIdx.x * teams + threadIdx.x / team; line < lines; line += (int64_t)gridDim.x * teams) {
        const int64_t n = (line | below) >> 32 ? line / below : (uint32_t)line / (uint32_t)below, k = line - n * below;
        const char *x = (const char *)p.x + n * p.x_step[0] + k * p.x_step[across], *g = (const char *)p.g + n * p.g_step[0] + k * p.g_step[across];
        char *y = (char *)p.y + n * p.y_step[0] + k * p.y_step[across];
        for (int64_t i = member; i < length; i += team) {
            const T *by = (const T *)p.by + (p.last ? i : k);
            const T off = near_by<T>(x + i * p.x_step[along], p.x_dtype) - by[2 * p.c];
            const T v = p.g ? near_by<T>(g + i * p.g_step[along], p.g_dtype) * by[0] + off * by[p.c] + by[3 * p.c] : off * by[0] + by[3 * p.c];
            store_near<T>(y + i * p.y_step[along], p.y_dtype, v);
        }
    }
}

#define KERNELS(name)                                                                                       \
    KERNEL_WIDE(name##_f32, cuda_batch) { name<float>(p); }                                                 \
    KERNEL_WIDE(name##_f64, cuda_batch) { name<double>(p); }
KERNELS(batch_sums)
KERNELS(batch_finish)
KERNELS(batch_apply)
