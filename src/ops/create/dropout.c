/* dropout.c - zeros at random: dropout of elements and of whole channels, alpha dropout, randomised leaky relu. */
#include "autograd/autograd.h"
#include "op/formula.h"
#include "op/watch.h"
#include "ops/geometry.h"
#include "ops/create/random.h"

void rush_zero_grad(rush_grads *s)
{
    for (int i = 0; i < s->op->nargs; ++i)
        if (rush_needs(s, i)) s->gin[i] = s->g[0] && rush_is_watched(s->g[0]) ? zeros_like(s->g[0]) : rush_zeros_like(s->in[i].t);
}

static int check_p(double p)
{
    RUSH_CHECK(p >= 0 && p <= 1, RUSH_RUNTIME_ERROR, "dropout probability has to be between 0 and 1, but got %g", p);
    return 0;
}

/* ---- elements: native_dropout has the arithmetic, dropout is its first result ---- */

/* What survivors are multiplied by: 1/(1-p) as the dtype computes and holds it. */
static double scale_of(rush_dtype d, double p)
{
    if (p == 1) return 0;
    if (d == RUSH_F64 || d == RUSH_C128) return 1 / (1 - p);
    float f = 1 / (float)(1 - p), held;
    uint16_t h[2];
    d = rush_dtype_real(d);
    if (d != RUSH_F16 && d != RUSH_BF16) return f;
    rush_convert(h, d, 2, &f, RUSH_F32, 4, 1);
    rush_convert(&held, RUSH_F32, 4, h, d, 2, 1);
    return held;
}

static int native_dropout_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    if (check_p(D_(in[1]))) return -1;
    RUSH_CHECK(rush_dtypes[x->dtype].category >= 2, RUSH_RUNTIME_ERROR, "result type Float can't be cast to the desired output type %s",
               rush_dtype_word(x->dtype));
    rush_tensor *y = rush_contiguous(x) ? rush_out_t(out, 0, x, x->dtype, x->ndim, x->size) : rush_out_like(out, 0, x, x->dtype);
    return y && rush_out_like(out, 1, x, RUSH_BOOL) ? 0 : -1;
}

static void native_dropout_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *y = out[0].t, *mask = out[1].t;
    double p = D_(in[1]);
    if (HAS(in[2]) && !I_(in[2])) {
        rush_fill_into(mask, rush_v_bool(true));
        rush_copy_into(y, x);
        return;
    }
    sampler s;
    if (rush_sampler_bernoulli(&s, RUSH_BOOL, 1 - p)) return;
    rush_sample_into(mask, &s, NULL);
    const rush_value scaled[] = {in[0], out[1], rush_v_float(scale_of(x->dtype, p))};
    rush_tensor *t = T("native_dropout_backward", scaled[0], scaled[1], scaled[2]);
    if (t) rush_copy_into(y, t);
}

static void native_dropout_grad(rush_grads *s)
{
    double p = D_(s->in[1]);
    bool drawn = !HAS(s->in[2]) || I_(s->in[2]);
    if (!s->g[0]) return;
    s->gin[0] = !drawn ? s->g[0] : T("native_dropout_backward", V(s->g[0]), s->out[1], V(scale_of(s->in[0].t->dtype, p)));
}

static rush_op op_native_dropout = {
    .schema = "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    .doc = "Zeroes elements with probability p and scales the others by 1/(1-p); the second result tells which were kept. "
           "Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting, 2014.",
    .shape = native_dropout_shape, .cpu = native_dropout_cpu, .grad = native_dropout_grad, .saves = "result1",
    .flags = RUSH_SIDE_EFFECT};

static int native_dropout_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *kept = T("mul.Tensor", in[0], in[1]);
    return rush_result(out, kept ? T("mul.Tensor", V(kept), in[2]) : NULL);
}

