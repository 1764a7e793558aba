/* assert.c - conditions as operations: on data, which a device may check when it gets there, and on what a tensor is. */
#include "op/formula.h"
#include "tensor/backend.h"
#include "tensor/sparse.h"

static int assert_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].t->numel, RUSH_RUNTIME_ERROR, "Boolean value of Tensor with no values is ambiguous");
    RUSH_CHECK(in[0].t->numel == 1, RUSH_RUNTIME_ERROR, "Boolean value of Tensor with more than one value is ambiguous");
    return 0;
}

static void assert_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *truth = rush_cast_copy(in[0].t, RUSH_BOOL); /* a complex number has two parts that may not be zero */
    if (!truth || rush_item(truth) != 0) return;
    const rush_op *now = rush_now.op;
    rush_now.op = NULL; /* the message is the caller's: it names what it is about itself */
    rush_fail(RUSH_RUNTIME_ERROR, "%s", op->nargs == 1 ? "Expected Tensor with single nonzero value, but got zero" : *in[1].s ? in[1].s : "Assertion is failed");
    rush_now.op = now;
}

static rush_op op_assert = {
    .schema = "_assert_async(Tensor self) -> ()", .doc = "An error where the one element is zero.", .shape = assert_shape, .cpu = assert_cpu,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};
static rush_op op_assert_msg = {
    .schema = "_assert_async.msg(Tensor self, str assert_msg) -> ()", .doc = "The same with a message.", .shape = assert_shape, .cpu = assert_cpu,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int same_ints(const char *what, rush_value want, int n, const int64_t *have)
{
    bool same = want.kind == RUSH_V_NONE || (want.n == (uint32_t)n && rush_sizes_equal(n, want.ints, have));
    return same ? 0 : rush_fail(RUSH_RUNTIME_ERROR, "Tensor %s mismatch! Expected: %s, Got: %s", what, rush_shape_text((int)RUSH_MIN(want.n, RUSH_MAXDIM), want.ints), rush_shape_text(n, have));
}

static int metadata_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = in[0].t;
    if (same_ints("sizes", in[1], t->ndim, t->size) || same_ints("strides", in[2], t->ndim, t->stride)) return -1;
    RUSH_CHECK(in[3].kind == RUSH_V_NONE || (rush_dtype)in[3].i == t->dtype, RUSH_RUNTIME_ERROR, "Tensor dtype mismatch! Expected: %s, Got: %s",
               rush_dtype_word((rush_dtype)in[3].i), rush_dtypes[t->dtype].c_type);
    RUSH_CHECK(in[4].kind == RUSH_V_NONE || rush_same_device(rush_device_resolve(in[4].device), t->device), RUSH_RUNTIME_ERROR, "Tensor device mismatch! Expected: %s, Got: %s",
               rush_device_text(in[4].device), rush_device_text(t->device));
    RUSH_CHECK(in[5].kind == RUSH_V_NONE || in[5].i == t->layout, RUSH_RUNTIME_ERROR, "Tensor layout mismatch! Expected: %s, Got: %s", rush_layout_word((int)in[5].i), rush_layout_word(t->layout));
    return 0;
}

static rush_op op_metadata = {
    .schema = "_assert_tensor_metadata(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()",
    .doc = "An error where the tensor is not of these sizes, strides, dtype, device or layout.", .shape = metadata_shape,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN | RUSH_ANY_DEVICE | RUSH_ANY_LAYOUT,
};

RUSH_FAMILY(assert, &op_assert, &op_assert_msg, &op_metadata)
