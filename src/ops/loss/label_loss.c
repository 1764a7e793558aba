/* label_loss.c - losses of classes: negative log likelihood, cross entropy, margins of classes, CTC. */
#include "autograd/autograd.h"
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/loss/loss.h"
#include <math.h>

#define clamp_min_zero(a) T("clamp_min", V(a), V(0))

/* ---- negative log likelihood: self (N, C), (C) or (N, C, H, W); one kernel for all, as (n, classes, inner) ---- */

typedef struct labels {
    int64_t n, classes, inner;
    const int64_t *target;
    double *weight; /* per class, or NULL */
    int64_t ignore, reduction;
} labels;

/* Arguments from in: self, target, weight, reduction, ignore_index. */
static int read_labels(labels *l, const rush_tensor *self, rush_tensor *target, rush_tensor *weight, int64_t reduction, int64_t ignore)
{
    bool single = self->ndim == 1;
    *l = (labels){.n = single ? 1 : self->size[0], .classes = self->size[single ? 0 : 1], .inner = 1, .ignore = ignore, .reduction = reduction};
    for (int d = 2; d < self->ndim; ++d) l->inner *= self->size[d];
    rush_tensor *t = rush_cast_copy(target, RUSH_I64), *w = weight ? rush_cast_copy(weight, RUSH_F64) : NULL;
    if (!t || (weight && !w)) return -1;
    l->target = rush_ptr(t);
    l->weight = w ? rush_ptr(w) : NULL;
    for (int64_t i = 0; i < t->numel; ++i)
        RUSH_CHECK(l->target[i] == ignore || (l->target[i] >= 0 && l->target[i] < l->classes), RUSH_INDEX_ERROR,
                   "Target %lld is out of bounds: at position %lld, with %lld classes.", (long long)l->target[i], (long long)i, (long long)l->classes);
    return 0;
}

static int weight_check(const rush_tensor *x, const rush_tensor *w)
{
    RUSH_CHECK(!w || w->dtype == x->dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s", rush_dtype_word(x->dtype), w ? rush_dtype_word(w->dtype) : "");
    return 0;
}

static int nll_check(const rush_tensor *x, const rush_tensor *t, const rush_tensor *w)
{
    RUSH_CHECK(rush_dtype_is_float(x->dtype), RUSH_NOT_IMPLEMENTED, "nll_loss is not implemented for %s", rush_dtype_name(x->dtype));
    RUSH_CHECK(t->dtype == RUSH_I64 || t->dtype == RUSH_U8, RUSH_RUNTIME_ERROR, "expected target dtype to be Long or Byte, but got %s", rush_dtype_word(t->dtype));
    RUSH_CHECK(x->ndim > 2 || t->ndim <= 1, RUSH_RUNTIME_ERROR, "0D or 1D target tensor expected, multi-target not supported");
    bool fits = x->ndim == 1 ? t->ndim <= 1 && t->numel == 1 : x->ndim - 1 == t->ndim && x->size[0] == t->size[0];
    for (int d = 2; fits && d < x->ndim; ++d) fits = x->size[d] == t->size[d - 1];
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "size mismatch (got input: %s, target: %s)", rush_shape_of(x), rush_shape_of(t));
    RUSH_CHECK(!w || (w->ndim == 1 && w->numel == x->size[x->ndim == 1 ? 0 : 1]), RUSH_RUNTIME_ERROR,
               "weight tensor should be defined either for all %lld classes or no classes but got weight tensor of shape: %s",
               (long long)x->size[x->ndim == 1 ? 0 : 1], w ? rush_shape_of(w) : "");
    return weight_check(x, w);
}

static int nll_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t;
    RUSH_CHECK(x->ndim > 0 && x->ndim != 3 && x->ndim <= 4, RUSH_RUNTIME_ERROR, "input tensor should be 1D, 2D or 4D");
    if (nll_check(x, t, T_(in[2]))) return -1;
    bool none = in[3].i == 0 && x->ndim > 1;
    return rush_out_t(out, 0, x, x->dtype, none ? t->ndim : 0, t->size) && rush_out_t(out, 1, x, x->dtype, 0, NULL) ? 0 : -1;
}

/* A sum in the order and precision of PyTorch's: each level passes what it has to the next when its 16 are full; the
 * first element goes through all of them. */
enum { LEVELS = 8 };

typedef struct levels {
    double sum[LEVELS];
    rush_dtype d;
} levels;

static void levels_add(levels *l, int64_t i, double v)
{
    l->sum[0] = rush_round_to(l->sum[0] + v, l->d);
    for (int k = 0; k + 1 < LEVELS && !(i >> (4 * k) & 15); ++k) {
        l->sum[k + 1] = rush_round_to(l->sum[k + 1] + l->sum[k], l->d);
        l->sum[k] = 0;
    }
}

static double levels_total(const levels *l)
{
    double sum = 0;
    for (int k = 0; k < LEVELS; ++k) sum = rush_round_to(sum + l->sum[k], l->d);
    return sum;
}

