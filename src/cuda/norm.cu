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

/* Rows are of two kinds with the same words, so that each formula is written once. Sums are in double, and of the elements that the thread has. */

/* A row that is read, and what it was mapped to computed, each time that somebody asks. */
template <class T, class F> struct read_row {
    F element; /* of its number */
    const place &at;
    int64_t n, begin, step; /* n: 0, if there is no such row */

    template <class G> FN void each(G g) const
    {
        for (int64_t i = at.member; i < n; i += at.team) g(i);
    }
    FN T largest() const
    {
        T most = (T)-INFINITY;
        each([&](int64_t i) { most = larger_of<T>::join(most, element(i)); });
        return most;
    }
    FN double sum() const
    {
        double all = 0;
        each([&](int64_t i) { all += element(i); });
        return all;
    }
    template <class R> FN double dot(const R &other) const
    {
        double all = 0;
        each([&](int64_t i) { all += (double)element(i) * other.element(i); });
        return all;
    }
    template <class G> FN read_row<T, G> of(G g) const { return {g, at, n, begin, step}; }
    template <class G> FN auto map(G g) const
    {
        const F x = element;
        return of([x, g](int64_t i) { return (T)g(x(i)); });
    }
    template <class R, class G> FN auto with(const R &other, G g) const
    {
        const F x = element;
        const auto y = other.element;
        return of([x, y, g](int64_t i) { return (T)g(x(i), y(i)); });
    }
    FN void put(void *to) const
    {
        T *y = (T *)to + begin;
        each([&](int64_t i) { y[i * step] = element(i); });
    }
};

/* A row of floats that is held in registers. */
template <bool LINED> struct held_row {
    float v[EACH];
    const place &at;
    int n; /* 0, if there is no such row */
    int64_t begin;

    FN int place_of(int j) const { return LINED ? ((int)at.member + j / 4 * (int)at.team) * 4 + j % 4 : (int)at.member + j * (int)at.team; }
    FN void take(const float *x, float none)
    {
        UNROLLED for (int j = 0; j < EACH; j += LINED ? 4 : 1)
        {
            const int i = place_of(j);
            if (LINED) {
                pack<float> four = {none, none, none, none};
                if (x && i < n) four = *(const pack<float> *)(x + i);
                UNROLLED for (int k = 0; k < 4; k++) v[j + k] = four.v[k];
            } else {
                v[j] = x && i < n ? x[i] : none;
            }
        }
    }
    FN float largest() const
    {
        float most = -INFINITY;
        UNROLLED for (int j = 0; j < EACH; j++) most = place_of(j) < n ? larger_of<float>::join(most, v[j]) : most;
        return most;
    }
    FN double sum() const
    {
        double all = 0;
        UNROLLED for (int j = 0; j < EACH; j++) all += place_of(j) < n ? v[j] : 0;
        return all;
    }
    FN double dot(const held_row &other) const
    {
        double all = 0;
        UNROLLED for (int j = 0; j < EACH; j++) all += place_of(j) < n ? (double)v[j] * other.v[j] : 0;
        return all;
    }
    template <class G> FN held_row map(G g) const
    {
        held_row to = *this;
        UNROLLED for (int j = 0; j < EACH; j++) to.v[j] = (float)g(v[j]);
        return to;
    }
    template <class G> FN held_row with(const held_row &other, G g) const
    {
        held_row to = *this;
        UNROLLED for (int j = 0; j < EACH; j++) to.v[j] = (float)g(v[j], other.v[j]);
        return to;
    }
    FN void put(void *to) const
    {
        float *y = (float *)to + begin;
        UNROLLED for (int j = 0; j < EACH; j += LINED ? 4 : 1)
        {
            const int i = place_of(j);
            if (i >= n) continue;
            if (LINED) *(pack<float> *)(y + i) = {v[j], v[j + 1], v[j + 2], v[j + 3]};
            else y[i] = v[j];
        }
    }
};

/* What a kernel's rows are of: rows of x, which may have others between their elements (ACROSS), and the weights of a row, `none` each where there are none. */
template <class T, bool ACROSS> struct read_again {
    typedef T type;
    static FN auto row(const cuda_rows_norm &p, const place &at, int64_t row, const void *x)
    {
        const int64_t step = ACROSS ? p.inner : 1, begin = ACROSS ? row / p.inner * p.n * p.inner + row % p.inner : row * p.n;
        const T *first = (const T *)x + begin;
        const auto element = [first, step](int64_t i) { return first[i * step]; };
        return read_row<T, decltype(element)>{element, at, row < p.rows ? p.n : 0, begin, step};
    }
    static FN auto weights(const cuda_rows_norm &p, const place &at, int64_t row, const void *w, T none)
    {
        const int64_t span = p.span ? p.span : 1; /* elements with one weight: a channel of the group that the row is */
        const T *first = w ? (const T *)w + (p.span ? row % p.groups * (p.n / span) : 0) : NULL;
        const auto element = [first, span, none](int64_t i) { return first ? first[(i | span) >> 32 ? i / span : (uint32_t)i / (uint32_t)span] : none; };
        return read_row<T, decltype(element)>{element, at, row < p.rows ? p.n : 0, 0, 1};
    }
};
template <bool LINED> struct held_once {
    typedef float type;
    static FN held_row<LINED> row(const cuda_rows_norm &p, const place &at, int64_t row, const void *x)
    {
        held_row<LINED> h = {{}, at, row < p.rows ? (int)p.n : 0, row * p.n};
        h.take((const float *)x + h.begin, 0);
        return h;
    }
    static FN held_row<LINED> weights(const cuda_rows_norm &p, const place &at, int64_t row, const void *w, float none)
    {
        held_row<LINED> h = {{}, at, row < p.rows ? (int)p.n : 0, 0};
        h.take((const float *)w, none);
        return h;
    }
};

