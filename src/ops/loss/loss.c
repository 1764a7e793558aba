/* loss.c - the losses of torch.nn.functional that are operations, but for those of labels (label_loss.c).
 *
 * Each is its formula over other operations, then a reduction: 0 none, 1 mean, 2 sum.
 */
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/loss/loss.h"
#include <math.h>
#include <stdio.h>

rush_tensor *rush_reduced(rush_tensor *loss, int64_t reduction)
{
    if (!loss) return NULL;
    RUSH_CHECK_NULL(reduction >= 0 && reduction <= 2, RUSH_VALUE_ERROR, "%lld is not a valid value for reduction", (long long)reduction);
    return reduction == 0 ? loss : reduction == 1 ? T("mean", V(loss)) : sum_all(loss);
}

#define REDUCED(out, loss, reduction) rush_result(out, rush_reduced(loss, (reduction).i))
#define clamp_min(a, low) T("clamp_min", V(a), V(low))

/* `part` of what the mean divides by, in the gradient. */
static double share(const rush_tensor *d, double part, rush_value reduction)
{
    return rush_round_to(reduction.i == 1 ? part / (double)RUSH_MAX(d->numel, 1) : part, d->dtype == RUSH_F32 ? RUSH_F64 : d->dtype);
}

/* The gradient of a loss of differences by each of its two; `more` is the loss's parameter, where it has one. */
static void difference_grad(rush_grads *s)
{
    char name[64];
    snprintf(name, sizeof name, "%s_backward", s->op->base);
    const rush_op *back = rush_op_find(name);
    for (int i = 0; i < 2 && s->g[0]; ++i) {
        rush_value args[] = {V(s->g[0]), s->in[i], s->in[1 - i], s->in[2], s->op->nargs > 3 ? s->in[3] : RUSH_NONE};
        if (rush_needs(s, i)) s->gin[i] = rush_sum_to(rush_apply(back, back->nargs, args), s->in[i].t);
    }
}

/* a - b, where one may be of truth values. */
static rush_tensor *difference(rush_tensor *a, rush_tensor *b)
{
    if (a->dtype == RUSH_BOOL && b->dtype != RUSH_BOOL) a = to_dtype(a, b->dtype);
    if (b->dtype == RUSH_BOOL && a && a->dtype != RUSH_BOOL) b = to_dtype(b, a->dtype);
    return sub(a, b);
}

static int float_pair(const rush_value *in, const char *kernel)
{
    rush_dtype d = rush_promote(in[0].t->dtype, in[1].t->dtype);
    RUSH_CHECK(rush_dtype_is_float(d), RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, rush_dtype_word(d));
    return 0;
}

/* A loss of mixed dtypes, in that of one of the two. */
static rush_tensor *loss_in(rush_tensor *loss, rush_dtype d)
{
    if (!loss || loss->dtype == d) return loss;
    RUSH_CHECK_NULL(rush_dtype_is_float(d), RUSH_RUNTIME_ERROR, "result type %s can't be cast to the desired output type %s", rush_dtype_word(loss->dtype),
                    rush_dtype_word(d));
    return to_dtype(loss, d);
}

static int mse_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (float_pair(in, "mse_cpu")) return -1;
    rush_tensor *a = in[0].t, *b = in[1].t, *d;
    if (a->dtype == b->dtype && rush_dtypes[a->dtype].size >= 4) return REDUCED(out, T("_squared_difference", V(a), V(b)), in[2]);
    d = difference(a, b); /* the difference is rounded */
    return REDUCED(out, mul(d, d), in[2]);
}

static int mse_back_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *d = difference(in[1].t, in[2].t);
    return d ? rush_result(out, rush_laid_plain(mul(mul(d, share(d, 2, in[3])), in[0].t))) : -1;
}

static int l1_run(const rush_op *op, const rush_value *in, rush_value *out) { return REDUCED(out, abs_(sub(in[0].t, in[1].t)), in[2]); }

static int smooth_l1_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double beta = in[3].f;
    RUSH_CHECK(beta >= 0, RUSH_RUNTIME_ERROR, "smooth_l1_loss does not support negative values for beta.");
    if (beta == 0) return l1_run(op, in, out);
    if (float_pair(in, "smooth_l1_cpu")) return -1;
    rush_tensor *d = difference(in[0].t, in[1].t);
    return REDUCED(out, d ? T("_smooth_l1", V(d), V(beta), V(0.5 / beta)) : NULL, in[2]);
}

