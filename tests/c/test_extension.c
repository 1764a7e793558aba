/* test_extension.c - an operation added from outside, by the public header alone: rule, kernel, derivative. */
#include "suite/suite.h"
#include <stdlib.h>
#include <rushlight.h>
#include <math.h>
#include <string.h>

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

static int plain_shape(const rush_op *op, const rush_value *in, rush_value *out) { return rush_out(out, 0, RUSH_F32, rush_device_of(in[0].t), rush_ndim(in[0].t), rush_sizes(in[0].t)) ? 0 : -1; }
static void plain_cpu(const rush_op *op, const rush_value *in, rush_value *out) { memcpy(rush_data(out[0].t), rush_data(in[0].t), (size_t)rush_numel(in[0].t) * sizeof(float)); }

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
    static rush_op bad[] = {{.schema = "broken(Tensor self"}, {.schema = "broken(Tensor a, int b, *, Tensor a) -> Tensor"}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rush_op_register(&bad[i]), -1);
        assert_int_equal(rush_error_kind_now(), RUSH_VALUE_ERROR);
        rush_error_clear();
    }
    static rush_op nameless = {.doc = "It has no schema."};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rush_op_register(i ? &nameless : NULL), -1);
        assert_int_equal(rush_error_kind_now(), RUSH_TYPE_ERROR);
        rush_error_clear();
    }
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

/* ---- a derivative of the program's own ---- */

static int ended;
static void count_end(void *arg) { ++*(int *)arg; }

static int cube_backward(rush_node *node, void *arg, rush_tensor **g, rush_tensor **gin)
{
    rush_tensor *x, *y;
    if (rush_function_saved(node, 0, &x) || rush_function_saved(node, 1, &y)) return -1;
    if (rush_function_needs(node, 0)) gin[0] = rush_mul(g[0] ? g[0] : rush_function_zeros(node, 0), rush_mul(rush_div(y, x), 3));
    return rush_error() ? -1 : 0;
}

static rush_tensor *cube(rush_tensor *x)
{
    static const rush_function function = {.name = "Cube", .backward = cube_backward, .end = count_end};
    bool recorded = rush_grad_enabled_set(false);
    rush_tensor *y = rush_mul(x, rush_mul(x, x));
    rush_grad_enabled_set(recorded);
    rush_node *node;
    if (!y || rush_function_begin(&function, &ended, 1, &x, 1, &node)) return NULL;
    y = rush_function_result(node, 0, y, 0);
    if (y && rush_function_save(node, 2, (rush_tensor *[]){x, y})) y = NULL;
    rush_node_drop(node);
    return y;
}

static void functions_have_their_derivative(void **state)
{
    ended = 0;
    rush_scope() {
        rush_tensor *x = rush_requires_grad_set(rush_from_data((float[]){2}, RUSH_F32, 0, NULL), true), *y = cube(x);
        assert_non_null(y);
        assert_true(rush_item(y) == 8 && !rush_is_leaf(y));
        assert_int_equal(rush_backward_full(1, &y, NULL, true, false), 0);
        assert_true(rush_item(rush_grad(x)) == 12);
        assert_int_equal(rush_backward(y), 0);
        assert_true(rush_item(rush_grad(x)) == 24);
        assert_int_equal(rush_backward(y), -1); /* what it saved is gone */
        assert_int_equal(rush_error_kind_now(), RUSH_RUNTIME_ERROR);
        rush_error_clear();
        rush_tensor *plain = cube(rush_from_data((float[]){2}, RUSH_F32, 0, NULL));
        assert_true(plain && rush_is_leaf(plain));
        assert_int_equal(ended, 1); /* of the call that nobody differentiates */
    }
    assert_int_equal(ended, 2);
}

/* ---- a definition in pieces ---- */

static int axpy(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *r = rush_add(in[1].t, rush_mul(in[0].t, in[2].f));
    out[0] = rush_v_tensor(r);
    return r ? 0 : -1;
}

