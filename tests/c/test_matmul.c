/* test_matmul.c - products of all sizes, strides and types against plain loops; derivatives by differences. */
#include "suite/suite.h"
#include <rushlight.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double element(const rush_tensor *t, int64_t i, int64_t j)
{
    int64_t at = i * rush_stride(t, 0) + j * rush_stride(t, 1);
    return rush_dtype_of(t) == RUSH_F64 ? ((double *)rush_data(t))[at] : ((float *)rush_data(t))[at];
}

static rush_tensor *numbers(rush_dtype dtype, int64_t m, int64_t n)
{
    double *d = malloc(sizeof *d * (size_t)(m * n + 1));
    float *f = (float *)d;
    for (int64_t i = 0; i < m * n; ++i) {
        double x = (double)((uint32_t)(i * 7 + n) * 2654435761u) * 0x1p-31 - 1; /* spread over [-1, 1) */
        if (dtype == RUSH_F32) f[i] = (float)x;
        else d[i] = x;
    }
    rush_tensor *t = rush_from_data(d, dtype, 2, (int64_t[]){m, n});
    free(d);
    return t;
}

static rush_tensor *turned(rush_tensor *t)
{
    return rush_apply(rush_op_find("transpose.int"), 3, (rush_value[]){rush_v_tensor(t), rush_v_int(0), rush_v_int(1)});
}

/* The sum of k products along row i of a and column j of b, in double. */
static double plain_sum(const rush_tensor *a, const rush_tensor *b, int64_t i, int64_t j, int64_t k)
{
    int64_t as = rush_stride(a, 1), bs = rush_stride(b, 0), at = i * rush_stride(a, 0), bt = j * rush_stride(b, 1);
    double sum = 0;
    if (rush_dtype_of(a) == RUSH_F64)
        for (const double *x = (double *)rush_data(a) + at, *y = (double *)rush_data(b) + bt; k > 0; --k, x += as, y += bs) sum += *x * *y;
    else
        for (const float *x = (float *)rush_data(a) + at, *y = (float *)rush_data(b) + bt; k > 0; --k, x += as, y += bs) sum += (double)*x * *y;
    return sum;
}

static void check_product(rush_dtype dtype, int64_t m, int64_t n, int64_t k, int turn)
{
    rush_scope() {
        rush_tensor *a = turn & 1 ? turned(numbers(dtype, k, m)) : numbers(dtype, m, k);
        rush_tensor *b = turn & 2 ? turned(numbers(dtype, n, k)) : numbers(dtype, k, n);
        rush_tensor *c = rush_apply(rush_op_find("mm"), 2, (rush_value[]){rush_v_tensor(a), rush_v_tensor(b)});
        assert_null(rush_error());
        assert_int_equal(rush_size(c, 0), m);
        assert_int_equal(rush_size(c, 1), n);
        for (int64_t i = 0; i < m; i += 1 + m / 13)
            for (int64_t j = 0; j < n; j += 1 + n / 17) {
                double sum = plain_sum(a, b, i, j, k);
                assert_float_equal(element(c, i, j), sum, dtype == RUSH_F32 ? 1e-5 * (1 + sqrt(k) + fabs(sum)) : 1e-12 * (1 + k));
            }
    }
}

static void products_of_all_sizes(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 9, 16, 17, 33, 70, 257, 600};
#if defined(__SANITIZE_ADDRESS__) /* which makes the plain loops slow */
    const unsigned n = 10;
#else
    const unsigned n = sizeof sizes / sizeof *sizes;
#endif
    (void)state;
    for (unsigned i = 0; i < n; ++i)
        for (unsigned j = 0; j < n; ++j)
            for (unsigned p = 0; p < n; ++p)
                for (int turn = 0; turn < 4; ++turn) {
                    if (i + j + p > 27 && turn) continue;
                    check_product(RUSH_F32, sizes[i], sizes[j], sizes[p], turn);
                    check_product(RUSH_F64, sizes[i], sizes[j], sizes[p], turn);
                }
}

static void empty_sums_are_zero(void **state)
{
    (void)state;
    rush_scope() {
        rush_tensor *c = rush_apply(rush_op_find("mm"), 2, (rush_value[]){rush_v_tensor(numbers(RUSH_F32, 3, 0)), rush_v_tensor(numbers(RUSH_F32, 0, 2))});
        assert_null(rush_error());
        for (int i = 0; i < 6; ++i) assert_true(((float *)rush_data(c))[i] == 0);
    }
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    rush_scope() {
        rush_tensor *a = numbers(RUSH_F32, 2, 3);
        assert_null(rush_apply(rush_op_find("mm"), 2, (rush_value[]){rush_v_tensor(a), rush_v_tensor(a)}));
        assert_int_equal(rush_error_kind_now(), RUSH_RUNTIME_ERROR);
        assert_non_null(strstr(rush_error(), "(2x3 and 2x3)"));
        rush_error_clear();
    }
}

