/* activation.c - activation functions that are more than a row of src/kernels/pointwise.def. */
#include "ops/elementwise/pointwise.h"
#include "op/formula.h"

#define SELF (in[0].t)
#define gelu_backward(g, x, how) T("gelu_backward", V(g), V(x), V(how))

static const rush_pw_args no_args;

/* ---- gelu, exact or with tanh ---- */

static int gelu_is_tanh(rush_value how)
{
    if (!strcmp(how.s, "none")) return 0;
    if (!strcmp(how.s, "tanh")) return 1;
    return rush_fail(RUSH_RUNTIME_ERROR, "approximate argument must be either none or tanh.");
}
static int gelu_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int t = gelu_is_tanh(in[1]);
    return t < 0 ? -1 : rush_pw_shape_row(t ? RUSH_PW_gelu_tanh : RUSH_PW_gelu_erf, in, out);
}
static void gelu_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pw_run_row(gelu_is_tanh(in[1]) ? RUSH_PW_gelu_tanh : RUSH_PW_gelu_erf, in, &no_args, out[0].t);
}
static void gelu_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = gelu_backward(s->g[0], s->in[0], s->in[1]);
}
static rush_op op_gelu = {
    .schema = "gelu(Tensor self, *, str approximate=\"none\") -> Tensor", .method = RUSH_FUNCTION_ | RUSH_NN,
    .doc = "x times the normal distribution at x (Hendrycks and Gimpel 2016); approximate=\"tanh\": by a tanh.",
    .shape = gelu_shape, .cpu = gelu_cpu, .grad = gelu_grad, .saves = "self", .flags = RUSH_STRIDED_OUT,
};

static int gelu_backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int t = gelu_is_tanh(in[2]);
    return t < 0 ? -1 : rush_pw_shape_row(t ? RUSH_PW_gelu_tanh_backward : RUSH_PW_gelu_erf_backward, in, out);
}
static void gelu_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pw_run_row(gelu_is_tanh(in[2]) ? RUSH_PW_gelu_tanh_backward : RUSH_PW_gelu_erf_backward, in, &no_args, out[0].t);
}
/* gelu'' : density(x) (2 - x^2), or with u = k (x + c x^3), t = tanh u: (1 - t^2) (u' + x/2 (u'' - 2 t u'^2)) */
static rush_tensor *gelu_curve(rush_value x, bool tanh)
{
    const double k = 0.79788456080286535588, c = 0.044715;
    rush_tensor *w = mul(x, x);
    if (!tanh) return mul(mul(0.39894228040143267794, exp_(mul(-0.5, w))), sub(2, w));
    rush_tensor *t = tanh_(mul(k, mul(x, add(1, mul(c, w))))), *u1 = mul(k, add(1, mul(3 * c, w))), *u2 = mul(6 * k * c, x);
    rush_tensor *bend = sub(u2, mul(2, mul(t, square(u1))));
    return mul(sub(1, square(t)), add(u1, mul(0.5, mul(x, bend))));
}
static void gelu_backward_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = gelu_backward(g, s->in[1], s->in[2]);
    if (rush_needs(s, 1)) s->gin[1] = mul(mul(g, s->in[0]), gelu_curve(s->in[1], gelu_is_tanh(s->in[2])));
}
static rush_op op_gelu_backward = {
    .schema = "gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
    .doc = "Gradient of gelu.", .shape = gelu_backward_shape, .cpu = gelu_backward_cpu, .grad = gelu_backward_grad,
    .saves = "grad_output@self, self", .flags = RUSH_STRIDED_OUT | RUSH_HIDDEN,
};

/* ---- the exponential units, relu6 ---- */

static int selu_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("elu", V(SELF), V(1.6732632423543772848), V(1.0507009873554804934)));
}
static rush_op op_selu = {.schema = "selu(Tensor self) -> Tensor", .method = RUSH_FUNCTION_, .doc = "The self-normalising exponential unit (Klambauer et al. 2017).", .run = selu_run};

static int celu_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double alpha = D_(in[1]);
    RUSH_CHECK(alpha != 0, RUSH_ZERO_DIVISION_ERROR, "ZeroDivisionError: alpha cannot be 0 for CELU");
    return rush_result(out, T("elu", V(SELF), in[1], V(1.0), V(1 / alpha)));
}
static rush_op op_celu = {.schema = "celu(Tensor self, Scalar alpha=1.0) -> Tensor", .method = RUSH_FUNCTION_, .node = "CeluBackward0", .doc = "max(0, x) + min(0, alpha (exp(x / alpha) - 1)).", .run = celu_run, .flags = RUSH_WHOLE};

static int relu6_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("hardtanh", V(SELF), V(0), V(6)));
}
static rush_op op_relu6 = {.schema = "relu6(Tensor self) -> Tensor", .method = RUSH_FUNCTION_ | RUSH_NN, .doc = "min(max(x, 0), 6).", .run = relu6_run};

/* ---- prelu: one slope, or one per channel (dimension 1) ---- */

