/* norm.cu - rows of contiguous (outer, n, inner) memory, a block to each: softmax and its way back, layer and RMS norm and theirs. */
#include "cuda/rows.h"

template <class T> struct larger_of { static FN T join(T a, T b) { return b > a || b != b ? b : a; } };
template <class T> struct sum_of { static FN T join(T a, T b) { return a + b; } };

/* All threads get the whole block's. */
template <class T, class J> FN T join_all(T v)
{
    __shared__ T joined[CUDA_THREADS];
    joined[threadIdx.x] = v;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s; s /= 2) {
        if (threadIdx.x < s) joined[threadIdx.x] = J::join(joined[threadIdx.x], joined[threadIdx.x + s]);
        __syncthreads();
    }
    v = joined[0];
    __syncthreads();
    return v;
}

template <class T> FN void softmax(const cuda_rows_norm &p)
{
    ROLLED
    for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
        int64_t first = row / p.inner * p.n * p.inner + row % p.inner;
        const T *x = (const T *)p.x + first;
        T *y = (T *)p.y + first, most = (T)-INFINITY;
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) most = larger_of<T>::join(most, x[i * p.inner]);
        most = join_all<T, larger_of<T>>(most);
        double sum = 0;
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) sum += exp(x[i * p.inner] - most);
        sum = join_all<double, sum_of<double>>(sum);
        const T by = (T)sum, less = (T)log(sum);
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
            const T v = x[i * p.inner] - most;
            y[i * p.inner] = p.log ? v - less : (T)exp(v) / by;
        }
    }
}
KERNEL(softmax_f32, cuda_rows_norm) { softmax<float>(p); }
KERNEL(softmax_f64, cuda_rows_norm) { softmax<double>(p); }

/* x is the output here, dy the gradient */
template <class T> FN void softmax_back(const cuda_rows_norm &p)
{
    ROLLED
    for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
        int64_t first = row / p.inner * p.n * p.inner + row % p.inner;
        const T *y = (const T *)p.x + first, *g = (const T *)p.dy + first;
        T *to = (T *)p.y + first;
        double sum = 0;
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) sum += p.log ? (double)g[i * p.inner] : (double)g[i * p.inner] * y[i * p.inner];
        const T all = (T)join_all<double, sum_of<double>>(sum);
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x)
            to[i * p.inner] = p.log ? g[i * p.inner] - (T)exp(y[i * p.inner]) * all : y[i * p.inner] * (g[i * p.inner] - all);
    }
}
KERNEL(softmax_back_f32, cuda_rows_norm) { softmax_back<float>(p); }
KERNEL(softmax_back_f64, cuda_rows_norm) { softmax_back<double>(p); }

/* y = (x - mean) rstd w + b; without a mean the root mean square. w and b have a number per element, or per channel of a group. */
template <class T> FN void rows_norm(const cuda_rows_norm &p)
{
    ROLLED
    for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T *x = (const T *)p.x + row * p.n;
        double sum = 0, squares = 0;
        for (int64_t i = threadIdx.x; i < p.n && p.mean; i += blockDim.x) sum += x[i];
        const double mean = p.mean ? join_all<double, sum_of<double>>(sum) / (double)p.n : 0;
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
        const double rstd = 1 / sqrt(join_all<double, sum_of<double>>(squares) / (double)p.n + p.eps);
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
            const int64_t k = p.span ? row % p.groups * (p.n / p.span) + i / p.span : i;
            const double v = (x[i] - mean) * rstd;
            ((T *)p.y)[row * p.n + i] = (T)((p.w ? v * ((const T *)p.w)[k] : v) + (p.b ? ((const T *)p.b)[k] : 0));
        }
        if (threadIdx.x) continue;
        if (p.mean) ((T *)p.mean)[row] = (T)mean;
        ((T *)p.rstd)[row] = (T)rstd;
    }
}
KERNEL(rows_norm_f32, cuda_rows_norm) { rows_norm<float>(p); }
KERNEL(rows_norm_f64, cuda_rows_norm) { rows_norm<double>(p); }

template <class T> FN void rows_norm_back(const cuda_rows_norm &p)
{
    ROLLED
    for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T *x = (const T *)p.x + row * p.n, *g = (const T *)p.dy + row * p.n;
        const double mean = p.mean ? ((const T *)p.mean)[row] : 0, rstd = ((const T *)p.rstd)[row];
        double sum = 0, dot = 0;
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
            const int64_t k = p.span ? row % p.groups * (p.n / p.span) + i / p.span : i;
            const double v = p.w ? (double)g[i] * ((const T *)p.w)[k] : g[i];
            sum += v;
            dot += v * (x[i] - mean) * rstd;
        }
        sum = p.mean ? join_all<double, sum_of<double>>(sum) / (double)p.n : 0;
        dot = join_all<double, sum_of<double>>(dot) / (double)p.n;
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
            const int64_t k = p.span ? row % p.groups * (p.n / p.span) + i / p.span : i;
            const double v = p.w ? (double)g[i] * ((const T *)p.w)[k] : g[i];
            ((T *)p.y)[row * p.n + i] = (T)((v - sum - (x[i] - mean) * rstd * dot) * rstd);
        }
    }
}
KERNEL(rows_norm_back_f32, cuda_rows_norm) { rows_norm_back<float>(p); }
KERNEL(rows_norm_back_f64, cuda_rows_norm) { rows_norm_back<double>(p); }
