/* product.cu - matrix products, for what cuBLASLt does not multiply or where it is not: a block makes a square of the result, each thread
 * sixteen numbers of it, from slices of both matrices that the block keeps in shared memory.
 */
#include "cuda/rows.h"

enum { SIDE = CUDA_PRODUCT_SIDE, DEPTH = 16, EACH = SIDE * DEPTH / CUDA_THREADS }; /* EACH: of a slice, and a side of what a thread makes */

/* Number (row, column) of a matrix; zero outside. */
template <class T> FN T number_at(const char *x, const int64_t *step, int dtype, int lazy, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    if (row >= rows || column >= columns) return as<T>::of(0);
    x += row * step[1] + column * step[2];
    return lazily(element<T>(x, dtype), lazy);
}

/* A slice of SIDE rows from `row`, DEPTH columns from `column`, column by column; neighbours in memory are read by neighbours. */
template <class T> FN void slice(T (*to)[SIDE + 1], const char *x, const int64_t *step, int dtype, int lazy, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    const bool along = step[2] <= step[1];
    for (int e = 0; e < EACH; e++) {
        const int i = (int)threadIdx.x + e * CUDA_THREADS, r = along ? i / DEPTH : i % SIDE, c = along ? i % DEPTH : i / SIDE;
        to[c][r] = number_at<T>(x, step, dtype, lazy, row + r, column + c, rows, columns);
    }
}

template <class T> struct number_of { static FN T from(const double *v) { return (T)v[0]; } };
template <class R> struct number_of<complex_of<R>> { static FN complex_of<R> from(const double *v) { return {(R)v[0], (R)v[1]}; } };

template <class T> FN void product(const cuda_product &p)
{
    __shared__ T a[DEPTH][SIDE + 1], b[DEPTH][SIDE + 1];
    const int64_t down = (p.m + SIDE - 1) / SIDE, across = (p.n + SIDE - 1) / SIDE, b_turned[3] = {p.b_step[0], p.b_step[2], p.b_step[1]};
    const int y = (int)threadIdx.x / (SIDE / EACH) * EACH, x = (int)threadIdx.x % (SIDE / EACH) * EACH;
    const T alpha = number_of<T>::from(p.alpha), beta = number_of<T>::from(p.beta);
    ROLLED
    for (int64_t block = blockIdx.x; block < p.batch * down * across; block += gridDim.x) {
        const int64_t i = block / (down * across), row = block / across % down * SIDE, column = block % across * SIDE;
        T sum[EACH][EACH] = {};
        ROLLED
        for (int64_t k = 0; k < p.k; k += DEPTH) {
            slice<T>(a, p.a + i * p.a_step[0], p.a_step, p.a_dtype, p.a_lazy, row, k, p.m, p.k);
            slice<T>(b, p.b + i * p.b_step[0], b_turned, p.b_dtype, p.b_lazy, column, k, p.n, p.k);
            __syncthreads();
            if (row + y < p.m && column + x < p.n)
                for (int d = 0; d < DEPTH; d++)
                    for (int r = 0; r < EACH; r++)
                        for (int c = 0; c < EACH; c++) sum[r][c] = sum[r][c] + a[d][y + r] * b[d][x + c];
            __syncthreads();
        }
        for (int r = 0; r < EACH; r++)
            for (int c = 0; c < EACH; c++) {
                if (row + y + r >= p.m || column + x + c >= p.n) continue;
                T v = alpha * sum[r][c];
                if (p.d) v = v + beta * number_at<T>(p.d + i * p.d_step[0], p.d_step, p.d_dtype, p.d_lazy, row + y + r, column + x + c, p.m, p.n);
                store<T>(p.c + i * p.c_step[0] + (row + y + r) * p.c_step[1] + (column + x + c) * p.c_step[2], p.c_dtype, v);
            }
    }
}
KERNEL(product_i64, cuda_product) { product<int64_t>(p); }
KERNEL(product_f32, cuda_product) { product<float>(p); }
KERNEL(product_f64, cuda_product) { product<double>(p); }
KERNEL(product_c64, cuda_product) { product<complex_of<float>>(p); }
KERNEL(product_c128, cuda_product) { product<complex_of<double>>(p); }
