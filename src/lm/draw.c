/* draw.c - the next token from what a model says of each: what is dearer and cheaper, temperature, the k likeliest, those that reach p, as PyTorch's operations draw it. */
#include "lm/lm.h"

#include <math.h>

/* A probability for each of n tokens, of some none. */
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
        p = T("div.Tensor", V(p), V(T("sum", V(p))));
    }
    return T("scatter.src", V(T("zeros_like", V(x))), V(-1), V(got[1].t), V(p));
}

/* The logits as repetition, penalties and biases change them, if they do; in the scope. */
static const float *changed(const rush_lm *lm, const float *logits, const rush_lm_sampling *s)
{
    enum { LAST = 64 };
    if ((s->repetition == 0 || s->repetition == 1) && s->frequency == 0 && s->presence == 0 && !s->nbias) return logits;
    float *x = rush_scope_alloc((size_t)lm->vocabulary * sizeof *x), by = (float)s->repetition;
    bool *seen = rush_scope_alloc((size_t)lm->vocabulary);
    if (!x || !seen) return NULL;
    memcpy(x, logits, (size_t)lm->vocabulary * sizeof *x);
    memset(seen, 0, (size_t)lm->vocabulary);
    for (int64_t i = by != 0 ? RUSH_MAX(lm->position - LAST, 0) : lm->position; i < lm->position; i++) {
        int32_t t = lm->fed[i];
        x[t] = logits[t] > 0 ? logits[t] / by : logits[t] * by;
    }
    for (int64_t i = s->counted; i < lm->position; i++) {
        int32_t t = lm->fed[i];
        x[t] -= (float)(s->frequency + (seen[t] ? 0 : s->presence));
        seen[t] = true;
    }
    for (size_t i = 0; i < s->nbias; i++) x[s->bias[i].token] += s->bias[i].by;
    return x;
}

bool rush_lm_can_draw(const rush_lm *lm, const rush_lm_sampling *s)
{
    if (!rush_lm_given(lm)) return false;
    if (!(s->temperature >= 0 && s->top_p >= 0 && s->repetition >= 0))
        return rush_fail(RUSH_VALUE_ERROR, "a temperature of %g, a top_p of %g and a repetition of %g: none is negative", s->temperature, s->top_p, s->repetition), false;
    if (!isfinite(s->frequency) || !isfinite(s->presence) || s->counted < 0 || (s->nbias && !s->bias))
        return rush_fail(RUSH_VALUE_ERROR, "penalties of %g and %g for tokens from %lld on: numbers, and from no place before the first", s->frequency, s->presence, (long long)s->counted), false;
    for (size_t i = 0; i < s->nbias; i++)
        if (s->bias[i].token < 0 || s->bias[i].token >= lm->vocabulary || !isfinite(s->bias[i].by))
            return rush_fail(RUSH_INDEX_ERROR, "a bias of %g for token %d of a vocabulary of %lld", s->bias[i].by, s->bias[i].token, (long long)lm->vocabulary), false;
    return true;
}

static int32_t likeliest(const float *logits, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++) best = logits[i] > logits[best] ? (int32_t)i : best;
    return best;
}

rush_tensor *rush_lm_chances(const rush_lm *lm, const float *logits, int64_t n, const rush_lm_sampling *s)
{
    rush_tensor *x = (logits = changed(lm, logits, s)) ? rush_from_data(logits, RUSH_F32, 1, &n) : NULL;
    return x ? probabilities(x, s) : NULL;
}

int32_t rush_lm_drawn(rush_tensor *p, const rush_lm_sampling *s)
{
    rush_tensor *t = p ? T("multinomial", V(p), V(1), V(false), rush_v_generator(s->generator)) : NULL;
    return t ? (int32_t)*(const int64_t *)rush_ptr(t) : -1;
}

int32_t rush_lm_pick(const rush_lm *lm, const float *logits, int64_t n, const rush_lm_sampling *s, rush_tensor **p)
{
    if (s->temperature == 0) return (logits = changed(lm, logits, s)) ? likeliest(logits, n) : -1;
    *p = rush_lm_chances(lm, logits, n, s);
    return rush_lm_drawn(*p, s);
}

int32_t rush_lm_draw(const rush_lm *lm, const float *logits, const rush_lm_sampling *options)
{
    const rush_lm_sampling *s = RUSH_OPTIONS(options);
    if (!rush_lm_can_draw(lm, s)) return -1;
    RUSH_CHECK(logits, RUSH_TYPE_ERROR, "a token is drawn from what a model says, but there is nothing (NULL)");
    int32_t token = -1;
    rush_tensor *p;
    rush_scope() token = rush_lm_pick(lm, logits, lm->vocabulary, s, &p);
    return token;
}
