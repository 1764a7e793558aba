/* test_index.c - indexing, gathering, scattering: values, gradients, errors, and one result for any number of threads. */
#include "suite/suite.h"
#include <string.h>
#include "op/op.h"

static const rush_device cpu = {RUSH_CPU, -1};

static rush_tensor *count_up(int ndim, const int64_t *size)
{
    int64_t n = rush_numel_of(ndim, size);
    rush_tensor *t = rush_tensor_new(RUSH_F32, cpu, ndim, size);
    assert_non_null(t);
    for (int64_t i = 0; i < n; ++i) ((float *)rush_ptr(t))[i] = (float)i;
    return t;
}
#define COUNT(...) count_up(sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})

static rush_tensor *numbers(int64_t n, const int64_t *p) { return rush_from_data(p, RUSH_I64, 1, &n); }
#define NUMBERS(...) numbers(sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})

static void are(rush_tensor *t, int64_t n, const double *want)
{
    if (!t) fail_msg("%s", rush_error());
    rush_tensor *c = rush_cast_copy(t, RUSH_F64);
    assert_non_null(c);
    assert_int_equal(c->numel, n);
    for (int64_t i = 0; i < n; ++i)
        if (((double *)rush_ptr(c))[i] != want[i]) fail_msg("element %lld is %g, not %g", (long long)i, ((double *)rush_ptr(c))[i], want[i]);
}
#define ARE(t, ...) are(t, sizeof((double[]){__VA_ARGS__}) / 8, (double[]){__VA_ARGS__})

static void fails(rush_tensor *t, rush_error_kind kind, const char *part)
{
    assert_null(t);
    if (rush_error_kind_now() != kind || !strstr(rush_error(), part)) fail_msg("kind %d: %s", rush_error_kind_now(), rush_error());
    rush_error_clear();
}

static rush_tensor *at(rush_tensor *x, rush_tensor *a, rush_tensor *b)
{
    rush_tensor *list[2] = {a, b};
    return T("index.Tensor", V(x), rush_v_tensors(list, b ? 2 : 1));
}

static void taking(void **state)
{
    rush_scope() {
        rush_tensor *x = COUNT(3, 4), *mask = T("gt.Scalar", V(x), V(8));
        ARE(at(x, NUMBERS(2, -3), NULL), 8, 9, 10, 11, 0, 1, 2, 3);
        ARE(at(x, NUMBERS(0, 1, 2), NUMBERS(3, -1, 0)), 3, 7, 8);
        ARE(at(x, NULL, NUMBERS(1)), 1, 5, 9);
        ARE(at(x, mask, NULL), 9, 10, 11);
        ARE(T("index_select", V(T("t", V(x))), V(1), V(NUMBERS(2, 0))), 8, 0, 9, 1, 10, 2, 11, 3);
        ARE(T("gather", V(x), V(0), V(T("view", V(NUMBERS(0, 2)), INTS(1, 2)))), 0, 9);
        ARE(T("take", V(x), V(NUMBERS(-1, 0))), 11, 0);
        assert_string_equal(rush_op_c_name(rush_op_find("where.self")), "rush_where"); /* not nonzero()'s other name */
        assert_string_equal(rush_op_c_name(rush_op_find("where")), "rush_where_default");
        ARE(T("nonzero", V(mask)), 2, 1, 2, 2, 2, 3);
        ARE(T("embedding", V(x), V(NUMBERS(1, 1))), 4, 5, 6, 7, 4, 5, 6, 7);
        fails(at(x, NUMBERS(3), NULL), RUSH_INDEX_ERROR, "index 3 is out of bounds for dimension 0 with size 3");
        fails(at(x, NUMBERS(0, 1), NUMBERS(0, 1, 2)), RUSH_INDEX_ERROR, "shapes [2], [3]");
        fails(T("gather", V(x), V(1), V(T("view", V(NUMBERS(4)), INTS(1, 1)))), RUSH_RUNTIME_ERROR, "index 4 is out of bounds for dimension 1");
        fails(T("embedding", V(x), V(NUMBERS(3))), RUSH_INDEX_ERROR, "index out of range in self");
    }
}

