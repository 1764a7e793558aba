/* index.cu - elements taken from, and put to, places that index tensors name, or that a mask does.
 *
 * One kernel takes and one puts: w.p[0] is the other side, w.p[1] what is indexed, with strides of 0 along the dims that the index
 * tensors w.p[2], w.p[3], ... move along.
 */
#include "cuda/lanes.h"
#include "cuda/rows.h"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

enum { ONE_INDEX = 3 }; /* operands, then */

/* Where the index tensors lead, in bytes; negative: nowhere. N operands at most. */
template <int N> FN int64_t place(const cuda_places &p, const int64_t *far)
{
    int64_t at = 0;
    for (int k = 2; k < N; k++) {
        if (N > ONE_INDEX && k >= p.w.nop) break;
        int64_t v = p.w.dtype[k] == RUSH_I32 ? *(const int32_t *)((const char *)p.w.p[k] + far[k]) : *(const int64_t *)((const char *)p.w.p[k] + far[k]);
        const int64_t given = v;
        if (v == p.skip) return -1;
        if (p.wrap && v < 0) v += p.limit[k - 2];
        if (v < 0 || v >= p.limit[k - 2]) {
            report(p.fault, CUDA_FAULT_INDEX, given, p.limit[k - 2]);
            return -1;
        }
        at += v * p.scale[k - 2];
    }
    return at;
}

/* f(how far element i is in w.p[0], where in w.p[1], or NULL): with one index tensor, which is most often so, all stays in registers. */
template <int N, class F> FN void each_of(const cuda_places &p, F f)
{
    ROLLED
    for (int64_t i = FIRST; i < p.w.n; i += ALL) {
        int64_t far[N];
        locate<N>(p.w, i, far);
        const int64_t at = place<N>(p, far);
        f(far[0], at < 0 ? NULL : (char *)p.w.p[1] + far[1] + at);
    }
}
template <class F> FN void each_place(const cuda_places &p, F f)
{
    if (p.w.nop == ONE_INDEX) each_of<ONE_INDEX>(p, f);
    else each_of<CUDA_OPERANDS>(p, f);
}

template <class T> FN void take(const cuda_places &p)
{
    each_place(p, [&](int64_t far, const char *at) {
        T v = {};
        if (at) v = *(const T *)at;
        *(T *)((char *)p.w.p[0] + far) = v;
    });
}
KERNELS_BY_SIZE(take, cuda_places, take)

template <class T> FN T other_side(const cuda_places &p, int64_t far) { return p.w.p[0] ? *(const T *)((const char *)p.w.p[0] + far) : *(const T *)p.w.number[0]; }

template <class T> FN void put_bytes(const cuda_places &p)
{
    each_place(p, [&](int64_t far, char *at) {
        if (at) *(T *)at = other_side<T>(p, far);
    });
}
KERNELS_BY_SIZE(put, cuda_places, put_bytes)

/* ---- what meets at one place is combined: by compare-and-swap, in whatever order the threads come ---- */

template <class T> FN bool is_less(T a, T b) { return a < b; }
template <class R> FN bool is_less(complex_of<R> a, complex_of<R> b) { return false; } /* they have no order: the host refuses them */
template <class T> FN T combined(T a, T b, int how)
{
    switch (how) {
    case CUDA_ADD: return as<T>::of(a + b);
    case CUDA_MUL: return as<T>::of(a * b);
    case CUDA_MAX: return is_less(a, b) || b != b ? b : a;
    default: return is_less(b, a) || b != b ? b : a;
    }
}

/* The word of 4 or 8 bytes that holds an element, swapped until nobody came between. */
template <class W, class T, class GET, class SET> FN void swap_until(W *word, T v, int how, GET get, SET set)
{
    W seen = *word, before;
    do {
        before = seen;
        seen = atomicCAS(word, before, set(before, combined<T>(get(before), v, how)));
    } while (seen != before);
}

template <class T, class W> FN T bits_to(W w)
{
    union { W w; T t; } u;
    u.w = w;
    return u.t;
}
template <class W, class T> FN W bits_of(T t)
{
    union { W w; T t; } u;
    u.w = 0;
    u.t = t;
    return u.w;
}

