/* pointwise_grad.c - the derivatives of the rows of src/kernels/pointwise.def.
 *
 * A row's gradient columns are compiled here as tensor words: g the gradient of the result, x, y, z the operands,
 * a, b, c, d the other arguments, out the result. What an operand was broadcast or promoted to is undone at the end.
 */
#include "op/watch.h"
#include "ops/elementwise/pointwise.h"
#include "op/formula.h"

#define NIL NULL
#define UNKNOWN unknown(s)
#define by(d) chain(g, V(d))
#define less(d) chain(neg(g), V(d))
#define con(v) conjugated(V(v))
#define scaled(v, factor) scaled_by(V(v), V(factor))
#define conj_physical(v) WORD1(conj_physical, v)
#define isnan(v) WORD1(isnan, v)
#define logical_or(v, w) WORD2(logical_or, v, w)
#define log1p(v) WORD1(log1p, v)
#define xlogy(v, w) T("xlogy.Tensor", V(v), V(w))
#define special_xlog1py(v, w) WORD2(special_xlog1py, v, w)
#define erfinv(v) WORD1(erfinv, v)
#define digamma(v) WORD1(digamma, v)
#define polygamma(n, v) WORD2(polygamma, n, v)
#define special_zeta(v, w) WORD2(special_zeta, v, w)
#define special_i1(v) WORD1(special_i1, v)
#define special_i1e(v) WORD1(special_i1e, v)
#define special_erfcx(v) WORD1(special_erfcx, v)
#define i0(v) WORD1(i0, v)
#define div_mode(v, w, mode) T("div.Tensor_mode", V(v), V(w), V(mode))
#define threshold_backward(g, x, t) T("threshold_backward", V(g), V(x), V(t))
#define sigmoid_backward(g, out) WORD2(sigmoid_backward, g, out)
#define tanh_backward(g, out) WORD2(tanh_backward, g, out)
#define silu_backward(g, x) WORD2(silu_backward, g, conjugated(V(x))) /* the operation itself takes a complex x as it is */
#define mish_backward(g, x) WORD2(mish_backward, g, x)
#define hardswish_backward(g, x) WORD2(hardswish_backward, g, x)
#define hardsigmoid_backward(g, x) WORD2(hardsigmoid_backward, g, x)
#define log_sigmoid_slope(g, x) WORD2(_log_sigmoid_slope, g, x)
#define hardshrink_backward(g, x, l) T("hardshrink_backward", V(g), V(x), V(l))
#define softshrink_backward(g, x, l) T("softshrink_backward", V(g), V(x), V(l))
#define hardtanh_backward(g, x, low, high) T("hardtanh_backward", V(g), V(x), V(low), V(high))
#define leaky_relu_backward(g, x, slope) T("leaky_relu_backward", V(g), V(x), V(slope), V((bool)false))
#define elu_backward(g, alpha, scale, input, x) T("elu_backward", V(g), V(alpha), V(scale), V(input), V((bool)false), V(x))
#define softplus_backward(g, x, beta, limit) T("softplus_backward", V(g), V(x), V(beta), V(limit))
#define logit_backward(g, x, eps) T("logit_backward", V(g), V(x), V(eps))

#define UNUSED __attribute__((unused))

/* ---- words of this file ---- */

static rush_tensor *unknown(const rush_grads *s)
{
    rush_fail(RUSH_NOT_IMPLEMENTED, "the derivative for '%s' is not implemented.", s->op->base);
    return NULL;
}

static bool is_complex(rush_value v)
{
    return v.kind == RUSH_V_COMPLEX || (v.kind == RUSH_V_TENSOR && rush_dtype_is_complex(v.t->dtype));
}

static rush_value conjugated(rush_value v)
{
    if (!is_complex(v)) return v;
    if (v.kind == RUSH_V_TENSOR) return V(T("conj", V(v)));
    v.c[1] = -v.c[1];
    return v;
}

static rush_tensor *chain(rush_tensor *g, rush_value d)
{
    if (d.kind == RUSH_V_NONE) return NULL; /* it could not be computed */
    return mul(g, conjugated(d));
}

static bool is_one(rush_value v)
{
    return (v.kind == RUSH_V_INT && v.i == 1) || (v.kind == RUSH_V_FLOAT && v.f == 1);
}

/* v times a number; of alpha in add(x, y, alpha) the conjugate, when v is a gradient */
static rush_tensor *scaled_by(rush_value v, rush_value factor)
{
    return v.kind == RUSH_V_TENSOR && is_one(factor) ? v.t : mul(v, factor);
}

