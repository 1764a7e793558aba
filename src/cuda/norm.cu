/* norm.cu - rows of contiguous (outer, n, inner) memory, a team of threads to each: softmax and its way back, layer and RMS norm and theirs.
 *
 * A row that fits is read once and kept in registers (KEPT); longer ones are read again. A team is a warp or a block; with inner > 1
 * neighbours in memory are of different rows, so neighbouring threads take those.
 */
#include "cuda/rows.h"

enum { EACH = 16 }; /* elements of a row that a thread keeps */
#ifdef __CUDACC__
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

template <class T> struct larger_of { static FN T join(T a, T b) { return b > a || b != b ? b : a; } };
template <class T> struct sum_of { static FN T join(T a, T b) { return a + b; } };

/* Who of the block this thread is. */
struct place {
    unsigned team, teams, member, mine;
    bool across;
    FN place(const cuda_rows_norm &p) : team(p.team), teams(CUDA_THREADS / p.team), across(p.inner > 1)
    {
        member = across ? threadIdx.x / teams : threadIdx.x % team;
        mine = across ? threadIdx.x % teams : threadIdx.x / team;
    }
};

/* All threads of a team get the whole team's. Every thread of the block comes here. */
template <class T, class J> FN T join_all(T v, const place &at)
{
    __shared__ T joined[CUDA_THREADS];
    if (at.across) {
        joined[threadIdx.x] = v;
        __syncthreads();
        for (unsigned s = at.team / 2; s; s /= 2) {
            if (at.member < s) joined[threadIdx.x] = J::join(joined[threadIdx.x], joined[threadIdx.x + s * at.teams]);
            __syncthreads();
        }
        v = joined[at.mine];
        __syncthreads();
        return v;
    }
    for (unsigned s = 16; s; s /= 2) v = J::join(v, __shfl_xor_sync(~0u, v, s));
    if (at.team == 32) return v;
    if (threadIdx.x % 32 == 0) joined[threadIdx.x / 32] = v;
    __syncthreads();
    v = joined[0];
    for (unsigned k = 1; k < CUDA_THREADS / 32; k++) v = J::join(v, joined[k]);
    __syncthreads();
    return v;
}

/* Before a statement on element i of the thread's row, kept as number j. */
#define OF_ROW UNROLLED for (int64_t j = 0, i = at.member; KEPT ? j < EACH : i < p.n; j++, i += at.team) if (mine && i < p.n)
#define OF_ROWS ROLLED for (int64_t first = (int64_t)blockIdx.x * at.teams; first < p.rows; first += (int64_t)gridDim.x * at.teams)

template <class T, bool KEPT> FN void softmax(const cuda_rows_norm &p)
{
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine, begin = row / p.inner * p.n * p.inner + row % p.inner;
        const bool mine = row < p.rows;
        const T *x = (const T *)p.x + begin;
        T *y = (T *)p.y + begin, most = (T)-INFINITY, v[KEPT ? EACH : 1];
        OF_ROW
        {
            const T e = x[i * p.inner];
            if (KEPT) v[j] = e;
            most = larger_of<T>::join(most, e);
        }
        most = join_all<T, larger_of<T>>(most, at);
        double sum = 0;
        OF_ROW
        {
            const T e = (KEPT ? v[j] : x[i * p.inner]) - most, power = exp(e);
            if (KEPT) v[j] = p.log ? e : power;
            sum += power;
        }
        sum = join_all<double, sum_of<double>>(sum, at);
        const T by = (T)sum, less = (T)log(sum);
        OF_ROW
        {
            if (!KEPT) v[0] = x[i * p.inner] - most;
            const T e = v[KEPT ? j : 0];
            y[i * p.inner] = p.log ? e - less : (KEPT ? e : (T)exp(e)) / by;
        }
    }
}

