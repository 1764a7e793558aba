/* draw.c - the next token from what a model says of each: repetition, temperature, the k likeliest, those that reach p, as PyTorch's operations draw it. */
#include "lm/lm.h"

#include <math.h>

/* A probability for each token of the vocabulary, of some none. */
static rush_tensor *probabilities(rush_tensor *logits, const rush_lm_sampling *s)
{
    rush_value got[2] = {rush_v_none(), rush_v_none()};
    bool cut = s->top_p > 0 && s->top_p < 1;
    rush_tensor *x = T("div.Scalar", V(logits), V(s->temperature));
    if (s->top_k <= 0 && !cut) return T("softmax.int", V(x), V(-1));
    int64_t n = logits->numel, k = s->top_k > 0 ? RUSH_MIN(s->top_k, n) : n;
    if (k < n ? TN(got, "topk", V(x), V(k)) : TN(got, "sort", V(x), V(-1), V(true))) return NULL;
    rush_tensor *p = T("softmax.int", V(got[0].t), V(-1));
    if (cut) { /* the likeliest is always there: nothing comes before it */
        rush_tensor *before = T("sub.Tensor", V(T("cumsum", V(p), V(-1))), V(p));
        p = T("mul.Tensor", V(p), V(T("lt.Scalar", V(before), V(s->top_p))));
    }
    return T("scatter.src", V(T("zeros_like", V(x))), V(-1), V(got[1].t), V(p));
}

/* The logits, dearer where a token is among the last that were fed; in the scope. */
static const float *dearer(const rush_lm *lm, const float *logits, float by)
{
    enum { LAST = 64 };
    float *x = rush_scope_alloc((size_t)lm->vocabulary * sizeof *x);
    if (!x) return NULL;
    memcpy(x, logits, (size_t)lm->vocabulary * sizeof *x);
    for (int64_t i = RUSH_MAX(lm->position - LAST, 0); i < lm->position; i++) {
        int32_t t = lm->fed[i];
        x[t] = logits[t] > 0 ? logits[t] / by : logits[t] * by;
    }
    return x;
}

static int32_t likeliest(const float *logits, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++) best = logits[i] > logits[best] ? (int32_t)i : best;
    return best;
}

int32_t rush_lm_draw(const rush_lm *lm, const float *logits, const rush_lm_sampling *options)
{
    const rush_lm_sampling *s = RUSH_OPTIONS(options);
    if (!rush_lm_given(lm)) return -1;
    RUSH_CHECK(logits, RUSH_TYPE_ERROR, "a token is drawn from what a model says, but there is nothing (NULL)");
    RUSH_CHECK(s->temperature >= 0 && s->top_p >= 0 && s->repetition >= 0, RUSH_VALUE_ERROR, "a temperature of %g, a top_p of %g and a repetition of %g: none is negative", s->temperature,
               s->top_p, s->repetition);
    if (rush_failed()) return -1;
    int64_t token = -1;
    rush_scope() {
        if (s->repetition != 0 && s->repetition != 1) logits = dearer(lm, logits, (float)s->repetition);
        if (logits && s->temperature == 0) token = likeliest(logits, lm->vocabulary);
        else if (logits) {
            rush_tensor *x = rush_from_data(logits, RUSH_F32, 1, &lm->vocabulary), *p = x ? probabilities(x, s) : NULL;
            rush_tensor *t = T("multinomial", V(p), V(1), V(false), rush_v_generator(s->generator));
            if (t && !rush_failed()) token = *(const int64_t *)rush_ptr(t);
        }
    }
    return (int32_t)token;
}