static void nll_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    labels l;
    rush_tensor *x = rush_cast_copy(in[0].t, in[0].t->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32);
    if (!x || read_labels(&l, x, in[1].t, T_(in[2]), in[3].i, in[4].i)) return;
    bool none = l.reduction == 0, wide = x->dtype == RUSH_F64;
    rush_tensor *to = none ? rush_tensor_new(x->dtype, x->device, out[0].t->ndim, out[0].t->size) : NULL;
    rush_dtype d = in[0].t->dtype;
    levels sums = {.d = d}, weights = {.d = d};
    double total = 0;
    if (none && !to) return;
    for (int64_t i = 0; i < l.n * l.inner; ++i) {
        int64_t t = l.target[i], at = (i / l.inner * l.classes + t) * l.inner + i % l.inner;
        double w = t == l.ignore ? 0 : l.weight ? l.weight[t] : 1, loss = t == l.ignore ? 0 : -w * (wide ? ((double *)rush_ptr(x))[at] : ((float *)rush_ptr(x))[at]);
        if (!none && t != l.ignore) {
            if (l.weight) levels_add(&weights, i, w);
            else total += w;
            levels_add(&sums, i, rush_round_to(loss, d));
        }
        if (none && wide) ((double *)rush_ptr(to))[i] = loss;
        else if (none) ((float *)rush_ptr(to))[i] = (float)loss;
    }
    if (none) {
        rush_copy_into(out[0].t, to);
    } else {
        double r = levels_total(&sums);
        if (l.weight) total = levels_total(&weights);
        if (l.reduction == 1) r /= total;
        rush_convert(rush_ptr(out[0].t), out[0].t->dtype, 0, &r, RUSH_F64, 0, 1);
    }
    rush_convert(rush_ptr(out[1].t), out[1].t->dtype, 0, &total, RUSH_F64, 0, 1);
}

static void nll_grad_of(rush_grads *s, bool two)
{
    if (!s->g[0]) return;
    s->gin[0] = two ? T("nll_loss2d_backward", V(s->g[0]), rush_in_graph(s, 0), s->in[1], s->in[2], s->in[3], s->in[4], s->out[1])
                    : T("nll_loss_backward", V(s->g[0]), rush_in_graph(s, 0), s->in[1], s->in[2], s->in[3], s->in[4], s->out[1]);
}

static void nll_grad(rush_grads *s) { nll_grad_of(s, false); }
static void nll2d_grad(rush_grads *s) { nll_grad_of(s, true); }

#define NLL_ARGS "Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index"
#define NLL_FORWARD(name, node_, grad_) {.schema = name "_forward(" NLL_ARGS ") -> (Tensor output, Tensor total_weight)", .node = node_, \
    .doc = "Minus the entry of the target class, weighted, and the sum of the weights.", .shape = nll_shape, .cpu = nll_cpu, .grad = grad_, \
    .saves = "target, weight, result1", .flags = RUSH_FIRST_GRAD | RUSH_HANDS_ON}
static rush_op op_nll_loss_forward = NLL_FORWARD("nll_loss", "NllLossBackward0", nll_grad), op_nll_loss2d_forward = NLL_FORWARD("nll_loss2d", "NllLoss2DBackward0", nll2d_grad);

/* in: grad_output, self, target, weight, reduction, ignore_index, total_weight; self is known by shape only */
static int nll_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[1].t;
    if (nll_check(x, in[2].t, T_(in[3]))) return -1;
    RUSH_CHECK(in[0].t->numel == (in[4].i == 0 ? in[2].t->numel : 1), RUSH_RUNTIME_ERROR,
               "Expected a %s as grad_output, but got shape %s", in[4].i == 0 ? "tensor of the target's size" : "single element", rush_shape_of(in[0].t));
    RUSH_CHECK(in[6].t->numel == 1, RUSH_RUNTIME_ERROR, "expected total_weight to be a single element, but got shape %s", rush_shape_of(in[6].t));
    return rush_out_t(out, 0, in[0].t, x->dtype, x->ndim, x->size) ? 0 : -1;
}

static void nll_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    labels l;
    rush_tensor *to = out[0].t, *g = rush_cast_copy(in[0].t, RUSH_F64);
    if (!g || read_labels(&l, to, in[2].t, T_(in[3]), in[4].i, in[5].i)) return;
    rush_tensor *work = to->dtype == RUSH_F32 || to->dtype == RUSH_F64 ? to : rush_tensor_new(RUSH_F32, to->device, to->ndim, to->size);
    if (!work) return;
    rush_zero_into(work);
    double total = l.reduction == 1 ? rush_item(in[6].t) : 1;
    bool wide = work->dtype == RUSH_F64;
    for (int64_t i = 0; i < l.n * l.inner; ++i) {
        int64_t t = l.target[i];
        if (t == l.ignore) continue;
        double v = -(l.weight ? l.weight[t] : 1) * rush_round_to(((double *)rush_ptr(g))[l.reduction == 0 ? i : 0] / total, to->dtype);
        int64_t at = (i / l.inner * l.classes + t) * l.inner + i % l.inner;
        if (wide) ((double *)rush_ptr(work))[at] = v;
        else ((float *)rush_ptr(work))[at] = (float)v;
    }
    if (work != to) rush_copy_into(to, work);
}

