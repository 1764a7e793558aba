/* model.c - tokens through the layers of a language model, whose weights load.c has looked up.
 *
 * A layer is attention, whose queries and keys are turned by their position, over groups of heads that share keys and values; then two products with a step
 * between them. Rows are rounded to int8 for products with blocks.
 */
#include "lm/lm.h"
#include "base/buried.h"

#include <math.h>

bool rush_lm_given(const rush_lm *lm) { return rush_lives(lm, "a language model") && !rush_failed(); }
int64_t rush_lm_vocabulary(const rush_lm *lm) { return rush_lm_given(lm) ? lm->vocabulary : 0; }
int64_t rush_lm_context(const rush_lm *lm) { return rush_lm_given(lm) ? lm->context : 0; }
int64_t rush_lm_position(const rush_lm *lm) { return rush_lm_given(lm) ? lm->position : 0; }

int rush_lm_rewind(rush_lm *lm, int64_t position)
{
    if (!rush_lm_given(lm)) return -1;
    RUSH_CHECK(position >= 0 && position <= lm->position, RUSH_VALUE_ERROR, "%lld of %lld tokens cannot be kept", (long long)position, (long long)lm->position);
    lm->position = position;
    return 0;
}

int64_t rush_lm_resume(rush_lm *lm, const int32_t *tokens, size_t n)
{
    int64_t same = 0;
    if (!rush_lm_given(lm)) return -1;
    RUSH_CHECK(tokens && n, RUSH_VALUE_ERROR, "a language model is fed one token at least");
    while (same < lm->position && (size_t)same + 1 < n && lm->fed[same] == tokens[same]) same++;
    return lm->position = same;
}

/* ---- tokens through the layers ---- */

enum { MOST_WEIGHTS = 3 }; /* that multiply the same rows */

static void add(float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/* Results of m rows of several weights of the same width: the rows are rounded once. */
static int products(const rush_lm *lm, const float *a, int64_t m, int n, const rush_weight *const *w, float *const *to)
{
    int64_t k = w[0]->k;
    int blocks = 0;
    const rush_rounded r = rush_rounded_at(lm->rounded, m, k);
    rush_block_product of_blocks[MOST_WEIGHTS];
    for (int i = 0; i < n; i++)
        if (w[i]->type.block) of_blocks[blocks++] = (rush_block_product){w[i]->type.block, m, w[i]->n, &r, w[i]->data, to[i]};
        else rush_k_decoder->dense(w[i]->type.dtype, a, w[i]->data, to[i], m, w[i]->n, k);
    if (blocks) rush_k_blocks->round(a, m, &r);
    if (blocks && rush_k_blocks->products(of_blocks, blocks)) return -1;
    for (int i = 0; i < n; i++)
        for (int64_t x = 0; w[i]->bias && x < m; x++) add(to[i] + x * w[i]->n, w[i]->bias, w[i]->n);
    return 0;
}

static int product(const rush_lm *lm, const float *a, int64_t m, const rush_weight *w, float *to)
{
    return products(lm, a, m, 1, (const rush_weight *const[]){w}, (float *const[]){to});
}

/* Keys and values of m rows into the cache. */
static void remember(const rush_lm *lm, const rush_lm_layer *l, int64_t m)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t h = 0; h < lm->kv_heads; h++) {
            int64_t row = (i * lm->kv_heads + h) * lm->head, place = lm->position + i, at = h * lm->places + place;
            rush_k_decoder->keep(lm->k + row, l->keys, (h * lm->places + place / RUSH_KEYS * RUSH_KEYS) * lm->head + place % RUSH_KEYS, lm->head, RUSH_KEYS, l->key_scale ? l->key_scale + at : NULL);
            rush_k_decoder->keep(lm->v + row, l->values, at * lm->head, lm->head, 1, l->value_scale ? l->value_scale + at : NULL);
        }
}

static int attention(rush_lm *lm, rush_lm_layer *l, int64_t m)
{
    rush_k_decoder->norm(&l->attention_norm, lm->x, lm->y, m, lm->width);
    if (products(lm, lm->y, m, 3, (const rush_weight *const[]){&l->q, &l->k, &l->v}, (float *const[]){lm->q, lm->k, lm->v})) return -1;
    if (l->q_norm.weight) rush_k_decoder->norm(&l->q_norm, lm->q, lm->q, m * lm->heads, lm->head);
    if (l->k_norm.weight) rush_k_decoder->norm(&l->k_norm, lm->k, lm->k, m * lm->kv_heads, lm->head);
    rush_k_decoder->turn(lm->q, lm->turns, m, lm->heads, lm->head, lm->turned, lm->halves);
    rush_k_decoder->turn(lm->k, lm->turns, m, lm->kv_heads, lm->head, lm->turned, lm->halves);
    remember(lm, l, m);
    if (rush_k_decoder->attend(&(rush_attend){m, lm->heads, lm->kv_heads, lm->head, lm->position, lm->places, lm->q, l->keys, l->values, l->key_scale, l->value_scale, lm->q})) return -1;
    return product(lm, lm->q, m, &l->o, lm->y);
}

