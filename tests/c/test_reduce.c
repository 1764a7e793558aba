/* test_reduce.c - reductions against plain loops, over all dims and strides; the same bits for any number of threads;
 * NaN, ties and empty dims; derivatives of statistics and normalising layers by differences. */
#include "suite/suite.h"
#include "gradcheck.h"
#include <rushlight.h>
#include <stdlib.h>
#include <string.h>

#define V(x) RUSH_V(x)
#define INTS(...) rush_v_ints((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
#define CALL(name, ...) rush_apply(rush_op_find(name), (int)(sizeof((rush_value[]){__VA_ARGS__}) / sizeof(rush_value)), (rush_value[]){__VA_ARGS__})

static double number(const rush_tensor *t, int64_t at)
{
    switch (rush_dtype_of(t)) {
    case RUSH_F64: return ((double *)rush_data(t))[at];
    case RUSH_F32: return ((float *)rush_data(t))[at];
    case RUSH_I32: return ((int32_t *)rush_data(t))[at];
    case RUSH_BOOL: return ((uint8_t *)rush_data(t))[at];
    default: return (double)((int64_t *)rush_data(t))[at];
    }
}

static double at3(const rush_tensor *t, int64_t i, int64_t j, int64_t k)
{
    return number(t, i * rush_stride(t, 0) + j * rush_stride(t, 1) + k * rush_stride(t, 2));
}

/* ---- every choice of dims, against loops ---- */

static void check_dims(rush_tensor *x, int bits)
{
    int64_t n[3] = {rush_size(x, 0), rush_size(x, 1), rush_size(x, 2)}, dims[3], nd = 0, to[3];
    for (int d = 0; d < 3; ++d) {
        if (bits >> d & 1) dims[nd++] = d;
        to[d] = bits >> d & 1 ? 1 : n[d];
    }
    rush_value list = rush_v_ints(dims, (size_t)nd);
    rush_tensor *sum = CALL("sum.dim_IntList", V(x), list, V(true)), *top = CALL("amax", V(x), list, V(true));
    rush_tensor *var = rush_dtype_is_float(rush_dtype_of(x)) ? CALL("var.correction", V(x), list, V(0), V(true)) : NULL;
    assert_null(rush_error());
    for (int64_t i = 0; i < to[0]; ++i)
        for (int64_t j = 0; j < to[1]; ++j)
            for (int64_t k = 0; k < to[2]; ++k) {
                double s = 0, q = 0, best = -INFINITY, count = 0;
                for (int64_t a = bits & 1 ? 0 : i; a < (bits & 1 ? n[0] : i + 1); ++a)
                    for (int64_t b = bits & 2 ? 0 : j; b < (bits & 2 ? n[1] : j + 1); ++b)
                        for (int64_t c = bits & 4 ? 0 : k; c < (bits & 4 ? n[2] : k + 1); ++c) {
                            double v = at3(x, a, b, c);
                            s += v, q += v * v, count += 1, best = fmax(best, v);
                        }
                assert_float_equal(at3(sum, i, j, k), s, 1e-4 * (1 + fabs(s)));
                assert_float_equal(at3(top, i, j, k), best, 0);
                if (var) assert_float_equal(at3(var, i, j, k), q / count - s / count * (s / count), 1e-4 * (1 + q / count));
            }
}

static void sums_over_any_dims(void **state)
{
    static const int64_t shapes[][3] = {{4, 3, 5}, {2, 1, 70}, {70, 2, 3}, {3, 40, 1100}, {1, 1, 1}, {9, 17, 2}, {2, 300, 40}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s)
        for (int dtype = 0; dtype < 3; ++dtype)
            for (int order = 0; order < 3; ++order) rush_scope() {
                    int64_t count = shapes[s][0] * shapes[s][1] * shapes[s][2];
                    double *data = malloc(sizeof *data * (size_t)count);
                    for (int64_t i = 0; i < count; ++i) data[i] = floor(test_random() * 100);
                    rush_tensor *x = rush_from_data(data, RUSH_F64, 3, shapes[s]);
                    free(data);
                    if (dtype < 2) x = CALL("_to_dtype", V(x), rush_v_dtype(dtype ? RUSH_F32 : RUSH_I64));
                    if (order) x = CALL("permute", V(x), order == 1 ? INTS(2, 0, 1) : INTS(1, 2, 0));
                    for (int bits = 1; bits < 8; ++bits) check_dims(x, bits);
                }
}

/* ---- threads ---- */

