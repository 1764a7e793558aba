/* rows.h - how a kernel of one scalar function runs over its operands: vectors of 16 bytes where all lie one behind the other, any
 * strides and dtypes elsewhere.
 */
#ifndef RUSH_CUDA_ROWS_H
#define RUSH_CUDA_ROWS_H

#include "cuda/device.h"

template <class IN, class T> struct reads { static FN T of(IN v) { return v; } };
template <> struct reads<truth, uint8_t> { static FN uint8_t of(truth v) { return v.v; } };

template <class R, int N> struct alignas(sizeof(R) * N) results { R v[N]; };

/* A result of the dtype that is written for it, R's own if to is -1. */
template <class R> FN void put(const cuda_walk &w, int64_t far, R v, bool is_truth)
{
    char *to = (char *)w.p[0] + far;
    if (is_truth && w.dtype[0] == RUSH_BOOL) *(R *)to = v;
    else store<R>(to, w.dtype[0], lazily(v, w.lazy[0]));
}

/* NX operands read as IN, computed in T, to results of type R. Loops are not unrolled: there are hundreds of these kernels, and
 * a vector per step and thread is enough to be under way. */
template <int NX, class IN, class T, class R, bool TRUTH, class F> FN void rows(const cuda_rows &p, F f)
{
    enum { V = 16 / sizeof(T) };
    const cuda_walk &w = p.w;
    const int64_t whole = w.plain ? w.n / V : 0;
    ROLLED
    for (int64_t i = FIRST; i < whole; i += ALL) {
        pack<T> x[3];
        results<R, V> r;
        for (int k = 0; k < NX; k++) {
            if (w.p[k + 1]) x[k] = ((const pack<T> *)w.p[k + 1])[i];
            else
                for (int j = 0; j < V; j++) x[k].v[j] = reads<IN, T>::of(*(const IN *)w.number[k + 1]);
        }
        for (int j = 0; j < V; j++) r.v[j] = f(x[0].v[j], x[NX > 1 ? 1 : 0].v[j], x[NX > 2 ? 2 : 0].v[j]);
        ((results<R, V> *)w.p[0])[i] = r;
    }
    ROLLED
    for (int64_t i = whole * V + FIRST; i < w.n; i += ALL) { /* what is left of it, or all */
        int64_t far[NX + 1];
        T x[3];
        locate<NX + 1>(w, i, far);
        for (int k = 0; k < NX; k++) x[k] = reads<IN, T>::of(operand<IN>(w, k + 1, far[k + 1]));
        put<R>(w, far[0], f(x[0], x[NX > 1 ? 1 : 0], x[NX > 2 ? 2 : 0]), TRUTH);
    }
}

#endif