static void definitions_come_in_pieces(void **state)
{
    static const rush_op *below, *composite;
    if (!below) assert_int_equal(rush_library_impl("test_pieces::below", "CPU", axpy, NULL, NULL), 0); /* before there is one of the name */
    if (!below) assert_non_null(below = rush_library_define("test_pieces::below(Tensor x, Tensor y, float a) -> Tensor"));
    if (!composite) assert_non_null(composite = rush_library_define("test_pieces::composite(Tensor x, Tensor y, float a=2) -> Tensor"));
    assert_int_equal(rush_library_impl("test_pieces::composite", "CompositeImplicitAutograd", axpy, NULL, NULL), 0);
    rush_scope() {
        rush_tensor *x = rush_requires_grad_set(rush_from_data((float[]){3}, RUSH_F32, 0, NULL), true);
        rush_tensor *a = rush_apply(below, 3, (rush_value[]){rush_v_tensor(x), rush_v_tensor(x), rush_v_float(0.5)});
        rush_tensor *b = a ? rush_apply(composite, 2, (rush_value[]){rush_v_tensor(x), rush_v_tensor(x)}) : NULL;
        assert_non_null(b);
        assert_true(rush_item(a) == 4.5 && rush_item(b) == 9);
        assert_true(rush_is_leaf(a) && !rush_is_leaf(b)); /* a kernel is below autograd, what consists of operations has their derivatives */
    }
    assert_int_equal(rush_library_impl("add.Tensor", "CPU", axpy, NULL, NULL), -1);
    assert_int_equal(rush_error_kind_now(), RUSH_RUNTIME_ERROR);
    rush_error_clear();
    assert_int_equal(rush_library_impl("test_pieces::below", "Nonsense", axpy, NULL, NULL), -1);
    rush_error_clear();
}

static int gives(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    const char *what = arg;
    if (*what == 'i') out[0] = rush_v_int(3);
    return *what == 'f' ? -1 : 0;
}

static void definitions_that_give_no_tensor_are_errors(void **state)
{
    static const rush_op *op;
    static const char *const what[] = {"nothing", "an int", "failure"};
    if (!op) assert_non_null(op = rush_library_define("test_pieces::gives(Tensor x) -> Tensor"));
    for (int i = 0; i < 3; i++)
        rush_scope() {
            assert_int_equal(rush_library_impl("test_pieces::gives", i % 2 ? "Autograd" : "CPU", gives, (void *)what[i], NULL), 0);
            rush_tensor *x = rush_requires_grad_set(rush_zeros(RUSH_INTS(1)), i % 2);
            assert_null(rush_apply(op, 1, (rush_value[]){rush_v_tensor(x)}));
            assert_non_null(strstr(rush_error(), i == 2 ? "failed without an error" : "gave no tensor as result 0"));
            rush_error_clear();
        }
}

/* ---- classes ---- */

static int counters; /* alive */

static void end_counter(void *data)
{
    --counters;
    free(data);
}

static const rush_class *counter_class;

static int new_counter(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t *count = malloc(sizeof *count);
    *count = in[0].i;
    ++counters;
    rush_object *o = rush_object_new(counter_class, count); /* if it fails, the data is ended */
    out[0] = rush_v_object(o);
    return o ? 0 : -1;
}

static int add_counters(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < in[0].n; ++i) sum += *(int64_t *)rush_object_data(in[0].values[i].object, counter_class);
    out[0] = rush_v_int(sum);
    return 0;
}

static int other_class(void *arg, const rush_op *op, const rush_value *in, rush_value *out) { return out[0] = rush_v_object(arg), 0; }