/* Sums that the device has an instruction for. */
template <class T> FN bool add_at(char *at, T v) { return false; }
template <> FN bool add_at<float>(char *at, float v) { return atomicAdd((float *)at, v), true; }
template <> FN bool add_at<double>(char *at, double v) { return atomicAdd((double *)at, v), true; }
template <> FN bool add_at<int32_t>(char *at, int32_t v) { return atomicAdd((int *)at, v), true; }
template <> FN bool add_at<int64_t>(char *at, int64_t v) { return atomicAdd((unsigned long long *)at, (unsigned long long)v), true; }

template <class T> FN void combine_at(char *at, T v, int how)
{
    if (how == CUDA_ADD && add_at<T>(at, v)) return;
    if (sizeof(T) == 8) {
        typedef unsigned long long W;
        swap_until<W, T>((W *)at, v, how, [](W w) { return bits_to<T, W>(w); }, [](W, T t) { return bits_of<W, T>(t); });
    } else if (sizeof(T) == 4) {
        typedef unsigned W;
        swap_until<W, T>((W *)at, v, how, [](W w) { return bits_to<T, W>(w); }, [](W, T t) { return bits_of<W, T>(t); });
    } else {
        typedef unsigned W;
        const int shift = (int)((size_t)at % 4) * 8;
        const W mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
        swap_until<W, T>((W *)(at - shift / 8), v, how, [=](W w) { return bits_to<T, W>((w & mask) >> shift); },
                         [=](W w, T t) { return (w & ~mask) | (bits_of<W, T>(t) << shift & mask); });
    }
}

/* Half types as numbers of their own: what is combined is rounded at each step. */
struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
template <> FN f16 combined<f16>(f16 a, f16 b, int how) { return {float_to_f16(combined<float>(f16_to_float(a.bits), f16_to_float(b.bits), how))}; }
template <> FN bf16 combined<bf16>(bf16 a, bf16 b, int how) { return {float_to_bf16(combined<float>(bf16_to_float(a.bits), bf16_to_float(b.bits), how))}; }
template <> FN truth combined<truth>(truth a, truth b, int how) { return {(uint8_t)(how == CUDA_MUL || how == CUDA_MIN ? a.v & b.v : a.v | b.v)}; }

template <class T> FN T scaled_by(T v, const cuda_places &p) { return as<T>::of(v * (T)p.whole); }
template <> FN float scaled_by<float>(float v, const cuda_places &p) { return v * (float)p.re; }
template <> FN double scaled_by<double>(double v, const cuda_places &p) { return v * p.re; }
template <> FN truth scaled_by<truth>(truth v, const cuda_places &p) { return {(uint8_t)(v.v && p.whole)}; }
template <> FN f16 scaled_by<f16>(f16 v, const cuda_places &p) { return {float_to_f16(f16_to_float(v.bits) * (float)p.re)}; }
template <> FN bf16 scaled_by<bf16>(bf16 v, const cuda_places &p) { return {float_to_bf16(bf16_to_float(v.bits) * (float)p.re)}; }
template <class R> FN complex_of<R> times_alpha(complex_of<R> v, const cuda_places &p) { return v * complex_of<R>((R)p.re, (R)p.im); }
template <> FN complex_of<float> scaled_by<complex_of<float>>(complex_of<float> v, const cuda_places &p) { return times_alpha(v, p); }
template <> FN complex_of<double> scaled_by<complex_of<double>>(complex_of<double> v, const cuda_places &p) { return times_alpha(v, p); }

template <class T> FN void combine(const cuda_places &p)
{
    each_place(p, [&](int64_t far, char *at) {
        if (!at) return;
        const T v = other_side<T>(p, far);
        combine_at<T>(at, p.scaled ? scaled_by<T>(v, p) : v, p.how);
    });
}
/* 16 bytes have no such swap: the parts of sums one after the other, other combinations not at all (the host refuses them). */
FN void add_parts(const cuda_places &p)
{
    typedef complex_of<double> C;
    each_place(p, [&](int64_t far, char *at) {
        if (!at) return;
        C v = other_side<C>(p, far);
        if (p.scaled) v = scaled_by<C>(v, p);
        combine_at<double>(at, v.re, CUDA_ADD);
        combine_at<double>(at + 8, v.im, CUDA_ADD);
    });
}

