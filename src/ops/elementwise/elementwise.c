/* elementwise.c - elementwise operations that are more than a row of the table: bounds that may be left out, a
 * rounding mode, a choice by a condition, several results, or compositions of rows.
 */
#include "autograd/autograd.h"
#include "ops/elementwise/pointwise.h"
#include "op/formula.h"
#include "op/tables.h"
#include "tensor/backend.h"
#include "ops/geometry.h"

#define SELF (in[0].t)
#define isfinite(a) WORD1(isfinite, a)

static const rush_pw_args no_args;

static bool is_tensor(rush_value v)
{
    return v.kind == RUSH_V_TENSOR;
}

/* Undoes broadcasting and promotion; NULL passes through. */
static rush_tensor *as_argument(rush_tensor *g, const rush_tensor *like)
{
    if (g && rush_dtype_is_complex(g->dtype) && !rush_dtype_is_complex(like->dtype)) g = T("real", V(g));
    g = sum_to_size(g, like);
    return g && g->dtype != like->dtype ? to_dtype(g, like->dtype) : g;
}

static void give(rush_grads *s, int i, rush_tensor *g)
{
    s->gin[i] = as_argument(g, s->in[i].t);
}

/* ---- clamp: which row and operands it is depends on the bounds that are given ---- */

static rush_pw_id clamp_row(const rush_op *op, const rush_value *in, rush_value *x)
{
    x[0] = in[0];
    x[1] = HAS(in[1]) ? in[1] : in[2];
    x[2] = in[2];
    bool numbers = rush_is_number(in[1]) && rush_is_number(in[2]) && D_(in[1]) == D_(in[1]) && D_(in[2]) == D_(in[2]); /* and no NaN */
    if (numbers) return RUSH_PW_clamp_between;
    return HAS(in[1]) && HAS(in[2]) ? RUSH_PW_clamp : HAS(in[1]) ? RUSH_PW_maximum : RUSH_PW_minimum;
}

static int clamp_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value x[3];
    RUSH_CHECK(HAS(in[1]) || HAS(in[2]), RUSH_RUNTIME_ERROR, "torch.clamp: At least one of 'min' or 'max' must not be None");
    rush_pw_id id = clamp_row(op, in, x);
    for (int k = 0; k < rush_pw_rows[id].nx; k++)
        RUSH_CHECK(is_tensor(x[k]) ? !rush_dtype_is_complex(x[k].t->dtype) : x[k].kind != RUSH_V_COMPLEX, RUSH_NOT_IMPLEMENTED,
                   "clamp is not supported for complex types");
    return rush_pw_shape_row(id, x, out);
}

static void clamp_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value x[3];
    rush_pw_id id = clamp_row(op, in, x);
    rush_pw_run_row(id, x, &no_args, out[0].t);
}

static void clamp_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    rush_value x = s->in[0], low = s->in[1], high = s->in[2];
    if (!g) return;
    if (rush_needs(s, 0)) {
        rush_tensor *inside = HAS(low) ? ge(x, low) : NULL, *below = HAS(high) ? le(x, high) : NULL;
        give(s, 0, where(inside && below ? logical_and(inside, below) : inside ? inside : below, g, 0));
    }
    if (is_tensor(low) && rush_needs(s, 1)) {
        rush_tensor *taken = lt(x, low);
        give(s, 1, where(HAS(high) ? logical_and(taken, lt(low, high)) : taken, g, 0));
    }
    if (is_tensor(high) && rush_needs(s, 2)) {
        rush_tensor *taken = gt(x, high);
        give(s, 2, where(HAS(low) ? T("logical_or", V(taken), V(lt(high, low))) : taken, g, 0));
    }
}

#define CLAMP_DOC "Elements below min become min, those above max become max; NaN stays NaN."
#define CLAMP(id, schema_, node_, more)                                                                           \
    static rush_op op_##id = {.schema = schema_, .method = RUSH_ALL_FORMS, .node = node_, .doc = CLAMP_DOC, .shape = clamp_shape, .cpu = clamp_cpu,   \
                              .grad = clamp_grad, .saves = "self, min, max", .flags = RUSH_STRIDED_OUT | RUSH_NUMBERS | (more)};