static rush_op op_native_dropout_backward = {
    .schema = "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    .doc = "The gradient where mask is true, scaled; zero elsewhere.", .run = native_dropout_backward_run, .flags = RUSH_WHOLE};

static int dropout_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double p = D_(in[1]);
    if (check_p(p)) return -1;
    bool nested = in[0].t->flags & RUSH_T_HISTORY_BELOW; /* which draw for any p */
    if (!nested && (p == 0 || !I_(in[2]) || !in[0].t->numel)) return rush_result(out, in[0].t);
    if (!nested && p == 1) return rush_result(out, T("mul.Tensor", in[0], V(T("zeros_like", in[0]))));
    rush_value both[2];
    if (TN(both, "native_dropout", in[0], in[1], in[2])) return -1;
    return rush_result(out, both[0].t);
}

/* The same numbers by the operations that PyTorch makes of it on the CPU. */
static int dropout_open(const rush_op *op, const rush_value *in, rush_value *out)
{
    double p = D_(in[1]);
    if (p == 0 || p == 1 || !I_(in[2]) || !in[0].t->numel || check_p(p)) return dropout_run(op, in, out);
    rush_tensor *noise = T("bernoulli_.float", V(T("empty_like", in[0])), V(1 - p));
    return rush_result(out, mul(in[0].t, noise ? T_INPLACE("div.Tensor", V(noise), V(1 - p)) : NULL));
}

static rush_op op_dropout = {
    .schema = "dropout(Tensor input, float p, bool train) -> Tensor", .method = RUSH_FUNCTION_, .node = "MulBackward0",
    .doc = "In training, zeroes elements with probability p and scales the others by 1/(1-p).", .run = dropout_run, .open = dropout_open,
    .flags = RUSH_SIDE_EFFECT | RUSH_INPLACE_OK};

/* ---- channels, and the kind that keeps mean and variance ---- */

/* Ones with probability 1-p, of x's size, or one per channel. */
static rush_tensor *kept(const rush_tensor *x, double p, bool channels)
{
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < x->ndim; d++) size[d] = channels && d >= 2 ? 1 : x->size[d];
    rush_tensor *noise = channels ? rush_tensor_new(x->dtype, x->device, x->ndim, size) : rush_tensor_new_like(x, x->dtype, x->device, RUSH_PRESERVE);
    return noise ? T("bernoulli_.float", V(noise), V(1 - p)) : NULL;
}

static int feature_check(const rush_value *in)
{
    RUSH_CHECK(in[0].t->ndim >= 2, RUSH_RUNTIME_ERROR, "Feature dropout requires at least 2 dimensions in the input");
    return 0;
}

static int feature_dropout_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double p = D_(in[1]);
    if (check_p(p)) return -1;
    if (p == 0 || !I_(in[2]) || !in[0].t->numel) return rush_result(out, in[0].t);
    if (p == 1) return rush_result(out, T("mul.Tensor", in[0], V(T("zeros_like", in[0]))));
    if (feature_check(in)) return -1;
    rush_tensor *noise = kept(in[0].t, p, true);
    return rush_result(out, mul(in[0].t, noise ? T_INPLACE("div.Tensor", V(noise), V(1 - p)) : NULL));
}

static int alpha_dropout(const rush_value *in, rush_value *out, bool channels)
{
    double p = D_(in[1]);
    if (check_p(p)) return -1;
    if (p == 0 || !I_(in[2]) || !in[0].t->numel) return rush_result(out, in[0].t);
    if (p == 1) return rush_result(out, T("mul.Tensor", in[0], V(T("zeros_like", in[0]))));
    if (channels && feature_check(in)) return -1;
    const double alpha = 1.7580993408473766; /* of selu: lambda times alpha */
    double a = 1 / __builtin_sqrt((alpha * alpha * p + 1) * (1 - p));
    rush_tensor *noise = kept(in[0].t, p, channels), *shift;
    shift = noise ? T("add.Tensor", V(noise), V(-1.0)) : NULL;
    shift = shift ? T_INPLACE("mul.Tensor", V(shift), V(alpha * a)) : NULL;
    shift = shift ? T_INPLACE("add.Tensor", V(shift), V(alpha * a * p)) : NULL;
    noise = shift ? T_INPLACE("mul.Tensor", V(noise), V(a)) : NULL;
    return rush_result(out, add(mul(in[0].t, noise), shift));
}

