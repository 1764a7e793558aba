/* scan.cu - running sums, products, maxima along lines.
 *
 * A line is cut into pieces when there are few: one launch makes the total of each, the next one starts each piece with what the
 * totals before it come to, so that no block waits for another. Threads of a piece are a block or a part of a warp; or one, where
 * neighbouring elements belong to neighbouring lines.
 */
#include "cuda/lanes.h"
#include "cuda/rows.h"

/* Elements in memory as M, computed in T. */
template <class A, class M> struct in_memory;
template <class T> struct in_memory<T, T> { static FN T of(T v) { return v; } };
template <> struct in_memory<int64_t, int32_t> { static FN int64_t of(int32_t v) { return v; } };
template <> struct in_memory<int64_t, uint8_t> { static FN int64_t of(uint8_t v) { return v; } };
struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
template <> struct in_memory<float, f16> { static FN float of(f16 v) { return f16_to_float(v.bits); } static FN f16 back(float v) { return {float_to_f16(v)}; } };
template <> struct in_memory<float, bf16> { static FN float of(bf16 v) { return bf16_to_float(v.bits); } static FN bf16 back(float v) { return {float_to_bf16(v)}; } };

struct line_places { const char *x; char *y, *index; };
FN line_places line_of(const cuda_scan &p, int64_t line)
{
    line_places l = {p.x, p.y, p.index};
    ROLLED
    for (int d = 0; d < p.ndim; d++) {
        int64_t next, i;
        if (d + 1 == p.ndim) next = 0, i = line;
        else if ((line | p.size[d]) >> 32) next = line / p.size[d], i = line - next * p.size[d];
        else next = (uint32_t)line / (uint32_t)p.size[d], i = line - next * p.size[d];
        l.x += i * p.in[d], l.y += i * p.out[d], l.index += i * p.at[d];
        line = next;
    }
    return l;
}

/* ---- elements of a piece to a thread: `have` of V ---- */

template <class M, class T, int V> FN void read_vector(const cuda_scan &p, const line_places &l, int64_t i, int have, T *x)
{
    if (p.plain && have == V) {
        const results<M, V> v = *(const results<M, V> *)(l.x + i * (int64_t)sizeof(M));
        for (int e = 0; e < V; e++) x[e] = in_memory<T, M>::of(v.v[e]);
        return;
    }
    for (int e = 0; e < V; e++)
        if (e < have) x[e] = lazily(load<T>(l.x + (i + e) * p.x_step, p.dtype), p.lazy);
}

template <class M, class T, int V> FN void write_as(char *to, const T *y)
{
    results<M, V> v;
    for (int e = 0; e < V; e++) v.v[e] = in_memory<T, M>::back(y[e]);
    *(results<M, V> *)to = v;
}
template <class T, int V> FN bool write_other(const cuda_scan &p, char *to, const T *y) { return false; }
template <> FN bool write_other<float, 4>(const cuda_scan &p, char *to, const float *y)
{
    if (p.y_dtype == RUSH_F16) write_as<f16, float, 4>(to, y);
    else if (p.y_dtype == RUSH_BF16) write_as<bf16, float, 4>(to, y);
    else return false;
    return true;
}
template <class T, int V> FN void write_vector(const cuda_scan &p, const line_places &l, int64_t i, int have, const T *y)
{
    char *to = l.y + i * p.y_step;
    if (p.plain && have == V) {
        if (p.y_dtype == dtype_of<T>::is) {
            results<T, V> v;
            for (int e = 0; e < V; e++) v.v[e] = y[e];
            *(results<T, V> *)to = v;
            return;
        }
        if (write_other<T, V>(p, to, y)) return;
    }
    for (int e = 0; e < V; e++)
        if (e < have) store<T>(to + e * p.y_step, p.y_dtype, y[e]);
}

template <class F> FN void take_in(F &f, typename F::T x, int64_t i)
{
    F one;
    one.add(x, i);
    f.merge(one);
}