static void linear_has_its_gradients(void **state)
{
    (void)state;
    rush_scope() {
        rush_tensor *x = rush_requires_grad_set(numbers(RUSH_F64, 4, 5), true), *w = rush_requires_grad_set(numbers(RUSH_F64, 3, 5), true);
        rush_tensor *one = numbers(RUSH_F64, 1, 3);
        rush_tensor *b = rush_requires_grad_set(rush_apply(rush_op_find("view"), 2, (rush_value[]){rush_v_tensor(one), rush_v_ints((int64_t[]){3}, 1)}), true);
        rush_tensor *y = rush_apply(rush_op_find("linear"), 3, (rush_value[]){rush_v_tensor(x), rush_v_tensor(w), rush_v_tensor(b)});
        double ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        rush_tensor *g = rush_from_data(ones, RUSH_F64, 2, (int64_t[]){4, 3});
        if (!rush_op_find("sum.dim_IntList")) continue; /* the bias's gradient needs it */
        assert_int_equal(rush_backward_full(1, &y, &g, false, false), 0);
        assert_null(rush_error());
        for (int j = 0; j < 5; ++j) {
            double columns = 0, rows = 0;
            for (int i = 0; i < 4; ++i) rows += element(x, i, j);
            for (int i = 0; i < 3; ++i) columns += element(w, i, j);
            assert_float_equal(element(rush_grad(w), 1, j), rows, 1e-12);
            assert_float_equal(element(rush_grad(x), 2, j), columns, 1e-12);
        }
    }
}

static float joined(bool fused, float s, float x, float y)
{
    volatile float both = x * y;
    return fused ? fmaf(x, y, s) : s + both;
}

/* The order of PyTorch's products: wide ones in chains of at most 192 steps, ... */
static float in_pieces(const rush_tensor *a, const rush_tensor *b, int64_t i, int64_t j, int64_t k, bool fused)
{
    int64_t piece = k <= 192 ? k : k < 384 ? k / 2 : 192;
    float sum = 0;
    for (int64_t p = 0; p < k; p += piece) {
        float s = 0;
        for (int64_t q = p; q < p + piece && q < k; ++q) s = joined(fused, s, (float)element(a, i, q), (float)element(b, q, j));
        sum += s;
    }
    return sum;
}

/* ... narrow ones in lanes (rows are aligned and a multiple of eight long here). */
static float in_lanes(const rush_tensor *a, const rush_tensor *b, int64_t i, int64_t j, int64_t k, int lanes)
{
    float s[8] = {0};
    for (int64_t p = 0; p < k; ++p) s[p % lanes] = joined(false, s[p % lanes], (float)element(a, i, p), (float)element(b, p, j));
    if (lanes == 8)
        for (int l = 0; l < 4; ++l) s[l] += s[l + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
}

/* ... columns that lie side by side in plain order, but for the first of a row that is not aligned. */
static float beside(const rush_tensor *a, const rush_tensor *b, int64_t i, int64_t j, int64_t k, int64_t n)
{
    int64_t head = -i * n & 3, whole = j < head && n - head >= 4 ? k / 8 * 8 : 0;
    float sum = 0;
    for (int64_t p = 0; p < whole; p += 8) {
        float other = (float)element(a, i, p + 4) * (float)element(b, p + 4, j);
        for (int64_t q = p; q < p + 4; ++q) sum = joined(false, sum, (float)element(a, i, q), (float)element(b, q, j));
        for (int64_t q = p + 5; q < p + 8; ++q) other = joined(false, other, (float)element(a, i, q), (float)element(b, q, j));
        sum += other;
    }
    for (int64_t p = whole; p < k; ++p) sum = joined(false, sum, (float)element(a, i, p), (float)element(b, p, j));
    return sum;
}

static rush_tensor *product(rush_tensor *a, rush_tensor *b)
{
    rush_tensor *y = rush_apply(rush_op_find("mm"), 2, (rush_value[]){rush_v_tensor(a), rush_v_tensor(b)});
    assert_null(rush_error());
    return y;
}

static void sums_keep_their_order(void **state)
{
    static const int64_t wide[][3] = {{5, 16, 500}, {20, 45, 300}, {33, 12, 777}}, narrow[][3] = {{6, 10, 64}, {40, 11, 64}, {2, 7, 128}};
    (void)state;
    for (int64_t n = 2; n < 12; ++n)
        rush_scope() {
            rush_tensor *a = numbers(RUSH_F32, 21, 37), *b = numbers(RUSH_F32, 37, n);
            rush_tensor *y = product(a, b);
            for (int64_t i = 0; i < 21; ++i)
                for (int64_t j = 0; j < n; ++j) assert_true((float)element(y, i, j) == beside(a, b, i, j, 37, n));
        }
    for (int c = 0; c < 3; ++c)
        rush_scope() {
            int64_t m = wide[c][0], n = wide[c][1], k = wide[c][2];
            rush_tensor *a = numbers(RUSH_F32, m, k), *b = numbers(RUSH_F32, k, n);
            rush_tensor *y = product(a, b);
            int unlike[2] = {0, 0}; /* without fused instructions, and with them */
            for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j)
                    for (int fused = 0; fused < 2; ++fused) unlike[fused] += (float)element(y, i, j) != in_pieces(a, b, i, j, k, fused);
            assert_true(unlike[0] == 0 || unlike[1] == 0);
            m = narrow[c][0], n = narrow[c][1], k = narrow[c][2];
            a = numbers(RUSH_F32, m, k), b = turned(numbers(RUSH_F32, n, k));
            y = product(a, b);
            for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j) {
                    float want = in_lanes(a, b, i, j, k, j < n / 4 * 4 ? 4 : 8);
#if defined(__x86_64__)
                    if (m * n * k <= 8192 || strcmp(rush_cpu_isa(), "x86-64-v4") == 0) assert_true((float)element(y, i, j) == want);
#else
                    assert_float_equal(element(y, i, j), want, 1e-4);
#endif
                }
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_all_sizes), cmocka_unit_test(empty_sums_are_zero), cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(linear_has_its_gradients), cmocka_unit_test(sums_keep_their_order),
    };
    return SUITE(tests);
}
