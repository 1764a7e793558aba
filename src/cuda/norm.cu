/* norm.cu - rows of contiguous (outer, n, inner) memory, a team of threads to each: softmax and its way back, layer and RMS norm and theirs.
 *
 * A row of floats that fits is read once and held in registers, in vectors of 16 bytes where rows allow that (LINED); others are read
 * again. A team is of 32 threads or more, or with inner > 1 of 8, where neighbours in memory are of different rows and neighbouring
 * threads take those.
 */
#include "cuda/rows.h"

enum { EACH = CUDA_HELD };

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
    const unsigned first = at.mine * at.team / 32;
    v = joined[first];
    for (unsigned k = 1; k < at.team / 32; k++) v = J::join(v, joined[first + k]);
    __syncthreads();
    return v;
}

/* What a thread holds of a row. */
template <bool LINED> struct held {
    float v[EACH];
    static FN int place_of(const place &at, int j) { return LINED ? ((int)at.member + j / 4 * (int)at.team) * 4 + j % 4 : (int)at.member + j * (int)at.team; }
    FN void take(const float *x, int n, const place &at, bool mine, float none)
    {
        UNROLLED for (int j = 0; j < EACH; j += LINED ? 4 : 1)
        {
            const int i = place_of(at, j);
            if (LINED) {
                pack<float> four = {none, none, none, none};
                if (mine && i < n) four = *(const pack<float> *)(x + i);
                UNROLLED for (int k = 0; k < 4; k++) v[j + k] = four.v[k];
            } else {
                v[j] = mine && i < n ? x[i] : none;
            }
        }
    }
    FN void put(float *y, int n, const place &at, bool mine) const
    {
        UNROLLED for (int j = 0; j < EACH; j += LINED ? 4 : 1)
        {
            const int i = place_of(at, j);
            if (!mine || i >= n) continue;
            if (LINED) *(pack<float> *)(y + i) = {v[j], v[j + 1], v[j + 2], v[j + 3]};
            else y[i] = v[j];
        }
    }
};

/* Before a statement on what a thread holds as number j, element i of its row. */
#define OF_HELD UNROLLED for (int j = 0; j < EACH; j++) if (const int i = held<LINED>::place_of(at, j); i < n)
/* Before a statement on element i of the thread's row. */
#define OF_ROW for (int64_t i = at.member; i < p.n; i += at.team) if (mine)
#define OF_ROWS ROLLED for (int64_t first = (int64_t)blockIdx.x * at.teams; first < p.rows; first += (int64_t)gridDim.x * at.teams)

template <class T> FN void softmax(const cuda_rows_norm &p)
{
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine, begin = row / p.inner * p.n * p.inner + row % p.inner;
        const bool mine = row < p.rows;
        const T *x = (const T *)p.x + begin;
        T *y = (T *)p.y + begin, most = (T)-INFINITY;
        OF_ROW most = larger_of<T>::join(most, x[i * p.inner]);
        most = join_all<T, larger_of<T>>(most, at);
        double sum = 0;
        OF_ROW sum += exp(x[i * p.inner] - most);
        sum = join_all<double, sum_of<double>>(sum, at);
        const T by = (T)sum, less = (T)log(sum);
        OF_ROW y[i * p.inner] = p.log ? x[i * p.inner] - most - less : (T)exp(x[i * p.inner] - most) / by;
    }
}

template <bool LINED> FN void softmax_held(const cuda_rows_norm &p)
{
    const place at(p);
    const int n = (int)p.n;
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        held<LINED> h;
        float most = -INFINITY;
        h.take((const float *)p.x + row * n, n, at, mine, -INFINITY);
        UNROLLED for (int j = 0; j < EACH; j++) most = larger_of<float>::join(most, h.v[j]);
        most = join_all<float, larger_of<float>>(most, at);
        double sum = 0;
        OF_HELD
        {
            const float off = h.v[j] - most, power = exp(off);
            h.v[j] = p.log ? off : power;
            sum += power;
        }
        sum = join_all<double, sum_of<double>>(sum, at);
        const float by = (float)sum, less = (float)log(sum);
        UNROLLED for (int j = 0; j < EACH; j++) h.v[j] = p.log ? h.v[j] - less : h.v[j] / by;
        h.put((float *)p.y + row * n, n, at, mine);
    }
}

/* x is the output here, dy the gradient */
template <class T> FN void softmax_back(const cuda_rows_norm &p)
{
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine, begin = row / p.inner * p.n * p.inner + row % p.inner;
        const bool mine = row < p.rows;
        const T *y = (const T *)p.x + begin, *g = (const T *)p.dy + begin;
        T *to = (T *)p.y + begin;
        double sum = 0;
        OF_ROW sum += p.log ? (double)g[i * p.inner] : (double)g[i * p.inner] * y[i * p.inner];
        const T all = (T)join_all<double, sum_of<double>>(sum, at);
        OF_ROW
        {
            const T a = y[i * p.inner], b = g[i * p.inner];
            to[i * p.inner] = p.log ? b - (T)exp(a) * all : a * (b - all);
        }
    }
}