static int smooth_l1_back_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double beta = in[4].f;
    rush_dtype half = rush_dtypes[in[1].t->dtype].size == 2 ? in[1].t->dtype : 0; /* computed in float */
    rush_tensor *d = half ? difference(to_dtype(in[1].t, RUSH_F32), to_dtype(in[2].t, RUSH_F32)) : difference(in[1].t, in[2].t);
    if (!d) return -1;
    rush_tensor *slope = mul(T("_smooth_l1_slope", V(d), V(beta)), share(d, 1, in[3]));
    return rush_result(out, rush_laid_plain(half ? to_dtype(mul(slope, to_dtype(in[0].t, RUSH_F32)), half) : mul(slope, in[0].t)));
}

static int huber_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double delta = in[3].f;
    RUSH_CHECK(delta > 0, RUSH_RUNTIME_ERROR, "huber_loss does not support non-positive values for delta.");
    if (float_pair(in, "huber_cpu")) return -1;
    rush_tensor *d = difference(in[0].t, in[1].t);
    return REDUCED(out, loss_in(d ? T("_huber", V(d), V(delta)) : NULL, in[0].t->dtype), in[2]);
}

static int huber_back_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double delta = in[4].f;
    rush_tensor *d = difference(in[1].t, in[2].t);
    if (!d) return -1;
    return rush_result(out, rush_laid_plain(mul(mul(T("hardtanh", V(d), V(-delta), V(delta)), share(d, 1, in[3])), in[0].t)));
}

#define DIFFERENCE .grad = difference_grad, .saves = "self, target", .flags = RUSH_AUTOCAST_F32 | RUSH_WHOLE | RUSH_OUT_CASTS
#define BACKWARD(name, more, how)                                                                                                                \
    {.schema = name "_backward(Tensor grad_output, Tensor self, Tensor target, int reduction" more ") -> Tensor", .doc = "Gradient of " name ".", \
     .run = how, .flags = RUSH_HIDDEN | RUSH_WHOLE}
static rush_op op_mse_backward = BACKWARD("mse_loss", "", mse_back_run), op_smooth_l1_backward = BACKWARD("smooth_l1_loss", ", float beta", smooth_l1_back_run),
               op_huber_backward = BACKWARD("huber_loss", ", float delta", huber_back_run);
#define PAIR "(Tensor self, Tensor target, int reduction=Mean"
static rush_op op_mse_loss = {.schema = "mse_loss" PAIR ") -> Tensor", .method = RUSH_NN, .node = "MseLossBackward0", .doc = "Squared difference.", .run = mse_run, DIFFERENCE};
static rush_op op_l1_loss = {.schema = "l1_loss" PAIR ") -> Tensor", .method = RUSH_NN, .doc = "Absolute difference.", .run = l1_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_smooth_l1_loss = {
    .schema = "smooth_l1_loss" PAIR ", float beta=1.0) -> Tensor", .method = RUSH_NN, .node = "SmoothL1LossBackward0",
    .doc = "d^2 / (2 beta) where |d| < beta, |d| - beta / 2 elsewhere. Girshick, 2015.", .run = smooth_l1_run, DIFFERENCE,
};
static rush_op op_huber_loss = {
    .schema = "huber_loss" PAIR ", float delta=1.0) -> Tensor", .method = RUSH_NN, .node = "HuberLossBackward0",
    .doc = "d^2 / 2 where |d| <= delta, delta (|d| - delta / 2) elsewhere. Huber, 1964.", .run = huber_run, DIFFERENCE,
};

/* ---- binary cross entropy ---- */

static int all_within(rush_value *out, rush_tensor *x, const char *words)
{
    rush_tensor *inside = T("all", V(logical_and(ge(x, 0.0), le(x, 1.0))));
    return inside && !TN(out, "_assert_async.msg", V(inside), V(words)) ? 0 : -1;
}

static int bce_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t, *w = T_(in[2]);
    RUSH_CHECK(rush_same_sizes(x, t), RUSH_VALUE_ERROR, "Using a target size (%s) that is different to the input size (%s) is deprecated. "
               "Please ensure they have the same size.", rush_shape_of(t), rush_shape_of(x));
    RUSH_CHECK(x->dtype == t->dtype, RUSH_RUNTIME_ERROR, "Found dtype %s but expected %s", rush_dtype_word(t->dtype), rush_dtype_word(x->dtype));
    if (w && w->dtype != x->dtype && !(w = to_dtype(w, x->dtype))) return -1;
    if (all_within(out, x, "all elements of input should be between 0 and 1") || all_within(out, t, "all elements of target should be between 0 and 1")) return -1;
    rush_tensor *loss = mul(T("clamp_min", V(T("log1p", V(neg(x)))), V(-100)), sub(t, 1));
    loss = sub(loss, mul(T("clamp_min", V(log_(x)), V(-100)), t));
    if (w) loss = mul(loss, w);
    if (loss && loss->dtype != x->dtype) loss = to_dtype(loss, x->dtype);
    return REDUCED(out, loss, in[3]);
}

