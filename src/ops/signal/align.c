/* align.c - labels along sound: the loss of transducers and the best path of CTC, under torchaudio's names, with its numbers. */
#include "op/formula.h"
#include "op/op.h"
#include "ops/loss/loss.h"
#include <math.h>

/* int32 or int64 as int64, contiguous. */
static const int64_t *whole(const rush_value v)
{
    static const int64_t none;
    const rush_tensor *t = rush_cast_copy(v.t, RUSH_I64);
    return !t ? NULL : t->numel ? rush_ptr(t) : &none;
}

/* ---- RNN transducer (Graves, 2012): logits, targets, logit_lengths, target_lengths, blank, clamp, fused_log_softmax ---- */

static int transducer_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    static const char *const name[] = {"logits", "targets", "logit_lengths", "target_lengths"};
    static const int rank[] = {4, 2, 1, 1};
    RUSH_CHECK(x->dtype == RUSH_F32 || x->dtype == RUSH_F16, RUSH_RUNTIME_ERROR, "logits must be float32 or float16 (half) type");
    for (int i = 1; i < 4; ++i) RUSH_CHECK(in[i].t->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "%s must be int32 type", name[i]);
    for (int i = 0; i < 4; ++i) RUSH_CHECK(in[i].t->ndim == rank[i], RUSH_RUNTIME_ERROR, "%s must be %d-D, got %s", name[i], rank[i], rush_shape_of(in[i].t));
    for (int i = 1; i < 4; ++i)
        RUSH_CHECK(in[i].t->size[0] == x->size[0], RUSH_RUNTIME_ERROR, "batch dimension mismatch between logits and %s", name[i]);
    RUSH_CHECK(I_(in[4]) >= 0 && I_(in[4]) < x->size[3], RUSH_RUNTIME_ERROR, "blank must be within [0, logits.shape[-1])");
    return rush_out_t(out, 0, x, x->dtype, 1, x->size) && rush_out_t(out, 1, x, x->dtype, 4, x->size) ? 0 : -1;
}

/* Of one sound: its cost, and the cost's gradient into `grad`. x and grad are (steps, width, classes), of which `labels` of width count; norm is
 * (steps, width); alpha and beta are room for (steps, labels). */
static double transducer(const float *x, float *grad, const double *norm, const int64_t *target, int64_t steps, int64_t labels, int64_t width, int64_t classes, int64_t blank, double clamp,
                         bool fused, double *alpha, double *beta)
{
#define LOG(t, u, k) ((double)x[((t) * width + (u)) * classes + (k)] - norm[(t) * width + (u)])
    for (int64_t t = 0; t < steps; ++t)
        for (int64_t u = 0; u < labels; ++u) {
            double a = t || u ? -INFINITY : 0;
            if (t) a = rush_log_add(a, alpha[(t - 1) * labels + u] + LOG(t - 1, u, blank));
            if (u) a = rush_log_add(a, alpha[t * labels + u - 1] + LOG(t, u - 1, target[u - 1]));
            alpha[t * labels + u] = a;
        }
    for (int64_t t = steps - 1; t >= 0; --t)
        for (int64_t u = labels - 1; u >= 0; --u) {
            double b = t == steps - 1 && u == labels - 1 ? LOG(t, u, blank) : -INFINITY;
            if (t < steps - 1) b = rush_log_add(b, beta[(t + 1) * labels + u] + LOG(t, u, blank));
            if (u < labels - 1) b = rush_log_add(b, beta[t * labels + u + 1] + LOG(t, u, target[u]));
            beta[t * labels + u] = b;
        }
    const double cost = -beta[0];
    for (int64_t t = 0; t < steps; ++t)
        for (int64_t u = 0; u < labels; ++u)
            for (int64_t k = 0; k < classes; ++k) {
                const double at = alpha[t * labels + u] + cost + LOG(t, u, k); /* log of how likely it is to be here and to go on with k */
                double g = fused ? exp(at + beta[t * labels + u]) : 0;
                if (k == blank && t == steps - 1 && u == labels - 1) g -= exp(at);
                if (k == blank && t < steps - 1) g -= exp(at + beta[(t + 1) * labels + u]);
                if (u < labels - 1 && k == target[u]) g -= exp(at + beta[t * labels + u + 1]);
                if (clamp > 0) g = fmin(fmax(g, -clamp), clamp);
                grad[(t * width + u) * classes + k] = (float)g;
            }
    return cost;
#undef LOG
}

