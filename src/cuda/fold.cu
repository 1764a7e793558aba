/* fold.cu - reductions: the folds of src/kernels/cpu/fold.h by their names.
 *
 * A team of threads makes an output: one thread for short ones, a block for long ones; a block has as many teams as fit. Its threads are
 * numbered so that neighbours read neighbours: along what is joined, or across outputs. Long reductions with few outputs are cut into
 * pieces first, whose accumulators a second kernel joins. What is joined with what depends on the shape alone, so results do not change
 * from run to run.
 */
#include "cuda/rows.h"

/* ---- the machine: F is what is kept, with start(), add() of an element, merge() of another one, finish(); variances begin() with an element ---- */

template <class F> FN void begin_at(F &f, const cuda_fold &p, const char *x) {}
template <class V> struct variance;
template <class V> FN void begin_at(variance<V> &f, const cuda_fold &p, const char *x) { f.begin(p, x); }

FN void output_at(const cuda_fold &p, int64_t u, const char *&x, int64_t &out)
{
    x = p.x;
    out = 0;
    ROLLED
    for (int d = 0; d < p.nkept; d++) {
        int64_t next = d + 1 < p.nkept ? u / p.kept[d].size : 0, i = u - next * p.kept[d].size;
        u = next;
        x += i * p.kept[d].in;
        out += i * p.kept[d].out;
    }
}

template <class F> FN void join_elements(F &f, const cuda_fold &p, const char *x, int64_t begin, int64_t end, int64_t step)
{
    typedef typename F::T T;
    enum { AHEAD = 4 }; /* elements that are asked for before the first is needed */
    int64_t i = begin;
    if (p.ngone <= 1 && !p.lazy) {
        const int64_t hop = p.ngone ? step * p.gone[0].in : 0;
        const char *at = x + begin * (p.ngone ? p.gone[0].in : 0);
        ROLLED
        while (i + (AHEAD - 1) * step < end) {
            T v[AHEAD];
            for (int k = 0; k < AHEAD; k++, at += hop) v[k] = near_by<T>(at, p.dtype);
            for (int k = 0; k < AHEAD; k++, i += step) f.add(v[k], i, p);
        }
        ROLLED
        for (; i < end; i += step, at += hop) f.add(near_by<T>(at, p.dtype), i, p);
        return;
    }
    ROLLED
    for (; i < end; i += step) {
        const char *at = x;
        int64_t rest = i;
        ROLLED
        for (int d = 0; d < p.ngone; d++) {
            int64_t next = 0;
            if (d + 1 < p.ngone) next = (rest | p.gone[d].size) >> 32 ? rest / p.gone[d].size : (uint32_t)rest / (uint32_t)p.gone[d].size; /* divisions of 64 bits are slow */
            at += (rest - next * p.gone[d].size) * p.gone[d].in;
            rest = next;
        }
        f.add(lazily(near_by<T>(at, p.dtype), p.lazy), i, p);
    }
}

/* The accumulators of a team become its first thread's; nobody else reads its place afterwards. `apart`: from a thread to the next of its team. */
template <class F> FN void join_team(F &f, unsigned member, unsigned team, unsigned apart)
{
    __shared__ F joined[CUDA_THREADS];
    if (team == 1) return;
    joined[threadIdx.x] = f;
    __syncthreads();
    for (unsigned s = team / 2; s; s /= 2) {
        if (member < s) joined[threadIdx.x].merge(joined[threadIdx.x + s * apart]);
        __syncthreads();
    }
    if (!member) f = joined[threadIdx.x];
}

template <class F> FN void write(const F &f, const cuda_fold &p, int64_t out)
{
    typename F::R first;
    typename F::S second;
    f.finish(p, first, second);
    if (p.out[0]) store<typename F::R>((char *)p.out[0] + out * p.out_size[0], p.out_dtype[0], first);
    if (p.out[1]) store<typename F::S>((char *)p.out[1] + out * p.out_size[1], p.out_dtype[1], second);
}

template <class F> FN void fold(const cuda_fold &p)
{
    const unsigned team = p.team, teams = p.teams, apart = p.across ? teams : 1;
    const unsigned member = p.across ? threadIdx.x / teams : threadIdx.x % team, mine = p.across ? threadIdx.x % teams : threadIdx.x / team;
    ROLLED
    for (int64_t task = blockIdx.x; task < (p.outputs + teams - 1) / teams * p.pieces; task += gridDim.x) {
        const int64_t u = task / p.pieces * teams + mine, k = task % p.pieces;
        const int64_t begin = k * p.piece, end = begin + p.piece < p.length ? begin + p.piece : p.length;
        const char *x = nullptr;
        int64_t out = 0;
        F f;
        f.start();
        if (u < p.outputs) {
            output_at(p, u, x, out);
            if (p.length) begin_at(f, p, x);
            join_elements(f, p, x, begin + member, end, team);
        }
        join_team(f, member, team, apart);
        if (member || u >= p.outputs) continue;
        if (p.pieces > 1) ((F *)p.partial)[u * p.pieces + k] = f;
        else write(f, p, out);
    }
}