CLAMP(clamp, "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", "ClampBackward1", 0)
CLAMP(clamp_tensor, "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", "ClampBackward0", RUSH_OUT_CASTS)

/* clamp_min and clamp_max are clamp with one bound: the other argument does not exist */
static int clamp_min_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return clamp_shape(op, (const rush_value[]){in[0], in[1], RUSH_NONE}, out);
}
static void clamp_min_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    clamp_cpu(op, (const rush_value[]){in[0], in[1], RUSH_NONE}, out);
}
static int clamp_max_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return clamp_shape(op, (const rush_value[]){in[0], RUSH_NONE, in[1]}, out);
}
static void clamp_max_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    clamp_cpu(op, (const rush_value[]){in[0], RUSH_NONE, in[1]}, out);
}
static void clamp_min_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) give(s, 0, where(ge(s->in[0], s->in[1]), g, 0));
    if (rush_needs(s, 1)) give(s, 1, where(lt(s->in[0], s->in[1]), g, 0));
}
static void clamp_max_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) give(s, 0, where(le(s->in[0], s->in[1]), g, 0));
    if (rush_needs(s, 1)) give(s, 1, where(gt(s->in[0], s->in[1]), g, 0));
}
#define CLAMP_ONE(id, side, schema_, more)                                                                        \
    static rush_op op_##id = {.schema = schema_, .method = RUSH_ALL_FORMS, .doc = CLAMP_DOC, .shape = clamp_##side##_shape,            \
                              .cpu = clamp_##side##_cpu, .grad = clamp_##side##_grad, .saves = "self, " #side, \
                              .flags = RUSH_STRIDED_OUT | RUSH_NUMBERS | (more)};
CLAMP_ONE(clamp_min, min, "clamp_min(Tensor self, Scalar min) -> Tensor", 0)
CLAMP_ONE(clamp_min_tensor, min, "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", RUSH_OUT_CASTS)
CLAMP_ONE(clamp_max, max, "clamp_max(Tensor self, Scalar max) -> Tensor", 0)
CLAMP_ONE(clamp_max_tensor, max, "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", RUSH_OUT_CASTS)

/* ---- division with a rounding mode ---- */

static int mode_row(rush_value mode)
{
    if (!HAS(mode)) return RUSH_PW_div;
    if (!strcmp(mode.s, "trunc")) return RUSH_PW_div_trunc;
    if (!strcmp(mode.s, "floor")) return RUSH_PW_floor_divide;
    return rush_fail(RUSH_RUNTIME_ERROR, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", mode.s);
}
static int div_mode_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int id = mode_row(in[2]);
    if (id < 0 || (id != RUSH_PW_div && rush_pw_check_divisor(in))) return -1;
    return rush_pw_shape_row((rush_pw_id)id, in, out);
}
static void div_mode_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pw_id id = (rush_pw_id)mode_row(in[2]);
    if (id != RUSH_PW_div && rush_pw_check_divisors(in)) return;
    if (id == RUSH_PW_div_trunc && (out[0].t->dtype == RUSH_F16 || out[0].t->dtype == RUSH_BF16)) { /* the quotient is rounded to the type first */
        rush_pw_run_row(RUSH_PW_div, in, &no_args, out[0].t);
        rush_pw_run_row(RUSH_PW_trunc, out, &no_args, out[0].t);
        return;
    }
    rush_pw_run_row(id, in, &no_args, out[0].t);
}
static void div_mode_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    rush_value x = s->in[0], y = s->in[1];
    if (!g) return;
    for (int i = 0; i < 2; i++) {
        if (!rush_needs(s, i)) continue;
        if (HAS(s->in[2])) give(s, i, zeros_like(g));
        else give(s, i, i == 0 ? conj_(div_(conj_(g), y)) : neg(mul(g, conj_(div_(div_(x, y), y)))));
    }
}
#define DIV_MODE(id, schema_)                                                                               \
    static rush_op op_##id = {.schema = schema_, .doc = "self / other, rounded towards zero (trunc) or down (floor).", \
                              .shape = div_mode_shape, .cpu = div_mode_cpu, .grad = div_mode_grad,          \
                              .saves = "self@other, other", .flags = RUSH_STRIDED_OUT | RUSH_NUMBERS | RUSH_OUT_CASTS};