static void bits_do_not_depend_on_threads(void **state)
{
    static float data[3000000], w[3000];
    int threads = rush_num_threads();
    for (int i = 0; i < 3000000; ++i) data[i] = (float)test_random();
    for (int i = 0; i < 3000; ++i) w[i] = (float)test_random();
    rush_scope() {
        rush_tensor *flat = rush_from_data(data, RUSH_F32, 1, (int64_t[]){3000000});
        rush_tensor *wide = rush_from_data(data, RUSH_F32, 2, (int64_t[]){1000, 3000}), *tall = rush_from_data(data, RUSH_F32, 2, (int64_t[]){1000000, 3});
        rush_tensor *weight = rush_from_data(w, RUSH_F32, 1, (int64_t[]){3000});
        rush_tensor *result[2][8];
        for (int t = 0; t < 2; ++t) {
            rush_num_threads_set(t ? 3 : 1);
            rush_tensor **r = result[t];
            r[0] = CALL("sum", V(flat));
            r[1] = CALL("sum.dim_IntList", V(wide), INTS(0));
            r[2] = CALL("sum.dim_IntList", V(tall), INTS(0));
            r[3] = CALL("var.correction", V(tall), INTS(0));
            r[4] = CALL("cumsum", V(flat), V(0));
            r[5] = CALL("logsumexp", V(flat), INTS(0));
            rush_requires_grad_set(weight, true);
            rush_tensor *y = CALL("layer_norm", V(wide), INTS(3000), V(weight));
            rush_tensor *g;
            assert_int_equal(rush_grad_of(1, (rush_tensor *[]){CALL("sum", V(CALL("mul.Tensor", V(y), V(wide))))}, NULL, 1, (rush_tensor *[]){weight}, &g, false,
                                          false, false), 0);
            r[6] = g;
            r[7] = CALL("argmax", V(flat));
        }
        assert_null(rush_error());
        for (int k = 0; k < 8; ++k)
            assert_memory_equal(rush_data(result[0][k]), rush_data(result[1][k]), (size_t)rush_numel(result[0][k]) * rush_dtype_size(rush_dtype_of(result[0][k])));
    }
    rush_num_threads_set(threads);
}

/* ---- accuracy, NaN, ties, empty dims ---- */

static void long_sums_stay_exact(void **state)
{
    enum { N = 5000000 };
    static float f[N];
    for (int i = 0; i < N; ++i) f[i] = 0.1f;
    rush_scope() {
        double got = rush_item(CALL("sum", V(rush_from_data(f, RUSH_F32, 1, (int64_t[]){N}))));
        assert_float_equal(got, N * (double)0.1f, 0.3); /* a unit in the last place is 0.03 */
        for (int i = 0; i < 1000; ++i) f[i] = (float)(10000 + i % 2);
        assert_float_equal(rush_item(CALL("var.correction", V(rush_from_data(f, RUSH_F32, 1, (int64_t[]){1000})), RUSH_NONE, V(0))), 0.25, 1e-6);
    }
}

static void nan_is_the_largest_and_ties_go_to_the_first(void **state)
{
    rush_scope() {
        float a[] = {1, 5, NAN, 5, NAN}, b[] = {-INFINITY, -INFINITY}, c[] = {3, 7, 7, 1};
        rush_tensor *x = rush_from_data(a, RUSH_F32, 1, (int64_t[]){5});
        assert_true(isnan(rush_item(CALL("amax", V(x)))) && isnan(rush_item(CALL("amin", V(x)))));
        assert_int_equal(rush_item_int(CALL("argmax", V(x))), 2);
        assert_int_equal(rush_item_int(CALL("argmax", V(rush_from_data(b, RUSH_F32, 1, (int64_t[]){2})))), 0);
        assert_int_equal(rush_item_int(CALL("argmax", V(rush_from_data(c, RUSH_F32, 1, (int64_t[]){4})))), 1);
        assert_float_equal(rush_item(CALL("logsumexp", V(rush_from_data(b, RUSH_F32, 1, (int64_t[]){2})), INTS(0))), -INFINITY, 0);
        assert_float_equal(rush_item(CALL("nansum", V(x))), 11, 0);
        assert_null(rush_error());
    }
}

static void wrong_dims_are_refused(void **state)
{
    rush_scope() {
        rush_tensor *none = TENSOR(0, 3), *x = TENSOR(2, 3);
        assert_null(CALL("amax", V(none), INTS(0)));
        assert_int_equal(rush_error_kind_now(), RUSH_INDEX_ERROR);
        rush_error_clear();
        assert_null(CALL("max", V(none)));
        assert_int_equal(rush_error_kind_now(), RUSH_RUNTIME_ERROR);
        rush_error_clear();
        assert_null(CALL("sum.dim_IntList", V(x), INTS(2)));
        assert_int_equal(rush_error_kind_now(), RUSH_INDEX_ERROR);
        rush_error_clear();
        assert_null(CALL("sum.dim_IntList", V(x), INTS(1, -1)));
        assert_int_equal(rush_error_kind_now(), RUSH_RUNTIME_ERROR);
        rush_error_clear();
        assert_float_equal(rush_item(CALL("sum", V(none))), 0, 0);
        assert_int_equal(rush_numel(CALL("amax", V(none), INTS(1))), 0);
    }
}

