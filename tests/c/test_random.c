/* test_random.c - the numbers that seeds give: constants printed by PyTorch 2.13. */
#include "suite/suite.h"
#include "op/op.h"


#define TEST(name) static void name(void **state)
#define SIZE(...) INTS(__VA_ARGS__)

static double at(rush_tensor *t, int i)
{
    double x;
    assert_non_null(t);
    rush_convert(&x, RUSH_F64, 8, (char *)rush_data(t) + i * (int)rush_dtype_size(rush_dtype_of(t)), rush_dtype_of(t), 8, 1);
    return x;
}

static rush_tensor *randn(rush_dtype d, int64_t n)
{
    rush_manual_seed(7);
    return T("randn", SIZE(n), rush_v_dtype(d));
}

TEST(normal_numbers)
{
    rush_scope() {
        rush_tensor *few = randn(RUSH_F32, 5), *many = randn(RUSH_F32, 20), *wide = randn(RUSH_F64, 20), *half = randn(RUSH_BF16, 20);
        static const double want[4][4] = {
            {-0x1.2ca2e80000000p-3, -0x1.1d45a60000000p+0, 0x1.b0d7a00000000p+0},
            {-0x1.a3e8ac0000000p-1, -0x1.636e700000000p+0, 0x1.966a5c0000000p-3, -0x1.6d48ac0000000p-2},
            {0x1.0f6e8d3a53973p-4, 0x1.5e20f53cc4c77p+0, 0x1.751bc44dd094ap+0, 0x1.51bdf321a248ap-1},
            {-0x1.a400000000000p-1, -0x1.6400000000000p+0, -0x1.9600000000000p+0, -0x1.5c00000000000p+0},
        };
        static const int where[] = {0, 3, 4, 19};
        for (int i = 0; i < 3; i++) assert_true(at(few, where[i]) == want[0][i]);
        for (int i = 0; i < 4; i++) {
            assert_true(at(many, where[i]) == want[1][i]);
            assert_true(at(wide, where[i]) == want[2][i]);
            assert_true(at(half, where[i]) == want[3][i]);
        }
    }
}

static void same_ints(rush_tensor *t, int n, const int *want)
{
    for (int i = 0; i < n; i++) assert_int_equal((int)at(t, i), want[i]);
}

TEST(whole_numbers)
{
    rush_scope() {
        rush_manual_seed(7);
        same_ints(T("randperm", V(8)), 8, (const int[]){7, 0, 3, 4, 1, 5, 2, 6});
        rush_manual_seed(7);
        same_ints(T("randint", V(10), SIZE(8)), 8, (const int[]){5, 2, 1, 6, 3, 7, 7, 9});
        static const float p[] = {.1f, .2f, .3f, .4f}, rate[] = {3, 30};
        rush_tensor *weights = rush_from_data(p, RUSH_F32, 1, (const int64_t[]){4});
        rush_manual_seed(7);
        same_ints(T("multinomial", V(weights), V(3)), 3, (const int[]){1, 3, 0});
        rush_manual_seed(7);
        same_ints(T("multinomial", V(weights), V(5), V(true)), 5, (const int[]){1, 1, 3, 3, 3});
        rush_manual_seed(7);
        same_ints(T("poisson", V(rush_from_data(rate, RUSH_F32, 1, (const int64_t[]){2}))), 2, (const int[]){3, 26});
    }
    assert_null(rush_error());
}

TEST(dropout_scales_what_it_keeps_and_its_gradient)
{
    rush_scope() {
        rush_tensor *x = rush_requires_grad_set(T("ones", SIZE(1000)), true);
        rush_manual_seed(1);
        rush_tensor *y = T("dropout", V(x), V(0.25), V(true));
        assert_int_equal(rush_backward(T("dot", V(y), V(T("ones", SIZE(1000))))), 0);
        int kept = 0;
        for (int i = 0; i < 1000; i++) {
            assert_true(at(y, i) == 0 || at(y, i) == (double)(1 / 0.75f));
            assert_true(at(rush_grad(x), i) == at(y, i));
            kept += at(y, i) != 0;
        }
        assert_in_range(kept, 700, 800);
        assert_ptr_equal(T("dropout", V(x), V(0.25), V(false)), x);
    }
    assert_null(rush_error());
}

TEST(wrong_parameters_are_errors)
{
    rush_generator_keep(rush_default_generator());
    for (int i = 0; i < 2; i++) rush_generator_drop(rush_default_generator()); /* once too often */
    rush_generator_keep(rush_default_generator());
    rush_scope() {
        rush_tensor *x = T("zeros", SIZE(4));
        assert_null(T("normal_", V(x), V(0.0), V(-1.0)));
        assert_int_equal(rush_error_kind_now(), RUSH_RUNTIME_ERROR);
        rush_error_clear();
        assert_null(T("rand", SIZE(4), rush_v_dtype(RUSH_I64)));
        assert_int_equal(rush_error_kind_now(), RUSH_NOT_IMPLEMENTED);
        rush_error_clear();
        assert_null(T("multinomial", V(x), V(2)));
        rush_error_clear();
        assert_null(T("randint", V(0), SIZE(4)));
        rush_error_clear();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_numbers), cmocka_unit_test(whole_numbers),
        cmocka_unit_test(dropout_scales_what_it_keeps_and_its_gradient), cmocka_unit_test(wrong_parameters_are_errors),
    };
    return SUITE(tests);
}