static int bce_back_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = in[0].t, *x = in[1].t, *t = in[2].t, *w = T_(in[3]);
    rush_tensor *d = div_(mul(sub(x, t), g), clamp_min(mul(sub(1, x), x), 1e-12));
    if (w) d = mul(d, w);
    return rush_result(out, d && in[4].i == 1 ? T_INPLACE("div.Tensor", V(d), V((double)RUSH_MAX(x->numel, 1))) : d);
}

static rush_op op_bce_backward = {
    .schema = "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor",
    .doc = "Gradient of binary_cross_entropy.", .run = bce_back_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

static void bce_grad(rush_grads *s) /* the logarithms' clamps do not stop the gradient, a floor of the divisor does */
{
    rush_tensor *g = s->g[0], *x = s->in[0].t, *t = s->in[1].t, *w = T_(s->in[2]);
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = T("binary_cross_entropy_backward", V(g), V(x), V(t), s->in[2], s->in[3]);
    if (!rush_needs(s, 1) && !rush_needs(s, 2)) return;
    if (rush_needs(s, 1)) {
        rush_tensor *d = mul(sub(clamp_min(T("log1p", V(neg(x))), -100), clamp_min(log_(x), -100)), g);
        if (w) d = mul(d, w);
        s->gin[1] = d && s->in[3].i == 1 ? div_(d, (double)RUSH_MAX(x->numel, 1)) : d;
    }
    if (rush_needs(s, 2)) rush_fail(RUSH_NOT_IMPLEMENTED, "the derivative for 'weight' is not implemented.");
}

static rush_op op_binary_cross_entropy = {
    .schema = "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor", .method = RUSH_NN,
    .doc = "-(t log x + (1 - t) log(1 - x)) of probabilities x; logarithms not below -100.",
    .run = bce_run, .grad = bce_grad, .saves = "self, target, weight", .flags = RUSH_AUTOCAST_F32 | RUSH_WHOLE,
};

static int bce_logits_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t, *w = T_(in[2]), *pos = T_(in[3]);
    RUSH_CHECK(rush_same_sizes(x, t), RUSH_VALUE_ERROR, "Target size (%s) must be the same as input size (%s)", rush_shape_of(t), rush_shape_of(x));
    rush_tensor *ls = T("log_sigmoid", V(x)), *rest = mul(sub(1, t), x);
    if (pos) ls = mul(ls, add(mul(sub(pos, 1), t), 1));
    rush_tensor *loss = sub(rest, ls);
    if (w) loss = mul(loss, w);
    return REDUCED(out, loss_in(loss, t->dtype), in[4]);
}

static void bce_logits_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[0].t, *t = s->in[1].t, *w = T_(s->in[2]), *pos = T_(s->in[3]);
    if (!g) return;
    if (rush_needs(s, 2) || rush_needs(s, 3))
        rush_fail(RUSH_NOT_IMPLEMENTED, "the derivative for '%s' is not implemented.", rush_needs(s, 2) ? "weight" : "pos_weight");
    for (int i = 0; i < 2; ++i) {
        if (!rush_needs(s, i)) continue;
        rush_tensor *d;
        if (i == 0 && !pos) {
            d = sub(T("sigmoid", V(x)), t);
        } else if (i == 0) {
            rush_tensor *positive = mul(pos, t);
            d = sub(mul(sub(add(positive, 1), t), T("sigmoid", V(x))), positive);
        } else {
            d = pos ? sub(T("log_sigmoid", V(neg(x))), mul(pos, T("log_sigmoid", V(x)))) : neg(x);
        }
        d = mul(d, g);
        if (w) d = mul(d, w);
        s->gin[i] = d && s->in[4].i == 1 ? T_INPLACE("div.Tensor", V(d), V((double)RUSH_MAX(x->numel, 1))) : d;
    }
}

static rush_op op_bce_with_logits = {
    .schema = "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=Mean) -> Tensor",
    .node = "BinaryCrossEntropyWithLogitsBackward0",
    .doc = "Binary cross entropy of sigmoid(self), without its loss of digits; pos_weight multiplies the positive part.",
    .run = bce_logits_run, .grad = bce_logits_grad, .saves = "self, target, weight, pos_weight", .flags = RUSH_AUTOCAST_F32 | RUSH_WHOLE,
};

