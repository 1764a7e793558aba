/* test_sparse.c - sparse tensors from C: made, joined, converted, multiplied, differentiated, and refused. */
#include "suite/suite.h"
#include <string.h>
#include "op/op.h"
#include "tensor/sparse.h"

static rush_tensor *numbers(rush_dtype d, int ndim, const int64_t *size, const double *data)
{
    rush_tensor *t = rush_from_data(data, RUSH_F64, ndim, size);
    return t ? T("_to_dtype", V(t), rush_v_dtype(d)) : NULL;
}
#define NUMBERS(d, sizes, ...) numbers(d, (int)(sizeof((int64_t[])sizes) / 8), (int64_t[])sizes, (double[]){__VA_ARGS__})
#define SIZE(...) {__VA_ARGS__}

/* Four entries, two of them at (1, 2). */
static rush_tensor *example(rush_tensor *values)
{
    rush_tensor *indices = NUMBERS(RUSH_I64, SIZE(2, 4), 0, 1, 1, 1, 2, 0, 2, 2);
    return T("sparse_coo_tensor.indices_size", V(indices), V(values ? values : NUMBERS(RUSH_F64, SIZE(4), 3, 4, 5, 6)), INTS(2, 3));
}

static rush_tensor *there(rush_tensor *t)
{
    if (!t) fail_msg("%s", rush_error());
    return t;
}

static void holds(rush_tensor *t, int n, const double *want)
{
    if (t && t->layout) t = T("to_dense", V(t));
    if (!t) fail_msg("%s", rush_error());
    assert_int_equal(rush_numel(t), n);
    rush_tensor *c = there(rush_cast_copy(t, RUSH_F64));
    for (int i = 0; i < n; ++i) assert_true(((double *)rush_ptr(c))[i] == want[i]);
}
#define HOLDS(t, ...) holds(t, (int)(sizeof((double[]){__VA_ARGS__}) / 8), (double[]){__VA_ARGS__})

static void fails(rush_tensor *t, rush_error_kind kind, const char *part)
{
    assert_null(t);
    if (rush_error_kind_now() != kind || !strstr(rush_error(), part)) fail_msg("kind %d: %s", rush_error_kind_now(), rush_error());
    rush_error_clear();
}

static rush_value layout(int l) { return (rush_value){.kind = RUSH_V_LAYOUT, .i = l}; }

static void made_and_joined(void **state)
{
    rush_scope() {
        rush_tensor *s = there(example(NULL));
        assert_int_equal(s->layout, RUSH_SPARSE_COO);
        assert_null(s->storage);
        assert_int_equal(rush_nnz(there(s)), 4);
        HOLDS(s, 0, 0, 3, 4, 0, 11);
        rush_tensor *c = T("coalesce", V(s));
        assert_int_equal(rush_nnz(there(c)), 3);
        HOLDS(T("indices", V(c)), 0, 1, 1, 2, 0, 2);
        HOLDS(T("values", V(c)), 3, 4, 11);
        fails(T("values", V(s)), RUSH_RUNTIME_ERROR, "uncoalesced");
        fails(T("to_dense", V(T("sparse_coo_tensor.indices_size", V(NUMBERS(RUSH_I64, SIZE(1, 1), 5)), V(NUMBERS(RUSH_F64, SIZE(1), 1)), INTS(2)))),
              RUSH_RUNTIME_ERROR, "found index 5");
        fails(T("sparse_coo_tensor.indices_size", V(NUMBERS(RUSH_I64, SIZE(1, 1), 5)), V(NUMBERS(RUSH_F64, SIZE(2), 1, 2)), INTS(2)), RUSH_RUNTIME_ERROR, "same nnz");
    }
}

static void every_layout(void **state)
{
    rush_scope() {
        rush_tensor *d = NUMBERS(RUSH_F32, SIZE(2, 4), 0, 1, 0, 2, 3, 0, 0, 0);
        for (int l = RUSH_SPARSE_COO; l < RUSH_LAYOUTS; ++l) {
            rush_tensor *s = T("to_sparse", V(d), layout(l), rush_blocked(l) ? INTS(1, 2) : RUSH_NONE);
            assert_int_equal(there(s)->layout, l);
            HOLDS(s, 0, 1, 0, 2, 3, 0, 0, 0);
            HOLDS(T("mul.Tensor", V(s), V(2)), 0, 2, 0, 4, 6, 0, 0, 0);
            HOLDS(T("add.Tensor", V(s), V(s)), 0, 2, 0, 4, 6, 0, 0, 0);
            HOLDS(T("transpose.int", V(s), V(0), V(1)), 0, 3, 1, 0, 0, 0, 2, 0);
            HOLDS(T("mm", V(s), V(NUMBERS(RUSH_F32, SIZE(4, 1), 1, 2, 3, 4))), 10, 3);
            HOLDS(T("clone", V(s)), 0, 1, 0, 2, 3, 0, 0, 0);
        }
    }
}