static void nll_back_grad_of(rush_grads *s, bool two) /* linear in grad_output */
{
    rush_no_curvature(s);
    if (!s->g[0] || !rush_needs(s, 0)) return;
    rush_value args[5] = {V(s->g[0]), s->in[2], s->in[3], s->in[4], s->in[5]}, got[RUSH_MAXOUT];
    if (two ? TN(got, "nll_loss2d_forward", args[0], args[1], args[2], args[3], args[4])
            : TN(got, "nll_loss_forward", args[0], args[1], args[2], args[3], args[4])) return;
    s->gin[0] = got[0].t;
}

static void nll_back_grad(rush_grads *s) { nll_back_grad_of(s, false); }
static void nll2d_back_grad(rush_grads *s) { nll_back_grad_of(s, true); }

#define NLL_BACKWARD(name, grad_) {.schema = name "_backward(Tensor grad_output, " NLL_ARGS ", Tensor total_weight) -> Tensor", \
    .doc = "Gradient of " name ".", .shape = nll_back_shape, .cpu = nll_back_cpu, .grad = grad_, .saves = "target, weight, total_weight"}
static rush_op op_nll_loss_backward = NLL_BACKWARD("nll_loss", nll_back_grad), op_nll_loss2d_backward = NLL_BACKWARD("nll_loss2d", nll2d_back_grad);

static int nll_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    return TN(got, "nll_loss_forward", in[0], in[1], in[2], in[3], in[4]) ? -1 : rush_result(out, got[0].t);
}

static int nll2d_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    RUSH_CHECK(in[0].t->ndim == 4, RUSH_RUNTIME_ERROR, "only batches of spatial inputs supported (4D tensors), but got input of dimension: %d", in[0].t->ndim);
    RUSH_CHECK(in[1].t->ndim == 3, RUSH_RUNTIME_ERROR, "only batches of spatial targets supported (3D tensors) but got targets of dimension: %d", in[1].t->ndim);
    return TN(got, "nll_loss2d_forward", in[0], in[1], in[2], in[3], in[4]) ? -1 : rush_result(out, got[0].t);
}

static int nll_nd_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t;
    RUSH_CHECK(x->ndim >= 1, RUSH_VALUE_ERROR, "Expected 1 or more dimensions (got 0)");
    RUSH_CHECK(x->ndim > 1 || t->ndim != 1 || t->size[0] == 1, RUSH_VALUE_ERROR, "For 1D input, 1D target must have size 1, but got target size: %lld", (long long)t->size[0]);
    RUSH_CHECK(x->ndim == 1 || (t->ndim && x->size[0] == t->size[0]), RUSH_VALUE_ERROR, "Expected input batch_size (%lld) to match target batch_size (%lld).",
               (long long)x->size[0], t->ndim ? (long long)t->size[0] : 0LL);
    if (x->ndim <= 2) return nll_run(op, in, out);
    if (x->ndim == 4) return nll2d_run(op, in, out);
    /* (N, C, d1, ...) as (N, C, 1, all) */
    int64_t n = x->size[0], c = x->size[1], rest = 1, wanted[RUSH_MAXDIM] = {n};
    for (int d = 2; d < x->ndim; ++d) rest *= wanted[d - 1] = x->size[d];
    RUSH_CHECK(t->ndim == x->ndim - 1 && !memcmp(t->size, wanted, sizeof *wanted * (size_t)t->ndim), RUSH_RUNTIME_ERROR, "Expected target size %s, got %s",
               rush_shape_text(x->ndim - 1, wanted), rush_shape_of(t));
    rush_value args[] = {V(T("reshape", V(x), INTS(n, c, 1, rest))), V(T("reshape", V(t), INTS(n, 1, rest))), in[2], in[3], in[4]};
    rush_value got[RUSH_MAXOUT];
    if (rush_failed() || nll2d_run(op, args, got)) return -1;
    return rush_result(out, in[3].i == 0 ? T("reshape", got[0], rush_v_ints(t->size, t->ndim)) : got[0].t);
}