/* Sums of elements that lie side by side, as many as are added at once; older devices add one at a time. */
template <class T, int N> FN void add_run(char *at, results<T, N> v)
{
    for (int k = 0; k < N; k++) combine_at<T>(at + k * sizeof(T), v.v[k], CUDA_ADD);
}
#ifdef __CUDACC__
template <> FN void add_run<f16, 2>(char *at, results<f16, 2> v) { atomicAdd((__half2 *)at, __halves2half2(__ushort_as_half(v.v[0].bits), __ushort_as_half(v.v[1].bits))); }
#if __CUDA_ARCH__ >= 800
template <> FN void add_run<bf16, 2>(char *at, results<bf16, 2> v)
{
    atomicAdd((__nv_bfloat162 *)at, __halves2bfloat162(__ushort_as_bfloat16(v.v[0].bits), __ushort_as_bfloat16(v.v[1].bits)));
}
#endif
#if __CUDA_ARCH__ >= 900
template <> FN void add_run<float, 4>(char *at, results<float, 4> v) { atomicAdd((float4 *)at, make_float4(v.v[0], v.v[1], v.v[2], v.v[3])); }
#endif
#endif
template <class T, int N> FN void add_runs(const cuda_places &p)
{
    each_place(p, [&](int64_t far, char *at) {
        if (!at) return;
        results<T, N> v = other_side<results<T, N>>(p, far);
        if (p.scaled)
            for (int k = 0; k < N; k++) v.v[k] = scaled_by<T>(v.v[k], p);
        add_run<T, N>(at, v);
    });
}
KERNEL(add_runs_float16, cuda_places) { add_runs<f16, 2>(p); }
KERNEL(add_runs_bfloat16, cuda_places) { add_runs<bf16, 2>(p); }
KERNEL(add_runs_float32, cuda_places) { add_runs<float, 4>(p); }
KERNEL(combine_bool, cuda_places) { combine<truth>(p); }
KERNEL(combine_uint8, cuda_places) { combine<uint8_t>(p); }
KERNEL(combine_int8, cuda_places) { combine<int8_t>(p); }
KERNEL(combine_int16, cuda_places) { combine<int16_t>(p); }
KERNEL(combine_int32, cuda_places) { combine<int32_t>(p); }
KERNEL(combine_int64, cuda_places) { combine<int64_t>(p); }
KERNEL(combine_float16, cuda_places) { combine<f16>(p); }
KERNEL(combine_bfloat16, cuda_places) { combine<bf16>(p); }
KERNEL(combine_float32, cuda_places) { combine<float>(p); }
KERNEL(combine_float64, cuda_places) { combine<double>(p); }
KERNEL(combine_complex64, cuda_places) { combine<complex_of<float>>(p); }
KERNEL(combine_complex128, cuda_places) { add_parts(p); }

/* ---- what a mask chooses, one behind the other: counts of all pieces first, then each piece begins behind those before it ---- */

struct tally {
    int64_t n;
    FN void merge(tally o) { n += o.n; }
};

template <class U> FN bool is_true(U v, uint64_t bits) { return v & (U)bits; }
template <> FN bool is_true<sixteen>(sixteen v, uint64_t bits) { return (v.half[0] | v.half[1]) & bits; }

/* Which of a lane's elements are chosen, of those from `first` on that lie below `end`: a bit each. */
template <class U> FN unsigned chosen(const cuda_choice &p, int64_t first, int64_t end)
{
    U v[CHOICE_ROWS];
    unsigned which = 0;
    for (int r = 0; r < CHOICE_ROWS; r++) {
        const int64_t i = first + r * WARP;
        int64_t far[2] = {0, i * (int64_t)sizeof(U)};
        v[r] = U();
        if (i >= end) continue;
        if (!p.plain) locate<2>(p.w, i, far);
        v[r] = *(const U *)((const char *)p.w.p[1] + far[1]);
    }
    for (int r = 0; r < CHOICE_ROWS; r++) which |= (unsigned)is_true(v[r], p.bits) << r;
    return which;
}

template <class U> FN void count_chosen(const cuda_choice &p)
{
    ROLLED
    for (int64_t piece = blockIdx.x; piece < p.pieces; piece += gridDim.x) {
        const int64_t begin = piece * p.piece, end = begin + p.piece < p.w.n ? begin + p.piece : p.w.n;
        tally all = {0};
        ROLLED
        for (int64_t base = begin; base < end; base += CHOICE_TILE) all.n += __popc(chosen<U>(p, base + MY_WARP * (WARP * (int)CHOICE_ROWS) + LANE, end));
        all = of_block(all);
        if (!threadIdx.x) p.counts[piece] = all.n;
    }
}
KERNELS_BY_SIZE(count_chosen, cuda_choice, count_chosen)