static void in_place(void **state)
{
    rush_scope() {
        rush_tensor *s = there(example(NULL)), *shared = rush_tensor_detach(s), *d = NUMBERS(RUSH_F64, SIZE(2, 3), 1, 1, 1, 1, 1, 1);
        assert_non_null(T_INPLACE("add.Tensor", V(d), V(s), V(2)));
        HOLDS(d, 1, 1, 7, 9, 1, 23);
        unsigned before = rush_version_of(s);
        assert_ptr_equal(T_INPLACE("mul.Tensor", V(s), V(2)), s);
        assert_true(rush_version_of(s) == before + 1);
        HOLDS(s, 0, 0, 6, 8, 0, 22);
        HOLDS(shared, 0, 0, 3, 4, 0, 11); /* parts are not written: the alias still has the old ones */
        HOLDS(T("zero_", V(s)), 0, 0, 0, 0, 0, 0);
        fails(T("copy_", V(s), V(d)), RUSH_RUNTIME_ERROR, "between dense and sparse");
    }
}

static void derivatives(void **state)
{
    rush_scope() {
        rush_tensor *v = rush_requires_grad_set(NUMBERS(RUSH_F64, SIZE(4), 3, 4, 5, 6), true), *s = example(v);
        rush_tensor *w = rush_requires_grad_set(NUMBERS(RUSH_F64, SIZE(3, 2), 1, 2, 3, 4, 5, 6), true);
        assert_int_equal(rush_backward(T("sum", V(T("_sparse_mm", V(s), V(w))))), 0);
        HOLDS(rush_grad(v), 11, 3, 11, 11);
        HOLDS(rush_grad(w), 4, 4, 0, 0, 14, 14);
        rush_tensor *x = rush_requires_grad_set(rush_tensor_detach(there(example(NULL))), true);
        assert_int_equal(rush_backward(T("sum", V(T("to_dense", V(T("sin", V(x))))))), 0);
        assert_int_equal(there(rush_grad(x))->layout, RUSH_SPARSE_COO);
        assert_int_equal(rush_backward(T("sum", V(T("to_dense", V(x))))), 0); /* sparse + sparse */
        assert_int_equal(rush_backward(T("sum", V(x))), 0);                   /* sparse + dense */
        assert_int_equal(there(rush_grad(x))->layout, RUSH_STRIDED);
    }
}

static void refused(void **state)
{
    rush_scope() {
        rush_tensor *s = there(example(NULL)), *d = there(NUMBERS(RUSH_F64, SIZE(2, 3), 1, 1, 1, 1, 1, 1));
        static const char *const none[] = {"exp", "cos", "argmax", "sort", "tril", "cumsum", "softmax.int", "layer_norm", "view", "as_strided", "resize_"};
        for (size_t i = 0; i < RUSH_COUNT(none); ++i) {
            const rush_op *op = rush_op_find(none[i]);
            rush_value in[64], out[RUSH_MAXOUT];
            assert_non_null(op);
            for (int k = 0; k < op->nargs; ++k) in[k] = op->args[k].has_default ? op->args[k].def : op->args[k].list ? INTS(2, 3) : V(0);
            in[0] = rush_v_tensor(s);
            assert_int_equal(rush_call(op, in, out), -1);
            if (rush_error_kind_now() != RUSH_NOT_IMPLEMENTED || !strstr(rush_error(), "SparseCPU")) fail_msg("%s: %s", none[i], rush_error());
            rush_error_clear();
        }
        fails(rush_tensor_alias(s, s->ndim, s->size, s->stride, 0), RUSH_NOT_IMPLEMENTED, "no storage");
        assert_int_equal(rush_copy_into(d, s), -1);
        rush_error_clear();
        assert_null(rush_data(s));
        fails(T("add.Tensor", V(s), V(d)), RUSH_RUNTIME_ERROR, "Use add(dense, sparse) instead");
        char text[512];
        assert_true(rush_tensor_format(s, text, sizeof text) < sizeof text);
        assert_non_null(strstr(text, "indices=tensor([[0, 1, 1, 1]"));
        assert_true(rush_tensor_format(s, text, 20) > 20);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(made_and_joined), cmocka_unit_test(every_layout), cmocka_unit_test(in_place),
                                       cmocka_unit_test(derivatives), cmocka_unit_test(refused)};
    return SUITE(tests);
}