static int alpha_dropout_run(const rush_op *op, const rush_value *in, rush_value *out) { return alpha_dropout(in, out, false); }
static int feature_alpha_dropout_run(const rush_op *op, const rush_value *in, rush_value *out) { return alpha_dropout(in, out, true); }

static rush_op op_feature_dropout = {
    .schema = "feature_dropout(Tensor input, float p, bool train) -> Tensor", .method = RUSH_FUNCTION_,
    .doc = "In training, zeroes whole channels (dimension 1) with probability p and scales the others by 1/(1-p).",
    .run = feature_dropout_run, .flags = RUSH_SIDE_EFFECT | RUSH_INPLACE_OK};
static rush_op op_alpha_dropout = {
    .schema = "alpha_dropout(Tensor input, float p, bool train) -> Tensor", .method = RUSH_FUNCTION_,
    .doc = "Dropout to selu's lower limit, which keeps mean and variance. Klambauer et al., Self-normalizing neural networks, 2017.",
    .run = alpha_dropout_run, .flags = RUSH_SIDE_EFFECT | RUSH_INPLACE_OK};
static rush_op op_feature_alpha_dropout = {
    .schema = "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", .method = RUSH_FUNCTION_,
    .doc = "Alpha dropout of whole channels (dimension 1).",
    .run = feature_alpha_dropout_run, .flags = RUSH_SIDE_EFFECT | RUSH_INPLACE_OK};

/* ---- leaky relu with a slope drawn per element ---- */

static int rrelu_noise_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *noise = in[1].t;
    double lower = D_(in[2]), upper = D_(in[3]);
    RUSH_CHECK(lower <= upper, RUSH_RUNTIME_ERROR, "Lower bound should be less than or equal to the upper bound");
    RUSH_CHECK(lower - lower == 0 && upper - upper == 0, RUSH_RUNTIME_ERROR, "rrelu: the bounds must be finite, got %g and %g", lower, upper);
    RUSH_CHECK(rush_dtypes[x->dtype].category == 2, RUSH_NOT_IMPLEMENTED, "\"rrelu_with_noise_out_cpu\" not implemented for '%s'",
               rush_dtype_word(x->dtype));
    if (I_(in[4]))
        RUSH_CHECK(noise->dtype == x->dtype && rush_same_sizes(x, noise), RUSH_RUNTIME_ERROR,
                   "noise tensor shape must match self tensor shape. Got self.shape = %s and noise.shape = %s", rush_shape_of(x), rush_shape_of(noise));
    if (rush_generator_check(in[5], in[0].t->device)) return -1;
    return rush_out_t(out, 0, x, x->dtype, x->ndim, x->size) ? 0 : -1;
}