static int forward(rush_lm *lm, const rush_lm_layer *l, int64_t m)
{
    rush_k_decoder->norm(&l->feed_norm, lm->x, lm->y, m, lm->width);
    if (lm->gated) {
        if (products(lm, lm->y, m, 2, (const rush_weight *const[]){&l->gate, &l->up}, (float *const[]){lm->gate, lm->up})) return -1;
        rush_k_decoder->gate(lm->gate, lm->up, m * lm->feed);
    } else {
        if (product(lm, lm->y, m, &l->up, lm->gate)) return -1;
        rush_k_decoder->gelu(lm->gate, m * lm->feed);
    }
    return product(lm, lm->gate, m, &l->down, lm->y);
}

/* A row of a weight as floats. */
static void open_row(const rush_weight *w, int64_t i, float *to)
{
    const char *row = (const char *)w->data + i * rush_weight_step(w);
    if (w->type.block) rush_k_blocks->to_float(w->type.block, row, to, w->k);
    else rush_convert(to, RUSH_F32, sizeof(float), row, w->type.dtype, (int64_t)rush_dtypes[w->type.dtype].size, w->k);
}

/* Tokens as rows, and how far each position turns. */
static void embed(const rush_lm *lm, const int32_t *tokens, int64_t m)
{
    for (int64_t i = 0; i < m; i++) {
        float *row = lm->x + i * lm->width;
        open_row(&lm->embedding, tokens[i], row);
        if (lm->position_embedding.data) {
            open_row(&lm->position_embedding, lm->position + i, lm->y);
            add(row, lm->y, lm->width);
        }
        for (int64_t p = 0; p < lm->turned / 2; p++) {
            float angle = (float)(lm->position + i) * lm->frequency[p], *to = lm->turns + i * lm->turned + 2 * p;
            to[0] = cosf(angle), to[1] = sinf(angle);
        }
    }
}

/* Up to RUSH_LM_ROWS tokens. */
static int feed(rush_lm *lm, const int32_t *tokens, int64_t m)
{
    embed(lm, tokens, m);
    for (int i = 0; i < lm->layers; i++) {
        rush_lm_layer *l = &lm->layer[i];
        if (attention(lm, l, m)) return -1;
        add(lm->x, lm->y, m * lm->width);
        if (forward(lm, l, m)) return -1;
        add(lm->x, lm->y, m * lm->width);
    }
    memcpy(lm->fed + lm->position, tokens, (size_t)m * sizeof *tokens);
    lm->position += m;
    return 0;
}

/* What the model says after n of the rows that were fed last. */
static int say(rush_lm *lm, int64_t first, int64_t n, float *to)
{
    rush_k_decoder->norm(&lm->norm, lm->x + first * lm->width, lm->y, n, lm->width);
    return product(lm, lm->y, n, &lm->output, to);
}

static bool can_feed(const rush_lm *lm, const int32_t *tokens, size_t n)
{
    if (!rush_lm_given(lm)) return false;
    if (!tokens || !n) rush_fail(RUSH_VALUE_ERROR, "a language model is fed one token at least");
    else if (n > (size_t)(lm->context - lm->position))
        rush_fail(RUSH_VALUE_ERROR, "%zu tokens after %lld are more than the context of %lld", n, (long long)lm->position, (long long)lm->context);
    for (size_t i = 0; !rush_failed() && i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= lm->vocabulary) rush_fail(RUSH_INDEX_ERROR, "token %d of a vocabulary of %lld", tokens[i], (long long)lm->vocabulary);
    return !rush_failed();
}

const float *rush_lm_feed(rush_lm *lm, const int32_t *tokens, size_t n)
{
    if (!can_feed(lm, tokens, n)) return NULL;
    int64_t before = lm->position;
    for (size_t at = 0, m; at < n; at += m) {
        m = RUSH_MIN(n - at, (size_t)RUSH_LM_ROWS);
        if (feed(lm, tokens + at, (int64_t)m) || (at + m == n && say(lm, (int64_t)m - 1, 1, lm->logits))) return lm->position = before, NULL;
    }
    return lm->logits;
}

