/* draft.c - several tokens a step: a small model proposes them, the large one checks them in one run, which reads its weights once (Leviathan et al., 2023).
 *
 * What the small model gives a probability q is taken with probability min(1, p / q), where p is the large model's. The first that is not taken is replaced by
 * a token drawn from what p has more than q; if all are, one more is drawn from p. So every token is drawn from p, whatever the small model thinks; with
 * temperature 0 it is the likeliest one. RUSH_LM_AHEAD proposals and the token before them are as many rows as are multiplied one by one (kernels/cpu/blocks.c):
 * a row's numbers are those that it has alone.
 */
#include "lm/lm.h"

/* Have both models the same tokens? */
static int same_tokens(rush_lm *lm, const rush_lm *draft)
{
    if (lm->drafter == draft) return 0;
    int64_t n = RUSH_MIN(lm->tokenizer->n, draft->tokenizer->n);
    for (int64_t i = 0; i < n; i++) {
        size_t length[2];
        const char *a = rush_tokenizer_piece(lm->tokenizer, i, &length[0]), *b = rush_tokenizer_piece(draft->tokenizer, i, &length[1]);
        RUSH_CHECK(length[0] == length[1] && !memcmp(a, b, length[0]), RUSH_VALUE_ERROR, "the draft has other tokens than the model: %lld is '%.40s', not '%.40s'", (long long)i, b, a);
    }
    lm->drafter = draft;
    return 0;
}

/* How many tokens can be proposed after one more: both models need room for them, and the draft has to know what came before. */
static size_t proposals(const rush_lm *lm, const rush_lm *draft, size_t most)
{
    int64_t n = draft ? RUSH_MIN(lm->context, draft->context) - lm->position - 1 : 0;
    for (int64_t i = 0; n > 0 && i <= lm->position; i++) n = lm->fed[i] < draft->vocabulary ? n : 0;
    return (size_t)RUSH_MAX(RUSH_MIN(RUSH_MIN(n, (int64_t)RUSH_LM_AHEAD), (int64_t)RUSH_MIN(most, (size_t)RUSH_LM_AHEAD + 1) - 1), 0);
}

/* k tokens after those of lm and the one behind them, to `to`; q: what each was drawn from. */
static int propose(const rush_lm *lm, rush_lm *draft, const rush_lm_sampling *s, size_t k, int32_t *to, rush_tensor **q)
{
    int64_t same = 0;
    while (same < draft->position && same < lm->position && draft->fed[same] == lm->fed[same]) same++;
    draft->position = same;
    const float *logits = rush_lm_feed(draft, lm->fed + same, (size_t)(lm->position + 1 - same));
    for (size_t i = 0; logits && i < k; i++) {
        if ((to[i] = rush_lm_pick(draft, logits, RUSH_MIN(lm->vocabulary, draft->vocabulary), s, &q[i])) < 0) return -1;
        if (i + 1 < k) logits = rush_lm_feed(draft, &to[i], 1);
    }
    return logits ? 0 : -1;
}

/* The token, if it is taken, or the one in its place. */
static int32_t judge(int32_t token, rush_tensor *p, const rush_tensor *q, const rush_lm_sampling *s)
{
    rush_tensor *u = p ? T("rand.generator", INTS(1), rush_v_generator(s->generator)) : NULL, *rest = u ? T("clone", V(p)) : NULL;
    if (!rest) return -1;
    const float *a = rush_ptr(p), *b = rush_ptr(q);
    if (*(const float *)rush_ptr(u) * b[token] < a[token]) return token;
    float *left = rush_ptr(rest), sum = 0;
    for (int64_t i = 0; i < q->numel; i++) left[i] = RUSH_MAX(a[i] - b[i], 0);
    for (int64_t i = 0; i < p->numel; i++) sum += left[i];
    return rush_lm_drawn(sum > 0 ? rest : p, s); /* nothing is left where both differ by rounding alone */
}

/* What follows the tokens that were fed after `base`, of which all but the first k + 1 - n are proposals; how many. */
static int64_t check(rush_lm *lm, const float *logits, int64_t base, const int32_t *fed, size_t k, rush_tensor *const *q, int32_t *to, const rush_lm_sampling *s)
{
    rush_tensor *p;
    for (size_t i = 0;; i++, logits += lm->vocabulary) {
        lm->position = base + 1 + (int64_t)i; /* penalties count what is before a token; and here the model goes on, if the next one is not taken */
        bool judged = i < k && s->temperature != 0;
        to[i] = judged ? judge(fed[i + 1], rush_lm_chances(lm, logits, lm->vocabulary, s), q[i], s) : rush_lm_pick(lm, logits, lm->vocabulary, s, &p);
        if (to[i] < 0) return -1;
        if (i == k || to[i] != fed[i + 1]) return (int64_t)i + 1;
    }
}

int64_t rush_lm_speculate(rush_lm *lm, rush_lm *draft, int32_t token, size_t most, int32_t *to, const rush_lm_sampling *options)
{
    const rush_lm_sampling *s = RUSH_OPTIONS(options);
    if (!rush_lm_can_draw(lm, s) || (draft && !rush_lm_can_draw(draft, s))) return -1;
    RUSH_CHECK(to && most, RUSH_VALUE_ERROR, "a language model is asked for one token at least, and for a place for it");
    RUSH_CHECK(draft != lm, RUSH_VALUE_ERROR, "a language model cannot be its own draft: load it twice");
    RUSH_CHECK(lm->position < lm->context, RUSH_VALUE_ERROR, "the context of %lld tokens is full", (long long)lm->context);
    if (draft && same_tokens(lm, draft)) return -1;
    int32_t fed[RUSH_LM_AHEAD + 1] = {token};
    rush_tensor *q[RUSH_LM_AHEAD];
    int64_t n = -1, base = lm->position;
    lm->fed[base] = token;
    rush_scope() {
        size_t k = proposals(lm, draft, most);
        float *logits = rush_scope_alloc((k + 1) * (size_t)lm->vocabulary * sizeof *logits);
        if (logits && !(k && propose(lm, draft, s, k, fed + 1, q)) && !rush_lm_feed_each(lm, fed, k + 1, logits)) n = check(lm, logits, base, fed, k, q, to, s);
    }
    if (n < 0) lm->position = base;
    return n;
}