#define NLL_NAMED "(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) -> Tensor"
static rush_op op_nll_loss = {.schema = "nll_loss" NLL_NAMED, .method = RUSH_NN, .doc = "Negative log likelihood of classes: self (N, C), target (N).", .run = nll_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_nll_loss2d = {.schema = "nll_loss2d" NLL_NAMED, .method = RUSH_NN, .doc = "nll_loss of pictures: self (N, C, H, W), target (N, H, W).", .run = nll2d_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_nll_loss_nd = {.schema = "nll_loss_nd" NLL_NAMED, .method = RUSH_NN, .doc = "nll_loss of any number of dims: self (N, C, ...), target (N, ...).", .run = nll_nd_run, .flags = RUSH_AUTOCAST_F32};

/* ---- cross entropy ---- */

/* in: self, target, weight, reduction, ignore_index, label_smoothing */
static int cross_entropy_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t, *w = T_(in[2]);
    double smooth = in[5].f;
    int dim = x->ndim == 1 ? 0 : 1;
    RUSH_CHECK(x->ndim > 0, RUSH_INDEX_ERROR, "Dimension out of range: cross entropy needs an input of at least one dimension");
    RUSH_CHECK(smooth >= 0 && smooth <= 1, RUSH_RUNTIME_ERROR, "label_smoothing must be between 0.0 and 1.0. Got: %g", smooth);
    int64_t classes = x->size[dim];
    rush_tensor *lp = T("log_softmax.int", V(x), V((int64_t)dim), rush_v_dtype(x->dtype));
    if (rush_dtype_is_float(t->dtype)) { /* probabilities */
        RUSH_CHECK(rush_same_sizes(x, t), RUSH_RUNTIME_ERROR, "expected target dtype to be Long or Byte, but got %s: probabilities need the "
                   "input's shape %s, the target has %s", rush_dtype_word(t->dtype), rush_shape_of(x), rush_shape_of(t));
        RUSH_CHECK(in[4].i < 0, RUSH_RUNTIME_ERROR, "ignore_index is not supported for floating point target");
        if (smooth > 0) t = add(mul(t, 1 - smooth), smooth / (double)classes);
        rush_tensor *terms = mul(lp, t);
        if (w) {
            int64_t size[RUSH_MAXDIM];
            for (int d = 0; d < x->ndim; ++d) size[d] = d == dim ? classes : 1;
            terms = mul(terms, T("view", V(w), rush_v_ints(size, x->ndim)));
        }
        rush_tensor *loss = neg(sum_dim(terms, dim, false));
        if (in[3].i == 1 && loss) return rush_result(out, div_(sum_all(loss), (double)(x->numel / RUSH_MAX(classes, 1))));
        return rush_result(out, rush_reduced(loss, in[3].i));
    }
    RUSH_CHECK(!rush_same_sizes(x, t) || x->ndim == 0 || x->ndim - 1 == t->ndim || x->ndim == 1, RUSH_RUNTIME_ERROR,
               "Expected floating point type for target with class probabilities, got %s", rush_dtype_name(t->dtype));
    rush_tensor *nll = T("nll_loss_nd", V(lp), V(t), in[2], in[3], in[4]);
    if (smooth == 0 || !nll) return rush_result(out, nll);
    /* the uniform part: minus the weighted mean of all log probabilities */
    rush_tensor *even;
    if (w) {
        int64_t size[RUSH_MAXDIM];
        for (int d = 0; d < x->ndim; ++d) size[d] = d == dim ? classes : 1;
        even = neg(sum_dim(mul(lp, T("view", V(w), rush_v_ints(size, x->ndim))), dim, false));
    } else {
        even = neg(sum_dim(lp, dim, false));
    }
    rush_tensor *skip = eq(t, in[4].i);
    even = even ? T("masked_fill.Scalar", V(even), V(skip), V(0.0)) : NULL;
    if (in[3].i == 2) even = sum_all(even);
    else if (in[3].i == 1 && w) even = div_(sum_all(even), sum_all(T("masked_fill.Scalar", V(T("reshape", V(T("index_select", V(w), V(0), V(T("masked_fill.Scalar",
                V(T("flatten.using_ints", V(t))), V(T("flatten.using_ints", V(skip))), V(0))))), rush_v_ints(t->size, t->ndim))), V(skip), V(0.0))));
    else if (in[3].i == 1) even = div_(sum_all(even), sum_all(logical_not(skip)));
    return rush_result(out, add(mul(nll, 1 - smooth), mul(even, smooth / (double)classes)));
}

static rush_op op_cross_entropy_loss = {
    .schema = "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100, float label_smoothing=0.0) -> Tensor",
    .method = RUSH_NN,
    .doc = "Cross entropy of logits self (N, C, ...) with class numbers (N, ...) or probabilities (N, C, ...).", .run = cross_entropy_run, .flags = RUSH_AUTOCAST_F32,
};

/* ---- margins of classes ---- */

static int multi_margin_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t, *w = T_(in[4]);
    double p = rush_to_double(in[2]), margin = rush_to_double(in[3]);
    RUSH_CHECK(p == 1 || p == 2, RUSH_RUNTIME_ERROR, "only p == 1 and p == 2 supported");
    bool single = x->ndim <= 1;
    RUSH_CHECK((x->ndim == 2 && x->size[1]) || (x->ndim == 1 && x->size[0]) || x->ndim == 0, RUSH_RUNTIME_ERROR,
               "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s", rush_shape_of(x));
    RUSH_CHECK(t->ndim <= 1 && t->numel == (single ? 1 : x->size[0]), RUSH_RUNTIME_ERROR, "inconsistent target size, expected %lld but got %s",
               (long long)(single ? 1 : x->size[0]), rush_shape_of(t));
    int64_t c = single ? RUSH_MAX(x->numel, 1) : x->size[1];
    RUSH_CHECK(!w || (w->ndim <= 1 && w->numel == c), RUSH_RUNTIME_ERROR, "inconsistent weight size, expected %lld but got %s", (long long)c, w ? rush_shape_of(w) : "");
    if (weight_check(x, w)) return -1;
    x = T("reshape", V(x), INTS(-1, c));
    rush_tensor *index = T("reshape", V(t), INTS(-1, 1));
    rush_tensor *own = T("gather", V(x), V(1), V(index));
    rush_tensor *z = clamp_min_zero(add(sub(x, own), margin));
    if (p == 2) z = mul(z, z);
    if (w) z = mul(z, T("reshape", V(T("index_select", V(w), V(0), V(T("reshape", V(t), INTS(-1))))), INTS(-1, 1)));
    z = z ? T("scatter.value", V(z), V(1), V(index), V(0)) : NULL;
    rush_tensor *loss = div_(sum_dim(z, 1, false), (double)c);
    if (single && loss) loss = squeeze(loss, 0);
    return rush_result(out, rush_reduced(loss, in[5].i));
}

