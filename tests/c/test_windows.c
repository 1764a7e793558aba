/* test_windows.c - pooling, resizing, sampling and sums of products: a few known results, all derivatives by differences. */
#include "suite/suite.h"
#include <string.h>
#include "gradcheck.h"

#define CALL(name, ...)                                                                                     \
    rush_apply(rush_op_find(name), (int)(sizeof((rush_value[]){__VA_ARGS__}) / sizeof(rush_value)), (rush_value[]){__VA_ARGS__})
#define LIST(...) rush_v_ints((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
#define X(i) rush_v_tensor(x[i])
#define NONE RUSH_NONE

static rush_tensor *max2(rush_tensor **x) { return CALL("max_pool2d", X(0), LIST(3), LIST(2), LIST(1), LIST(1), rush_v_bool(true)); }
static rush_tensor *max3(rush_tensor **x) { return CALL("max_pool3d", X(0), LIST(2), LIST(1), LIST(0), LIST(1), rush_v_bool(false)); }
static rush_tensor *avg2(rush_tensor **x) { return CALL("avg_pool2d", X(0), LIST(3), LIST(2), LIST(1), rush_v_bool(true), rush_v_bool(false)); }
static rush_tensor *avg1(rush_tensor **x) { return CALL("avg_pool1d", X(0), LIST(2), LIST(1), LIST(1)); }
static rush_tensor *adaptive(rush_tensor **x) { return CALL("adaptive_avg_pool2d", X(0), LIST(3, 2)); }
static rush_tensor *adaptive_max(rush_tensor **x) { return CALL("adaptive_max_pool2d", X(0), LIST(3, 2)); }
static rush_tensor *bilinear(rush_tensor **x) { return CALL("upsample_bilinear2d", X(0), LIST(9, 4), rush_v_bool(false)); }
static rush_tensor *bicubic(rush_tensor **x) { return CALL("upsample_bicubic2d", X(0), LIST(9, 4), rush_v_bool(true)); }
static rush_tensor *smooth(rush_tensor **x) { return CALL("_upsample_bicubic2d_aa", X(0), LIST(3, 2), rush_v_bool(false)); }
static rush_tensor *nearest(rush_tensor **x) { return CALL("upsample_nearest2d", X(0), LIST(7, 11)); }
static rush_tensor *sampled(rush_tensor **x) { return CALL("grid_sampler", X(0), X(1), rush_v_int(0), rush_v_int(0), rush_v_bool(false)); }
static rush_tensor *sampled_cubic(rush_tensor **x) { return CALL("grid_sampler", X(0), X(1), rush_v_int(2), rush_v_int(1), rush_v_bool(true)); }
static rush_tensor *affine(rush_tensor **x) { return CALL("affine_grid_generator", X(0), LIST(2, 1, 3, 4), rush_v_bool(false)); }
static rush_tensor *einsum(rush_tensor **x) { return CALL("einsum", rush_v_string("abc,bd,dce->ea"), rush_v_tensors(x, 3)); }
static rush_tensor *matmul(rush_tensor **x) { return CALL("matmul", X(0), X(1)); }
static rush_tensor *convolution(rush_tensor **x) { return CALL("conv2d", X(0), X(1), X(2), LIST(2), LIST(1), LIST(1), rush_v_int(2)); }
static rush_tensor *transposed(rush_tensor **x) { return CALL("conv_transpose2d", X(0), X(1), X(2), LIST(2), LIST(1), LIST(1), rush_v_int(2)); }

#define CHECK(fn, n, ...) assert_true(gradcheck(fn, n, (rush_tensor *[]){__VA_ARGS__}) < 1e-5)

static void derivatives(void **state)
{
    (void)state;
    rush_scope() {
        CHECK(max2, 1, TENSOR(2, 2, 5, 6));
        CHECK(max3, 1, TENSOR(1, 2, 3, 4, 3));
        CHECK(avg2, 1, TENSOR(2, 2, 5, 6));
        CHECK(avg1, 1, TENSOR(2, 2, 5));
        CHECK(adaptive, 1, TENSOR(2, 2, 5, 6));
        CHECK(adaptive_max, 1, TENSOR(2, 2, 5, 6));
        CHECK(bilinear, 1, TENSOR(1, 2, 5, 6));
        CHECK(bicubic, 1, TENSOR(1, 2, 5, 6));
        CHECK(smooth, 1, TENSOR(1, 2, 5, 6));
        CHECK(nearest, 1, TENSOR(1, 2, 5, 6));
        CHECK(sampled, 2, TENSOR(2, 2, 4, 5), TENSOR(2, 3, 3, 2));
        CHECK(sampled_cubic, 2, TENSOR(2, 2, 4, 5), TENSOR(2, 3, 3, 2));
        CHECK(affine, 1, TENSOR(2, 2, 3));
        CHECK(einsum, 3, TENSOR(2, 3, 4), TENSOR(3, 5), TENSOR(5, 4, 2));
        CHECK(matmul, 2, TENSOR(2, 1, 3, 4), TENSOR(3, 4, 2));
        CHECK(convolution, 3, TENSOR(2, 4, 5, 6), TENSOR(6, 2, 3, 3), TENSOR(6));
        CHECK(transposed, 3, TENSOR(2, 4, 4, 3), TENSOR(4, 3, 3, 3), TENSOR(6));
    }
}

/* Maxima without indices go another way than those with them. */
static void maxima_agree(void **state)
{
    static const int64_t cases[][4] = {{2, 2, 0, 1}, {3, 2, 1, 1}, {3, 1, 1, 1}, {2, 3, 1, 2}, {5, 4, 2, 1}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; ++i)
        rush_scope() {
            rush_tensor *x = TENSOR(2, 3, 13, 17), *y = CALL("to.dtype", rush_v_tensor(x), rush_v_dtype(RUSH_F32));
            rush_value list[4] = {LIST(cases[i][0]), LIST(cases[i][1]), LIST(cases[i][2]), LIST(cases[i][3])};
            rush_tensor *a = CALL("max_pool2d", rush_v_tensor(y), list[0], list[1], list[2], list[3]);
            rush_tensor *b = CALL("max_pool2d_with_indices", rush_v_tensor(y), list[0], list[1], list[2], list[3]);
            assert_null(rush_error());
            assert_int_equal(rush_numel(a), rush_numel(b));
            assert_memory_equal(rush_data(a), rush_data(b), (size_t)rush_numel(a) * 4);
        }
}

/* The least integer has no opposite: its division by -1 ends PyTorch's process. */
static void means_of_the_least_integer(void **state)
{
    (void)state;
    rush_scope() {
        rush_tensor *x = CALL("full", rush_v_ints((int64_t[]){1, 1, 2, 2}, 4), rush_v_int(INT64_MIN), rush_v_dtype(RUSH_I64));
        rush_tensor *y = CALL("avg_pool2d", rush_v_tensor(x), LIST(1), LIST(1), LIST(0), rush_v_bool(false), rush_v_bool(true), rush_v_int(-1));
        assert_null(rush_error());
        for (int i = 0; i < 4; ++i) assert_true(((const int64_t *)rush_data(y))[i] == INT64_MIN);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(derivatives), cmocka_unit_test(maxima_agree), cmocka_unit_test(means_of_the_least_integer)};
    return SUITE(tests);
}