#define OF_ROWS ROLLED for (int64_t first = (int64_t)blockIdx.x * at.teams; first < p.rows; first += (int64_t)gridDim.x * at.teams)

template <class KIND> FN void softmax(const cuda_rows_norm &p)
{
    typedef typename KIND::type T;
    const place at(p);
    const bool log_ = p.log;
    OF_ROWS {
        const auto x = KIND::row(p, at, first + at.mine, p.x);
        const T most = join_all<T, larger_of<T>>(x.largest(), at);
        const auto e = x.map([=](T v) { return log_ ? v - most : exp(v - most); });
        const double sum = join_all<double, sum_of<double>>(log_ ? e.map([](T v) { return exp(v); }).sum() : e.sum(), at);
        const T by = (T)sum, less = (T)log(sum);
        e.map([=](T v) { return log_ ? v - less : v / by; }).put(p.y);
    }
}

/* x is the output here, dy the gradient */
template <class KIND> FN void softmax_back(const cuda_rows_norm &p)
{
    typedef typename KIND::type T;
    const place at(p);
    const bool log_ = p.log;
    OF_ROWS {
        const auto y = KIND::row(p, at, first + at.mine, p.x), g = KIND::row(p, at, first + at.mine, p.dy);
        const T all = (T)join_all<double, sum_of<double>>(log_ ? g.sum() : g.dot(y), at);
        y.with(g, [=](T a, T b) { return log_ ? b - exp(a) * all : a * (b - all); }).put(p.y);
    }
}

/* y = (x - mean) rstd w + b; without a mean the root mean square. Elements are brought off the mean in double. */
template <class KIND> FN void rows_norm(const cuda_rows_norm &p)
{
    typedef typename KIND::type T;
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine;
        const auto x = KIND::row(p, at, row, p.x);
        const double mean = p.mean ? join_all<double, sum_of<double>>(x.sum(), at) / (double)p.n : 0;
        const auto off = x.map([=](T v) { return v - mean; });
        const double rstd = 1 / sqrt(join_all<double, sum_of<double>>(off.dot(off), at) / (double)p.n + p.eps);
        const auto y = off.map([=](T v) { return v * (T)rstd; }).with(KIND::weights(p, at, row, p.w, 1), [](T v, T w) { return v * w; });
        y.with(KIND::weights(p, at, row, p.b, 0), [](T v, T b) { return v + b; }).put(p.y);
        if (row >= p.rows || at.member) continue;
        if (p.mean) ((T *)p.mean)[row] = (T)mean;
        ((T *)p.rstd)[row] = (T)rstd;
    }
}

template <class KIND> FN void rows_norm_back(const cuda_rows_norm &p)
{
    typedef typename KIND::type T;
    const place at(p);
    OF_ROWS {
        const int64_t row = first + at.mine;
        const bool mine = row < p.rows;
        const double mean = mine && p.mean ? ((const T *)p.mean)[row] : 0, rstd = mine ? ((const T *)p.rstd)[row] : 0;
        const auto g = KIND::row(p, at, row, p.dy).with(KIND::weights(p, at, row, p.w, 1), [](T v, T w) { return v * w; });
        const auto x = KIND::row(p, at, row, p.x).map([=](T v) { return (v - mean) * rstd; });
        const double sum = p.mean ? join_all<double, sum_of<double>>(g.sum(), at) / (double)p.n : 0;
        const T along = (T)(join_all<double, sum_of<double>>(g.dot(x), at) / (double)p.n);
        g.with(x, [=](T v, T u) { return (v - (T)sum - u * along) * (T)rstd; }).put(p.y);
    }
}

#define KERNELS(name, ACROSS, BLOCKS) /* BLOCKS: how many are to be on a multiprocessor, whatever ptxas thinks of it; 0: it says */         \
    KERNEL(name##_f32, cuda_rows_norm) { name<read_again<float, ACROSS>>(p); }                              \
    KERNEL(name##_f64, cuda_rows_norm) { name<read_again<double, ACROSS>>(p); }                             \
    KERNEL(name##_held, cuda_rows_norm) { name<held_once<false>>(p); }                                      \
    KERNEL_(name##_lined, cuda_rows_norm, CUDA_THREADS, BLOCKS) { name<held_once<true>>(p); }
KERNELS(softmax, true, 4)
KERNELS(softmax_back, true, 0)
KERNELS(rows_norm, false, 0)
KERNELS(rows_norm_back, false, 0)