/* ---- distributions ---- */

static int kl_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t;
    for (int i = 0; i < 2; ++i) {
        RUSH_CHECK(rush_dtypes[in[i].t->dtype].category > 1, RUSH_RUNTIME_ERROR, "Integral inputs not supported.");
        RUSH_CHECK(!rush_dtype_is_complex(in[i].t->dtype), RUSH_RUNTIME_ERROR, "Complex inputs not supported.");
    }
    if (in[3].i) return REDUCED(out, mul(exp_(t), sub(t, x)), in[2]);
    rush_tensor *less = mul(t, x); /* made first, its gradient comes last */
    return REDUCED(out, sub(rush_dtypes[t->dtype].size == 2 ? where(eq(t, 0), t, mul(t, log_(t))) : T("xlogy.Tensor", V(t), V(t)), less), in[2]);
}

static int poisson_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t;
    rush_tensor *less = mul(t, in[2].i ? x : log_(add(x, in[4].f))), *loss = sub(in[2].i ? exp_(x) : x, less);
    if (in[3].i) { /* Stirling's term */
        rush_tensor *more = add(sub(mul(t, log_(t)), t), mul(log_(mul(t, 2 * M_PI)), 0.5));
        loss = T_INPLACE("add.Tensor", V(loss), V(T("masked_fill.Scalar", V(more), V(le(t, 1)), V(0)))); /* counts do not make a loss in halves wider */
    }
    return REDUCED(out, loss, in[5]);
}

static rush_op op_kl_div = {
    .schema = "kl_div" PAIR ", *, bool log_target=False) -> Tensor",
    .doc = "target (log target - self), self being logarithms of probabilities.", .run = kl_run, .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_poisson_nll_loss = {
    .schema = "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
    .doc = "Negative log likelihood of counts under a Poisson distribution.", .run = poisson_run, .flags = RUSH_AUTOCAST_F32,
};

/* ---- margins and distances ---- */

static int soft_margin_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *loss = T("log1p", V(exp_(neg(mul(in[0].t, in[1].t)))));
    return REDUCED(out, loss_in(loss, in[0].t->dtype), in[2]);
}

static void soft_margin_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t, *t = s->in[1].t;
    if (rush_needs(s, 1)) rush_fail(RUSH_NOT_IMPLEMENTED, "the derivative for 'target' is not implemented.");
    if (!s->g[0] || !rush_needs(s, 0)) return;
    rush_tensor *z = exp_(neg(mul(x, t))), *d = mul(neg(t), z);
    if (s->in[2].i == 1) d = mul(d, 1.0 / (double)RUSH_MAX(x->numel, 1));
    s->gin[0] = rush_sum_to(div_(mul(d, s->g[0]), add(z, 1)), x);
}

static int hinge_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t, *far = clamp_min(sub(in[2].f, x), 0);
    rush_tensor *loss = add(where(ne(t, 1), far, 0.0), where(ne(t, -1), x, 0.0));
    return REDUCED(out, loss, in[3]);
}

static int ranking_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t, *t = in[2].t;
    return REDUCED(out, clamp_min(add(mul(neg(t), sub(a, b)), in[3].f), 0), in[4]);
}

static int cosine_embedding_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t, *t = in[2].t;
    const double eps = 1e-12;
    RUSH_CHECK(t->ndim <= 1, RUSH_RUNTIME_ERROR, "0D or 1D target tensor expected, multi-target not supported");
    RUSH_CHECK(t->ndim == 1 || (a->ndim == 1 && b->ndim == 1), RUSH_RUNTIME_ERROR, "0D target tensor expects 1D input tensors, but found inputs with sizes: %s, %s.",
               rush_shape_of(a), rush_shape_of(b));
    RUSH_CHECK(t->ndim == 0 || (a->ndim == 2 && b->ndim == 2), RUSH_RUNTIME_ERROR, "1D target tensor expects 2D input tensors, but found inputs with sizes: %s, %s.",
               rush_shape_of(a), rush_shape_of(b));
    int d = t->ndim;
    rush_tensor *dot = sum_dim(mul(a, b), d, false), *na = add(sum_dim(mul(a, a), d, false), eps), *nb = add(sum_dim(mul(b, b), d, false), eps);
    rush_tensor *c = div_(dot, sqrt_(mul(na, nb)));
    rush_tensor *loss = add(where(eq(t, 1), sub(1, c), 0.0), where(eq(t, -1), clamp_min(sub(c, in[3].f), 0), 0.0));
    return REDUCED(out, loss, in[4]);
}