template <bool LINED> FN void softmax_back_held(const cuda_rows_norm &p)
{
    const place at(p);
    const int n = (int)p.n;
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        held<LINED> y, g;
        double sum = 0;
        y.take((const float *)p.x + row * n, n, at, mine, 0);
        g.take((const float *)p.dy + row * n, n, at, mine, 0);
        UNROLLED for (int j = 0; j < EACH; j++) sum += p.log ? (double)g.v[j] : (double)g.v[j] * y.v[j];
        const float all = (float)join_all<double, sum_of<double>>(sum, at);
        UNROLLED for (int j = 0; j < EACH; j++) y.v[j] = p.log ? g.v[j] - (float)exp(y.v[j]) * all : y.v[j] * (g.v[j] - all);
        y.put((float *)p.y + row * n, n, at, mine);
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
template <class T> FN void rows_norm(const cuda_rows_norm &p)
{
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        const T *x = (const T *)p.x + row * p.n;
        double sum = 0, squares = 0;
        if (p.mean) OF_ROW sum += x[i];
        const double mean = p.mean ? join_all<double, sum_of<double>>(sum, at) / (double)p.n : 0;
        OF_ROW squares += (x[i] - mean) * (x[i] - mean);
        const double rstd = 1 / sqrt(join_all<double, sum_of<double>>(squares, at) / (double)p.n + p.eps);
        OF_ROW
        {
            const int64_t k = weight_of(p, row, i);
            const double e = (x[i] - mean) * rstd;
            ((T *)p.y)[row * p.n + i] = (T)((p.w ? e * ((const T *)p.w)[k] : e) + (p.b ? ((const T *)p.b)[k] : 0));
        }
        if (!mine || at.member) continue;
        if (p.mean) ((T *)p.mean)[row] = (T)mean;
        ((T *)p.rstd)[row] = (T)rstd;
    }
}

/* Weights are one per element here. Elements are brought off the mean in double, then all is of floats; their sums are in double. */
template <bool LINED> FN void rows_norm_held(const cuda_rows_norm &p)
{
    const place at(p);
    const int n = (int)p.n;
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        held<LINED> h, w;
        double sum = 0, squares = 0;
        h.take((const float *)p.x + row * n, n, at, mine, 0);
        if (p.mean) UNROLLED for (int j = 0; j < EACH; j++) sum += h.v[j];
        const double mean = p.mean ? join_all<double, sum_of<double>>(sum, at) / n : 0;
        OF_HELD
        {
            h.v[j] = (float)(h.v[j] - mean);
            squares += (double)h.v[j] * h.v[j];
        }
        const double rstd = 1 / sqrt(join_all<double, sum_of<double>>(squares, at) / n + p.eps);
        UNROLLED for (int j = 0; j < EACH; j++) h.v[j] *= (float)rstd;
        if (p.w) {
            w.take((const float *)p.w, n, at, mine, 0);
            UNROLLED for (int j = 0; j < EACH; j++) h.v[j] *= w.v[j];
        }
        if (p.b) {
            w.take((const float *)p.b, n, at, mine, 0);
            UNROLLED for (int j = 0; j < EACH; j++) h.v[j] += w.v[j];
        }
        h.put((float *)p.y + row * n, n, at, mine);
        if (!mine || at.member) continue;
        if (p.mean) ((float *)p.mean)[row] = (float)mean;
        ((float *)p.rstd)[row] = (float)rstd;
    }
}

template <class T> FN void rows_norm_back(const cuda_rows_norm &p)
{
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        const T *x = (const T *)p.x + row * p.n, *g = (const T *)p.dy + row * p.n;
        const double mean = mine && p.mean ? ((const T *)p.mean)[row] : 0, rstd = mine ? ((const T *)p.rstd)[row] : 0;
        double sum = 0, dot = 0;
        OF_ROW
        {
            const double by = p.w ? (double)g[i] * ((const T *)p.w)[weight_of(p, row, i)] : g[i];
            sum += by;
            dot += by * (x[i] - mean) * rstd;
        }
        sum = p.mean ? join_all<double, sum_of<double>>(sum, at) / (double)p.n : 0;
        dot = join_all<double, sum_of<double>>(dot, at) / (double)p.n;
        OF_ROW
        {
            const double by = p.w ? (double)g[i] * ((const T *)p.w)[weight_of(p, row, i)] : g[i];
            ((T *)p.y)[row * p.n + i] = (T)((by - sum - (x[i] - mean) * rstd * dot) * rstd);
        }
    }
}

template <bool LINED> FN void rows_norm_back_held(const cuda_rows_norm &p)
{
    const place at(p);
    const int n = (int)p.n;
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        const double mean = mine && p.mean ? ((const float *)p.mean)[row] : 0, rstd = mine ? ((const float *)p.rstd)[row] : 0;
        held<LINED> x, g;
        double sum = 0, dot = 0;
        if (p.w) {
            g.take((const float *)p.w, n, at, mine, 0);
            x.take((const float *)p.dy + row * n, n, at, mine, 0);
            UNROLLED for (int j = 0; j < EACH; j++) g.v[j] *= x.v[j];
        } else {
            g.take((const float *)p.dy + row * n, n, at, mine, 0);
        }
        x.take((const float *)p.x + row * n, n, at, mine, 0);
        UNROLLED for (int j = 0; j < EACH; j++)
        {
            x.v[j] = (float)((x.v[j] - mean) * rstd);
            sum += g.v[j];
            dot += (double)g.v[j] * x.v[j];
        }
        sum = p.mean ? join_all<double, sum_of<double>>(sum, at) / n : 0;
        dot = join_all<double, sum_of<double>>(dot, at) / n;
        UNROLLED for (int j = 0; j < EACH; j++) g.v[j] = (g.v[j] - (float)sum - x.v[j] * (float)dot) * (float)rstd;
        g.put((float *)p.y + row * n, n, at, mine);
    }
}

#define KERNELS(name)                                                                                       \
    KERNEL(name##_f32, cuda_rows_norm) { name<float>(p); }                                                  \
    KERNEL(name##_f64, cuda_rows_norm) { name<double>(p); }                                                 \
    KERNEL(name##_held, cuda_rows_norm) { name##_held<false>(p); }                                          \
    KERNEL(name##_lined, cuda_rows_norm) { name##_held<true>(p); }
KERNELS(softmax)
KERNELS(softmax_back)
KERNELS(rows_norm)
KERNELS(rows_norm_back)