static rush_value less_one(rush_value n)
{
    switch (n.kind) {
    case RUSH_V_FLOAT: return V(n.f - 1);
    case RUSH_V_COMPLEX: n.c[0] -= 1; return n;
    case RUSH_V_TENSOR: return V(sub(n, 1));
    default: return V(n.i > INT64_MIN ? n.i - 1 : n.i);
    }
}

static rush_value next_of(rush_value n)
{
    return V(n.i < INT64_MAX ? n.i + 1 : n.i);
}

static bool is_zero(rush_value v)
{
    return v.kind != RUSH_V_TENSOR && (v.kind == RUSH_V_COMPLEX ? v.c[0] == 0 && v.c[1] == 0 : rush_to_double(v) == 0);
}

static rush_tensor *pow_base(rush_tensor *g, rush_value x, rush_value y)
{
    if (is_zero(y)) return zeros_like(g);
    rush_tensor *gx = chain(g, V(mul(y, pow_(x, less_one(y)))));
    return y.kind == RUSH_V_TENSOR ? where(eq(y, 0), 0, gx) : gx;
}

static rush_value real_part(rush_value v)
{
    if (v.kind == RUSH_V_COMPLEX) return V(v.c[0]);
    return is_complex(v) ? V(T("real", V(v))) : v;
}

static rush_tensor *pow_exponent(rush_tensor *g, rush_value x, rush_value y, rush_value out)
{
    rush_value base = x; /* its logarithm is complex where the power is: negative numbers have one there */
    if (x.kind != RUSH_V_TENSOR) base = V(rush_tensor_of_number_typed(x, is_complex(out) ? RUSH_C128 : RUSH_F64));
    else if (is_complex(out) && !is_complex(x)) base = V(T("_to_dtype", x, rush_v_dtype((rush_dtype)out.t->dtype)));
    rush_tensor *d = mul(out, log_(base));
    if (x.kind == RUSH_V_TENSOR) d = where(logical_and(eq(x, 0), ge(real_part(y), 0)), 0, d);
    else if (is_zero(x)) d = where(ge(real_part(y), 0), 0, d);
    return chain(g, V(d));
}

/* z / |z| turns but keeps its length: only the part of the gradient across z counts */
static rush_tensor *sgn_slope(rush_tensor *g, rush_value x, rush_value out)
{
    if (!is_complex(x)) return T("contiguous", V(zeros_like(g)));
    rush_tensor *across = mul(0.5, sub(g, mul(con(g), square(out))));
    return where(eq(x, 0), 0, div_(across, abs_(x)));
}

static rush_tensor *angle_slope(rush_tensor *g, rush_value x)
{
    if (!is_complex(x)) return zeros_like(x.t);
    rush_value i = {.kind = RUSH_V_COMPLEX, .c = {0, 1}};
    return where(eq(x, 0), 0, mul(g, div_(mul(x, i), square(abs_(x)))));
}

static rush_tensor *copysign_slope(rush_tensor *g, rush_value x, rush_value out)
{
    return mul(g, where(eq(x, 0), 0, div_(out, x)));
}

/* of maximum and minimum: to the one that was taken, half to each where they are equal */
static rush_tensor *half_where_equal(rush_tensor *g, rush_value x, rush_value y, rush_tensor *other_taken)
{
    return where(other_taken, 0, where(eq(x, y), mul(g, 0.5), g));
}

static rush_tensor *over_squares(rush_value n, rush_value x, rush_value y)
{
    rush_tensor *squares = add(mul(x, x), mul(y, y));
    return where(eq(squares, 0), 0, div_(n, squares));
}

static rush_tensor *sinc_slope(rush_tensor *g, rush_value x)
{
    rush_tensor *t = mul(x, 3.14159265358979323846);
    rush_tensor *d = div_(sub(mul(t, cos_(t)), sin_(t)), mul(mul(x, x), 3.14159265358979323846));
    return where(eq(x, 0), 0, chain(g, V(d)));
}

/* of complex numbers the two roots apart, which have another branch cut than the root of the product */
static rush_tensor *acosh_slope(rush_tensor *g, rush_value x)
{
    if (!is_complex(x)) return mul(g, rsqrt(sub(mul(x, x), 1)));
    return by(mul(rsqrt(sub(x, 1)), rsqrt(add(x, 1))));
}