static rush_op op_multi_margin_loss = {
    .schema = "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=Mean) -> Tensor",
    .method = RUSH_NN, .node = "MultiMarginLossBackward0",
    .doc = "Mean over the other classes of max(0, margin - self[target] + self[i])^p.", .run = multi_margin_run, .flags = RUSH_AUTOCAST_F32 | RUSH_WHOLE,
};

/* target lists classes, ended by -1 */
/* in: self (n, c), target. out: for each sample which classes are listed, how many entries of its list count, and these */
static int listed_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    RUSH_CHECK(x->ndim == 2 && x->numel == in[1].t->numel, RUSH_RUNTIME_ERROR, "inconsistent target size: %s for input of size: %s", rush_shape_of(in[1].t), rush_shape_of(x));
    return rush_out_t(out, 0, x, RUSH_BOOL, 2, x->size) && rush_out_t(out, 1, x, RUSH_BOOL, 2, x->size) && rush_out_t(out, 2, x, RUSH_I64, 2, x->size) ? 0 : -1;
}

static void listed_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *list = rush_cast_copy(in[1].t, RUSH_I64);
    int64_t n = in[0].t->size[0], c = in[0].t->size[1];
    for (int k = 0; k < 3; ++k) rush_zero_into(out[k].t);
    if (!list) return;
    bool *is = rush_ptr(out[0].t), *valid = rush_ptr(out[1].t);
    int64_t *index = rush_ptr(out[2].t);
    const int64_t *given = rush_ptr(list);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < c && given[i * c + j] >= 0; ++j) {
            int64_t k = given[i * c + j];
            if (k >= c) {
                rush_fail(RUSH_RUNTIME_ERROR, "argument #2 to multilabel_margin_loss is out of range: %lld", (long long)k);
                return;
            }
            index[i * c + j] = k;
            is[i * c + k] = valid[i * c + j] = true;
        }
}

static rush_op op_listed = {
    .schema = "_multilabel_listed(Tensor self, Tensor target) -> (Tensor is_target, Tensor valid, Tensor index)",
    .doc = "What multilabel_margin_loss reads of its target.", .shape = listed_shape, .cpu = listed_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int multilabel_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *t = in[1].t;
    bool single = x->ndim <= 1;
    RUSH_CHECK(x->ndim <= 2 && (x->ndim < 1 || x->size[x->ndim - 1]), RUSH_RUNTIME_ERROR, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s",
               rush_shape_of(x));
    RUSH_CHECK(t->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "expected scalar type Long but found %s", rush_dtype_word(t->dtype));
    RUSH_CHECK(rush_same_sizes(x, t) || (x->numel == 1 && t->numel == 1), RUSH_RUNTIME_ERROR, "inconsistent target size: %s for input of size: %s", rush_shape_of(t), rush_shape_of(x));
    RUSH_CHECK(t->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "expected scalar type Long but found %s", rush_dtype_word(t->dtype));
    int64_t c = single ? RUSH_MAX(x->numel, 1) : x->size[1], n = single ? 1 : x->size[0];
    x = T("reshape", V(x), INTS(n, c));
    rush_value listed[RUSH_MAXOUT];
    if (!x || TN(listed, "_multilabel_listed", V(x), V(t))) return -1;
    rush_tensor *is = to_dtype(listed[0].t, x->dtype), *valid = to_dtype(listed[1].t, x->dtype);
    rush_tensor *own = T("gather", V(x), V(1), listed[2]);
    rush_tensor *z = clamp_min_zero(add(sub(unsqueeze(x, 1), unsqueeze(own, 2)), 1)); /* (n, listed, class) */
    z = mul(mul(z, unsqueeze(valid, 2)), unsqueeze(sub(1, is), 1));
    rush_tensor *loss = z ? div_(T("sum.dim_IntList", V(z), INTS(1, 2)), (double)c) : NULL;
    if (single && loss) loss = squeeze(loss, 0);
    out[0] = rush_v_tensor(rush_reduced(loss, in[2].i));
    if (op->nout == 2) out[1] = rush_v_tensor(T("reshape", V(is), rush_v_ints(t->size, t->ndim)));
    return rush_failed() ? -1 : 0;
}