static void transducer_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = rush_cast_copy(in[0].t, RUSH_F32);
    const int64_t *target = whole(in[1]), *steps = whole(in[2]), *labels = whole(in[3]);
    const int64_t *n = in[0].t->size, blank = I_(in[4]), wide = in[1].t->size[1];
    int64_t most_steps = 0, most_labels = 0;
    if (!x || !target || !steps || !labels || !n[0]) return;
    for (int64_t b = 0; b < n[0]; ++b) {
        most_steps = RUSH_MAX(most_steps, steps[b]), most_labels = RUSH_MAX(most_labels, labels[b]);
        bool fits = steps[b] > 0 && labels[b] >= 0 && steps[b] <= n[1] && labels[b] < n[2] && labels[b] <= wide;
        for (int64_t u = 0; fits && u < labels[b]; ++u) fits = target[b * wide + u] >= 0 && target[b * wide + u] < n[3];
        if (!fits) {
            rush_fail(RUSH_RUNTIME_ERROR, "input length mismatch or output length mismatch: logits %s, %lld steps and %lld targets below %lld in row %lld", rush_shape_of(in[0].t), (long long)steps[b],
                      (long long)labels[b], (long long)n[3], (long long)b);
            return;
        }
    }
    if (most_steps != n[1] || most_labels + 1 != n[2] || most_labels != wide) {
        rush_fail(RUSH_RUNTIME_ERROR, "%s length mismatch", most_steps != n[1] ? "input" : most_labels + 1 != n[2] ? "output" : "target");
        return;
    }
    rush_tensor *grad = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, 4, n), *cost = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, 1, n);
    double *room = rush_scope_alloc(sizeof *room * (size_t)(n[1] * n[2]) * 3);
    if (!grad || !cost || !room) return;
    rush_zero_into(grad);
    for (int64_t b = 0; b < n[0]; ++b) {
        const int64_t each = n[1] * n[2];
        const float *p = (const float *)rush_ptr(x) + b * each * n[3];
        double *norm = room + 2 * each;
        for (int64_t i = 0; i < each; ++i) {
            norm[i] = 0;
            if (!I_(in[6])) continue;
            double high = -INFINITY, sum = 0;
            for (int64_t k = 0; k < n[3]; ++k) high = fmax(high, (double)p[i * n[3] + k]);
            for (int64_t k = 0; k < n[3]; ++k) sum += exp((double)p[i * n[3] + k] - high);
            norm[i] = high + log(sum);
        }
        ((float *)rush_ptr(cost))[b] = (float)transducer(p, (float *)rush_ptr(grad) + b * each * n[3], norm, target + b * wide, steps[b], labels[b] + 1, n[2], n[3], blank, D_(in[5]), I_(in[6]), room, room + each);
    }
    if (!rush_copy_into(out[0].t, cost)) rush_copy_into(out[1].t, grad);
}

static rush_op op_transducer = {
    .schema = "torchaudio::rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, float clamp, bool fused_log_softmax) -> (Tensor, Tensor)",
    .doc = "The costs of the targets (batch, labels) under the logits (batch, steps, labels + 1, classes), and the costs' gradients.", .shape = transducer_shape, .cpu = transducer_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- the likeliest path of CTC (Graves et al., 2006): log_probs, targets, input_lengths, target_lengths, blank ---- */

static int path_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *p = in[0].t, *target = in[1].t;
    RUSH_CHECK(p->dtype == RUSH_F64 || p->dtype == RUSH_F32 || p->dtype == RUSH_F16, RUSH_RUNTIME_ERROR, "log_probs must be float64, float32 or float16 (half) type");
    RUSH_CHECK(target->dtype == RUSH_I32 || target->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "targets must be int32 or int64 type");
    RUSH_CHECK(p->ndim == 3, RUSH_RUNTIME_ERROR, "log_probs must be 3-D (batch_size, input length, num classes)");
    RUSH_CHECK(target->ndim == 2, RUSH_RUNTIME_ERROR, "targets must be 2-D (batch_size, target length,)");
    RUSH_CHECK(in[2].t->ndim == 1, RUSH_RUNTIME_ERROR, "input_lengths must be 1-D (batch_size,)");
    RUSH_CHECK(in[3].t->ndim == 1, RUSH_RUNTIME_ERROR, "target_lengths must be 1-D (batch_size,)");
    RUSH_CHECK(p->size[0] == 1, RUSH_RUNTIME_ERROR, "The batch dimension for log_probs must be 1 at the current version.");
    RUSH_CHECK(target->size[0] == 1, RUSH_RUNTIME_ERROR, "The batch dimension for targets must be 1 at the current version.");
    RUSH_CHECK(I_(in[4]) >= 0 && I_(in[4]) < p->size[2], RUSH_RUNTIME_ERROR, "blank must be within [0, num classes)");
    const int64_t size[2] = {1, p->size[1]};
    return rush_out_t(out, 0, target, target->dtype, 2, size) && rush_out_t(out, 1, p, p->dtype, 3, p->size) ? 0 : -1;
}