/* elu_backward's derivatives: in the gradient, and in what it was given (x is its first operand) */
static rush_tensor *elu_slope(rush_tensor *g, const rush_grads *s, rush_value y)
{
    const rush_value *in = s->in;
    return T("elu_backward", V(g), in[1], in[2], in[3], in[4], V(y));
}

static rush_tensor *elu_curve(rush_tensor *g, const rush_grads *s, rush_value x, rush_value y)
{
    double alpha = rush_to_double(s->in[1]), scale = rush_to_double(s->in[2]), input = rush_to_double(s->in[3]);
    rush_tensor *d = s->in[4].i ? mul(x, input) : mul(x, mul(alpha * scale * input * input, exp_(mul(y, input))));
    return mul(g, where(ge(y, 0), 0, d));
}

static rush_tensor *silu_curve(rush_tensor *g, rush_value x, rush_value y)
{
    rush_tensor *s = sigmoid(y), *d = mul(mul(s, sub(1, s)), add(2, mul(y, sub(1, mul(2, s)))));
    return mul(g, con(mul(x, d)));
}

static rush_tensor *mish_curve(rush_tensor *g, rush_value x, rush_value y)
{
    rush_tensor *s = sigmoid(y), *t = tanh_(T("softplus", V(y)));
    rush_tensor *bend = add(2, sub(mul(y, sub(1, s)), mul(2, mul(y, mul(t, s)))));
    return mul(mul(g, x), mul(mul(sub(1, square(t)), s), bend));
}

static rush_tensor *softplus_curve(rush_tensor *g, rush_value x, rush_value y, rush_value beta, rush_value limit)
{
    rush_tensor *t = mul(y, beta), *s = sigmoid(t);
    return mul(mul(g, x), where(gt(t, limit), 0, mul(beta, mul(s, sub(1, s)))));
}

static rush_tensor *i1_slope(rush_tensor *i0_of_x, rush_value x, rush_value out)
{
    return where(eq(x, 0), 0.5, sub(i0_of_x, div_(out, where(eq(x, 0), 1, x))));
}

static rush_tensor *i1e_slope(rush_value x, rush_value out)
{
    rush_tensor *d = sub(T("special_i0e", V(x)), mul(out, add(sgn(x), reciprocal(where(eq(x, 0), 1, x)))));
    return where(eq(x, 0), 0.5, d);
}

/* d/dx of the regularised incomplete gamma function of a at x */
static rush_tensor *gamma_density(rush_value a, rush_value x)
{
    return exp_(sub(sub(mul(sub(a, 1), log_(x)), x), T("lgamma", V(a))));
}

/* ---- one function per row ---- */

/* The gradient of argument i from that of the broadcast, promoted operand. */
static void give(rush_grads *s, int i, rush_tensor *t)
{
    if (!t || s->in[i].kind != RUSH_V_TENSOR) return;
    const rush_tensor *like = s->in[i].t;
    if (rush_dtype_is_complex(t->dtype) && !rush_dtype_is_complex(like->dtype)) t = T("real", V(t));
    if (t && !rush_is_watched(t)) t = rush_sum_to(t, like); /* else the engine does it, at the place where PyTorch does */
    if (t && t->dtype != like->dtype) t = to_dtype(t, like->dtype);
    s->gin[i] = t;
}

#define ARGUMENT(k) (row->na > k ? s->in[row->a[k]] : RUSH_NONE)
#define OPERAND(k) (row->nx > k ? s->in[row->x[k]] : RUSH_NONE)
#define GIVE(k, formula)                                                                                    \
    if (row->nx > k && rush_needs(s, row->x[k])) give(s, row->x[k], formula);
#define ROW(id, nx_, set, result, schema, value, gx, gy, gz, is)                                            \
    static void grad_##id(rush_grads *s)                                                                    \
    {                                                                                                       \
        const rush_pw_row *row = s->op->row;                                                                \
        rush_tensor *g = s->g[0];                                                                           \
        UNUSED rush_value x = OPERAND(0), y = OPERAND(1), z = OPERAND(2), out = s->out[0];                  \
        UNUSED rush_value a = ARGUMENT(0), b = ARGUMENT(1), c = ARGUMENT(2), d = ARGUMENT(3);               \
        if (!g) return;                                                                                     \
        GIVE(1, gy) GIVE(0, gx) GIVE(2, gz) /* by their names, as PyTorch */                                                                \
    }
#include "kernels/pointwise.def"
#undef ROW

#define ROW(id, ...) [RUSH_PW_##id] = grad_##id,
const rush_derivative rush_pw_derivatives[RUSH_PW_COUNT] = {
#include "kernels/pointwise.def"
};
