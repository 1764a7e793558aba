/* rows.h - how a kernel of one scalar function runs over its operands: vectors of 16 bytes where each operand's elements lie one
 * behind the other or are the same along the innermost dimension, any strides and dtypes elsewhere.
 */
#ifndef RUSH_CUDA_ROWS_H
#define RUSH_CUDA_ROWS_H

#include "cuda/device.h"

template <class IN, class T> struct reads { static FN T of(IN v) { return v; } };
template <> struct reads<truth, uint8_t> { static FN uint8_t of(truth v) { return v.v; } };

/* The element at p: without a call for what is read most. */
template <class T> FN T near_by(const void *p, int dtype) { return element<T>(p, dtype); }
template <> FN float near_by<float>(const void *p, int dtype)
{
    if (dtype == RUSH_BF16) return bf16_to_float(*(const uint16_t *)p);
    if (dtype == RUSH_F16) return f16_to_float(*(const uint16_t *)p);
    return element<float>(p, dtype);
}

template <class T> FN void store_near(void *p, int dtype, T v)
{
    if (dtype == dtype_of<T>::is) *(T *)p = v;
    else store<T>(p, dtype, v);
}
template <> FN void store_near<float>(void *p, int dtype, float v)
{
    if (dtype == RUSH_F32) *(float *)p = v;
    else if (dtype == RUSH_BF16) *(uint16_t *)p = float_to_bf16(v);
    else if (dtype == RUSH_F16) *(uint16_t *)p = float_to_f16(v);
    else store<float>(p, dtype, v);
}

/* What of operand k a thread takes at once: elements of T, or of a shorter type that holds fewer bytes each. */
template <class IN, class T, int V> FN void fetch(results<T, V> &x, const cuda_walk &w, int k, int64_t far)
{
    const char *from = (const char *)w.p[k] + far;
    if (!w.p[k] || !w.stride[k][0]) {
        const T all = reads<IN, T>::of(w.p[k] ? element<IN>(from, w.dtype[k]) : *(const IN *)w.number[k]);
        for (int j = 0; j < V; j++) x.v[j] = all;
    } else {
        x = *(const results<T, V> *)from;
    }
}
template <> FN void fetch<float, float, 4>(results<float, 4> &x, const cuda_walk &w, int k, int64_t far)
{
    const char *from = (const char *)w.p[k] + far;
    if (!w.p[k] || !w.stride[k][0]) {
        const float all = w.p[k] ? element<float>(from, w.dtype[k]) : *(const float *)w.number[k];
        for (int j = 0; j < 4; j++) x.v[j] = all;
    } else if (w.dtype[k] == RUSH_F32) {
        x = *(const results<float, 4> *)from;
    } else if (w.dtype[k] == RUSH_BOOL) {
        const results<uint8_t, 4> h = *(const results<uint8_t, 4> *)from;
        for (int j = 0; j < 4; j++) x.v[j] = h.v[j] ? 1.0f : 0.0f;
    } else {
        const results<uint16_t, 4> h = *(const results<uint16_t, 4> *)from;
        const bool wide = w.dtype[k] == RUSH_BF16;
        for (int j = 0; j < 4; j++) x.v[j] = wide ? bf16_to_float(h.v[j]) : f16_to_float(h.v[j]);
    }
}

template <class R, int V> FN void put_all(const cuda_walk &w, int64_t far, const results<R, V> &r) { *(results<R, V> *)((char *)w.p[0] + far) = r; }
template <> FN void put_all<float, 4>(const cuda_walk &w, int64_t far, const results<float, 4> &r)
{
    char *to = (char *)w.p[0] + far;
    if (w.dtype[0] == RUSH_F32) {
        *(results<float, 4> *)to = r;
        return;
    }
    results<uint16_t, 4> h;
    const bool wide = w.dtype[0] == RUSH_BF16;
    for (int j = 0; j < 4; j++) h.v[j] = wide ? float_to_bf16(r.v[j]) : float_to_f16(r.v[j]);
    *(results<uint16_t, 4> *)to = h;
}

/* A result of the dtype that is written for it, R's own if it is a truth. */
template <class R> FN void put(const cuda_walk &w, int64_t far, R v, bool is_truth)
{
    char *to = (char *)w.p[0] + far;
    if ((is_truth && w.dtype[0] == RUSH_BOOL) || (w.dtype[0] == dtype_of<R>::is && !w.lazy[0])) *(R *)to = v;
    else store<R>(to, w.dtype[0], lazily(v, w.lazy[0]));
}

/* NX operands read as IN, computed in T, to results of type R. Loops are not unrolled: there are hundreds of these kernels, and
 * a vector per step and thread is enough to be under way. */
template <int NX, class IN, class T, class R, bool TRUTH, class F> FN void rows(const cuda_rows &p, F f)
{
    enum { V = 16 / sizeof(T) };
    const cuda_walk &w = p.w;
    const int64_t whole = w.vector ? w.n / V : 0;
    int64_t far[NX + 1];
    ROLLED
    for (int64_t i = FIRST; i < whole; i += ALL) {
        results<T, V> x[NX];
        results<R, V> r;
        if (w.ndim == 1)
            for (int k = 0; k <= NX; k++) far[k] = i * (int64_t)V * w.stride[k][0];
        else locate<NX + 1>(w, i * V, far);
        for (int k = 0; k < NX; k++) fetch<IN, T, V>(x[k], w, k + 1, far[k + 1]);
        for (int j = 0; j < V; j++) r.v[j] = f(x[0].v[j], x[NX > 1 ? 1 : 0].v[j], x[NX > 2 ? 2 : 0].v[j]);
        put_all<R, V>(w, far[0], r);
    }
    ROLLED
    for (int64_t i = whole * V + FIRST; i < w.n; i += ALL) { /* what is left of it, or all */
        T x[3];
        locate<NX + 1>(w, i, far);
        for (int k = 0; k < NX; k++) x[k] = reads<IN, T>::of(operand<IN>(w, k + 1, far[k + 1]));
        put<R>(w, far[0], f(x[0], x[NX > 1 ? 1 : 0], x[NX > 2 ? 2 : 0]), TRUTH);
    }
}

#endif