template <class F> FN void join_pieces(const cuda_fold &p)
{
    const unsigned team = p.pieces_team, teams = CUDA_THREADS / team, member = threadIdx.x % team;
    ROLLED
    for (int64_t first = (int64_t)blockIdx.x * teams; first < p.outputs; first += (int64_t)gridDim.x * teams) {
        const int64_t u = first + threadIdx.x / team;
        const char *x;
        int64_t out;
        F f;
        f.start();
        for (int64_t k = member; u < p.outputs && k < p.pieces; k += team) f.merge(((const F *)p.partial)[u * p.pieces + k]);
        join_team(f, member, team, 1);
        if (member || u >= p.outputs) continue;
        output_at(p, u, x, out);
        write(f, p, out);
    }
}

#define KERNELS(name, ...)                                                                                  \
    KERNEL_WIDE(fold_##name, cuda_fold) { fold<__VA_ARGS__>(p); }                                           \
    KERNEL(pieces_##name, cuda_fold) { join_pieces<__VA_ARGS__>(p); }

/* ---- a map of each element, joined by an operator: A is kept, R written ---- */

#define MAPPED(name, T_, A, R_, zero, map, join, result)                                                    \
    struct name##_fold {                                                                                    \
        typedef T_ T;                                                                                       \
        typedef R_ R;                                                                                       \
        typedef int64_t S;                                                                                  \
        A kept;                                                                                             \
        FN void start() { kept = zero; }                                                                    \
        FN void take(A b)                                                                                   \
        {                                                                                                   \
            const A a = kept;                                                                               \
            kept = join;                                                                                    \
        }                                                                                                   \
        FN void add(T x, int64_t at, const cuda_fold &p) { take(map); }                                     \
        FN void merge(const name##_fold &o) { take(o.kept); }                                               \
        FN void finish(const cuda_fold &p, R &y, S &none) const                                             \
        {                                                                                                   \
            none = 0;                                                                                       \
            const A a = kept;                                                                               \
            y = result;                                                                                     \
        }                                                                                                   \
    };                                                                                                      \
    KERNELS(name, name##_fold)

typedef complex_of<float> c64;
typedef complex_of<double> c128;
FN c128 wide(c64 x) { return c128(x.re, x.im); }

MAPPED(sum_u8, uint8_t, int64_t, int64_t, 0, x, a + b, a)
MAPPED(sum_i32, int32_t, int64_t, int64_t, 0, x, a + b, a)
MAPPED(sum_i64, int64_t, uint64_t, int64_t, 0, (uint64_t)x, a + b, (int64_t)a)
MAPPED(sum_f32, float, double, float, 0, x, a + b, (float)(p.mean ? a / p.count : a))
MAPPED(sum_f64, double, double, double, 0, x, a + b, p.mean ? a / p.count : a)
MAPPED(sum_c64, c64, c128, c128, c128(0), wide(x), a + b, p.mean ? a / c128(p.count) : a)
MAPPED(sum_c128, c128, c128, c128, c128(0), x, a + b, p.mean ? a / c128(p.count) : a)
MAPPED(nansum_f32, float, double, float, 0, x == x ? x : 0, a + b, (float)a)
MAPPED(nansum_f64, double, double, double, 0, x == x ? x : 0, a + b, a)
MAPPED(prod_i64, int64_t, uint64_t, int64_t, 1, (uint64_t)x, a * b, (int64_t)a)
MAPPED(prod_f32, float, float, float, 1, x, a * b, a)
MAPPED(prod_f64, double, double, double, 1, x, a * b, a)
MAPPED(prod_c64, c64, c64, c64, c64(1), x, a * b, a)
MAPPED(prod_c128, c128, c128, c128, c128(1), x, a * b, a)
MAPPED(xor_i64, int64_t, uint64_t, uint64_t, 0, (uint64_t)x, a ^ b, a)
MAPPED(any, truth, uint8_t, uint8_t, 0, x.v, (uint8_t)(a | b), a)
MAPPED(all, truth, uint8_t, uint8_t, 1, x.v, (uint8_t)(a & b), a)

/* NaN wins */
#define MORE (b > a || b != b ? b : a)
#define LESS (b < a || b != b ? b : a)
MAPPED(max_u8, uint8_t, uint8_t, uint8_t, 0, x, MORE, a)
MAPPED(max_i32, int32_t, int32_t, int32_t, INT32_MIN, x, MORE, a)
MAPPED(max_i64, int64_t, int64_t, int64_t, INT64_MIN, x, MORE, a)
MAPPED(max_f32, float, float, float, -INFINITY, x, MORE, a)
MAPPED(max_f64, double, double, double, -INFINITY, x, MORE, a)
MAPPED(min_u8, uint8_t, uint8_t, uint8_t, UINT8_MAX, x, LESS, a)
MAPPED(min_i32, int32_t, int32_t, int32_t, INT32_MAX, x, LESS, a)
MAPPED(min_i64, int64_t, int64_t, int64_t, INT64_MAX, x, LESS, a)
MAPPED(min_f32, float, float, float, INFINITY, x, LESS, a)
MAPPED(min_f64, double, double, double, INFINITY, x, LESS, a)

#define NORMS(T, suffix)                                                                                    \
    MAPPED(norm0_##suffix, T, double, T, 0, x != 0 ? 1 : 0, a + b, (T)a)                                    \
    MAPPED(norm1_##suffix, T, double, T, 0, fabs((double)x), a + b, (T)a)                                   \
    MAPPED(norm2_##suffix, T, double, T, 0, (double)x * x, a + b, (T)sqrt(a))                               \
    MAPPED(norm_inf_##suffix, T, T, T, 0, fabs(x), MORE, a)                                                 \
    MAPPED(norm_ninf_##suffix, T, T, T, (T)INFINITY, fabs(x), LESS, a)
NORMS(float, f32)
NORMS(double, f64)

template <class V> struct norm_p {
    typedef V T;
    typedef V R;
    typedef int64_t S;
    double kept;
    FN void start() { kept = 0; }
    FN void add(T x, int64_t at, const cuda_fold &p) { kept += pow(fabs(x), (T)p.p); }
    FN void merge(const norm_p &o) { kept += o.kept; }
    FN void finish(const cuda_fold &p, R &y, S &none) const { none = 0, y = (R)pow(kept, 1 / p.p); }
};
KERNELS(norm_f32, norm_p<float>)
KERNELS(norm_f64, norm_p<double>)

/* ---- the best element and where it is: the first of equal ones, NaN best of all ---- */

template <class V, bool MOST> struct best {
    typedef V T;
    typedef V R;
    typedef int64_t S;
    V value;
    int64_t index;
    FN void start() { value = 0, index = -1; }
    /* a thread's elements come in their order */
    FN void add(T v, int64_t at, const cuda_fold &p)
    {
        if (index < 0 || (MOST ? v > value : v < value) || (v != v && value == value)) value = v, index = at;
    }
    FN void merge(const best &o)
    {
        const bool bad = o.value != o.value, better = MOST ? o.value > value : o.value < value, before = o.index < index;
        if (o.index >= 0 && (index < 0 || (value != value ? bad && before : bad || better || (o.value == value && before)))) *this = o;
    }
    FN void finish(const cuda_fold &p, R &y, S &at) const { y = value, at = index; }
};
#define BEST(T, suffix)                                                                                     \
    KERNELS(argmax_##suffix, best<T, true>)                                                                 \
    KERNELS(argmin_##suffix, best<T, false>)
BEST(uint8_t, u8)
BEST(int32_t, i32)
BEST(int64_t, i64)
BEST(float, f32)
BEST(double, f64)

/* ---- variance and mean; the logarithm of the sum of exponentials ---- */

/* Sums of what elements are off the first one of all: that is at most the root of their number times the deviation off the mean, so doubles
 * have digits to spare, and nobody divides before the end. */
template <class V> struct variance {
    typedef V T;
    typedef V R;
    typedef V S;
    double origin, sum, squares, count;
    FN void start() { origin = sum = squares = count = 0; }
    FN void begin(const cuda_fold &p, const char *x) { origin = near_by<V>(x, p.dtype); }
    FN void add(T x, int64_t at, const cuda_fold &p)
    {
        const double off = x - origin;
        count += 1;
        sum += off;
        squares += off * off;
    }
    FN void merge(const variance &o)
    {
        if (count == 0) origin = o.origin;
        sum += o.sum;
        squares += o.squares;
        count += o.count;
    }
    FN void finish(const cuda_fold &p, R &y, S &m) const
    {
        const double off = sum / count, all = squares - off * sum, by = count - p.correction, v = (all < 0 ? 0 : all) / (by > 0 ? by : 0); /* NaN stays */
        y = (R)(p.root ? sqrt(v) : v);
        m = (S)(count == 0 ? (double)NAN : origin + off);
    }
};
KERNELS(var_f32, variance<float>)
KERNELS(var_f64, variance<double>)

template <class V> struct log_sum_exp {
    typedef V T;
    typedef V R;
    typedef int64_t S;
    double most, sum; /* sum of exp(x - most) */
    FN void start() { most = -INFINITY, sum = 0; }
    FN void take(double m, double s)
    {
        if (s == 0 || m == -INFINITY) return;
        if (m > most) sum = sum * exp(most - m) + s, most = m;
        else sum += m == most ? s : s * exp(m - most);
    }
    FN void add(T x, int64_t at, const cuda_fold &p) { take(x, 1); }
    FN void merge(const log_sum_exp &o) { take(o.most, o.sum); }
    FN void finish(const cuda_fold &p, R &y, S &none) const { none = 0, y = (R)(log(sum) + most); }
};
KERNELS(lse_f32, log_sum_exp<float>)
KERNELS(lse_f64, log_sum_exp<double>)