DIV_MODE(div_tensor_mode, "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor")
DIV_MODE(div_scalar_mode, "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor")
DIV_MODE(divide_tensor_mode, "divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor")
DIV_MODE(divide_scalar_mode, "divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor")
/* ---- where ---- */

static int where_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (is_tensor(in[0]))
        RUSH_CHECK(in[0].t->dtype == RUSH_BOOL || in[0].t->dtype == RUSH_U8, RUSH_RUNTIME_ERROR,
                   "where expected condition to be a boolean tensor, but got a tensor with dtype %s", rush_dtype_word(in[0].t->dtype));
    if (is_tensor(in[0]) && in[0].t->dtype == RUSH_U8)
        RUSH_WARN_ONCE("where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. "
                       "Use a boolean condition instead.");
    return rush_pw_result(out, 0, rush_result_type(2, in + 1), 3, in);
}
static void where_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    uint8_t d = rush_result_type(2, in + 1);
    rush_value operand[4] = {out[0], in[0], in[1], in[2]};
    const rush_tables *tables = rush_tables_of[out[0].t->device.type];
    if (tables) tables->row(RUSH_PW_where, 1, 4, operand, (const uint8_t[]){d, RUSH_BOOL, d, d}, &no_args);
    else rush_pw_run_loop(rush_k_pw_misc->where[rush_dtypes[d].size], 1, 4, operand, (const uint8_t[]){d, RUSH_BOOL, d, d}, &no_args);
}
static void where_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 1)) give(s, 1, where(s->in[0], g, 0));
    if (rush_needs(s, 2)) give(s, 2, where(s->in[0], 0, g));
}
#define WHERE(id, schema_) WHERE_OF(id, schema_, NULL, NULL)
#define WHERE_OPEN(id, schema_, node_) WHERE_OF(id, schema_, where_open, node_)
#define WHERE_OF(id, schema_, opened, node_)                                                                                  \
    static rush_op op_##id = {.schema = schema_, .node = node_, .doc = "Elements of self where condition is true, of other elsewhere.", \
                              .shape = where_shape, .cpu = where_cpu, .grad = where_grad, .saves = "condition", .open = opened, .flags = RUSH_STRIDED_OUT | RUSH_NUMBERS | RUSH_OUT_CASTS};
/* PyTorch knows the one of tensors only. The number's has the result's dtype: it must not promote a tensor without dimensions. */
static int where_open(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value d = rush_v_dtype(rush_result_type(2, in + 1));
    rush_value self = rush_is_number(in[1]) ? V(T("scalar_tensor", in[1], d)) : in[1];
    rush_value other = rush_is_number(in[2]) ? V(T("scalar_tensor", in[2], d)) : in[2];
    return rush_failed() ? -1 : rush_result(out, T("where.self", in[0], self, other));
}
WHERE(where, "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor")
WHERE_OPEN(where_other, "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", "WhereBackward0")
WHERE_OPEN(where_self, "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", NULL)
WHERE_OPEN(where_scalar, "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", NULL)

/* ---- rows with arguments of another kind ---- */

static void nan_to_num_args(const rush_value *in, rush_pw_args *args)
{
    const rush_dtype_info *d = &rush_dtypes[rush_dtype_real(SELF->dtype)];
    *args = no_args;
    args->re[0] = HAS(in[1]) ? D_(in[1]) : 0;
    args->re[1] = HAS(in[2]) ? D_(in[2]) : d->max;
    args->re[2] = HAS(in[3]) ? D_(in[3]) : d->min;
}
static int nan_to_num_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(!rush_dtype_is_complex(SELF->dtype) || rush_now.mode & RUSH_MODE_NO_GRAD || !rush_wants_grad(SELF), RUSH_RUNTIME_ERROR,
               "nan_to_num does not support automatic differentiation for outputs with complex dtype.");
    return rush_pw_shape_row(RUSH_PW_nan_to_num, in, out);
}
static void nan_to_num_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pw_args args;
    nan_to_num_args(in, &args);
    rush_pw_run_row(RUSH_PW_nan_to_num, in, &args, out[0].t);
}
static void nan_to_num_grad(rush_grads *s)
{
    if (s->g[0]) give(s, 0, mul(s->g[0], isfinite(s->in[0])));
}
static rush_op op_nan_to_num = {
    .schema = "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", .method = RUSH_ALL_FORMS,
    .doc = "NaN and infinities replaced: by 0 and the dtype's largest numbers unless told otherwise.",
    .shape = nan_to_num_shape, .cpu = nan_to_num_cpu, .grad = nan_to_num_grad, .saves = "self", .flags = RUSH_STRIDED_OUT,
};

