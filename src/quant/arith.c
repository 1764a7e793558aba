/* arith.c - quantized::add and its kin: arithmetic whose result is put on a grid that the caller names.
 *
 * Numbers are computed in float32 and rounded once. Operations with a number change the grid instead where that is enough.
 */
#include "quant/quant.h"

#define SELF (in[0].t)
#define PLAIN .flags = RUSH_NO_GRAD

/* The result y of operation i's last two arguments' grid, of the dtype of argument 0. */
static int placed(rush_value *out, rush_tensor *y, bool relu, rush_value scale, rush_value zero, int dtype)
{
    if (relu && y) y = T("relu", V(y));
    return rush_result(out, rush_on_grid(y, D_(scale), I_(zero), dtype));
}

static int need(const char *name, const rush_value *in, int n)
{
    for (int i = 0; i < n; ++i)
        if (rush_need_per_tensor(name, in[i].t)) return -1;
    RUSH_CHECK(n < 2 || in[0].t->dtype == in[1].t->dtype, RUSH_RUNTIME_ERROR, "%s operands should have same data type.", name);
    return 0;
}

/* ---- two tensors: (qa, qb, scale, zero_point) ---- */

static int binary(const char *what, const char *op, bool relu, const rush_value *in, rush_value *out)
{
    if (need(what, in, 2)) return -1;
    const rush_op *record = rush_op_find(op);
    rush_value both[3] = {V(rush_numbers(in[0].t)), V(rush_numbers(in[1].t))};
    return rush_failed() ? -1 : placed(out, rush_apply(record, 2, both), relu, in[2], in[3], SELF->dtype);
}

/* The product of bytes: of the integers, which float32 holds, and rounded before the zero point is added. */
static int product(const char *what, bool relu, const rush_value *in, rush_value *out)
{
    if (SELF->dtype == RUSH_QINT32 || !SELF->q || !in[1].t->q) return binary(what, "mul.Tensor", relu, in, out);
    if (need(what, in, 2) || rush_need_zero_point(what, I_(in[3]), SELF->dtype)) return -1;
    float scale = (float)D_(in[2]), by = (float)SELF->q->scale * (float)in[1].t->q->scale * (1 / scale);
    int64_t zero = I_(in[3]), low = rush_grid_low(SELF->dtype), high = rush_grid_high(SELF->dtype);
    rush_tensor *factor[2];
    for (int i = 0; i < 2; ++i) factor[i] = sub(to_dtype(rush_quantized_ints(in[i].t), RUSH_F32), (double)in[i].t->q->zero_point);
    rush_tensor *y = T("round", V(mul(mul(factor[0], factor[1]), (double)by)));
    y = T("clamp", V(add(y, (double)zero)), V((double)(relu ? zero : low)), V((double)high));
    return rush_result(out, rush_quantized_tensor(to_dtype(y, (rush_dtype)rush_quantized_store(SELF->dtype)), D_(in[2]), zero));
}

#define TWO(id, call, words)                                                                                                           \
    static int id##_run(const rush_op *r, const rush_value *in, rush_value *out) { return call; }                                        \
    static rush_op op_##id = {.schema = "quantized::" #id "(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc", .doc = words, .run = id##_run, PLAIN}
#define BINARY(id, op, relu, words) TWO(id, binary(r->base + 11, op, relu, in, out), words)
#define PRODUCT(id, relu, words) TWO(id, product(r->base + 11, relu, in, out), words)
BINARY(add, "add.Tensor", false, "qa + qb on the grid of scale and zero_point.");
BINARY(add_relu, "add.Tensor", true, "relu(qa + qb) on the grid of scale and zero_point.");
PRODUCT(mul, false, "qa * qb on the grid of scale and zero_point.");
PRODUCT(mul_relu, true, "relu(qa * qb) on the grid of scale and zero_point.");
BINARY(matmul, "matmul", false, "qa @ qb on the grid of scale and zero_point.");

