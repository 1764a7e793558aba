/* scan.cu - running sums, products, maxima along lines, a block to each line: pieces of as many elements as threads, one after the other.
 */
#include "cuda/rows.h"

/* The accumulator of each thread joined with those of all threads before it, and with what came before the piece. */
template <class F> FN void scan_block(F &f, F &before)
{
    __shared__ F joined[CUDA_THREADS];
    const unsigned t = threadIdx.x;
    joined[t] = f;
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        F other = t >= s ? joined[t - s] : joined[t];
        __syncthreads();
        if (t >= s) {
            other.merge(joined[t]);
            joined[t] = other;
        }
        __syncthreads();
    }
    F all = before;
    all.merge(joined[t]);
    f = all;
    all = before;
    all.merge(joined[blockDim.x - 1]);
    __syncthreads();
    before = all;
}

template <class F> FN void scan(const cuda_scan &p)
{
    ROLLED
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        int64_t in = 0, out = 0, at = 0, rest = line;
        ROLLED
        for (int d = 0; d < p.ndim; d++) {
            int64_t next = d + 1 < p.ndim ? rest / p.size[d] : 0, i = rest - next * p.size[d];
            in += i * p.in[d], out += i * p.out[d], at += i * p.at[d];
            rest = next;
        }
        F before;
        before.start();
        for (int64_t begin = 0; begin < p.length; begin += blockDim.x) {
            int64_t i = begin + threadIdx.x;
            F f;
            f.start();
            if (i < p.length) f.add(lazily(element<typename F::T>(p.x + in + i * p.x_step, p.dtype), p.lazy), i);
            scan_block(f, before);
            if (i >= p.length) continue;
            store<typename F::T>(p.y + out + i * p.y_step, p.y_dtype, f.value());
            if (p.index) *(int64_t *)(p.index + at + i * p.index_step) = f.place();
        }
    }
}

template <class V, bool PRODUCT> struct running {
    typedef V T;
    V v;
    FN void start() { v = as<V>::of((int)PRODUCT); }
    FN void add(V x, int64_t) { v = x; }
    FN void merge(const running &later) { v = PRODUCT ? v * later.v : v + later.v; }
    FN V value() const { return v; }
    FN int64_t place() const { return 0; }
};
#define RUNNING(T, suffix)                                                                                  \
    KERNEL(cumsum_##suffix, cuda_scan) { scan<running<T, false>>(p); }                                      \
    KERNEL(cumprod_##suffix, cuda_scan) { scan<running<T, true>>(p); }
RUNNING(int64_t, i64)
RUNNING(float, f32)
RUNNING(double, f64)
RUNNING(complex_of<float>, c64)
RUNNING(complex_of<double>, c128)

/* Of equal ones the last, NaN beats all */
template <class V, bool MOST> struct best {
    typedef V T;
    V v;
    int64_t at;
    FN void start() { v = 0, at = -1; }
    FN void add(V x, int64_t i) { v = x, at = i; }
    FN void merge(const best &o)
    {
        if (o.at < 0) return;
        if (at < 0 || o.v != o.v || (v == v && (MOST ? o.v >= v : o.v <= v))) v = o.v, at = o.at;
    }
    FN V value() const { return v; }
    FN int64_t place() const { return at; }
};
#define BEST(T, suffix)                                                                                     \
    KERNEL(cummax_##suffix, cuda_scan) { scan<best<T, true>>(p); }                                          \
    KERNEL(cummin_##suffix, cuda_scan) { scan<best<T, false>>(p); }
BEST(int64_t, i64)
BEST(float, f32)
BEST(double, f64)

template <class V> struct log_sum {
    typedef V T;
    double most, sum;
    FN void start() { most = -INFINITY, sum = 0; }
    FN void add(V x, int64_t) { most = x, sum = 1; }
    FN void merge(const log_sum &o)
    {
        if (o.sum == 0 || o.most == -INFINITY) return;
        if (o.most > most) sum = sum * exp(most - o.most) + o.sum, most = o.most;
        else sum += o.most == most ? o.sum : o.sum * exp(o.most - most);
    }
    FN V value() const { return (V)(log(sum) + most); }
    FN int64_t place() const { return 0; }
};
KERNEL(logcumsumexp_f32, cuda_scan) { scan<log_sum<float>>(p); }
KERNEL(logcumsumexp_f64, cuda_scan) { scan<log_sum<double>>(p); }