/* f(the lane's first element, which ones are chosen, the place of the warp's first one among all), tile by tile. */
template <class U, class F> FN void each_chosen(const cuda_choice &p, F f)
{
    __shared__ int warps[CUDA_WARPS];
    ROLLED
    for (int64_t piece = blockIdx.x; piece < p.pieces; piece += gridDim.x) {
        const int64_t begin = piece * p.piece, end = begin + p.piece < p.w.n ? begin + p.piece : p.w.n;
        tally before = {0};
        for (int64_t q = threadIdx.x; q < piece; q += CUDA_THREADS) before.n += p.counts[q];
        int64_t place = of_block(before).n;
        ROLLED
        for (int64_t base = begin; base < end; base += CHOICE_TILE) {
            const int64_t first = base + MY_WARP * (WARP * (int)CHOICE_ROWS) + LANE;
            const unsigned which = chosen<U>(p, first, end);
            int n = __popc(which);
            for (int s = WARP / 2; s; s /= 2) n += __shfl_xor_sync(~0u, n, s);
            if (!LANE) warps[MY_WARP] = n;
            __syncthreads();
            int64_t mine = place;
            for (int w = 0; w < CUDA_WARPS; w++) {
                if (w == MY_WARP) mine = place;
                place += warps[w];
            }
            __syncthreads();
            f(first, which, mine);
        }
    }
}

/* The place among all that row r of a lane's elements has, if it is chosen; `place` goes on to the next row's. */
FN int64_t row_place(unsigned which, int r, int64_t &place)
{
    const unsigned row = __ballot_sync(~0u, which >> r & 1);
    const int64_t mine = place + __popc(row & ((1u << LANE) - 1));
    place += __popc(row);
    return mine;
}

template <class T> FN T *element_at(const cuda_choice &p, int64_t i)
{
    int64_t far[2] = {i * (int64_t)sizeof(T), 0};
    if (!p.plain) locate<2>(p.w, i, far);
    return (T *)((char *)p.w.p[0] + far[0]);
}

template <class T> FN void pack_chosen(const cuda_choice &p)
{
    enum { AT_ONCE = sizeof(T) < 16 ? CHOICE_ROWS / 2 : CHOICE_ROWS / 4 }; /* as many as registers hold */
    each_chosen<uint8_t>(p, [&](int64_t first, unsigned which, int64_t place) {
        if (p.back) {
            for (int r = 0; r < CHOICE_ROWS; r++) {
                const int64_t n = row_place(which, r, place);
                if (!(which >> r & 1)) continue;
                if (n < p.limit) *element_at<T>(p, first + r * WARP) = ((const T *)p.other)[n];
                else report(p.fault, CUDA_FAULT_INDEX, n, p.limit);
            }
            return;
        }
        ROLLED
        for (int at = 0; at < CHOICE_ROWS; at += AT_ONCE) {
            T v[AT_ONCE];
            for (int r = 0; r < AT_ONCE; r++)
                if (which >> (at + r) & 1) v[r] = *element_at<T>(p, first + (at + r) * WARP);
            for (int r = 0; r < AT_ONCE; r++) {
                const int64_t n = row_place(which, at + r, place);
                if (which >> (at + r) & 1) ((T *)p.other)[n] = v[r];
            }
        }
    });
}
KERNELS_BY_SIZE(pack, cuda_choice, pack_chosen)

/* The coordinates of what is not zero, rows of ndim numbers: the walk has the dims as they are. */
template <class U> FN void coordinates(const cuda_choice &p)
{
    each_chosen<U>(p, [&](int64_t first, unsigned which, int64_t place) {
        ROLLED
        for (int r = 0; r < CHOICE_ROWS; r++) {
            int64_t n = row_place(which, r, place), rest = first + r * WARP;
            if (!(which >> r & 1)) continue;
            int64_t *to = (int64_t *)p.other + n * p.w.ndim + p.w.ndim - 1;
            ROLLED
            for (int d = 0; d < p.w.ndim; d++, to--) {
                int64_t next;
                if (d + 1 == p.w.ndim) next = 0, *to = rest;
                else if ((rest | p.w.size[d]) >> 32) next = rest / p.w.size[d], *to = rest - next * p.w.size[d];
                else next = (uint32_t)rest / (uint32_t)p.w.size[d], *to = rest - next * p.w.size[d];
                rest = next;
            }
        }
    });
}
KERNELS_BY_SIZE(coordinates, cuda_choice, coordinates)