int rush_lm_feed_each(rush_lm *lm, const int32_t *tokens, size_t n, float *to)
{
    if (!can_feed(lm, tokens, n)) return -1;
    int64_t before = lm->position;
    if (!feed(lm, tokens, (int64_t)n) && !say(lm, 0, (int64_t)n, to)) return 0;
    lm->position = before;
    return -1;
}

/* The logarithm of what probabilities are divided by. */
static double log_sum(const float *logits, int64_t n)
{
    double sum = 0;
    float most = logits[0];
    for (int64_t i = 0; i < n; i++) most = RUSH_MAX(most, logits[i]);
    for (int64_t i = 0; i < n; i++) sum += expf(logits[i] - most);
    return most + log(sum);
}

int rush_lm_likeliest(const rush_lm *lm, const float *logits, int32_t token, size_t n, rush_lm_chance *to)
{
    if (!rush_lm_given(lm)) return -1;
    RUSH_CHECK(logits && to, RUSH_TYPE_ERROR, "chances are taken from what a model says to a place for them, but one is missing (NULL)");
    RUSH_CHECK(token >= 0 && token < lm->vocabulary && n <= (size_t)lm->vocabulary, RUSH_INDEX_ERROR, "token %d and the %zu likeliest of a vocabulary of %lld", token, n, (long long)lm->vocabulary);
    double sum = log_sum(logits, lm->vocabulary);
    rush_lm_chance *best = to + 1;
    to[0] = (rush_lm_chance){token, (float)(logits[token] - sum)};
    size_t have = 0;
    for (int64_t i = 0; i < lm->vocabulary && n; i++) { /* each among the best so far, of which few change */
        float chance = (float)(logits[i] - sum);
        if (have == n && !(chance > best[n - 1].log)) continue;
        size_t at = have < n ? have++ : n - 1;
        for (; at && best[at - 1].log < chance; at--) best[at] = best[at - 1];
        best[at] = (rush_lm_chance){(int32_t)i, chance};
    }
    return 0;
}

int rush_lm_score(rush_lm *lm, const int32_t *tokens, size_t n, float *to)
{
    enum { AT_ONCE = 32 }; /* rows whose logits are in memory */
    if (!can_feed(lm, tokens, n)) return -1;
    RUSH_CHECK(to, RUSH_TYPE_ERROR, "scores are written, but there is no place for them (NULL)");
    size_t got;
    float *logits = rush_block_alloc((size_t)(AT_ONCE * lm->vocabulary) * sizeof *logits, &got);
    if (!logits) return -1;
    int64_t before = lm->position;
    int failed = 0;
    to[0] = 0;
    for (size_t at = 0, m; at < n && !failed; at += m) {
        m = RUSH_MIN(n - at, (size_t)RUSH_LM_ROWS);
        failed = feed(lm, tokens + at, (int64_t)m);
        for (size_t i = 0; i < m && !failed; i++) {
            if (i % AT_ONCE == 0) failed = say(lm, (int64_t)i, (int64_t)RUSH_MIN(m - i, (size_t)AT_ONCE), logits);
            if (!failed && at + i + 1 < n) {
                const float *row = logits + (int64_t)(i % AT_ONCE) * lm->vocabulary;
                to[at + i + 1] = (float)(row[tokens[at + i + 1]] - log_sum(row, lm->vocabulary));
            }
        }
    }
    rush_block_free(logits, got);
    if (failed) lm->position = before;
    return failed;
}

const int32_t *rush_lm_encode(const rush_lm *lm, const char *text, size_t n, size_t *count)
{
    if (!rush_lm_given(lm)) return NULL;
    RUSH_CHECK_NULL(text && count, RUSH_TYPE_ERROR, "a text was expected, but there is none (NULL)");
    RUSH_CHECK_NULL(n < 1 << 28, RUSH_VALUE_ERROR, "a text of %zu bytes is too long for a language model", n);
    int32_t *to = rush_scope_alloc(rush_tokenizer_most(lm->tokenizer, n) * sizeof *to);
    int64_t made = to ? rush_tokenizer_encode_to(lm->tokenizer, text, n, to) : -1;
    if (made < 0) return NULL;
    *count = (size_t)made;
    return to;
}

const char *rush_lm_piece(const rush_lm *lm, int32_t token, size_t *n) { return rush_lm_given(lm) ? rush_tokenizer_piece(lm->tokenizer, token, n) : ""; }
bool rush_lm_ends(const rush_lm *lm, int32_t token) { return rush_lm_given(lm) && token >= 0 && token < lm->tokenizer->n && lm->tokenizer->ends[token]; }