/* Labels with a blank before, between and behind: state i is blank where i is even, else label i / 2. */
static void path_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *probs = rush_cast_copy(in[0].t, RUSH_F64);
    const int64_t *target = whole(in[1]), *inputs = whole(in[2]), *targets = whole(in[3]);
    const int64_t steps = in[0].t->size[1], classes = in[0].t->size[2], n = in[1].t->size[1], states = 2 * n + 1, blank = I_(in[4]);
    if (!probs || !target || !inputs || !targets || rush_copy_into(out[1].t, in[0].t)) return;
    int64_t repeats = 0, longest[2] = {0, 0};
    for (int64_t i = 0; i < in[2].t->size[0]; ++i) longest[0] = RUSH_MAX(longest[0], inputs[i]);
    for (int64_t i = 0; i < in[3].t->size[0]; ++i) longest[1] = RUSH_MAX(longest[1], targets[i]);
    if (longest[0] != steps || longest[1] != n) {
        rush_fail(RUSH_RUNTIME_ERROR, "%s length mismatch", longest[0] != steps ? "input" : "target");
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        if (target[i] < 0 || target[i] >= classes) {
            rush_fail(RUSH_RUNTIME_ERROR, "targets values must be less than the CTC dimension, got %lld of %lld", (long long)target[i], (long long)classes);
            return;
        }
        repeats += i && target[i] == target[i - 1];
    }
    if (steps < n + repeats) {
        rush_fail(RUSH_RUNTIME_ERROR, "targets length is too long for CTC. Found log_probs length: %lld, targets length: %lld, and number of repeats: %lld", (long long)steps, (long long)n, (long long)repeats);
        return;
    }
    if (!steps) return;
    const bool single = in[0].t->dtype != RUSH_F64; /* sums are floats then, which decides between paths that are alike */
    double *best = rush_scope_alloc(sizeof *best * (size_t)states * 2);
    int8_t *from = rush_scope_alloc((size_t)(steps * states));
    rush_tensor *path = rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 2, out[0].t->size);
    if (!best || !from || !path) return;
    const double *p = rush_ptr(probs);
#define LABEL(i) ((i) % 2 ? target[(i) / 2] : blank)
    for (int64_t t = 0; t < steps; ++t, p += classes) {
        double *now = best + t % 2 * states;
        const double *before = best + (t + 1) % 2 * states;
        for (int64_t i = 0; i < states; ++i) {
            double x[3] = {t ? before[i] : i < 2 ? 0 : -INFINITY, t && i ? before[i - 1] : -INFINITY, t && i > 1 && i % 2 && target[i / 2] != target[i / 2 - 1] ? before[i - 2] : -INFINITY};
            int8_t k = x[2] > x[1] && x[2] > x[0] ? 2 : x[1] > x[0] && x[1] > x[2] ? 1 : 0;
            now[i] = x[k] + p[LABEL(i)];
            if (single) now[i] = (float)now[i];
            from[t * states + i] = k;
        }
    }
    const double *last = best + (steps - 1) % 2 * states;
    int64_t at = states > 1 && !(last[states - 1] > last[states - 2]) ? states - 2 : states - 1, *to = rush_ptr(path);
    for (int64_t t = steps - 1; t >= 0; --t) {
        to[t] = LABEL(at);
        at -= from[t * states + at];
    }
#undef LABEL
    rush_copy_into(out[0].t, path);
}

static rush_op op_path = {
    .schema = "torchaudio::forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> (Tensor, Tensor)",
    .doc = "The likeliest label, or blank, of each step so that the targets come out; and log_probs.", .shape = path_shape, .cpu = path_cpu, .flags = RUSH_NO_GRAD,
};

RUSH_FAMILY(align, &op_transducer, &op_path)