static int round_decimals_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_pw_shape_row(I_(in[1]) == 0 ? RUSH_PW_round : RUSH_PW_round_decimals, in, out);
}
static void round_decimals_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pw_args args = no_args;
    args.re[0] = (double)I_(in[1]);
    args.re[1] = __builtin_pow(10, __builtin_fabs((double)I_(in[1])));
    rush_pw_run_row(I_(in[1]) == 0 ? RUSH_PW_round : RUSH_PW_round_decimals, in, &args, out[0].t);
}
static void zero_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = zeros_like(s->g[0]);
}
#define ROUND_DECIMALS(id, schema_)                                                                         \
    static rush_op op_##id = {.schema = schema_, .doc = "Rounded to a number of decimals, halves to even.",  \
                              .shape = round_decimals_shape, .cpu = round_decimals_cpu, .grad = zero_grad, .flags = RUSH_STRIDED_OUT};
ROUND_DECIMALS(round_decimals, "round.decimals(Tensor self, *, int decimals) -> Tensor")
ROUND_DECIMALS(special_round, "special_round(Tensor self, *, int decimals=0) -> Tensor")

/* ---- frexp ---- */

static int frexp_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(rush_dtype_is_float(SELF->dtype), RUSH_RUNTIME_ERROR, "torch.frexp() only supports floating-point dtypes");
    return rush_pw_result(out, 0, SELF->dtype, 1, in) || rush_pw_result(out, 1, RUSH_I32, 1, in) ? -1 : 0;
}
static void frexp_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    uint8_t d = SELF->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
    rush_value operand[3] = {out[0], out[1], in[0]};
    const uint8_t compute[3] = {d, RUSH_I32, d};
    const rush_tables *tables = rush_tables_of[SELF->device.type];
    if (tables) tables->row(RUSH_PW_frexp, 2, 3, operand, compute, &no_args);
    else rush_pw_run_loop(d == RUSH_F64 ? rush_k_pw_misc->frexp_f64 : rush_k_pw_misc->frexp_f32, 2, 3, operand, compute, &no_args);
}
static void frexp_grad(rush_grads *s)
{
    if (s->g[0]) give(s, 0, div_(s->g[0], T("exp2", V(to_dtype(s->out[1], s->g[0]->dtype)))));
}
static rush_op op_frexp = {
    .schema = "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", .method = RUSH_METHOD,
    .doc = "self = mantissa * 2 ** exponent, the mantissa at least a half and below one.",
    .shape = frexp_shape, .cpu = frexp_cpu, .grad = frexp_grad, .saves = "result1", .flags = RUSH_STRIDED_OUT,
};

/* ---- compositions ---- */

static rush_dtype wide(rush_value a, rush_value b)
{
    bool complex = a.kind == RUSH_V_COMPLEX || b.kind == RUSH_V_COMPLEX || (is_tensor(a) && rush_dtype_is_complex(a.t->dtype)) ||
                   (is_tensor(b) && rush_dtype_is_complex(b.t->dtype));
    return complex ? RUSH_C128 : RUSH_F64;
}
static rush_value widened(rush_value v, rush_dtype d)
{
    return is_tensor(v) ? V(to_dtype(v, d)) : v;
}
static int float_power_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype d = wide(in[0], in[1]);
    rush_tensor *r = pow_(widened(in[0], d), widened(in[1], d));
    return rush_result(out, r && r->dtype != d ? to_dtype(r, d) : r);
}
#define FLOAT_POWER_DOC "self ** exponent in double precision."
static rush_op op_float_power = {.schema = "float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", .method = RUSH_METHOD, .doc = FLOAT_POWER_DOC, .run = float_power_run};
static rush_op op_float_power_scalar = {.schema = "float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", .doc = FLOAT_POWER_DOC, .run = float_power_run};
static rush_op op_float_power_self = {.schema = "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor", .doc = FLOAT_POWER_DOC, .run = float_power_run};

