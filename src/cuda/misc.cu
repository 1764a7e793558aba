/* misc.cu - elementwise kernels whose operands are not all of one type: copies, choices by a condition, numbers in all places. */
#include "cuda/rows.h"

/* Elements of w.p[1] to w.p[0], converted: read as T, which holds them all. */
template <class T> FN void convert(const cuda_rows &p)
{
    const cuda_walk &w = p.w;
    ROLLED
    for (int64_t i = FIRST; i < w.n; i += ALL) {
        int64_t far[2];
        locate<2>(w, i, far);
        store<T>((char *)w.p[0] + far[0], w.dtype[0], lazily(operand<T>(w, 1, far[1]), w.lazy[0]));
    }
}
KERNEL(convert_truth, cuda_rows) { convert<truth>(p); }
KERNEL(convert_i64, cuda_rows) { convert<int64_t>(p); }
KERNEL(convert_u64, cuda_rows) { convert<uint64_t>(p); }
KERNEL(convert_f32, cuda_rows) { rows<1, float, float, float, false>(p, [](float x, float, float) { return x; }); }
KERNEL(convert_f64, cuda_rows) { convert<double>(p); }
KERNEL(convert_c128, cuda_rows) { convert<complex_of<double>>(p); }

/* Bytes as they are, by the size of an element. */
template <class T> FN void copy(const cuda_rows &p)
{
    const cuda_walk &w = p.w;
    ROLLED
    for (int64_t i = FIRST; i < w.n; i += ALL) {
        int64_t far[2];
        locate<2>(w, i, far);
        *(T *)((char *)w.p[0] + far[0]) = w.p[1] ? *(const T *)((const char *)w.p[1] + far[1]) : *(const T *)w.number[1];
    }
}
KERNELS_BY_SIZE(copy, cuda_rows, copy)

/* Operand 1 chooses between 2 and 3, which are of the result's type or numbers of it; others are converted before. */
template <class T> FN void choose(const cuda_rows &p)
{
    enum { V = 16 / sizeof(T) };
    const cuda_walk &w = p.w;
    const int64_t whole = w.vector ? w.n / V : 0;
    int64_t far[4];
    ROLLED
    for (int64_t i = FIRST; i < whole; i += ALL) {
        results<T, V> x[2], r;
        results<uint8_t, V> c;
        locate<4>(w, i * V, far);
        fetch<uint8_t, uint8_t, V>(c, w, 1, far[1]);
        for (int k = 0; k < 2; k++) {
            if (w.p[k + 2] && w.stride[k + 2][0]) x[k] = *(const results<T, V> *)((const char *)w.p[k + 2] + far[k + 2]);
            else
                for (int j = 0; j < V; j++) x[k].v[j] = w.p[k + 2] ? *(const T *)((const char *)w.p[k + 2] + far[k + 2]) : *(const T *)w.number[k + 2];
        }
        for (int j = 0; j < V; j++) r.v[j] = c.v[j] ? x[0].v[j] : x[1].v[j];
        put_all<T, V>(w, far[0], r);
    }
    ROLLED
    for (int64_t i = whole * V + FIRST; i < w.n; i += ALL) {
        locate<4>(w, i, far);
        int k = operand<truth>(w, 1, far[1]).v ? 2 : 3;
        *(T *)((char *)w.p[0] + far[0]) = w.p[k] ? *(const T *)((const char *)w.p[k] + (k == 2 ? far[2] : far[3])) : *(const T *)w.number[k]; /* not far[k]: it would be memory then */
    }
}
KERNELS_BY_SIZE(where, cuda_rows, choose)

/* The number next to x on the way to y, on the bits of half types: i[0] is infinity, i[1] NaN. */
FN int order_of(uint16_t bits) { return bits & 0x8000 ? -(bits & 0x7fff) : bits; }
KERNEL(nextafter_half, cuda_rows)
{
    const cuda_walk &w = p.w;
    ROLLED
    for (int64_t i = FIRST; i < w.n; i += ALL) {
        int64_t far[3];
        locate<3>(w, i, far);
        uint16_t v[3];
        for (int k = 1; k < 3; k++) v[k] = w.p[k] ? *(const uint16_t *)((const char *)w.p[k] + far[k]) : *(const uint16_t *)w.number[k];
        int x = order_of(v[1]), y = order_of(v[2]);
        uint16_t r;
        if ((v[1] & 0x7fff) > p.i[0] || (v[2] & 0x7fff) > p.i[0]) r = (uint16_t)p.i[1];
        else if (x == y) r = v[2];
        else if (x == 0) r = y > 0 ? 1 : 0x8001;
        else r = (uint16_t)((x < y) == (x > 0) ? v[1] + 1 : v[1] - 1);
        *(uint16_t *)((char *)w.p[0] + far[0]) = r;
    }
}

/* Operand 2's mantissas to 0, exponents to 1. */
template <class T> FN void parts(const cuda_rows &p)
{
    const cuda_walk &w = p.w;
    ROLLED
    for (int64_t i = FIRST; i < w.n; i += ALL) {
        int64_t far[3];
        int exponent = 0;
        locate<3>(w, i, far);
        store<T>((char *)w.p[0] + far[0], w.dtype[0], frexp(operand<T>(w, 2, far[2]), &exponent));
        *(int32_t *)((char *)w.p[1] + far[1]) = exponent;
    }
}
KERNEL(frexp_f32, cuda_rows) { parts<float>(p); }
KERNEL(frexp_f64, cuda_rows) { parts<double>(p); }

/* i[0] + i * i[1], or re[0] + i * re[1]: the mth from the end counted from there when i[2] elements are spaced between two ends. */
KERNEL(range_i64, cuda_rows)
{
    ROLLED
    for (int64_t i = FIRST; i < p.w.n; i += ALL) {
        int64_t far[1];
        locate<1>(p.w, i, far);
        store<int64_t>((char *)p.w.p[0] + far[0], p.w.dtype[0], (int64_t)((uint64_t)p.i[0] + (uint64_t)i * (uint64_t)p.i[1]));
    }
}
KERNEL(range_f64, cuda_rows)
{
    ROLLED
    for (int64_t i = FIRST; i < p.w.n; i += ALL) {
        int64_t far[1];
        locate<1>(p.w, i, far);
        store<double>((char *)p.w.p[0] + far[0], p.w.dtype[0], p.re[0] + (double)i * p.re[1]);
    }
}

KERNEL(assert_true, cuda_assertion)
{
    if (FIRST == 0 && !*p.truth) report(p.fault, CUDA_FAULT_ASSERTION, 0, 0);
}