static void rrelu_noise_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *noise = in[1].t, *y = out[0].t;
    double lower = D_(in[2]), upper = D_(in[3]);
    if (!I_(in[4])) {
        rush_tensor *t = T("leaky_relu", V(x), V((lower + upper) / 2));
        if (t) rush_copy_into(y, t);
        return;
    }
    /* A number is drawn for each element that is not positive, in order; computed in double as the draw is. */
    rush_generator *g = rush_generator_of(in[5]);
    rush_dtype d = x->dtype;
    int64_t size = rush_dtypes[d].size, n = x->numel;
    const rush_tensor *read = rush_contiguous_copy(x);
    rush_tensor *slopes = rush_tensor_new(d, x->device, x->ndim, x->size), *result = rush_tensor_new(d, x->device, x->ndim, x->size);
    if (!read || !slopes || !result) return;
    const char *from = rush_ptr(read);
    rush_generator_lock(g);
    for (int64_t i = 0; i < n; i++) {
        double v, slope = 1;
        rush_convert(&v, RUSH_F64, 8, from + i * size, d, size, 1);
        if (v <= 0) {
            slope = __builtin_fma(rush_uniform_one(g), upper - lower, lower);
            rush_convert((char *)rush_ptr(slopes) + i * size, d, size, &slope, RUSH_F64, 8, 1);
            if (d == RUSH_F64) v *= slope;
            else v = (float)v * (float)slope;
        } else {
            rush_convert((char *)rush_ptr(slopes) + i * size, d, size, &slope, RUSH_F64, 8, 1);
        }
        rush_convert((char *)rush_ptr(result) + i * size, d, size, &v, RUSH_F64, 8, 1);
    }
    rush_generator_unlock(g);
    rush_copy_into(noise, slopes);
    rush_version_bump(noise);
    rush_copy_into(y, result);
}

static void rrelu_noise_grad(rush_grads *s)
{
    if (!s->g[0] || !rush_needs(s, 0)) return;
    s->gin[0] = T("rrelu_with_noise_backward", V(s->g[0]), s->in[0], s->in[1], s->in[2], s->in[3], s->in[4], V(false));
}

static rush_op op_rrelu_with_noise = {
    .schema = "rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None) -> Tensor",
    .method = RUSH_FUNCTION_ | RUSH_NN,
    .doc = "rrelu() that leaves the slopes it drew in noise.", .shape = rrelu_noise_shape, .cpu = rrelu_noise_cpu,
    .grad = rrelu_noise_grad, .saves = "self, noise", .flags = RUSH_SIDE_EFFECT | RUSH_INPLACE_OK};

static int rrelu_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double lower = D_(in[3]), upper = D_(in[4]);
    if (I_(in[5]) && upper - lower > 1e-6) return rush_result(out, mul(in[0].t, in[2].t));
    return rush_result(out, T("leaky_relu_backward", in[0], in[1], V((lower + upper) / 2), in[6]));
}

static void rrelu_backward_grad(rush_grads *s)
{
    if (s->g[0] && rush_needs(s, 0))
        s->gin[0] = T("rrelu_with_noise_backward", V(s->g[0]), s->in[1], s->in[2], s->in[3], s->in[4], s->in[5], s->in[6]);
    rush_no_curvature(s);
}

static rush_op op_rrelu_with_noise_backward = {
    .schema = "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, bool self_is_result) -> Tensor",
    .doc = "The gradient of rrelu_with_noise().", .run = rrelu_backward_run, .grad = rrelu_backward_grad, .saves = "self, noise"};

static int rrelu_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(D_(in[1]) <= D_(in[2]), RUSH_RUNTIME_ERROR, "Lower bound should be less than or equal to the upper bound");
    rush_tensor *noise = rush_tensor_new(in[0].t->dtype, in[0].t->device, in[0].t->ndim, in[0].t->size);
    return noise ? rush_result(out, T("rrelu_with_noise", in[0], V(noise), in[1], in[2], in[3], in[4])) : -1;
}

static rush_op op_rrelu = {
    .schema = "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None) -> Tensor",
    .method = RUSH_FUNCTION_,
    .doc = "Leaky relu whose slope is drawn uniformly from [lower, upper) per element in training, their mean otherwise. "
           "Xu et al., Empirical evaluation of rectified activations in convolutional network, 2015.",
    .run = rrelu_run, .flags = RUSH_SIDE_EFFECT | RUSH_INPLACE_OK};

RUSH_FAMILY(dropout, &op_native_dropout, &op_native_dropout_backward, &op_dropout, &op_feature_dropout, &op_alpha_dropout,
            &op_feature_alpha_dropout, &op_rrelu_with_noise, &op_rrelu_with_noise_backward, &op_rrelu)