static rush_tensor *distance(rush_tensor *a, rush_tensor *b, double p, double eps, bool keepdim)
{
    rush_tensor *d = sub(a, b);
    if (!d) return NULL;
    int64_t last = d->ndim - 1;
    return T("linalg_vector_norm", V(add(d, eps)), V(p), INTS(last), V(keepdim));
}

static int pairwise_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, distance(in[0].t, in[1].t, in[2].f, in[3].f, in[4].i)); }

static int triplet_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *near = in[1].t, *far = in[2].t;
    double margin = in[3].f, p = in[4].f, eps = in[5].f;
    RUSH_CHECK(a->ndim == near->ndim && a->ndim == far->ndim, RUSH_RUNTIME_ERROR,
               "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor %dD, positive %dD, and negative %dD inputs",
               a->ndim, near->ndim, far->ndim);
    RUSH_CHECK(margin > 0, RUSH_VALUE_ERROR, "triplet_margin_loss: margin must be greater than 0, got %g", margin);
    rush_tensor *dn = distance(a, near, p, eps, false), *df = distance(a, far, p, eps, false);
    if (in[6].i) df = T("minimum", V(df), V(distance(near, far, p, eps, false)));
    return REDUCED(out, clamp_min(add(sub(dn, df), margin), 0), in[7]);
}

static int cosine_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    rush_dtype d = rush_promote(a->dtype, b->dtype);
    RUSH_CHECK(rush_dtypes[d].category == 2, RUSH_RUNTIME_ERROR, "expected common dtype to be floating point, yet common dtype is %s", rush_dtype_word(d));
    if (rush_dtypes[a->dtype].category < 2) a = to_dtype(a, d); /* halves keep their own norm, as PyTorch's numbers show */
    if (rush_dtypes[b->dtype].category < 2) b = to_dtype(b, d);
    int64_t size[RUSH_MAXDIM];
    int nd;
    if (!a || !b || rush_broadcast_sizes(a->ndim, a->size, b->ndim, b->size, &nd, size)) return -1;
    a = T("expand", V(a), rush_v_ints(size, nd));
    b = T("expand", V(b), rush_v_ints(size, nd));
    rush_value dim = INTS(in[2].i);
    rush_tensor *na = clamp_min(T("linalg_vector_norm", V(a), V(2), dim, V(true)), in[3].f);
    rush_tensor *nb = clamp_min(T("linalg_vector_norm", V(b), V(2), dim, V(true)), in[3].f);
    return rush_result(out, sum_dim(mul(div_(a, na), div_(b, nb)), in[2].i, false));
}

static rush_op op_soft_margin_loss = {.schema = "soft_margin_loss" PAIR ") -> Tensor", .method = RUSH_NN, .node = "SoftMarginLossBackward0", .doc = "log(1 + exp(-target self)).", .run = soft_margin_run, .grad = soft_margin_grad, .saves = "self, target", .flags = RUSH_AUTOCAST_F32 | RUSH_WHOLE};
static rush_op op_hinge = {
    .schema = "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=Mean) -> Tensor",
    .doc = "self where target is 1, max(0, margin - self) where it is -1.", .run = hinge_run, .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_ranking = {
    .schema = "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor",
    .doc = "max(0, -target (input1 - input2) + margin).", .run = ranking_run, .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_cosine_embedding = {
    .schema = "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor",
    .doc = "1 - cos where target is 1, max(0, cos - margin) where it is -1.", .run = cosine_embedding_run, .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_pairwise = {
    .schema = "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor", .node = "NormBackward1",
    .doc = "p-norm of x1 - x2 + eps along the last dim.", .run = pairwise_run,
};
static rush_op op_triplet = {
    .schema = "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float eps=1e-06, bool swap=False, int reduction=Mean) -> Tensor",
    .doc = "max(0, d(anchor, positive) - d(anchor, negative) + margin).", .run = triplet_run, .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_cosine = {
    .schema = "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    .doc = "x1 . x2 / (|x1| |x2|) along dim, norms not below eps.", .run = cosine_run,
};

RUSH_FAMILY(loss, &op_mse_loss, &op_mse_backward, &op_smooth_l1_backward, &op_huber_backward, &op_l1_loss, &op_smooth_l1_loss, &op_huber_loss, &op_binary_cross_entropy, &op_bce_backward, &op_bce_with_logits, &op_kl_div,
            &op_poisson_nll_loss, &op_soft_margin_loss, &op_hinge, &op_ranking, &op_cosine_embedding, &op_pairwise, &op_triplet, &op_cosine)