static int prelu_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *w = in[1].t;
    RUSH_CHECK(SELF->dtype == w->dtype, RUSH_RUNTIME_ERROR, "prelu: Type promoting not supported. Got %s and %s", rush_dtype_word(SELF->dtype),
               rush_dtype_word(w->dtype));
    rush_value slopes = in[1];
    RUSH_CHECK(w->ndim <= 1, RUSH_RUNTIME_ERROR, "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d", w->ndim);
    if (w->numel != 1) {
        RUSH_CHECK(SELF->ndim > 0, RUSH_RUNTIME_ERROR, "Not allow zero-dim input tensor.");
        int64_t channels = SELF->ndim > 1 ? SELF->size[1] : 1, size[RUSH_MAXDIM];
        RUSH_CHECK(channels == w->numel, RUSH_RUNTIME_ERROR, "Mismatch of parameter numbers and input channel size. Found parameter numbers = %lld and "
                   "channel size = %lld.", (long long)w->numel, (long long)channels);
        for (int d = 0; d < SELF->ndim; d++) size[d] = d == 1 ? channels : 1;
        slopes = V(T("reshape", V(w), rush_v_ints(size, SELF->ndim)));
    } else {
        if (w->ndim != 0 && SELF->ndim == 0) slopes = V(T("reshape", V(w), rush_v_ints(NULL, 0)));
    }
    return rush_result(out, T("_prelu_kernel", V(SELF), slopes));
}
static rush_op op_prelu = {.schema = "prelu(Tensor self, Tensor weight) -> Tensor", .method = RUSH_METHOD, .doc = "x, times a learnt slope where negative.", .run = prelu_run, .flags = RUSH_AUTOCAST_LOW};

/* ---- log_sigmoid: ATen's forms with a buffer, which is not needed here ---- */

static int log_sigmoid_forward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *empty = rush_tensor_new(SELF->dtype, SELF->device, 1, (const int64_t[]){0});
    const uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_UNWATCHED; /* to who looks on, log_sigmoid is this operation: it would be opened again */
    const int failed = !empty || rush_result(out, T("log_sigmoid", V(SELF)));
    rush_now.mode = mode;
    out[1] = rush_v_tensor(empty);
    return failed ? -1 : 0;
}
static void log_sigmoid_forward_grad(rush_grads *s) { s->gin[0] = T("log_sigmoid_backward", V(s->g[0]), s->in[0], s->in[0]); }
static rush_op op_log_sigmoid_forward = {
    .schema = "log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", .doc = "log_sigmoid() and an unused buffer.", .node = "LogSigmoidBackward0",
    .run = log_sigmoid_forward_run, .grad = log_sigmoid_forward_grad, .saves = "self", .flags = RUSH_HIDDEN,
};
static int log_sigmoid_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("_log_sigmoid_slope", in[0], in[1]));
}
static rush_op op_log_sigmoid_backward = {
    .schema = "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor", .doc = "Gradient of log_sigmoid.",
    .run = log_sigmoid_backward_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

/* ---- glu: one half gates the other ---- */

static int halves(rush_value x, int64_t dim, rush_tensor **a, rush_tensor **b)
{
    const rush_tensor *t = x.t;
    RUSH_CHECK(rush_dtype_is_float(t->dtype), RUSH_NOT_IMPLEMENTED, "\"glu_cpu\" not implemented for '%s'", rush_dtype_word(t->dtype));
    RUSH_CHECK(t->ndim > 0, RUSH_RUNTIME_ERROR, "glu does not support 0-dimensional tensors");
    int d = rush_dim_wrap(dim, t->ndim);
    if (d < 0) return -1;
    int64_t n = t->size[d];
    RUSH_CHECK(n % 2 == 0, RUSH_RUNTIME_ERROR, "Halving dimension must be even, but dimension %d is size %lld", d, (long long)n);
    *a = T("narrow", x, V((int64_t)d), V((int64_t)0), V(n / 2));
    *b = T("narrow", x, V((int64_t)d), V(n / 2), V(n / 2));
    return *b ? 0 : -1;
}
static int glu_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a, *b;
    if (halves(in[0], I_(in[1]), &a, &b)) return -1;
    if (rush_dtypes[a->dtype].size > 2) return rush_result(out, mul(a, sigmoid(b)));
    return rush_result(out, to_dtype(mul(to_dtype(a, RUSH_F32), sigmoid(to_dtype(b, RUSH_F32))), a->dtype)); /* half types are rounded once */
}
static void glu_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("glu_backward", V(s->g[0]), s->in[0], s->in[1]);
}
static rush_op op_glu = {
    .schema = "glu(Tensor self, int dim=-1) -> Tensor", .method = RUSH_NN, .node = "GluBackward0", .doc = "The first half along dim times the sigmoid of the second.",
    .run = glu_run, .grad = glu_grad, .saves = "self", .flags = RUSH_WHOLE,
};

static int glu_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a, *b;
    if (halves(in[1], I_(in[2]), &a, &b)) return -1;
    rush_tensor *s = sigmoid(b), *parts[2] = {mul(in[0], s)};
    if (rush_dtypes[a->dtype].size > 2) parts[1] = mul(mul(mul(sub(1, s), s), in[0]), a);
    else s = to_dtype(s, RUSH_F32), parts[1] = to_dtype(mul(mul(mul(sub(1, s), s), in[0]), a), a->dtype);
    return rush_result(out, parts[1] ? T("cat", rush_v_tensors(parts, 2), in[2]) : NULL);
}
static rush_op op_glu_backward = {
    .schema = "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", .doc = "Gradient of glu.", .run = glu_backward_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

RUSH_FAMILY(activation, &op_gelu, &op_gelu_backward, &op_selu, &op_celu, &op_relu6, &op_prelu, &op_log_sigmoid_forward,
            &op_log_sigmoid_backward, &op_glu, &op_glu_backward)