static void putting(void **state)
{
    rush_scope() {
        rush_tensor *x = T("zeros", INTS(3)), *i = NUMBERS(0, 2, 0), *list[1] = {i};
        ARE(T("index_put", V(x), rush_v_tensors(list, 1), V(COUNT(3)), V(true)), 2, 0, 1);
        ARE(T("index_add", V(x), V(0), V(i), V(COUNT(3)), V(2)), 4, 0, 2);
        ARE(T("scatter_reduce.two", V(x), V(0), V(i), V(COUNT(3)), V("mean"), V(false)), 1, 0, 1);
        ARE(T("scatter.value", V(x), V(0), V(i), V(7)), 7, 0, 7);
        assert_ptr_equal(T_INPLACE("index_fill.int_Scalar", V(x), V(0), V(NUMBERS(-1)), V(5)), x);
        ARE(x, 0, 0, 5);
        T_INPLACE("masked_fill.Scalar", V(x), V(T("gt.Scalar", V(x), V(1))), V(9));
        ARE(x, 0, 0, 9);
        fails(T("scatter.value", V(x), V(0), V(NUMBERS(3)), V(1)), RUSH_RUNTIME_ERROR, "index 3 is out of bounds");
        ARE(x, 0, 0, 9);
    }
}

static void gradients(void **state)
{
    rush_scope() {
        rush_tensor *w = rush_requires_grad_set(COUNT(4, 2), true), *i = NUMBERS(1, 3, 1);
        assert_int_equal(rush_backward(T("sum", V(T("embedding", V(w), V(i), V(3))))), 0);
        ARE(rush_grad(w), 0, 0, 2, 2, 0, 0, 0, 0);
        rush_tensor *y = rush_requires_grad_set(COUNT(4), true);
        rush_tensor *z = T("mul.Tensor", V(at(y, i, NULL)), V(COUNT(3)));
        assert_int_equal(rush_backward(T("sum", V(z))), 0);
        ARE(rush_grad(y), 0, 2, 0, 1);
    }
}

/* Sums that meet in one place come in the same order, however many threads there are. */
static void threads(void **state)
{
    int before = rush_num_threads();
    rush_scope() {
        enum { N = 3000, WIDTH = 64 };
        rush_tensor *src = T("reciprocal", V(T("add.Tensor", V(COUNT(N, WIDTH)), V(1)))), *to = T("zeros", INTS(7, WIDTH));
        rush_tensor *i = T("remainder.Scalar", V(T("arange", V(N))), V(7)), *result[2];
        for (int k = 0; k < 2; ++k) {
            rush_num_threads_set(k ? 4 : 1);
            result[k] = T("index_add", V(to), V(0), V(i), V(src));
        }
        if (!result[1]) fail_msg("%s", rush_error());
        assert_memory_equal(rush_ptr(result[0]), rush_ptr(result[1]), 7 * WIDTH * 4);
    }
    rush_num_threads_set(before);
}

static void joining(void **state)
{
    rush_scope() {
        rush_tensor *a = COUNT(1, 2), *b = COUNT(2, 2), *list[3] = {a, T("zeros", INTS(0)), b};
        ARE(T("cat", rush_v_tensors(list, 3)), 0, 1, 0, 1, 2, 3);
        ARE(T("flip", V(b), INTS(0, 1)), 3, 2, 1, 0);
        ARE(T("roll", V(COUNT(4)), INTS(1), INTS(0)), 3, 0, 1, 2);
        ARE(T("constant_pad_nd", V(COUNT(3)), INTS(1, -1), V(5)), 5, 0, 1);
        ARE(T("reflection_pad1d", V(COUNT(1, 3)), INTS(2, 1)), 2, 1, 0, 1, 2, 1);
        ARE(T("_pad_circular", V(COUNT(1, 3)), INTS(1, 1)), 2, 0, 1, 2, 0);
        list[1] = b;
        fails(T("stack", rush_v_tensors(list, 2)), RUSH_RUNTIME_ERROR, "got [1, 2] at entry 0 and [2, 2] at entry 1");
        fails(T("cat", rush_v_tensors(list, 2), V(1)), RUSH_RUNTIME_ERROR, "except in dimension 1. Expected size 1 but got size 2");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(taking), cmocka_unit_test(putting), cmocka_unit_test(gradients), cmocka_unit_test(threads),
                                       cmocka_unit_test(joining)};
    return SUITE(tests);
}
