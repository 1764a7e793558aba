/* foreach.c - operations on lists of tensors: each is the operation it is named after, element by element of the lists.
 *
 * One function runs them all. The row names the operation for one tensor; an argument that is a list gives its
 * i-th element to the i-th call, one that is not goes to all. So derivatives are those of the operations.
 */
#include "autograd/autograd.h"
#include "op/formula.h"
#include "ops/geometry.h"

typedef struct each_row {
    const char *op;   /* for one tensor                                                  */
    bool inplace;     /* writes the tensors of argument 0                                */
    int8_t spread;    /* argument that is a 1-d tensor of numbers, one per tensor; 0: none */
    bool number;      /* a tensor beside the lists counts as a number                    */
} each_row;

/* The i-th call's value of an argument. */
static rush_value part(rush_value v, uint32_t i, bool spread)
{
    if (v.kind == RUSH_V_TENSORS) return rush_v_tensor(v.tensors[i]);
    if (v.kind == RUSH_V_VALUES) return v.values[i];
    if (v.kind == RUSH_V_FLOATS) return rush_v_float(v.floats[i]);
    if (v.kind == RUSH_V_INTS) return rush_v_int(v.ints[i]);
    return spread ? rush_v_float(rush_number_of(T("select.int", v, V(0), V((int64_t)i)))) : v;
}

/* The tensor beside `self` in _foreach_add.Tensor counts as a number: it makes no result wider than a number of its kind would. */
static rush_value as_number(rush_value self, rush_value v)
{
    static const rush_value kinds[] = {{.kind = RUSH_V_BOOL}, {.kind = RUSH_V_INT}, {.kind = RUSH_V_FLOAT}, {.kind = RUSH_V_COMPLEX}};
    const rush_value both[2] = {self, kinds[rush_dtypes[v.t->dtype].category]};
    return rush_v_tensor(to_dtype(v.t, rush_result_type(2, both)));
}

static bool is_list(rush_value v)
{
    return v.kind == RUSH_V_TENSORS || v.kind == RUSH_V_VALUES || v.kind == RUSH_V_FLOATS || v.kind == RUSH_V_INTS;
}

static int each_run(const rush_op *each, const rush_value *in, rush_value *out)
{
    const each_row *row = each->row;
    const rush_op *op = rush_op_find(row->op);
    RUSH_CHECK(op, RUSH_NOT_IMPLEMENTED, "there is no operation %s", row->op);
    uint32_t n = 0;
    bool counted = false;
    for (int k = 0; k < each->nargs; k++) {
        bool spread = row->spread && k == row->spread;
        if (spread) RUSH_CHECK(in[k].t->ndim == 1 && in[k].t->device.type == RUSH_CPU, RUSH_RUNTIME_ERROR,
                               "Expected packed scalar Tensor to be of dimension 1. Got %d instead.", in[k].t->ndim);
        RUSH_CHECK(spread || in[k].kind != RUSH_V_TENSOR || !in[k].t->ndim, RUSH_RUNTIME_ERROR,
                   "scalar tensor expected to be 0 dim but it has %d dimensions and %lld elements.", in[k].t->ndim, (long long)in[k].t->numel);
        if (!is_list(in[k]) && !spread) continue;
        uint32_t len = spread ? (uint32_t)in[k].t->numel : in[k].n;
        if (!counted) RUSH_CHECK(len, RUSH_RUNTIME_ERROR, "Tensor list must have at least one tensor.");
        if (counted && spread) RUSH_CHECK(len == n, RUSH_RUNTIME_ERROR, "Expected length of scalars to match input of length %u but got %u instead.", n, len);
        if (counted && (in[k].kind != RUSH_V_TENSORS || !len)) RUSH_CHECK(len == n, RUSH_RUNTIME_ERROR, "Tensor list must have same number of elements as scalar list.");
        if (counted) RUSH_CHECK(len == n, RUSH_RUNTIME_ERROR, "Tensor lists must have the same number of tensors, got %u and %u", n, len);
        n = len;
        counted = true;
    }
    rush_tensor **results = each->nout ? rush_out_list(out, 0, n) : NULL;
    if (each->nout && !results) return -1;
    for (uint32_t i = 0; i < n; i++) {
        rush_value args[64], got[8];
        for (int k = 0; k < op->nargs; k++) args[k] = k < each->nargs ? part(in[k], i, row->spread && k == row->spread) : op->args[k].def;
        for (int k = 1; k < op->nargs; k++) { /* numbers and what counts as one, where the operation takes tensors */
            if (row->number && in[k].kind == RUSH_V_TENSOR) args[k] = as_number(args[0], args[k]);
            if (op->args[k].type == RUSH_A_TENSOR && rush_is_number(args[k])) args[k] = rush_v_tensor(rush_tensor_of_number(args[k], true));
        }
        if (rush_failed()) return -1;
        for (int k = 0; k < 8; k++) got[k] = RUSH_NONE;
        /* name_ forms that are records of their own (copy_, zero_) are called as such */
        int failed = row->inplace && !op->args[0].written ? rush_call_inplace(op, args, got) : rush_call(op, args, got);
        if (failed) return -1;
        if (results) results[i] = got[0].t;
    }
    return 0;
}