/* ---- a tensor and a number: the grid moves ---- */

/* The grid of self + c keeps its steps where the zero point stays within its bounds, else it is stretched until it does. */
static rush_tensor *add_number(rush_tensor *t, double number)
{
    double scale = t->q->scale;
    int64_t low = rush_grid_low(t->dtype), high = rush_grid_high(t->dtype), c = (int64_t)__builtin_nearbyint(number / scale), zero = t->q->zero_point - c;
    if (zero >= low && zero <= high) return rush_quantized_tensor(T("clone", V(rush_quantized_ints(t))), scale, zero);
    double steps = (double)(high - low), wider = zero < low ? (double)(high - zero) / steps * scale : (double)(zero - low) / steps * scale;
    return rush_on_grid(add(rush_numbers(t), (double)c * scale), wider, zero < low ? low : high, t->dtype);
}

static rush_tensor *mul_number(rush_tensor *t, double number)
{
    int64_t low = rush_grid_low(t->dtype), high = rush_grid_high(t->dtype), zero = t->q->zero_point;
    rush_tensor *ints = T("clone", V(rush_quantized_ints(t)));
    if (!ints || number > 0) return rush_quantized_tensor(ints, t->q->scale * number, zero);
    if (number == 0) return rush_quantized_tensor(T("zeros_like", V(ints)), 1, 0);
    rush_tensor *turned = sub(V(low + high), to_dtype(ints, RUSH_I64)); /* mirrored, and the scale made positive again */
    return rush_quantized_tensor(to_dtype(turned, ints->dtype), t->q->scale * -number, low + high - zero);
}

static int with_number(const char *what, const rush_value *in, rush_value *out, rush_tensor *(*fn)(rush_tensor *, double), bool relu)
{
    if (need(what, in, 1)) return -1;
    rush_tensor *y = fn(SELF, D_(in[1]));
    return rush_result(out, relu && y ? T("relu", V(y)) : y);
}

#define NUMBER(id, fn, relu, words)                                                                                                       \
    static int id##_run(const rush_op *r, const rush_value *in, rush_value *out) { return with_number(r->base + 11, in, out, fn, relu); } \
    static rush_op op_##id = {.schema = "quantized::" #id "(Tensor qa, Scalar b) -> Tensor qc", .doc = words, .run = id##_run, PLAIN};      \
    static rush_op op_##id##_overload = {.schema = "quantized::" SCALAR_##id "(Tensor qa, Scalar b) -> Tensor qc", .doc = words, .run = id##_run, PLAIN}
#define SCALAR_add_scalar "add.Scalar"
#define SCALAR_add_scalar_relu "add_relu.Scalar"
#define SCALAR_mul_scalar "mul.Scalar"
#define SCALAR_mul_scalar_relu "mul_relu.Scalar"
NUMBER(add_scalar, add_number, false, "qa + b; the grid moves with it.");
NUMBER(add_scalar_relu, add_number, true, "relu(qa + b); the grid moves with it.");
NUMBER(mul_scalar, mul_number, false, "qa * b; the grid is scaled.");
NUMBER(mul_scalar_relu, mul_number, true, "relu(qa * b); the grid is scaled.");

/* ---- several ---- */

static int joined(const rush_value *in, rush_value *out, bool relu)
{
    RUSH_CHECK(in[0].n, RUSH_RUNTIME_ERROR, "expected a non-empty list of Tensors");
    rush_tensor **list = rush_scope_alloc(sizeof *list * in[0].n), *first = in[0].tensors[0];
    if (!list) return -1;
    for (uint32_t i = 0; i < in[0].n; ++i) {
        const rush_tensor *t = in[0].tensors[i];
        if (rush_need_per_tensor("cat", t)) return -1;
        RUSH_CHECK(t->dtype == first->dtype, RUSH_RUNTIME_ERROR, "All dtypes must be the same.");
        if (!(list[i] = rush_numbers(in[0].tensors[i]))) return -1;
    }
    rush_tensor *all = T("cat", rush_v_tensors(list, in[0].n), in[1]);
    return placed(out, all, relu, HAS(in[2]) ? in[2] : V(first->q->scale), HAS(in[3]) ? in[3] : V(first->q->zero_point), first->dtype);
}
static int cat_run(const rush_op *op, const rush_value *in, rush_value *out) { return joined(in, out, false); }
static int cat_relu_run(const rush_op *op, const rush_value *in, rush_value *out) { return joined(in, out, true); }
static rush_op op_cat = {
    .schema = "quantized::cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor", .doc = "Joined along dim; by default on the grid of the first.", .run = cat_run, PLAIN};
