/* fill.c - a number in every place: fill_, zero_ and their kin. */
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/create/factory.h"
#include "ops/create/random.h"

#define SELF (in[0].t)

int rush_filled_fits(rush_value v, const rush_tensor *t)
{
    const rush_dtype_info *d = &rush_dtypes[t->dtype];
    return t->numel == 1 && d->category == 2 && d->size < 4 && v.kind != RUSH_V_COMPLEX ? 0 : rush_number_fits(v, t->dtype);
}

static int written_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_out_view(out, 0, SELF);
    return 0;
}

static int fill_number_check(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_filled_fits(in[1], SELF) ? -1 : written_shape(op, in, out);
}

static int fill_tensor_check(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[1].t->ndim == 0, RUSH_RUNTIME_ERROR, "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", in[1].t->ndim);
    return written_shape(op, in, out);
}

static void value_grad(rush_grads *s)
{
    if (!s->g[0]) return;
    if (rush_needs(s, 0)) s->gin[0] = rush_zeros_like(s->in[0].t);
    if (rush_needs(s, 1)) s->gin[1] = sum_all(s->g[0]);
}

static void zero_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_zero_into(SELF); }
static void fill_number_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fill_into(SELF, in[1]); }

static void fill_tensor_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = SELF;
    rush_tensor *v = rush_cast_copy(in[1].t, to->dtype);
    if (!v) return;
    if (to->flags & (RUSH_T_CONJ | RUSH_T_NEG) || to->device.type != RUSH_CPU) rush_copy_into(to, v);
    else rush_element_into(to, rush_ptr(v));
}

static rush_op op_zero_inplace = {
    .schema = "zero_(Tensor(a!) self) -> Tensor(a!)", .method = RUSH_METHOD_ | RUSH_FUNCTION_,
    .doc = "Sets all elements to zero.", .shape = written_shape, .cpu = zero_cpu, .grad = rush_zero_grad, .flags = RUSH_SIDE_EFFECT,
};
static rush_op op_fill_inplace = {
    .schema = "fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", .method = RUSH_METHOD_ | RUSH_FUNCTION_,
    .doc = "Sets all elements to a number.", .shape = fill_number_check, .cpu = fill_number_cpu, .grad = rush_zero_grad, .flags = RUSH_SIDE_EFFECT,
};
static rush_op op_fill_inplace_tensor = {
    .schema = "fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)",
    .doc = "Sets all elements to the one of a 0-d tensor.",
    .shape = fill_tensor_check, .cpu = fill_tensor_cpu, .grad = value_grad, .flags = RUSH_SIDE_EFFECT,
};

static int like_self(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_out_like(out, 0, SELF, SELF->dtype) ? 0 : -1;
}

static int fill_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_filled_fits(in[1], SELF) ? -1 : like_self(op, in, out);
}

static int fill_tensor_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return fill_tensor_check(op, in, (rush_value[1]){0}) ? -1 : like_self(op, in, out);
}

static void zero_new_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_zero_into(out[0].t); }
static void fill_new_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fill_into(out[0].t, in[1]); }

static void fill_tensor_new_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_value args[2] = {out[0], in[1]};
    fill_tensor_cpu(op, args, out);
}

static rush_op op_zero = {
    .schema = "zero(Tensor self) -> Tensor", .method = RUSH_NO_FUNCTION, .doc = "Zeros like self.", .shape = like_self, .cpu = zero_new_cpu, .grad = rush_zero_grad, .flags = RUSH_HIDDEN};
static rush_op op_fill = {
    .schema = "fill.Scalar(Tensor self, Scalar value) -> Tensor",
    .doc = "A tensor like self with a number in all places.", .shape = fill_shape, .cpu = fill_new_cpu, .grad = rush_zero_grad,
};
static rush_op op_fill_tensor = {
    .schema = "fill.Tensor(Tensor self, Tensor value) -> Tensor",
    .doc = "A tensor like self with the element of a 0-d tensor in all places.",
    .shape = fill_tensor_shape, .cpu = fill_tensor_new_cpu, .grad = value_grad,
};

/* The main diagonal of a matrix, or the one where all indices are equal; with wrap it goes on below in tall matrices. */
static int fill_diagonal_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    RUSH_CHECK(t->ndim >= 2, RUSH_RUNTIME_ERROR, "dimensions must larger than 1");
    for (int d = 1; d < t->ndim && t->ndim > 2; ++d)
        RUSH_CHECK(t->size[d] == t->size[0], RUSH_RUNTIME_ERROR, "all dimensions of input must be of equal length");
    return fill_number_check(op, in, out);
}

static void fill_diagonal_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF;
    int64_t n = t->size[0], step = 0;
    for (int d = 0; d < t->ndim; ++d) {
        n = RUSH_MIN(n, t->size[d]);
        step += t->stride[d];
    }
    rush_tensor *diagonal = rush_tensor_alias(t, 1, &n, &step, t->offset);
    if (diagonal) rush_fill_into(diagonal, in[1]);
    int64_t rows = t->size[0], cols = t->size[1];
    if (!I_(in[2]) || t->ndim != 2 || rows <= cols + 1) return;
    for (int64_t first = cols + 1; first < rows; first += cols + 1) { /* an empty row, then the diagonal again */
        n = RUSH_MIN(cols, rows - first);
        diagonal = rush_tensor_alias(t, 1, &n, &step, t->offset + first * t->stride[0]);
        if (!diagonal) return;
        rush_fill_into(diagonal, in[1]);
    }
}

static void fill_diagonal_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0] ? T("clone", V(s->g[0])) : NULL;
    if (g) s->gin[0] = T("fill_diagonal_", V(g), V((int64_t)0), s->in[2]);
}

static rush_op op_fill_diagonal = {
    .schema = "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)", .method = RUSH_METHOD_,
    .doc = "Sets the main diagonal to a number; with wrap it starts again below the end of a tall matrix.",
    .shape = fill_diagonal_shape, .cpu = fill_diagonal_cpu, .grad = fill_diagonal_grad, .flags = RUSH_SIDE_EFFECT,
};

RUSH_FAMILY(fill, &op_zero_inplace, &op_fill_inplace, &op_fill_inplace_tensor, &op_zero, &op_fill, &op_fill_tensor, &op_fill_diagonal)