/* Who looks at operations sees the one of the lists. The tensors of a list may be on several devices. */
#define EACH (RUSH_WHOLE | RUSH_CROSS_DEVICE)
#define ROW(name, inplace_, spread_) .run = each_run, .row = &(const each_row){name, inplace_, spread_}, .flags = EACH
#define TEXT(name) .doc = name "() of each tensor of the list."

/* ---- one list ---- */

#define UNARY(name)                                                                                         \
    static rush_op op_##name = {.schema = "_foreach_" #name "(Tensor[] self) -> Tensor[]", TEXT(#name), ROW(#name, false, 0)}; \
    static rush_op op_##name##_ = {.schema = "_foreach_" #name "_(Tensor(a!)[] self) -> ()", TEXT(#name), ROW(#name, true, 0), .flags = EACH | RUSH_SIDE_EFFECT};
#define UNARY_NAMES(DO)                                                                                     \
    DO(abs) DO(acos) DO(asin) DO(atan) DO(ceil) DO(cos) DO(cosh) DO(erf) DO(erfc) DO(exp) DO(expm1) DO(floor) DO(frac) DO(lgamma) DO(log) \
    DO(log10) DO(log1p) DO(log2) DO(neg) DO(reciprocal) DO(round) DO(rsqrt) DO(sigmoid) DO(sign) DO(sin) DO(sinh) DO(sqrt) DO(tan) DO(tanh) \
    DO(trunc)
UNARY_NAMES(UNARY)

/* ---- two lists, a list and a number, a list and numbers ---- */

