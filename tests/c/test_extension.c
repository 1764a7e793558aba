/* test_extension.c - an operation added from outside, by the public header alone: rule, kernel, derivative. */
#include "suite/suite.h"
#include <rushlight.h>
#include <math.h>

static int scale_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    if (rush_dtype_of(x) != RUSH_F32) return rush_fail(RUSH_TYPE_ERROR, "needs float32, got %s", rush_dtype_name(rush_dtype_of(x)));
    return rush_out(out, 0, RUSH_F32, rush_device_of(x), rush_ndim(x), rush_sizes(x)) ? 0 : -1;
}

static void scale_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const float *x = rush_data(in[0].t);
    float *y = rush_data(out[0].t);
    for (int64_t i = 0; i < rush_numel(in[0].t); ++i) y[i] = x[i] * x[i] * (float)in[1].f;
}

static rush_op scale_square;

static void scale_grad(rush_grads *s) /* k * 2 x * g, by the operation itself: k (x + g)^2 - ... is too clever for a test */
{
    rush_tensor *g = s->g[0], *x = s->in[0].t;
    rush_tensor *r = rush_from_data(rush_data(x), RUSH_F32, rush_ndim(x), rush_sizes(x));
    if (!r) return;
    float *p = rush_data(r);
    const float *pg = rush_data(g);
    for (int64_t i = 0; i < rush_numel(r); ++i) p[i] *= 2 * (float)s->in[1].f * pg[i];
    s->gin[0] = r;
}

static rush_op scale_square = {
    .schema = "test_scale_square(Tensor self, float k=1.0) -> Tensor",
    .doc = "k * self squared.",
    .shape = scale_shape,
    .cpu = scale_cpu,
    .grad = scale_grad,
    .saves = "self",
};

static void registers_once(void **state)
{
    assert_int_equal(rush_op_register(&scale_square), 0);
    assert_int_equal(rush_op_register(&scale_square), 0);
    assert_ptr_equal(rush_op_find("test_scale_square"), &scale_square);
    static rush_op bad = {.schema = "broken(Tensor self"};
    assert_int_equal(rush_op_register(&bad), -1);
    assert_int_equal(rush_error_kind_now(), RUSH_VALUE_ERROR);
    rush_error_clear();
}

static void computes(void **state)
{
    rush_scope() {
        float data[] = {1, 2, 3};
        rush_tensor *x = rush_from_data(data, RUSH_F32, 1, (int64_t[]){3});
        rush_tensor *y = rush_apply(&scale_square, 2, (rush_value[]){rush_v_tensor(x), rush_v_float(0.5)});
        assert_non_null(y);
        assert_true(((float *)rush_data(y))[2] == 4.5f);
        assert_null(rush_apply(&scale_square, 1, (rush_value[]){rush_v_tensor(rush_from_data((double[]){1}, RUSH_F64, 0, NULL))}));
        assert_string_equal(rush_error(), "test_scale_square: needs float32, got float64");
        assert_null(rush_apply(&scale_square, 1, (rush_value[]){rush_v_tensor(x)})); /* sticky */
        rush_error_clear();
    }
}

static void differentiates(void **state)
{
    rush_scope() {
        rush_tensor *x = rush_requires_grad_set(rush_from_data((float[]){3}, RUSH_F32, 0, NULL), true);
        rush_tensor *y = rush_apply(&scale_square, 1, (rush_value[]){rush_v_tensor(x)});
        assert_true(rush_requires_grad(y));
        assert_int_equal(rush_backward(y), 0);
        assert_true(rush_item(rush_grad(x)) == 6.0);
        assert_int_equal(rush_backward(y), -1); /* what it saved is gone */
        assert_int_equal(rush_error_kind_now(), RUSH_RUNTIME_ERROR);
        rush_error_clear();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_once),
        cmocka_unit_test(computes),
        cmocka_unit_test(differentiates),
    };
    return SUITE(tests);
}