/* Lines along which the threads of a warp or a block lie. */
template <class F, class M> FN void scan_along(const cuda_scan &p)
{
    typedef typename F::T T;
    enum { V = 16 / sizeof(T), J = SCAN_VECTORS };
    __shared__ F warps[CUDA_WARPS];
    const bool block = p.lanes > WARP;
    const int width = block ? WARP : p.lanes, lane = LANE & (width - 1), groups = CUDA_THREADS / p.lanes;
    const int64_t units = p.lines * p.pieces, tile = (int64_t)p.lanes * V * J;
    ROLLED
    for (int64_t first = (int64_t)blockIdx.x * groups; first < units; first += (int64_t)gridDim.x * groups) {
        const int64_t unit = first + (int)threadIdx.x / p.lanes, line = p.pieces == 1 ? unit : unit / p.pieces, piece = unit - line * p.pieces;
        const int64_t begin = piece * p.piece, stop = begin + p.piece < p.length ? begin + p.piece : p.length, limit = unit < units ? stop : begin;
        const line_places l = line_of(p, unit < units ? line : 0);
        F before;
        before.start();
        if (piece && !p.only_totals) {
            for (int64_t q = threadIdx.x; q < piece; q += CUDA_THREADS) before.merge(((const F *)p.totals)[line * p.pieces + q]);
            before = of_block(before);
        }
        ROLLED
        for (int64_t base = begin; base < stop; base += tile) { /* as often for all threads of a block */
            T x[J][V];
            int have[J];
            const int64_t start = base + (block ? MY_WARP * ((int)WARP * V * J) : 0) + lane * V;
            for (int j = 0; j < J; j++) {
                const int64_t i = start + j * width * V;
                have[j] = i + V <= limit ? (int)V : i < limit ? (int)(limit - i) : 0;
                read_vector<M, T, V>(p, l, i, have[j], x[j]);
            }
            F sofar, earlier[J];
            sofar.start();
            for (int j = 0; j < J; j++) {
                F f;
                f.start();
                for (int e = 0; e < V; e++)
                    if (e < have[j]) take_in(f, x[j][e], start + j * width * V + e);
                if (p.only_totals) {
                    sofar.merge(f);
                    continue;
                }
                f = up_to_here(f, width);
                earlier[j] = sofar;
                F one = from_lane(f, LANE - 1);
                if (lane) earlier[j].merge(one);
                sofar.merge(from_lane(f, LANE | (width - 1)));
            }
            if (p.only_totals) {
                before.merge(sofar);
                continue;
            }
            F here = before;
            if (block) {
                if (LANE == WARP - 1) warps[MY_WARP] = sofar;
                __syncthreads();
                for (int w = 0; w < CUDA_WARPS; w++) {
                    if (w == MY_WARP) here = before;
                    before.merge(warps[w]);
                }
                __syncthreads();
            } else {
                before.merge(sofar);
            }
            for (int j = 0; j < J; j++) {
                const int64_t i = start + j * width * V;
                F f = here;
                f.merge(earlier[j]);
                T y[V];
                int64_t place[V];
                for (int e = 0; e < V; e++) {
                    if (e >= have[j]) continue;
                    take_in(f, x[j][e], i + e);
                    y[e] = f.value(), place[e] = f.place();
                }
                write_vector<T, V>(p, l, i, have[j], y);
                if (p.index)
                    for (int e = 0; e < V; e++)
                        if (e < have[j]) *(int64_t *)(l.index + (i + e) * p.index_step) = place[e];
            }
        }
        if (p.only_totals) {
            before = of_block(before);
            if (!threadIdx.x) ((F *)p.totals)[unit] = before;
        }
    }
}

/* Lines side by side: neighbouring threads walk down neighbouring ones. */
template <class F> FN void scan_down(const cuda_scan &p)
{
    typedef typename F::T T;
    enum { AHEAD = 8 };
    ROLLED
    for (int64_t unit = FIRST; unit < p.lines * p.pieces; unit += ALL) {
        const int64_t piece = p.pieces == 1 ? 0 : unit / p.lines, line = unit - piece * p.lines;
        const int64_t begin = piece * p.piece, end = begin + p.piece < p.length ? begin + p.piece : p.length;
        const line_places l = line_of(p, line);
        F f;
        f.start();
        if (!p.only_totals)
            for (int64_t q = 0; q < piece; q++) f.merge(((const F *)p.totals)[q * p.lines + line]);
        ROLLED
        for (int64_t i = begin; i < end; i += AHEAD) {
            T x[AHEAD];
            if (p.dtype == dtype_of<T>::is && !p.lazy) {
                for (int e = 0; e < AHEAD; e++)
                    if (i + e < end) x[e] = *(const T *)(l.x + (i + e) * p.x_step);
            } else {
                for (int e = 0; e < AHEAD; e++)
                    if (i + e < end) x[e] = lazily(load<T>(l.x + (i + e) * p.x_step, p.dtype), p.lazy);
            }
            for (int e = 0; e < AHEAD; e++) {
                if (i + e >= end) continue;
                take_in(f, x[e], i + e);
                if (p.only_totals) continue;
                char *to = l.y + (i + e) * p.y_step;
                if (p.y_dtype == dtype_of<T>::is) *(T *)to = f.value();
                else store<T>(to, p.y_dtype, f.value());
                if (p.index) *(int64_t *)(l.index + (i + e) * p.index_step) = f.place();
            }
        }
        if (p.only_totals) ((F *)p.totals)[unit] = f;
    }
}

template <class F> FN void scan(const cuda_scan &p)
{
    typedef typename F::T T;
    if (p.down) return scan_down<F>(p);
    if constexpr ((int)dtype_of<T>::is == RUSH_I64) {
        if (p.plain && p.dtype == RUSH_I32) return scan_along<F, int32_t>(p);
        if (p.plain && p.dtype <= RUSH_U8) return scan_along<F, uint8_t>(p);
    }
    if constexpr ((int)dtype_of<T>::is == RUSH_F32) {
        if (p.plain && p.dtype == RUSH_F16) return scan_along<F, f16>(p);
        if (p.plain && p.dtype == RUSH_BF16) return scan_along<F, bf16>(p);
    }
    scan_along<F, T>(p); /* or any, where it is not plain */
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

/* Of equal ones the last, NaN beats all; in whatever order they are merged */
template <class V, bool MOST> struct best {
    typedef V T;
    V v;
    int64_t at;
    FN void start() { v = 0, at = -1; }
    FN void add(V x, int64_t i) { v = x, at = i; }
    FN void merge(const best &o)
    {
        if (o.at < 0) return;
        const bool same = v == o.v || (v != v && o.v != o.v), more = v == v && (o.v != o.v || (MOST ? o.v > v : o.v < v));
        if (at < 0 || more || (same && o.at > at)) v = o.v, at = o.at;
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
KERNEL_WIDE(logcumsumexp_f32, cuda_scan) { scan<log_sum<float>>(p); }
KERNEL_WIDE(logcumsumexp_f64, cuda_scan) { scan<log_sum<double>>(p); }
