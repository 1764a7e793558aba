/* test_view.c - views, parts and pieces: shapes, strides, errors, and what is seen through them. */
#include "suite/suite.h"
#include <string.h>
#include "op/op.h"

static rush_tensor *count_up(int ndim, const int64_t *size)
{
    int64_t n = rush_numel_of(ndim, size);
    rush_tensor *t = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, ndim, size);
    assert_non_null(t);
    for (int64_t i = 0; i < n; ++i) ((float *)rush_ptr(t))[i] = (float)i;
    return t;
}
#define COUNT(...) count_up(sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})

static void sizes_are(const rush_tensor *t, const char *want)
{
    if (!t) fail_msg("%s", rush_error());
    assert_string_equal(rush_shape_of(t), want);
}

static double at(rush_tensor *t, int64_t i)
{
    rush_tensor *c = rush_contiguous_copy(t);
    assert_non_null(c);
    return ((float *)rush_ptr(c))[i];
}

static void fails(rush_tensor *t, rush_error_kind kind, const char *part)
{
    assert_null(t);
    if (rush_error_kind_now() != kind || !strstr(rush_error(), part)) fail_msg("kind %d: %s", rush_error_kind_now(), rush_error());
    rush_error_clear();
}

static void views(void **state)
{
    rush_scope() {
        rush_tensor *x = COUNT(2, 3, 4);
        sizes_are(T("view", V(x), INTS(6, -1)), "[6, 4]");
        sizes_are(T("permute", V(x), INTS(2, 0, 1)), "[4, 2, 3]");
        assert_int_equal(at(T("transpose.int", V(x), V(0), V(-1)), 1), 12);
        sizes_are(T("flatten.using_ints", V(x), V(1)), "[2, 12]");
        sizes_are(T("unflatten.int", V(x), V(2), INTS(2, -1)), "[2, 3, 2, 2]");
        sizes_are(T("squeeze", V(T("unsqueeze", V(x), V(1)))), "[2, 3, 4]");
        sizes_are(T("expand", V(COUNT(3, 1)), INTS(2, -1, 4)), "[2, 3, 4]");
        sizes_are(T("movedim.int", V(x), V(0), V(2)), "[3, 4, 2]");
        fails(T("view", V(T("transpose.int", V(x), V(0), V(1))), INTS(24)), RUSH_RUNTIME_ERROR, "view size is not compatible");
        fails(T("view", V(x), INTS(5)), RUSH_RUNTIME_ERROR, "invalid for input of size 24");
        fails(T("transpose.int", V(x), V(0), V(3)), RUSH_INDEX_ERROR, "Dimension out of range");
        fails(T("permute", V(x), INTS(0, 0, 1)), RUSH_RUNTIME_ERROR, "duplicate dims");
        rush_tensor *c = T("view_as_complex", V(T("view", V(x), INTS(2, 3, 2, 2))));
        sizes_are(c, "[2, 3, 2]");
        assert_int_equal(at(T("imag", V(c)), 1), 3);
    }
}

static void parts(void **state)
{
    rush_scope() {
        rush_tensor *x = COUNT(4, 5);
        assert_int_equal(at(T("select.int", V(x), V(0), V(-1)), 0), 15);
        assert_int_equal(at(T("slice.Tensor", V(x), V(1), V(-2), RUSH_NONE, V(1)), 2), 8);
        sizes_are(T("slice.Tensor", V(x), V(0), V(3), V(1), V(1)), "[0, 5]");
        assert_int_equal(at(T("diagonal", V(x), V(-1)), 2), 17);
        sizes_are(T("unfold", V(x), V(1), V(2), V(2)), "[4, 2, 2]");
        assert_int_equal(at(T("as_strided", V(x), INTS(2, 2), INTS(1, 2), V(1)), 3), 4);
        assert_int_equal(at(T("select_scatter", V(x), V(COUNT(5)), V(0), V(1)), 6), 1);
        assert_int_equal(at(T("unfold_backward", V(COUNT(3, 2)), INTS(4), V(0), V(2), V(1)), 1), 3);
        fails(T("select.int", V(x), V(0), V(4)), RUSH_INDEX_ERROR, "index 4 out of range for tensor of size [4, 5] at dimension 0");
        fails(T("as_strided", V(x), INTS(4, 5), INTS(6, 1)), RUSH_RUNTIME_ERROR, "out of bounds for storage of size 80");
        fails(T("narrow", V(x), V(0), V(2), V(3)), RUSH_RUNTIME_ERROR, "exceeds dimension size (4)");
    }
}