#define BINARY(name, one, list_text, other, scalar, alpha)                                                  \
    static rush_op op_##name##_list = {.schema = "_foreach_" #name ".List(Tensor[] self, Tensor[] " other alpha ") -> Tensor[]", \
        TEXT(#name), ROW(one, false, 0)};                                                                   \
    static rush_op op_##name##_list_ = {.schema = "_foreach_" #name "_.List(Tensor(a!)[] self, Tensor[] " other alpha ") -> ()", \
        TEXT(#name), ROW(one, true, 0), .flags = EACH | RUSH_SIDE_EFFECT};                                         \
    static rush_op op_##name##_scalar = {.schema = "_foreach_" #name ".Scalar(Tensor[] self, Scalar " scalar ") -> Tensor[]", \
        TEXT(#name), ROW(list_text, false, 0)};                                                             \
    static rush_op op_##name##_scalar_ = {.schema = "_foreach_" #name "_.Scalar(Tensor(a!)[] self, Scalar " scalar ") -> ()", \
        TEXT(#name), ROW(list_text, true, 0), .flags = EACH | RUSH_SIDE_EFFECT};                                   \
    static rush_op op_##name##_scalars = {.schema = "_foreach_" #name ".ScalarList(Tensor[] self, Scalar[] " other_##name ") -> Tensor[]", \
        TEXT(#name), ROW(list_text, false, 0)};                                                             \
    static rush_op op_##name##_scalars_ = {.schema = "_foreach_" #name "_.ScalarList(Tensor(a!)[] self, Scalar[] " other_##name ") -> ()", \
        TEXT(#name), ROW(list_text, true, 0), .flags = EACH | RUSH_SIDE_EFFECT};
#define other_add "scalars"
#define other_sub "scalars"
#define other_mul "scalars"
#define other_div "scalars"
#define other_clamp_max "scalars"
#define other_clamp_min "scalars"
#define other_maximum "scalars"
#define other_minimum "scalars"
#define other_pow "exponent"
BINARY(add, "add.Tensor", "add.Scalar", "other", "scalar", ", *, Scalar alpha=1")
BINARY(sub, "sub.Tensor", "sub.Scalar", "other", "scalar", ", *, Scalar alpha=1")
BINARY(mul, "mul.Tensor", "mul.Scalar", "other", "scalar", "")
BINARY(div, "div.Tensor", "div.Scalar", "other", "scalar", "")
BINARY(clamp_max, "minimum", "clamp_max", "other", "scalar", "")
BINARY(clamp_min, "maximum", "clamp_min", "other", "scalar", "")
BINARY(maximum, "maximum", "maximum", "other", "scalar", "")
BINARY(minimum, "minimum", "minimum", "other", "scalar", "")
BINARY(pow, "pow.Tensor_Tensor", "pow.Tensor_Scalar", "exponent", "exponent", "")
#define BINARY_NAMES(DO) DO(add) DO(sub) DO(mul) DO(div) DO(clamp_max) DO(clamp_min) DO(maximum) DO(minimum) DO(pow)

#define WITH_TENSOR(name, alpha, number_)                                                                            \
    static rush_op op_##name##_tensor = {.schema = "_foreach_" #name ".Tensor(Tensor[] self, Tensor other" alpha ") -> Tensor[]", \
        TEXT(#name), .run = each_run, .row = &(const each_row){#name ".Tensor", false, 0, number_}, .flags = EACH}; \
    static rush_op op_##name##_tensor_ = {.schema = "_foreach_" #name "_.Tensor(Tensor(a!)[] self, Tensor other" alpha ") -> ()", \
        TEXT(#name), .run = each_run, .row = &(const each_row){#name ".Tensor", true, 0, number_}, .flags = EACH | RUSH_SIDE_EFFECT};
WITH_TENSOR(add, ", *, Scalar alpha=1", true)
WITH_TENSOR(mul, "", false)
WITH_TENSOR(div, "", false)

static rush_op op_pow_number = {.schema = "_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]", TEXT("pow"),
                                ROW("pow.Scalar", false, 0)};

/* ---- three lists ---- */

#define TERNARY(name)                                                                                       \
    static rush_op op_##name##_scalar = {.schema = "_foreach_" #name ".Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> Tensor[]", \
        TEXT(#name), ROW(#name, false, 0)};                                                                 \
    static rush_op op_##name##_scalar_ = {.schema = "_foreach_" #name "_.Scalar(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> ()", \
        TEXT(#name), ROW(#name, true, 0), .flags = EACH | RUSH_SIDE_EFFECT};                                       \
    static rush_op op_##name##_scalars = {.schema = "_foreach_" #name ".ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> Tensor[]", \
        TEXT(#name), ROW(#name, false, 0)};                                                                 \
    static rush_op op_##name##_scalars_ = {.schema = "_foreach_" #name "_.ScalarList(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> ()", \
        TEXT(#name), ROW(#name, true, 0), .flags = EACH | RUSH_SIDE_EFFECT};                                       \
    static rush_op op_##name##_tensor = {.schema = "_foreach_" #name ".Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> Tensor[]", \
        TEXT(#name), ROW(#name, false, 3)};                                                                 \
    static rush_op op_##name##_tensor_ = {.schema = "_foreach_" #name "_.Tensor(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> ()", \
        TEXT(#name), ROW(#name, true, 3), .flags = EACH | RUSH_SIDE_EFFECT};
TERNARY(addcdiv)
TERNARY(addcmul)

#define LERP(id, over, weight, one)                                                                         \
    static rush_op op_lerp_##id = {.schema = "_foreach_lerp." over "(Tensor[] self, Tensor[] tensors1, " weight ") -> Tensor[]", \
        TEXT("lerp"), ROW(one, false, 0)};                                                                  \
    static rush_op op_lerp_##id##_ = {.schema = "_foreach_lerp_." over "(Tensor(a!)[] self, Tensor[] tensors1, " weight ") -> ()", \
        TEXT("lerp"), ROW(one, true, 0), .flags = EACH | RUSH_SIDE_EFFECT};
LERP(list, "List", "Tensor[] weights", "lerp.Tensor")
LERP(scalar, "Scalar", "Scalar weight", "lerp.Scalar")
LERP(scalars, "ScalarList", "Scalar[] weight", "lerp.Scalar")

/* ---- the rest ---- */

static rush_op op_clone = {.schema = "_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]", TEXT("clone"),
                           ROW("clone", false, 0)};
static rush_op op_copy_ = {.schema = "_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()", TEXT("copy_"),
                           ROW("copy_", true, 0), .flags = EACH | RUSH_SIDE_EFFECT};
static rush_op op_copy = {.schema = "_foreach_copy(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[] self_out", TEXT("copy"),
                          ROW("copy", false, 0), .flags = EACH | RUSH_HIDDEN};
static rush_op op_zero_ = {.schema = "_foreach_zero_(Tensor(a!)[] self) -> ()", TEXT("zero_"), ROW("zero_", true, 0), .flags = EACH | RUSH_SIDE_EFFECT};
static rush_op op_zero = {.schema = "_foreach_zero(Tensor[] self) -> Tensor[] self_out", TEXT("zero"), ROW("zero", false, 0), .flags = EACH | RUSH_HIDDEN};
static rush_op op_mm = {.schema = "_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]", TEXT("mm"), ROW("mm", false, 0)};
static rush_op op_max = {.schema = "_foreach_max(Tensor[] self) -> Tensor[]", TEXT("max"), ROW("max", false, 0)};

static int norm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].n, RUSH_RUNTIME_ERROR, "Tensor list must have at least one tensor.");
    rush_tensor **results = rush_out_list(out, 0, in[0].n);
    if (!results) return -1;
    for (uint32_t i = 0; i < in[0].n; i++) {
        results[i] = T("linalg_vector_norm", V(in[0].tensors[i]), in[1], RUSH_NONE, V(false), in[2]);
        if (!results[i]) return -1;
    }
    return 0;
}

static int powsum_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].n, RUSH_RUNTIME_ERROR, "Tensor list must have at least one tensor.");
    rush_tensor **results = rush_out_list(out, 0, in[0].n);
    if (!results) return -1;
    for (uint32_t i = 0; i < in[0].n; i++) {
        rush_tensor *size = T("abs", V(in[0].tensors[i]));
        rush_tensor *power = size ? T("pow.Tensor_Scalar", V(size), in[1]) : NULL;
        results[i] = power ? T("sum", V(power), in[2]) : NULL;
        if (!results[i]) return -1;
    }
    return 0;
}

static rush_op op_norm = {.schema = "_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
                          .doc = "The vector norm of each tensor of the list.", .run = norm_run, .flags = RUSH_CROSS_DEVICE};
static rush_op op_powsum = {.schema = "_foreach_powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
                            .doc = "The sum of |x|^ord of each tensor of the list.", .run = powsum_run, .flags = RUSH_CROSS_DEVICE};

/* ---- gradient scaling of mixed precision ---- */

typedef struct unscale_job {
    double by;
    atomic_bool bad;
} unscale_job;

static void unscale_f32(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    unscale_job *j = (unscale_job *)arg;
    float by = (float)j->by;
    bool bad = false;
    for (int64_t i = 0; i < n; i++) {
        float x = *(float *)(p[1] + i * stride[1]);
        bad |= !(x - x == 0);
        *(float *)(p[0] + i * stride[0]) = by == 1 ? x : x * by;
    }
    if (bad) atomic_store(&j->bad, true);
}

static void unscale_f64(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    unscale_job *j = (unscale_job *)arg;
    bool bad = false;
    for (int64_t i = 0; i < n; i++) {
        double x = *(double *)(p[1] + i * stride[1]);
        bad |= !(x - x == 0);
        *(double *)(p[0] + i * stride[0]) = x * j->by;
    }
    if (bad) atomic_store(&j->bad, true);
}

static int unscale_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *found = in[1].t, *inverse = in[2].t;
    RUSH_CHECK(found->numel == 1 && inverse->numel == 1, RUSH_RUNTIME_ERROR, "found_inf and inv_scale must be 1-element tensors.");
    RUSH_CHECK(found->dtype == RUSH_F32 && inverse->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "found_inf and inv_scale must be float tensors.");
    for (uint32_t i = 0; i < in[0].n; i++)
        RUSH_CHECK(rush_dtypes[in[0].tensors[i]->dtype].category == 2, RUSH_NOT_IMPLEMENTED, "gradients of %s are not unscaled",
                   rush_dtype_name(in[0].tensors[i]->dtype));
    return 0;
}

static void unscale_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    unscale_job j = {.by = rush_item(in[2].t)};
    for (uint32_t i = 0; i < in[0].n; i++) {
        rush_tensor *t = in[0].tensors[i];
        uint8_t c = t->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
        rush_value operand[2] = {rush_v_tensor(t), rush_v_tensor(t)};
        if (rush_iterate(1, 2, operand, (const uint8_t[]){c, c}, c == RUSH_F64 ? unscale_f64 : unscale_f32, &j, 0)) return;
    }
    if (atomic_load(&j.bad)) rush_fill_into(in[1].t, rush_v_float(1));
}

static rush_op op_unscale = {
    .schema = "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale) -> ()", .method = RUSH_FUNCTION_,
    .doc = "Multiplies gradients by inv_scale; found_inf becomes 1 when one of them is not finite.", .shape = unscale_shape, .cpu = unscale_cpu,
    .flags = RUSH_SIDE_EFFECT | RUSH_NO_GRAD};

static int update_scale_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *scale = in[0].t, *tracker = in[1].t;
    RUSH_CHECK(tracker->dtype == RUSH_I32 && scale->dtype == RUSH_F32, RUSH_RUNTIME_ERROR,
               "the scale must be a float tensor and growth_tracker an int tensor.");
    rush_out_view(out, 0, scale);
    return 0;
}

static void update_scale_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *scale = in[0].t, *tracker = in[1].t;
    if (rush_item(in[2].t) != 0) {
        rush_fill_into(scale, rush_v_float((double)((float)rush_item(scale) * (float)D_(in[4]))));
        rush_fill_into(tracker, rush_v_int(0));
    } else {
        int64_t successful = rush_item_int(tracker) + 1;
        if (successful == I_(in[5])) {
            float grown = (float)rush_item(scale) * (float)D_(in[3]);
            if (grown - grown == 0) rush_fill_into(scale, rush_v_float((double)grown));
            successful = 0;
        }
        rush_fill_into(tracker, rush_v_int(successful));
    }
}

static rush_op op_update_scale = {
    .schema = "_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, float scale_growth_factor, "
              "float scale_backoff_factor, int growth_interval) -> Tensor(a!)", .method = RUSH_FUNCTION_,
    .doc = "Shrinks the scale after a step with infinities, grows it after growth_interval without.", .shape = update_scale_shape, .cpu = update_scale_cpu,
    .flags = RUSH_SIDE_EFFECT | RUSH_NO_GRAD};

#define UNARY_OPS(name) &op_##name, &op_##name##_,
#define BINARY_OPS(name) &op_##name##_list, &op_##name##_list_, &op_##name##_scalar, &op_##name##_scalar_, &op_##name##_scalars, &op_##name##_scalars_,
#define TERNARY_OPS(name) &op_##name##_scalar, &op_##name##_scalar_, &op_##name##_scalars, &op_##name##_scalars_, &op_##name##_tensor, &op_##name##_tensor_,
RUSH_FAMILY(foreach, UNARY_NAMES(UNARY_OPS) BINARY_NAMES(BINARY_OPS) TERNARY_OPS(addcdiv) TERNARY_OPS(addcmul)
            &op_add_tensor, &op_add_tensor_, &op_mul_tensor, &op_mul_tensor_, &op_div_tensor, &op_div_tensor_, &op_pow_number,
            &op_lerp_list, &op_lerp_list_, &op_lerp_scalar, &op_lerp_scalar_, &op_lerp_scalars, &op_lerp_scalars_, &op_clone, &op_copy_,
            &op_copy, &op_zero_, &op_zero, &op_mm, &op_max, &op_norm, &op_powsum, &op_unscale, &op_update_scale)
