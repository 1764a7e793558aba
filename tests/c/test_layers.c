/* test_layers.c - attention, recurrent layers, factorisations and transforms against plain forms and finite differences. */
#include "suite/suite.h"
#include "gradcheck.h"

#define NEAR(distance) assert_true((distance) < 1e-6)

static rush_tensor *attend(rush_tensor **x) { return rush_scaled_dot_product_attention(x[0], x[1], x[2], .is_causal = true); }

static void attention_is_what_it_says(void **state)
{
    rush_scope() {
        rush_tensor *q = TENSOR(2, 4, 70, 8), *k = TENSOR(2, 2, 70, 8), *v = TENSOR(2, 2, 70, 3);
        for (int causal = 0; causal < 2; ++causal) {
            rush_tensor *fast = rush_scaled_dot_product_attention(q, k, v, .is_causal = causal, .enable_gqa = true);
            rush_tensor *plain = rush_scaled_dot_product_attention(q, k, v, .is_causal = causal, .enable_gqa = true, .dropout_p = 1e-300);
            NEAR(test_distance(fast, plain));
        }
        rush_tensor *few[] = {TENSOR(1, 2, 5, 4), TENSOR(1, 2, 6, 4), TENSOR(1, 2, 6, 3)};
        NEAR(gradcheck(attend, 3, few));
    }
}

static rush_tensor *state_h, *state_c;
static rush_tensor *lstm(rush_tensor **x)
{
    rush_tensor *p[] = {x[1], x[2], x[3], x[4]};
    rush_tensors weights = {p, 4};
    return rush_lstm(x[0], RUSH_TENSORS(state_h, state_c), weights, true, 1, 0, false, false, false).result0;
}
static rush_tensor *gru(rush_tensor **x)
{
    rush_tensor *p[] = {x[1], x[2], x[3], x[4]};
    rush_tensors weights = {p, 4};
    return rush_gru(x[0], state_h, weights, true, 1, 0, false, false, false).result0;
}

static void recurrent_layers_differentiate(void **state)
{
    rush_scope() {
        state_h = TENSOR(1, 2, 3);
        state_c = TENSOR(1, 2, 3);
        rush_tensor *x[] = {TENSOR(4, 2, 5), TENSOR(12, 5), TENSOR(12, 3), TENSOR(12), TENSOR(12)};
        NEAR(gradcheck(lstm, 5, x));
        rush_tensor *y[] = {TENSOR(4, 2, 5), TENSOR(9, 5), TENSOR(9, 3), TENSOR(9), TENSOR(9)};
        NEAR(gradcheck(gru, 5, y));
    }
}

static rush_tensor *inverse(rush_tensor **x) { return rush_linalg_inv(x[0]); }
static rush_tensor *solve(rush_tensor **x) { return rush_linalg_solve(x[0], x[1]); }
static rush_tensor *det(rush_tensor **x) { return rush_linalg_det(x[0]); }
static rush_tensor *q_of(rush_tensor **x) { return rush_linalg_qr(x[0]).Q; }
static rush_tensor *r_of(rush_tensor **x) { return rush_linalg_qr(x[0]).R; }
static rush_tensor *lu_of(rush_tensor **x) { return rush_linalg_lu(x[0]).U; }
static rush_tensor *singular(rush_tensor **x) { return rush_linalg_svdvals(x[0]); }
static rush_tensor *low_rank(rush_tensor **x) { return rush_linalg_pinv(x[0], 1e-15); }
static rush_tensor *cholesky(rush_tensor **x)
{
    return rush_linalg_cholesky(rush_add(rush_matmul(x[0], rush_transpose(x[0], -2, -1)), rush_eye(3, .dtype = rush_v_dtype(RUSH_F64))));
}

static void factorisations_differentiate(void **state)
{
    rush_scope() {
        rush_tensor *a[] = {TENSOR(2, 3, 3), TENSOR(2, 3, 2)}, *tall[] = {TENSOR(4, 3)}, *wide[] = {TENSOR(3, 4)};
        NEAR(test_distance(rush_matmul(a[0], rush_linalg_inv(a[0])), rush_eye(3, .dtype = rush_v_dtype(RUSH_F64))));
        NEAR(gradcheck(inverse, 1, a) / 1e3);
        NEAR(gradcheck(solve, 2, a) / 1e3);
        NEAR(gradcheck(det, 1, a));
        NEAR(gradcheck(cholesky, 1, a));
        NEAR(gradcheck(q_of, 1, tall));
        NEAR(gradcheck(r_of, 1, wide));
        NEAR(gradcheck(lu_of, 1, wide));
        NEAR(gradcheck(singular, 1, tall));
        NEAR(gradcheck(low_rank, 1, tall));
        NEAR(gradcheck(low_rank, 1, wide));
    }
}

static void singular_matrices_are_errors(void **state)
{
    rush_scope() {
        rush_tensor *zero = rush_zeros(RUSH_INTS(2, 2));
        assert_null(rush_linalg_inv(zero));
        assert_int_equal(rush_error_kind_now(), RUSH_LINALG_ERROR);
        rush_error_clear();
        assert_null(rush_linalg_cholesky(zero));
        assert_int_equal(rush_error_kind_now(), RUSH_LINALG_ERROR);
        rush_error_clear();
    }
}

static rush_tensor *spectrum(rush_tensor **x) { return rush_view_as_real(rush_fft_rfft(x[0])); }

static void transforms_invert_and_differentiate(void **state)
{
    const int64_t lengths[] = {1, 8, 30, 37, 101, 360}; /* few, so that the plans of all of them are kept */
    rush_scope() {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
            rush_tensor *x = TENSOR(3, lengths[i]);
            NEAR(test_distance(rush_real(rush_fft_ifft(rush_fft_fft(x))), x));
            NEAR(test_distance(rush_fft_irfft(rush_fft_rfft(x), .n = rush_v_int(lengths[i])), x));
            /* the first bin is the sum, and energy is kept */
            NEAR(test_distance(rush_real(rush_select(rush_fft_fft(x), 1, 0)), rush_sum_dim_intlist(x, RUSH_INTS(1))));
        }
        rush_tensor *x[] = {TENSOR(2, 7)};
        NEAR(gradcheck(spectrum, 1, x));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_what_it_says), cmocka_unit_test(recurrent_layers_differentiate), cmocka_unit_test(factorisations_differentiate),
        cmocka_unit_test(singular_matrices_are_errors), cmocka_unit_test(transforms_invert_and_differentiate),
    };
    return SUITE(tests);
}