static int float_power_changes(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype d = wide(in[0], in[1]);
    RUSH_CHECK(SELF->dtype == d, RUSH_RUNTIME_ERROR, "the base given to float_power_ has dtype %s but the operation's result requires dtype %s",
               rush_dtype_word(SELF->dtype), rush_dtype_word(d));
    return rush_result(out, is_tensor(in[1]) ? T_INPLACE("pow.Tensor_Tensor", in[0], widened(in[1], d)) : T_INPLACE("pow.Tensor_Scalar", in[0], in[1]));
}
static rush_op op_float_power_changes = {.schema = "float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = FLOAT_POWER_DOC, .run = float_power_changes};
static rush_op op_float_power_changes_scalar = {.schema = "float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = FLOAT_POWER_DOC, .run = float_power_changes};

static int ldexp_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value e = in[1];
    if (is_tensor(in[0]) && rush_dtypes[SELF->dtype].category >= 2 && is_tensor(e) && rush_dtypes[e.t->dtype].category < 2)
        e = V(to_dtype(e, SELF->dtype));
    return rush_result(out, mul(in[0], pow_(2.0, e)));
}
static rush_op op_ldexp = {.schema = "ldexp.Tensor(Tensor self, Tensor other) -> Tensor", .method = RUSH_ALL_FORMS, .node = "LdexpBackward0", .doc = "self * 2 ** other.", .run = ldexp_run, .flags = RUSH_OUT_CASTS | RUSH_WHOLE};

static int max_other_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("maximum", in[0], in[1]));
}
static int min_other_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("minimum", in[0], in[1]));
}
rush_op rush_op_max_other = {.schema = "max.other(Tensor self, Tensor other) -> Tensor", .method = RUSH_METHOD, .doc = "maximum().", .run = max_other_run, .flags = RUSH_OUT_CASTS};
rush_op rush_op_min_other = {.schema = "min.other(Tensor self, Tensor other) -> Tensor", .method = RUSH_METHOD, .doc = "minimum().", .run = min_other_run, .flags = RUSH_OUT_CASTS};

static int isclose_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value a = in[0], b = in[1];
    RUSH_CHECK(!is_tensor(a) || !is_tensor(b) || a.t->dtype == b.t->dtype, RUSH_RUNTIME_ERROR, "%s did not match %s",
               rush_dtype_word(a.t->dtype), rush_dtype_word(b.t->dtype));
    RUSH_CHECK(D_(in[2]) >= 0, RUSH_RUNTIME_ERROR, "rtol must be greater than or equal to zero, but got %g", D_(in[2]));
    RUSH_CHECK(D_(in[3]) >= 0, RUSH_RUNTIME_ERROR, "atol must be greater than or equal to zero, but got %g", D_(in[3]));
    rush_tensor *close = eq(a, b);
    if (in[4].i && is_tensor(a) && rush_dtypes[a.t->dtype].category >= 2)
        close = T("logical_or", V(close), V(logical_and(ne(a, a), ne(b, b))));
    if (D_(in[2]) == 0 && D_(in[3]) == 0) return rush_result(out, close);
    if (is_tensor(a) && rush_dtypes[a.t->dtype].category < 2) a = V(to_dtype(a, rush_default_dtype())), b = widened(b, rush_default_dtype());
    rush_tensor *off = abs_(sub(a, b)), *allowed = add(in[3], abs_(mul(in[2], b)));
    return rush_result(out, T("logical_or", V(close), V(logical_and(isfinite(off), le(off, allowed)))));
}
static rush_op op_isclose = {
    .schema = "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "Where |self - other| <= atol + rtol |other|.", .run = isclose_run, .flags = RUSH_NO_GRAD,
};