static void classes_have_objects(void **state)
{
    static const rush_op *new, *sum, *wrong;
    static const rush_class *other;
    assert_null(rush_class_define("nameless", NULL));
    rush_error_clear();
    assert_null(rush_class_define("test_pieces::a b", NULL));
    rush_error_clear();
    assert_null(rush_class_find("test_pieces::Nothing"));
    assert_null(rush_error());
    assert_null(rush_library_define("test_pieces::f(__torch__.torch.classes.test_pieces.Nothing x) -> int"));
    rush_error_clear();
    if (!counter_class) assert_non_null(counter_class = rush_class_define("test_pieces::Counter", end_counter));
    if (!other) assert_non_null(other = rush_class_define("test_pieces::Other", NULL));
    assert_null(rush_class_define("test_pieces::Counter", NULL));
    assert_non_null(strstr(rush_error(), "already registered"));
    rush_error_clear();
    assert_ptr_equal(rush_class_find("test_pieces::Counter"), counter_class);
    assert_string_equal(rush_class_path(counter_class), "__torch__.torch.classes.test_pieces.Counter");
    if (!new) assert_non_null(new = rush_library_define("test_pieces::Counter::__init__(int start=3) -> __torch__.torch.classes.test_pieces.Counter"));
    if (!sum) assert_non_null(sum = rush_library_define("test_pieces::sum(__torch__.torch.classes.test_pieces.Counter[] all) -> int"));
    if (!wrong) assert_non_null(wrong = rush_library_define("test_pieces::wrong(int x) -> __torch__.torch.classes.test_pieces.Counter"));
    assert_int_equal(rush_library_impl("test_pieces::Counter::__init__", "", new_counter, NULL, NULL), 0);
    assert_int_equal(rush_library_impl("test_pieces::sum", "", add_counters, NULL, NULL), 0);
    rush_object *kept = NULL;
    rush_scope() {
        rush_value a, b, n, start = rush_v_int(4);
        assert_int_equal(rush_call(new, &start, &a), 0);
        assert_int_equal(rush_call(new, &start, &b), 0);
        assert_true(a.kind == RUSH_V_OBJECT && rush_object_class(a.object) == counter_class && !rush_object_data(a.object, other));
        rush_value list = {.kind = RUSH_V_VALUES, .n = 2, .values = (rush_value[]){a, b}}, nothing = rush_v_object(NULL);
        assert_int_equal(rush_call(sum, &list, &n), 0);
        assert_int_equal(n.i, 8);
        rush_object *stranger = rush_object_new(other, NULL);
        list.values = (rush_value[]){a, rush_v_object(stranger)};
        assert_int_equal(rush_call(sum, &list, &n), -1);
        assert_non_null(strstr(rush_error(), "must be __torch__.torch.classes.test_pieces.Counter[]"));
        rush_error_clear();
        assert_int_equal(rush_call(sum, &a, &n), -1);
        rush_error_clear();
        assert_int_equal(rush_call(rush_op_find("neg"), &a, &n), -1);
        rush_error_clear();
        assert_int_equal(rush_call(sum, &nothing, &n), -1);
        rush_error_clear();
        assert_int_equal(rush_library_impl("test_pieces::wrong", "", other_class, stranger, NULL), 0);
        assert_int_equal(rush_call(wrong, &start, &n), -1);
        rush_error_clear();
        kept = rush_object_keep(a.object);
    }
    assert_int_equal(counters, 1);
    rush_object_drop(kept);
    assert_int_equal(counters, 0);
}

/* ---- a derivative that reads what its record does not save ---- */

static void reads_too_much(rush_grads *s) { s->gin[0] = rush_mul(s->g[0], s->in[0].t); }
static void reduces_too_much(rush_grads *s) { s->gin[0] = rush_cumsum(s->in[0].t, 0); }

static void what_is_not_saved_is_not_read(void **state)
{
    static rush_op op[] = {{.schema = "test_reads_too_much(Tensor self) -> Tensor", .shape = plain_shape, .cpu = plain_cpu, .grad = reads_too_much},
                           {.schema = "test_reduces_too_much(Tensor self) -> Tensor", .shape = plain_shape, .cpu = plain_cpu, .grad = reduces_too_much},
                           {.schema = "test_saves_too_much(Tensor self) -> Tensor", .shape = plain_shape, .cpu = plain_cpu, .grad = reads_too_much, .saves = "result1"}};
    assert_int_equal(rush_op_register(&op[2]), -1); /* there is no such result */
    rush_error_clear();
    for (int i = 0; i < 2; i++)
        rush_scope() {
            assert_int_equal(rush_op_register(&op[i]), 0);
            rush_tensor *x = rush_requires_grad_set(rush_ones(RUSH_INTS(3)), true), *y = rush_apply(&op[i], 1, (rush_value[]){rush_v_tensor(x)});
            assert_non_null(y);
            assert_int_equal(rush_backward(rush_sum(y)), -1);
            assert_non_null(strstr(rush_error(), ".saves"));
            rush_error_clear();
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_once),
        cmocka_unit_test(computes),
        cmocka_unit_test(differentiates),
        cmocka_unit_test(functions_have_their_derivative),
        cmocka_unit_test(definitions_come_in_pieces),
        cmocka_unit_test(definitions_that_give_no_tensor_are_errors),
        cmocka_unit_test(classes_have_objects),
        cmocka_unit_test(what_is_not_saved_is_not_read),
    };
    return SUITE(tests);
}
