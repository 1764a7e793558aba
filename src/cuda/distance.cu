/* distance.cu - p-norm distances of the rows of two matrices, and their gradient.
 *
 * Forward a block makes a square of distances from slices of both matrices that it keeps in shared memory, each thread sixteen of them. Back
 * a thread has an element of a's gradient, and sums over b's rows, or a piece of them, in one order.
 */
#include "cuda/rows.h"

enum { SIDE = CUDA_PRODUCT_SIDE, DEPTH = 16, EACH = SIDE * DEPTH / CUDA_THREADS };

/* Where distance (i, j) of a batch stands. */
FN int64_t place(const cuda_distances &p, int64_t i, int64_t j) { return p.pairs ? i * (2 * p.n - i - 1) / 2 + j - i - 1 : i * p.m + j; }

FN float power(float x, float y) { return powf(x, y); }
FN double power(double x, double y) { return pow(x, y); }
FN float fused(float x, float y, float z) { return fmaf(x, y, z); }
FN double fused(double x, double y, double z) { return fma(x, y, z); }
FN float root(float x) { return sqrtf(x); }
FN double root(double x) { return sqrt(x); }

/* sum, and what difference d adds to it */
template <int KIND, class T> FN T more(T sum, T d, T p)
{
    const T size = d < 0 ? -d : d;
    if (KIND == DISTANCE_COUNT) return sum + (d == 0 ? 0 : d != d ? d : 1);
    if (KIND == DISTANCE_ONE) return sum + size;
    if (KIND == DISTANCE_TWO) return fused(d, d, sum);
    if (KIND == DISTANCE_LARGEST) return sum != sum || size <= sum ? sum : size;
    return sum + power(size, p);
}

/* SIDE rows from `row`, DEPTH columns from `column`, column by column; zero outside: no difference. */
template <class T> FN void slice(T (*to)[SIDE + 1], const T *x, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    for (int e = 0; e < EACH; e++) {
        const int i = (int)threadIdx.x + e * CUDA_THREADS, r = i / DEPTH, c = i % DEPTH;
        to[c][r] = row + r < rows && column + c < columns ? x[(row + r) * columns + column + c] : 0;
    }
}

template <int KIND, class T> FN void distances(const cuda_distances &p, T (*a)[SIDE + 1], T (*b)[SIDE + 1])
{
    const int64_t down = (p.n + SIDE - 1) / SIDE, across = (p.m + SIDE - 1) / SIDE;
    const int y = (int)threadIdx.x / (SIDE / EACH) * EACH, x = (int)threadIdx.x % (SIDE / EACH) * EACH;
    const T power_of = (T)p.p;
    ROLLED
    for (int64_t block = blockIdx.x; block < p.batch * down * across; block += gridDim.x) {
        const int64_t i = block / (down * across), row = block / across % down * SIDE, column = block % across * SIDE;
        T sum[EACH][EACH] = {};
        if (p.pairs && column + SIDE <= row) continue;
        ROLLED
        for (int64_t k = 0; k < p.width; k += DEPTH) {
            slice<T>(a, (const T *)p.a + i * p.n * p.width, row, k, p.n, p.width);
            slice<T>(b, (const T *)p.b + i * p.m * p.width, column, k, p.m, p.width);
            __syncthreads();
            if (row + y < p.n && column + x < p.m)
                for (int d = 0; d < DEPTH; d++)
                    for (int r = 0; r < EACH; r++)
                        for (int c = 0; c < EACH; c++) sum[r][c] = more<KIND, T>(sum[r][c], a[d][y + r] - b[d][x + c], power_of);
            __syncthreads();
        }
        for (int r = 0; r < EACH; r++)
            for (int c = 0; c < EACH; c++) {
                const int64_t at = row + y + r, to = column + x + c;
                if (at >= p.n || to >= p.m || (p.pairs && to <= at)) continue;
                const T v = KIND == DISTANCE_TWO ? root(sum[r][c]) : KIND == DISTANCE_OTHER ? power(sum[r][c], 1 / power_of) : sum[r][c];
                ((T *)p.to)[i * p.n * p.m + place(p, at, to)] = v;
            }
    }
}

template <class T> FN void distances_of(const cuda_distances &p)
{
    __shared__ T a[DEPTH][SIDE + 1], b[DEPTH][SIDE + 1];
    switch (p.kind) {
    case DISTANCE_COUNT: return distances<DISTANCE_COUNT, T>(p, a, b);
    case DISTANCE_ONE: return distances<DISTANCE_ONE, T>(p, a, b);
    case DISTANCE_TWO: return distances<DISTANCE_TWO, T>(p, a, b);
    case DISTANCE_LARGEST: return distances<DISTANCE_LARGEST, T>(p, a, b);
    default: return distances<DISTANCE_OTHER, T>(p, a, b);
    }
}
KERNEL(distances_f32, cuda_distances) { distances_of<float>(p); }
KERNEL(distances_f64, cuda_distances) { distances_of<double>(p); }

/* (pieces, batch, n, width), of which neighbours lie side by side in b as well */
template <class T> FN void back(const cuda_distances &p)
{
    const int64_t all = p.batch * p.n * p.width;
    const T less = (T)p.p - 1;
    ROLLED
    for (int64_t at = FIRST; at < p.pieces * all; at += ALL) {
        const int64_t k = at % p.width, i = at / p.width % p.n, batch = at / (p.width * p.n) % p.batch, begin = at / all * p.piece;
        const int64_t end = begin + p.piece < p.m ? begin + p.piece : p.m, before = batch * p.n * p.m;
        const T x = ((const T *)p.a)[at % all], *b = (const T *)p.b + batch * p.m * p.width + k;
        T sum = 0;
        ROLLED
        for (int64_t j = begin; j < end; j++) {
            if (p.pairs && j == i) continue;
            const int64_t here = before + (p.pairs && j < i ? place(p, j, i) : place(p, i, j));
            const T d = x - b[j * p.width], size = d < 0 ? -d : d, sign = d == 0 ? 0 : d < 0 ? -1 : 1, w = ((const T *)p.weight)[here];
            if (p.kind == DISTANCE_TWO) sum += w * d;
            else if (p.kind == DISTANCE_ONE) sum += w * sign;
            else if (p.kind == DISTANCE_LARGEST) sum += size == ((const T *)p.distance)[here] ? w * sign : 0;
            else if (size != 0) sum += w * sign * power(size, less);
        }
        ((T *)p.to)[at] = sum;
    }
}
KERNEL(distances_back_f32, cuda_distances) { back<float>(p); }
KERNEL(distances_back_f64, cuda_distances) { back<double>(p); }