static int all_true_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].t->dtype == RUSH_BOOL, RUSH_TYPE_ERROR, "a bool tensor is expected, not %s", rush_dtype_name(in[0].t->dtype));
    return 0;
}
static void all_true_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = rush_contiguous_copy(in[0].t);
    if (t) out[0] = rush_v_bool(t->numel == 0 || !memchr(rush_ptr(t), 0, (size_t)t->numel));
}
static rush_op op_all_true = {
    .schema = "_all_true(Tensor self) -> bool", .doc = "Is no element of a bool tensor false?", .shape = all_true_shape, .cpu = all_true_cpu,
    .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED | RUSH_HIDDEN,
};
static int allclose_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *close = T("isclose", in[0], in[1], in[2], in[3], in[4]);
    return close ? TN(out, "_all_true", V(close)) : -1;
}
static rush_op op_allclose = {
    .schema = "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool", .method = RUSH_METHOD,
    .doc = "Are all elements close?", .run = allclose_run, .flags = RUSH_NO_GRAD,
};
/* Large tensors are compared in pieces, small ones first, until one differs. */
static int equal_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    int64_t all = a->numel, n = all, most = 65536;
    out[0] = rush_v_bool(false);
    if (!rush_same_sizes(a, b)) return 0;
    if (a->device.type == RUSH_CPU && all > most && !a->layout && !b->layout && rush_contiguous(a) && rush_contiguous(b)) {
        if (!(a = T("view", V(a), INTS(-1))) || !(b = T("view", V(b), INTS(-1)))) return -1;
        n = 1024;
    }
    for (int64_t at = 0;; n = RUSH_MIN(RUSH_MIN(4 * n, most), all - at)) {
        size_t mark = rush_scope_open();
        rush_tensor *alike = n == all ? eq(a, b) : eq(T("narrow", V(a), V((int64_t)0), V(at), V(n)), T("narrow", V(b), V((int64_t)0), V(at), V(n)));
        int failed = alike ? TN(out, "_all_true", V(alike)) : -1;
        rush_scope_close(mark);
        at += n;
        if (failed || !out[0].i || at >= all) return failed;
    }
}
static rush_op op_equal = {
    .schema = "equal(Tensor self, Tensor other) -> bool", .method = RUSH_METHOD, .doc = "Same size and same elements?", .run = equal_run, .flags = RUSH_NO_GRAD,
};

static int same_size_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    out[0] = rush_v_bool(rush_same_sizes(in[0].t, in[1].t));
    return 0;
}
static rush_op op_is_same_size = {
    .schema = "is_same_size(Tensor self, Tensor other) -> bool", .method = RUSH_METHOD, .doc = "Same size?", .run = same_size_run,
    .flags = RUSH_NO_GRAD | RUSH_CROSS_DEVICE | RUSH_ANY_LAYOUT,
};

/* ---- log of the multivariate gamma function: a sum of lgamma over p halves ---- */

#define HALVES_AT_ONCE ((int64_t)1 << 18)
#define LN2 0.69314718055994531
#define LNPI 1.1447298858494002

/* Sum of lgamma, or of digamma, over x + terms; of numbers after numbers, so that no tensor with p elements for each of many is needed. */
static rush_tensor *over_terms(rush_tensor *x, rush_tensor *terms, bool slope)
{
    int64_t n = rush_numel(x), few = n / 2;
    if (n < 2 || n <= HALVES_AT_ONCE / rush_numel(terms) || !rush_has_data(x)) {
        rush_tensor *all = add(unsqueeze(x, -1), terms);
        return sum_dim(slope ? WORD1(digamma, all) : WORD1(lgamma, all), -1, false);
    }
    if (x->ndim > 1) {
        rush_tensor *flat = T("reshape", V(x), INTS(-1)), *sums = flat ? over_terms(flat, terms, slope) : NULL;
        return sums ? reshape_to(sums, x) : NULL;
    }
    rush_tensor *both[2];
    for (int k = 0; k < 2; ++k) {
        rush_scope() {
            rush_tensor *part = T("narrow", V(x), V((int64_t)0), V(k ? few : 0), V(k ? n - few : few));
            both[k] = part ? rush_keep(over_terms(part, terms, slope)) : NULL;
        }
        if (!rush_park(both[k])) return NULL;
    }
    return T("cat", rush_v_tensors(both, 2), V((int64_t)0));
}