static void pieces(void **state)
{
    rush_scope() {
        rush_value out;
        rush_tensor *x = COUNT(5, 2);
        assert_int_equal(TN(&out, "split.Tensor", V(x), V(2)), 0);
        assert_int_equal(out.n, 3);
        sizes_are(out.tensors[2], "[1, 2]");
        assert_int_equal(TN(&out, "tensor_split.sections", V(x), V(3)), 0);
        sizes_are(out.tensors[0], "[2, 2]");
        assert_int_equal(TN(&out, "unbind.int", V(x), V(1)), 0);
        assert_int_equal(at(out.tensors[1], 4), 9);
        assert_int_equal(TN(&out, "split_with_sizes", V(x), INTS(2, 2)), -1);
        fails(NULL, RUSH_RUNTIME_ERROR, "sum exactly to 5");
    }
}

static void in_place(void **state)
{
    rush_scope() {
        rush_tensor *x = COUNT(2, 3);
        assert_ptr_equal(T("t_", V(x)), x);
        sizes_are(x, "[3, 2]");
        T("zero_", V(T("select.int", V(x), V(0), V(1))));
        assert_int_equal(at(x, 2), 0);
        T("fill_.Scalar", V(x), V(7));
        assert_int_equal(at(x, 5), 7);
        T("resize_", V(x), INTS(7));
        sizes_are(x, "[7]");
        fails(T("fill_.Scalar", V(T("view.dtype", V(x), rush_v_dtype(RUSH_U8))), V(300)), RUSH_RUNTIME_ERROR, "uint8_t without overflow");
    }
}

/* What a call would return, without memory and without the call. */
static void inferred(void **state)
{
    rush_memory_stats before, after;
    rush_scope() {
        rush_tensor *x = COUNT(3, 4);
        rush_value in[16], out[RUSH_MAXOUT];
        const rush_op *mm = rush_op_find("mm"), *fill = rush_op_find("normal_"), *zeros = rush_op_find("zeros");
        in[0] = V(T("t", V(x)));
        in[1] = V(x);
        rush_memory_stats_read(&before);
        assert_int_equal(rush_infer(mm, in, out), 0);
        rush_memory_stats_read(&after);
        sizes_are(out[0].t, "[4, 4]");
        assert_int_equal(out[0].t->device.type, RUSH_CPU);
        assert_null(rush_ptr(out[0].t));
        assert_int_equal(after.live_bytes, before.live_bytes);
        in[0] = V(x);
        assert_int_equal(rush_infer(mm, in, out), -1);
        assert_non_null(strstr(rush_error(), "cannot be multiplied"));
        rush_error_clear();
        for (int i = 0; i < zeros->nargs; ++i) in[i] = zeros->args[i].def;
        in[0] = INTS(1 << 20, 1 << 20);
        assert_int_equal(rush_infer(zeros, in, out), 0);
        assert_int_equal(out[0].t->numel, (int64_t)1 << 40);
        assert_int_equal(rush_op_effects(mm), 0);
        assert_int_equal(rush_op_effects(fill), RUSH_EFFECT_WRITES | RUSH_EFFECT_RANDOM);
        assert_int_equal(rush_op_effects(rush_op_find("copy_")), RUSH_EFFECT_WRITES);
        assert_int_equal(rush_op_effects(rush_op_find("dropout")), RUSH_EFFECT_RANDOM);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(inferred), cmocka_unit_test(views), cmocka_unit_test(parts), cmocka_unit_test(pieces), cmocka_unit_test(in_place)};
    return SUITE(tests);
}