static rush_op op_multilabel_margin_loss = {
    .schema = "multilabel_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor",
    .method = RUSH_NN, .node = "MultilabelMarginLossBackward0",
    .doc = "Sum over listed and unlisted classes of max(0, 1 - (self[listed] - self[unlisted])), over the number of classes.", .run = multilabel_run, .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_multilabel_margin_loss_forward = {
    .schema = "multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)",
    .doc = "multilabel_margin_loss and the mask of the listed classes.", .run = multilabel_run,
};

/* ---- connectionist temporal classification: Graves et al., 2006 ---- */

typedef struct ctc {
    rush_tensor *lp;         /* (T, N, C), double, contiguous */
    const int64_t *targets, *ins, *outs;
    int64_t *start, longest; /* of each target; the longest */
    int64_t t, n, c, blank, step; /* step: 1 for concatenated targets, else the row's stride is in start */
} ctc;

/* in: log_probs, targets, input_lengths, target_lengths, blank; what is known without the targets' elements */
static int check_ctc(ctc *x, const rush_value *in)
{
    rush_tensor *lp = in[0].t, *targets = in[1].t;
    RUSH_CHECK(lp->dtype == RUSH_F32 || lp->dtype == RUSH_F64, RUSH_RUNTIME_ERROR, "log_probs must be float32 or float64, got %s", rush_dtype_name(lp->dtype));
    RUSH_CHECK(lp->ndim == 3, RUSH_RUNTIME_ERROR, "log_probs must have 3 dimensions (T, N, C), got %s", rush_shape_of(lp));
    RUSH_CHECK(targets->dtype == RUSH_I64 || targets->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "targets must be int64 or int32");
    RUSH_CHECK(targets->ndim == 1 || targets->ndim == 2, RUSH_RUNTIME_ERROR, "targets must have 1 or 2 dimensions");
    *x = (ctc){.t = lp->size[0], .n = lp->size[1], .c = lp->size[2], .blank = in[4].i, .ins = in[2].ints, .outs = in[3].ints};
    RUSH_CHECK(x->blank >= 0 && x->blank < x->c, RUSH_RUNTIME_ERROR, "blank must be in label range");
    RUSH_CHECK(in[2].n == x->n, RUSH_RUNTIME_ERROR, "input_lengths must be of size batch_size");
    RUSH_CHECK(in[3].n == x->n, RUSH_RUNTIME_ERROR, "target_lengths must be of size batch_size");
    RUSH_CHECK(targets->ndim == 1 || targets->size[0] == x->n, RUSH_RUNTIME_ERROR, "targets %s are not those of %lld samples", rush_shape_of(targets), (long long)x->n);
    int64_t all = 0;
    for (int64_t b = 0; b < x->n; ++b) {
        RUSH_CHECK(x->outs[b] >= 0, RUSH_RUNTIME_ERROR, "Expected target_lengths to have value at least 0, but got %lld", (long long)x->outs[b]);
        RUSH_CHECK(x->ins[b] >= 0 && x->ins[b] <= x->t, RUSH_RUNTIME_ERROR, "Expected input_lengths to have value at most %lld, but got value %lld", (long long)x->t, (long long)x->ins[b]);
        RUSH_CHECK(targets->ndim == 1 || x->outs[b] <= targets->size[1], RUSH_RUNTIME_ERROR, "Expected tensor to have size at least %lld at dimension 1, but got size %lld",
                   (long long)x->outs[b], (long long)targets->size[1]);
        RUSH_CHECK(!__builtin_add_overflow(all, x->outs[b], &all), RUSH_RUNTIME_ERROR, "target_lengths are too large");
        x->longest = RUSH_MAX(x->longest, x->outs[b]);
    }
    RUSH_CHECK(targets->ndim == 2 || all == targets->numel, RUSH_RUNTIME_ERROR, "Expected targets to have %lld elements in all, got %lld", (long long)all, (long long)targets->numel);
    return 0;
}

/* The elements, for kernels. */
static int read_ctc(ctc *x, const rush_value *in)
{
    if (check_ctc(x, in)) return -1;
    const rush_tensor *targets = in[1].t, *list = rush_cast_copy(targets, RUSH_I64);
    x->lp = rush_cast_copy(in[0].t, RUSH_F64);
    x->start = rush_scope_alloc(sizeof *x->start * RUSH_MAX(x->n, 1));
    if (!list || !x->lp || !x->start) return -1;
    x->targets = rush_ptr(list);
    int64_t at = 0;
    for (int64_t b = 0; b < x->n; at += x->outs[b++]) {
        x->start[b] = targets->ndim == 1 ? at : b * targets->size[1];
        for (int64_t k = 0; k < x->outs[b]; ++k) {
            int64_t l = x->targets[x->start[b] + k];
            RUSH_CHECK(l >= 0 && l < x->c, RUSH_RUNTIME_ERROR, "target %lld of sample %lld is no label: there are %lld", (long long)l, (long long)b, (long long)x->c);
        }
    }
    return 0;
}

static int64_t label(const ctc *x, int64_t b, int64_t s) { return s % 2 ? x->targets[x->start[b] + s / 2] : x->blank; }
static bool may_skip(const ctc *x, int64_t b, int64_t s) { return s % 2 && s > 1 && label(x, b, s) != label(x, b, s - 2); }

static int ctc_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    ctc x = {0};
    if (check_ctc(&x, in)) return -1;
    const int64_t size[] = {x.n, x.t, 2 * x.longest + 1};
    return rush_out_t(out, 0, in[0].t, in[0].t->dtype, 1, size) && rush_out_t(out, 1, in[0].t, in[0].t->dtype, 3, size) ? 0 : -1;
}