static rush_op op_cat_relu = {
    .schema = "quantized::cat_relu(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor", .doc = "relu of quantized::cat.", .run = cat_relu_run, PLAIN};

/* ---- one tensor ---- */

#define UNARY(id, schema_rest, formula, scale_at, words)                                                                         \
    static int id##_run(const rush_op *op, const rush_value *in, rush_value *out)                                               \
    {                                                                                                                           \
        rush_tensor *x = rush_need_per_tensor(#id, SELF) ? NULL : rush_numbers(SELF);                                           \
        return x ? placed(out, formula, false, in[scale_at], in[scale_at + 1], SELF->dtype) : -1;                               \
    }                                                                                                                           \
    static rush_op op_##id = {.schema = "quantized::" #id "(" schema_rest ") -> Tensor", .doc = words, .run = id##_run, PLAIN}
#define OUTPUT "float output_scale, int output_zero_point"
UNARY(hardswish, "Tensor input, " OUTPUT, T("hardswish", V(x)), 1, "hardswish on the output's grid.");
UNARY(sigmoid, "Tensor qx, " OUTPUT, T("sigmoid", V(x)), 1, "sigmoid on the output's grid.");
UNARY(leaky_relu, "Tensor qx, Scalar negative_slope, bool inplace, " OUTPUT, T("leaky_relu", V(x), in[1]), 3, "leaky_relu on the output's grid.");
UNARY(elu, "Tensor self, " OUTPUT ", Scalar alpha=1, Scalar scale=1, Scalar input_scale=1", T("elu", V(x), in[3], in[4], in[5]), 1, "elu on the output's grid.");
UNARY(celu, "Tensor self, " OUTPUT ", Scalar alpha=1", T("celu", V(x), in[3]), 1, "celu on the output's grid.");
UNARY(prelu, "Tensor qx, Tensor weight, " OUTPUT, T("prelu", V(x), V(rush_numbers(in[1].t))), 2, "prelu on the output's grid.");
UNARY(softmax, "Tensor qx, int dim, " OUTPUT, T("softmax.int", V(x), in[1]), 2, "softmax on the output's grid.");
UNARY(dropout, "Tensor self, " OUTPUT ", Scalar p=0.5, bool training=False", x, 1, "self on the output's grid: quantized models are not trained.");
UNARY(layer_norm, "Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, " OUTPUT,
      T("layer_norm", V(x), in[1], in[2], in[3], in[4]), 5, "layer_norm on the output's grid.");
UNARY(group_norm, "Tensor qx, int num_groups, Tensor? weight, Tensor? bias, float eps, " OUTPUT,
      T("group_norm", V(x), in[1], in[2], in[3], in[4]), 5, "group_norm on the output's grid.");
UNARY(instance_norm, "Tensor qx, Tensor? weight, Tensor? bias, float eps, " OUTPUT,
      T("instance_norm", V(x), in[1], in[2], RUSH_NONE, RUSH_NONE, V((bool)true), V(0.0), in[3], V((bool)false)), 4, "instance_norm on the output's grid.");

static int relu6_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_need_per_tensor("relu6", SELF)) return -1;
    return rush_result(out, I_(in[1]) ? T_INPLACE("clamp", in[0], V(0.0), V(6.0)) : T("clamp", in[0], V(0.0), V(6.0)));
}
static int clamp_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_need_per_tensor("clamp", SELF) ? -1 : rush_result(out, T("clamp", in[0], in[1], in[2]));
}
static int threshold_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_need_per_tensor("threshold", SELF) ? -1 : rush_result(out, T("threshold", in[0], in[1], in[2]));
}
static rush_op op_relu6 = {.schema = "quantized::relu6(Tensor qx, bool inplace=False) -> Tensor", .doc = "Within 0 and 6, on the same grid.", .run = relu6_run, PLAIN};
static rush_op op_clamp = {.schema = "quantized::clamp(Tensor qx, Scalar? min=None, Scalar? max=None) -> Tensor qy", .doc = "Within bounds, on the same grid.", .run = clamp_run, PLAIN};
static rush_op op_threshold = {.schema = "quantized::threshold(Tensor qx, Scalar threshold, Scalar value) -> Tensor qy", .doc = "value where qx is at most threshold.", .run = threshold_run, PLAIN};