/* x is the output here, dy the gradient */
template <class T, bool KEPT> FN void softmax_back(const cuda_rows_norm &p)
{
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine, begin = row / p.inner * p.n * p.inner + row % p.inner;
        const bool mine = row < p.rows;
        const T *y = (const T *)p.x + begin, *g = (const T *)p.dy + begin;
        T *to = (T *)p.y + begin, v[KEPT ? EACH : 1], d[KEPT ? EACH : 1];
        double sum = 0;
        OF_ROW
        {
            const T a = y[i * p.inner], b = g[i * p.inner];
            if (KEPT) v[j] = a, d[j] = b;
            sum += p.log ? (double)b : (double)b * a;
        }
        const T all = (T)join_all<double, sum_of<double>>(sum, at);
        OF_ROW
        {
            const T a = KEPT ? v[j] : y[i * p.inner], b = KEPT ? d[j] : g[i * p.inner];
            to[i * p.inner] = p.log ? b - (T)exp(a) * all : a * (b - all);
        }
    }
}

/* The weight of element i of a row: one per element, or one per channel of a group. */
FN int64_t weight_of(const cuda_rows_norm &p, int64_t row, int64_t i)
{
    if (!p.span) return i;
    const int64_t channel = (i | p.span) >> 32 ? i / p.span : (uint32_t)i / (uint32_t)p.span;
    return row % p.groups * (p.n / p.span) + channel;
}

/* y = (x - mean) rstd w + b; without a mean the root mean square. */
template <class T, bool KEPT> FN void rows_norm(const cuda_rows_norm &p)
{
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        const T *x = (const T *)p.x + row * p.n;
        T v[KEPT ? EACH : 1];
        double sum = 0, squares = 0;
        if (KEPT || p.mean) OF_ROW
        {
            const T e = x[i];
            if (KEPT) v[j] = e;
            sum += e;
        }
        const double mean = p.mean ? join_all<double, sum_of<double>>(sum, at) / (double)p.n : 0;
        OF_ROW
        {
            const double off = (KEPT ? v[j] : x[i]) - mean;
            squares += off * off;
        }
        const double rstd = 1 / sqrt(join_all<double, sum_of<double>>(squares, at) / (double)p.n + p.eps);
        OF_ROW
        {
            const int64_t k = weight_of(p, row, i);
            const double e = ((KEPT ? v[j] : x[i]) - mean) * rstd;
            ((T *)p.y)[row * p.n + i] = (T)((p.w ? e * ((const T *)p.w)[k] : e) + (p.b ? ((const T *)p.b)[k] : 0));
        }
        if (!mine || at.member) continue;
        if (p.mean) ((T *)p.mean)[row] = (T)mean;
        ((T *)p.rstd)[row] = (T)rstd;
    }
}

template <class T, bool KEPT> FN void rows_norm_back(const cuda_rows_norm &p)
{
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        const T *x = (const T *)p.x + row * p.n, *g = (const T *)p.dy + row * p.n;
        const double mean = mine && p.mean ? ((const T *)p.mean)[row] : 0, rstd = mine ? ((const T *)p.rstd)[row] : 0;
        T v[KEPT ? EACH : 1], d[KEPT ? EACH : 1];
        double sum = 0, dot = 0;
        OF_ROW
        {
            const T a = x[i], b = g[i];
            const double by = p.w ? (double)b * ((const T *)p.w)[weight_of(p, row, i)] : b;
            if (KEPT) v[j] = a, d[j] = b;
            sum += by;
            dot += by * (a - mean) * rstd;
        }
        sum = p.mean ? join_all<double, sum_of<double>>(sum, at) / (double)p.n : 0;
        dot = join_all<double, sum_of<double>>(dot, at) / (double)p.n;
        OF_ROW
        {
            const T a = KEPT ? v[j] : x[i], b = KEPT ? d[j] : g[i];
            const double by = p.w ? (double)b * ((const T *)p.w)[weight_of(p, row, i)] : b;
            ((T *)p.y)[row * p.n + i] = (T)((by - sum - (a - mean) * rstd * dot) * rstd);
        }
    }
}

#define KERNELS(name)                                                                                       \
    KERNEL(name##_f32, cuda_rows_norm) { p.kept ? name<float, true>(p) : name<float, false>(p); }           \
    KERNEL(name##_f64, cuda_rows_norm) { name<double, false>(p); } /* there are not as many registers */
KERNELS(softmax)
KERNELS(softmax_back)
KERNELS(rows_norm)
KERNELS(rows_norm_back)