static void ctc_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    ctc x;
    if (read_ctc(&x, in)) return;
    int64_t width = 2 * x.longest + 1;
    rush_tensor *nll = rush_tensor_new(RUSH_F64, in[0].t->device, 1, &x.n), *alpha = rush_tensor_new(RUSH_F64, in[0].t->device, 3, (int64_t[]){x.n, x.t, width});
    if (!nll || !alpha) return;
    const double *lp = rush_ptr(x.lp);
    for (int64_t b = 0; b < x.n; ++b) {
        int64_t states = 2 * x.outs[b] + 1;
        double *a = (double *)rush_ptr(alpha) + b * x.t * width, result;
        for (int64_t k = 0; k < x.t * width; ++k) a[k] = -INFINITY;
        for (int64_t t = 0; t < x.ins[b]; ++t)
            for (int64_t s = 0; s < states; ++s) {
                double from = t == 0 ? (s < 2 ? 0 : -INFINITY) : a[(t - 1) * width + s];
                if (t > 0 && s > 0) from = rush_log_add(from, a[(t - 1) * width + s - 1]);
                if (t > 0 && may_skip(&x, b, s)) from = rush_log_add(from, a[(t - 1) * width + s - 2]);
                a[t * width + s] = from + lp[(t * x.n + b) * x.c + label(&x, b, s)];
            }
        if (x.ins[b] == 0) result = x.outs[b] == 0 ? 0 : -INFINITY;
        else {
            const double *end = a + (x.ins[b] - 1) * width;
            result = states > 1 ? rush_log_add(end[states - 1], end[states - 2]) : end[0];
        }
        ((double *)rush_ptr(nll))[b] = -result;
    }
    if (!rush_copy_into(out[0].t, nll)) rush_copy_into(out[1].t, alpha);
}

/* in: grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity */
static int ctc_backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    ctc x;
    const rush_tensor *g = in[0].t, *lp = in[1].t, *nll = in[5].t, *alpha = in[6].t;
    if (check_ctc(&x, (const rush_value[]){in[1], in[2], in[3], in[4], in[7]})) return -1;
    RUSH_CHECK(g->numel == x.n && nll->numel == x.n && alpha->ndim == 3 && alpha->size[0] == x.n && alpha->size[1] == x.t && alpha->size[2] == 2 * x.longest + 1,
               RUSH_RUNTIME_ERROR, "grad %s, neg_log_likelihood %s and log_alpha %s are not those of log_probs %s", rush_shape_of(g), rush_shape_of(nll),
               rush_shape_of(alpha), rush_shape_of(lp));
    return rush_out_t(out, 0, lp, lp->dtype, 3, lp->size) ? 0 : -1;
}

static void ctc_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    ctc x;
    if (read_ctc(&x, (const rush_value[]){in[1], in[2], in[3], in[4], in[7]})) return;
    rush_tensor *alpha = rush_cast_copy(in[6].t, RUSH_F64), *nll = rush_cast_copy(in[5].t, RUSH_F64), *g = rush_cast_copy(in[0].t, RUSH_F64);
    int64_t width = 2 * x.longest + 1;
    rush_tensor *to = rush_zeros_like(x.lp);
    double *beta = rush_malloc(sizeof *beta * 2 * width), *sums = rush_malloc(sizeof *sums * x.c);
    const double *lp = rush_ptr(x.lp);
    for (int64_t b = 0; alpha && nll && g && to && beta && sums && b < x.n; ++b) {
        int64_t states = 2 * x.outs[b] + 1;
        double loss = ((double *)rush_ptr(nll))[b], gb = ((double *)rush_ptr(g))[b], *now = beta, *after = beta + width;
        if (in[8].i && loss == INFINITY) continue;
        for (int64_t t = x.ins[b] - 1; t >= 0; --t) {
            const double *a = (double *)rush_ptr(alpha) + (b * x.t + t) * width, *row = lp + (t * x.n + b) * x.c;
            for (int64_t k = 0; k < x.c; ++k) sums[k] = -INFINITY;
            for (int64_t k = 0; k < states; ++k) {
                double from = t == x.ins[b] - 1 ? (k >= states - 2 ? 0 : -INFINITY) : after[k];
                if (t < x.ins[b] - 1 && k + 1 < states) from = rush_log_add(from, after[k + 1]);
                if (t < x.ins[b] - 1 && k + 2 < states && may_skip(&x, b, k + 2)) from = rush_log_add(from, after[k + 2]);
                int64_t l = label(&x, b, k);
                now[k] = from + row[l];
                sums[l] = rush_log_add(sums[l], a[k] + from); /* alpha has row[l] in it already */
            }
            double *grad = (double *)rush_ptr(to) + (t * x.n + b) * x.c;
            for (int64_t k = 0; k < x.c; ++k) grad[k] = gb * (exp(row[k]) - exp(sums[k] + loss));
            double *swap = now;
            now = after;
            after = swap;
        }
    }
    rush_free(beta);
    rush_free(sums);
    if (to && !rush_failed()) rush_copy_into(out[0].t, to);
}