/* ---- batch norm: (qx, weight, bias, mean, var, eps, output_scale, output_zero_point) ---- */

static int normed(const rush_value *in, rush_value *out, bool relu, int least, int most)
{
    if (rush_need_per_tensor("batch_norm", SELF)) return -1;
    RUSH_CHECK(SELF->ndim >= least && SELF->ndim <= most, RUSH_RUNTIME_ERROR, "Expecting the input tensor of rank %d, but got one of rank %d", most, SELF->ndim);
    rush_tensor *x = rush_numbers(SELF);
    rush_tensor *y = x ? T("batch_norm", V(x), in[1], in[2], in[3], in[4], V((bool)false), V(0.0), in[5], V((bool)false)) : NULL;
    return placed(out, y, relu, in[6], in[7], SELF->dtype);
}
#define NORM(id, relu, least, most)                                                                                                    \
    static int id##_run(const rush_op *op, const rush_value *in, rush_value *out) { return normed(in, out, relu, least, most); }       \
    static rush_op op_##id = {.schema = "quantized::" #id "(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, " OUTPUT ") -> Tensor", \
                              .doc = "Batch normalization by given statistics, on the output's grid.", .run = id##_run, PLAIN}
NORM(batch_norm, false, 2, 5);
NORM(batch_norm_relu, true, 2, 5);
NORM(batch_norm1d, false, 2, 3);
NORM(batch_norm1d_relu, true, 2, 3);
NORM(batch_norm2d, false, 4, 4);
NORM(batch_norm2d_relu, true, 4, 4);
NORM(batch_norm3d, false, 5, 5);
NORM(batch_norm3d_relu, true, 5, 5);

static rush_op op_quantized_batch_norm = {
    .schema = "quantized_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, " OUTPUT ") -> Tensor",
    .doc = "Batch normalization of a quantized tensor by given statistics, on the output's grid.", .run = batch_norm_run, PLAIN};

RUSH_FAMILY(quant_arith, &op_add, &op_add_relu, &op_mul, &op_mul_relu, &op_matmul, &op_add_scalar, &op_add_scalar_relu, &op_mul_scalar, &op_mul_scalar_relu,
            &op_add_scalar_overload, &op_add_scalar_relu_overload, &op_mul_scalar_overload, &op_mul_scalar_relu_overload, &op_cat, &op_cat_relu, &op_hardswish, &op_sigmoid, &op_leaky_relu,
            &op_elu, &op_celu, &op_prelu, &op_softmax, &op_dropout, &op_layer_norm, &op_group_norm, &op_instance_norm, &op_relu6, &op_clamp, &op_threshold, &op_batch_norm,
            &op_batch_norm_relu, &op_batch_norm1d, &op_batch_norm1d_relu, &op_batch_norm2d, &op_batch_norm2d_relu, &op_batch_norm3d, &op_batch_norm3d_relu,
            &op_quantized_batch_norm)