/* ---- derivatives ---- */

static rush_tensor *f_prod(rush_tensor **x) { return CALL("prod.dim_int", V(x[0]), V(1)); }
static rush_tensor *f_std(rush_tensor **x) { return CALL("std.correction", V(x[0]), INTS(0)); }
static rush_tensor *f_lse(rush_tensor **x) { return CALL("logsumexp", V(x[0]), INTS(1)); }
static rush_tensor *f_norm(rush_tensor **x) { return CALL("linalg_vector_norm", V(x[0]), V(3), INTS(1)); }
static rush_tensor *f_max(rush_tensor **x) { return CALL("max.dim", V(x[0]), V(0)); }
static rush_tensor *f_layer(rush_tensor **x) { return CALL("layer_norm", V(x[0]), INTS(5), V(x[1]), V(x[2])); }
static rush_tensor *f_rms(rush_tensor **x) { return CALL("rms_norm", V(x[0]), INTS(5), V(x[1])); }
static rush_tensor *f_group(rush_tensor **x) { return CALL("group_norm", V(x[0]), V(2), V(x[1]), V(x[2])); }
static rush_tensor *f_batch(rush_tensor **x)
{
    return CALL("batch_norm", V(x[0]), V(x[1]), V(x[2]), RUSH_NONE, RUSH_NONE, V(true), V(0.1), V(1e-5), V(false));
}
static rush_tensor *f_softmax(rush_tensor **x) { return CALL("_softmax", V(x[0]), V(0), V(false)); }
static rush_tensor *f_cumsum(rush_tensor **x) { return CALL("cumsum", V(x[0]), V(1)); }

static void derivatives(void **state)
{
    static const test_fn plain[] = {f_prod, f_std, f_lse, f_norm, f_max, f_softmax, f_cumsum};
    rush_scope() {
        rush_tensor *x = TENSOR(4, 5);
        assert_non_null(x);
        for (size_t k = 0; k < sizeof plain / sizeof *plain; ++k) assert_true(gradcheck(plain[k], 1, &x) < 1e-5);
        ((double *)rush_data(x))[3] = 0;
        assert_true(gradcheck(f_prod, 1, &x) < 1e-5);
        rush_tensor *rows[] = {TENSOR(4, 5), TENSOR(5), TENSOR(5)}, *images[] = {TENSOR(2, 4, 3), TENSOR(4), TENSOR(4)};
        assert_true(gradcheck(f_layer, 3, rows) < 1e-5);
        assert_true(gradcheck(f_rms, 2, rows) < 1e-5);
        assert_true(gradcheck(f_group, 3, images) < 1e-5);
        assert_true(gradcheck(f_batch, 3, images) < 1e-5);
    }
}

static void running_statistics_follow(void **state)
{
    rush_scope() {
        float data[] = {1, 3, 5, 7, 2, 2, 2, 2}, zero[] = {0, 0}, one[] = {1, 1};
        rush_tensor *x = rush_from_data(data, RUSH_F32, 3, (int64_t[]){1, 2, 4});
        rush_tensor *mean = rush_from_data(zero, RUSH_F32, 1, (int64_t[]){2}), *var = rush_from_data(one, RUSH_F32, 1, (int64_t[]){2});
        rush_tensor *y = CALL("batch_norm", V(x), RUSH_NONE, RUSH_NONE, V(mean), V(var), V(true), V(0.1), V(0.0), V(false));
        assert_non_null(y);
        assert_float_equal(number(mean, 0), 0.4, 1e-6);
        assert_float_equal(number(mean, 1), 0.2, 1e-6);
        assert_float_equal(number(var, 0), 0.9 + 0.1 * 20 / 3, 1e-6);
        assert_float_equal(number(var, 1), 0.9, 1e-6);
        assert_float_equal(number(y, 0), -3 / sqrt(5), 1e-6);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_over_any_dims),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(long_sums_stay_exact),
        cmocka_unit_test(nan_is_the_largest_and_ties_go_to_the_first),
        cmocka_unit_test(wrong_dims_are_refused),
        cmocka_unit_test(derivatives),
        cmocka_unit_test(running_statistics_follow),
    };
    return SUITE(tests);
}