static rush_op op_ctc_backward = {
    .schema = "_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, Tensor neg_log_likelihood, "
              "Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
    .doc = "The derivative of _ctc_loss by log_probs.", .shape = ctc_backward_shape, .cpu = ctc_backward_cpu, .flags = RUSH_HIDDEN,
};

static void ctc_grad(rush_grads *s)
{
    if (!s->g[0] || !rush_needs(s, 0)) return;
    s->gin[0] = T("_ctc_loss_backward", V(s->g[0]), s->in[0], s->in[1], s->in[2], s->in[3], s->out[0], s->out[1], s->in[4], s->in[5]);
}

static rush_op op__ctc_loss = {
    .schema = "_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
    .doc = "CTC loss per sample, and the logarithms of the forward variables.", .shape = ctc_shape, .cpu = ctc_cpu, .grad = ctc_grad,
    .saves = "log_probs, targets, result0, result1",
};

/* in: log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity */
static int ctc_list_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *lp = in[0].t;
    bool single = lp->ndim == 2;
    rush_value got[RUSH_MAXOUT];
    if (single) lp = unsqueeze(lp, 1);
    if (!lp) return -1;
    if (TN(got, "_ctc_loss", V(lp), V(single && in[1].t->ndim == 1 ? unsqueeze(in[1].t, 0) : in[1].t), in[2], in[3], in[4], in[6])) return -1;
    rush_tensor *loss = got[0].t;
    if (in[6].i) loss = where(eq(loss, (double)INFINITY), rush_zeros_like(loss), loss);
    if (in[5].i == 1) {
        rush_tensor *lengths = rush_to_device(rush_from_data(in[3].ints, RUSH_I64, 1, (int64_t[]){in[3].n}), lp);
        lengths = lengths ? to_dtype(T("clamp_min", V(lengths), V(1)), loss ? loss->dtype : RUSH_F32) : NULL;
        return rush_result(out, T("mean", V(div_(loss, lengths))));
    }
    if (single && in[5].i == 0 && loss) loss = squeeze(loss, 0);
    return rush_result(out, rush_reduced(loss, in[5].i));
}

static int ctc_tensor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value args[7];
    memcpy(args, in, sizeof args);
    for (int i = 2; i < 4; ++i) {
        RUSH_CHECK(rush_dtype_is_integer(in[i].t->dtype), RUSH_RUNTIME_ERROR, "%s must be integral", i == 2 ? "input_lengths" : "target_lengths");
        const int64_t *list = rush_numbers_of(in[i].t);
        if (!list) return -1;
        args[i] = rush_v_ints(list, (size_t)in[i].t->numel);
    }
    return ctc_list_run(op, args, out);
}

#define CTC_DOC "Connectionist temporal classification: log_probs (T, N, C), targets (N, S) or all in one row; Graves et al., 2006."
static rush_op op_ctc_loss_list = {
    .schema = "ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int reduction=Mean, bool zero_infinity=False) -> Tensor",
    .doc = CTC_DOC, .run = ctc_list_run, .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_ctc_loss_tensor = {
    .schema = "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=Mean, bool zero_infinity=False) -> Tensor",
    .doc = CTC_DOC, .run = ctc_tensor_run, .flags = RUSH_AUTOCAST_F32 | RUSH_CROSS_DEVICE, /* lengths may be on the CPU */
};

RUSH_FAMILY(label_loss, &op_nll_loss_forward, &op_nll_loss_backward, &op_nll_loss2d_forward, &op_nll_loss2d_backward, &op_nll_loss, &op_nll_loss2d,
            &op_nll_loss_nd, &op_cross_entropy_loss, &op_multi_margin_loss, &op_multilabel_margin_loss, &op_multilabel_margin_loss_forward, &op_listed, &op__ctc_loss, &op_ctc_backward,
            &op_ctc_loss_list, &op_ctc_loss_tensor)