/* `count` numbers that end with `last`, in the dtype of x */
static rush_tensor *terms_like(const rush_tensor *x, int64_t count, double last, double step)
{
    rush_tensor *terms = T("arange.start_step", V(last - (double)(count - 1) * step), V(last + step / 2), V(step), rush_v_dtype(RUSH_F64), ON(x));
    return terms && x->dtype != RUSH_F64 ? to_dtype(terms, x->dtype) : terms;
}

/* Sum of lgamma, or of digamma, over x, x - 1/2, ..., x - (p - 1)/2. Of many, two neighbours are one at their sum: the duplication
 * formula (DLMF 5.5.5), log|gamma(z) gamma(z + 1/2)| = log|gamma(2z)| + (1 - 2z) log 2 + log(pi) / 2. */
static rush_tensor *over_halves(rush_tensor *x, int64_t p, bool slope)
{
    const int64_t pairs = p < 256 ? 0 : p / 2;
    if (!pairs) {
        rush_tensor *halves = terms_like(x, p, 0, 0.5);
        return halves ? over_terms(x, halves, slope) : NULL;
    }
    rush_tensor *twice = mul(x, 2), *terms = twice ? terms_like(x, pairs, p % 2 ? -2 : -1, 2) : NULL, *sum = terms ? over_terms(twice, terms, slope) : NULL;
    if (!sum) return NULL;
    if (slope)
        sum = add(mul(sum, 2), -2 * LN2 * (double)pairs);
    else { /* what is infinite already stays so: log 2 times an infinite x must not be taken from it */
        rush_tensor *rest = add(mul(sub(twice, (double)(p + 1 - pairs)), -LN2 * (double)pairs), LNPI / 2 * (double)pairs);
        sum = T("where.self", V(T("isinf", V(sum))), V(sum), V(add(sum, rest)));
    }
    return p % 2 ? add(sum, slope ? WORD1(digamma, x) : WORD1(lgamma, x)) : sum;
}

static int mvlgamma_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t p = I_(in[1]);
    RUSH_CHECK(p >= 1, RUSH_RUNTIME_ERROR, "p has to be greater than or equal to 1");
    rush_tensor *x = rush_dtypes[in[0].t->dtype].category < 2 ? to_dtype(in[0].t, rush_default_dtype()) : in[0].t;
    rush_tensor *sum = x ? over_halves(x, p, false) : NULL;
    return rush_result(out, add(sum, (double)p * ((double)p - 1) / 4 * LNPI));
}
static void mvlgamma_grad(rush_grads *s) { s->gin[0] = mul(s->g[0], over_halves(s->in[0].t, I_(s->in[1]), true)); }
#define MVLGAMMA_DOC "Logarithm of the multivariate gamma function of dimension p."
static rush_op op_mvlgamma = {.schema = "mvlgamma(Tensor self, int p) -> Tensor", .method = RUSH_METHODS, .node = "MvlgammaBackward0", .doc = MVLGAMMA_DOC, .run = mvlgamma_run, .grad = mvlgamma_grad, .saves = "self", .flags = RUSH_OUT_CASTS | RUSH_WHOLE};
static int multigammaln_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("mvlgamma", in[0], in[1])); }
static rush_op op_multigammaln = {.schema = "special_multigammaln(Tensor self, int p) -> Tensor", .doc = MVLGAMMA_DOC, .run = multigammaln_run, .flags = RUSH_OUT_CASTS};

RUSH_FAMILY(elementwise, &op_clamp, &op_clamp_tensor, &op_clamp_min, &op_clamp_min_tensor, &op_clamp_max, &op_clamp_max_tensor,
            &op_div_tensor_mode, &op_div_scalar_mode, &op_divide_tensor_mode, &op_divide_scalar_mode,
            &op_where, &op_where_other, &op_where_self, &op_where_scalar, &op_nan_to_num, &op_round_decimals, &op_special_round,
            &op_frexp, &op_float_power, &op_float_power_scalar, &op_float_power_self, &op_float_power_changes, &op_float_power_changes_scalar, &op_ldexp, &op_isclose, &op_all_true, &op_allclose, &op_equal, &op_is_same_size, &op_mvlgamma, &op_multigammaln)

__attribute__((constructor(930))) static void register_late(void)
{
    rush_op_alias("clip", "clamp", RUSH_ALL_FORMS);
}
