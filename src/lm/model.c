/* model.c - a language model from a GGUF file: its sizes and weights are looked up, then tokens go through its layers.
 *
 * Of Llama's shape: RMS norms, rotated queries and keys, groups of heads that share keys and values, a gated layer of two products. What else there is
 * (biases and norms of queries and keys) is there if the file has it. Weights stay where they are mapped; rows are rounded to int8 for products with blocks.
 */
#include "lm/lm.h"
#include "base/buried.h"

#include <math.h>
#include <stdio.h>

/* ---- what the file has ---- */

typedef struct source {
    const rush_gguf *file;
    const char *kind; /* general.architecture */
} source;

static const rush_content *value(const source *s, const char *key)
{
    char name[256];
    snprintf(name, sizeof name, "%s.%s", s->kind, key);
    return rush_content_get(s->file->metadata, name);
}

/* A whole number from 1 to 2^24. `otherwise` 0: it must be there. */
static int64_t size_of(const source *s, const char *key, int64_t otherwise)
{
    const rush_content *x = value(s, key);
    int64_t n = !x ? otherwise : x->kind == RUSH_CONTENT_INT ? x->i : 0;
    if (n < 1 || n > 1 << 24) rush_fail(RUSH_VALUE_ERROR, "'%s' says nothing useful of %s.%s", s->file->path, s->kind, key);
    return n;
}

static float float_of(const source *s, const char *key, float otherwise)
{
    const rush_content *x = value(s, key);
    return x && x->kind == RUSH_CONTENT_FLOAT && isfinite(x->f) ? (float)x->f : otherwise;
}

static const rush_gguf_tensor *find(const source *s, const char *name, int layer, char *full, size_t room)
{
    if (layer < 0) snprintf(full, room, "%s", name);
    else snprintf(full, room, "blk.%d.%s", layer, name);
    return rush_gguf_find(s->file, full);
}

static int missing(const source *s, const char *name) { return rush_fail(RUSH_KEY_ERROR, "'%s' has no tensor '%s'", s->file->path, name); }

static int take_weight(const source *s, const char *name, int layer, int64_t n, int64_t k, rush_weight *to)
{
    char full[64];
    const rush_gguf_tensor *t = find(s, name, layer, full, sizeof full);
    if (!t) return missing(s, full);
    RUSH_CHECK(t->ndim == 2 && t->size[0] == n && t->size[1] == k, RUSH_VALUE_ERROR, "'%s' of '%s' has sizes %s, not [%lld, %lld]", full, s->file->path,
               rush_shape_text(t->ndim, t->size), (long long)n, (long long)k);
    RUSH_CHECK(t->type.block || t->type.dtype == RUSH_F32 || t->type.dtype == RUSH_F16 || t->type.dtype == RUSH_BF16, RUSH_NOT_IMPLEMENTED, "'%s' of '%s' is a weight of %s", full,
               s->file->path, t->type.name);
    *to = (rush_weight){t->type, n, k, t->data};
    return 0;
}

/* A row of numbers as float32; NULL without an error: there is none, which `must` makes an error. */
static const float *take_row(const source *s, const char *name, int layer, int64_t n, bool must)
{
    char full[64];
    const rush_gguf_tensor *t = find(s, name, layer, full, sizeof full);
    if (!t && must) missing(s, full);
    if (!t || rush_failed()) return NULL;
    RUSH_CHECK_NULL(t->numel == n, RUSH_VALUE_ERROR, "'%s' of '%s' has %lld elements, not %lld", full, s->file->path, (long long)t->numel, (long long)n);
    const rush_tensor *x = rush_gguf_tensor_of(s->file, t);
    x = x ? rush_cast_copy(x, RUSH_F32) : NULL;
    return x ? rush_ptr(x) : NULL;
}

static int take_layer(rush_lm *lm, const source *s, int i)
{
    rush_lm_layer *l = &lm->layer[i];
    int64_t w = lm->width, q = lm->heads * lm->head, kv = lm->kv_heads * lm->head;
    size_t cache = (size_t)(kv * lm->context) * sizeof *l->keys;
    if (take_weight(s, "attn_q.weight", i, q, w, &l->q) || take_weight(s, "attn_k.weight", i, kv, w, &l->k) || take_weight(s, "attn_v.weight", i, kv, w, &l->v) ||
        take_weight(s, "attn_output.weight", i, w, q, &l->o) || take_weight(s, "ffn_gate.weight", i, lm->feed, w, &l->gate) ||
        take_weight(s, "ffn_up.weight", i, lm->feed, w, &l->up) || take_weight(s, "ffn_down.weight", i, w, lm->feed, &l->down))
        return -1;
    l->attention_norm = take_row(s, "attn_norm.weight", i, w, true);
    l->feed_norm = take_row(s, "ffn_norm.weight", i, w, true);
    l->q_bias = take_row(s, "attn_q.bias", i, q, false);
    l->k_bias = take_row(s, "attn_k.bias", i, kv, false);
    l->v_bias = take_row(s, "attn_v.bias", i, kv, false);
    l->q_norm = take_row(s, "attn_q_norm.weight", i, lm->head, false);
    l->k_norm = take_row(s, "attn_k_norm.weight", i, lm->head, false);
    l->keys = rush_scope_alloc(cache);
    l->values = rush_scope_alloc(cache);
    if (rush_failed()) return -1;
    memset(l->keys, 0, cache); /* scores of places without a key are computed, too */
    return 0;
}

/* The angle of each pair per position; Llama 3.1 has factors for them. */
static int take_frequencies(rush_lm *lm, const source *s)
{
    const rush_content *scaling = value(s, "rope.scaling.type");
    float base = float_of(s, "rope.freq_base", 10000), factor = 1;
    bool linear = scaling && scaling->kind == RUSH_CONTENT_TEXT && !strcmp(scaling->s, "linear");
    RUSH_CHECK(!scaling || linear || (scaling->kind == RUSH_CONTENT_TEXT && !strcmp(scaling->s, "none")), RUSH_NOT_IMPLEMENTED, "'%s' stretches its context in a way that is not known here",
               s->file->path);
    if (linear) factor = float_of(s, "rope.scaling.factor", 1);
    const float *factors = take_row(s, "rope_freqs.weight", -1, lm->turned / 2, false);
    lm->frequency = rush_scope_alloc((size_t)lm->turned / 2 * sizeof *lm->frequency);
    if (rush_failed()) return -1;
    for (int64_t i = 0; i < lm->turned / 2; i++) lm->frequency[i] = powf(base, -2 * (float)i / (float)lm->turned) / factor / (factors ? factors[i] : 1);
    return 0;
}

static int take_sizes(rush_lm *lm, const source *s, int64_t context)
{
    bool known = !strcmp(s->kind, "llama") || !strcmp(s->kind, "qwen2") || !strcmp(s->kind, "qwen3");
    RUSH_CHECK(known && !value(s, "expert_count"), RUSH_NOT_IMPLEMENTED, "'%s' is a model of the kind %s%s: llama, qwen2 and qwen3 are run here", s->file->path, s->kind,
               known ? " with experts" : "");
    lm->layers = size_of(s, "block_count", 0);
    lm->width = size_of(s, "embedding_length", 0);
    lm->feed = size_of(s, "feed_forward_length", 0);
    lm->heads = size_of(s, "attention.head_count", 0);
    lm->kv_heads = size_of(s, "attention.head_count_kv", lm->heads);
    int64_t trained = size_of(s, "context_length", 4096);
    if (rush_failed()) return -1;
    lm->head = size_of(s, "attention.key_length", lm->width / lm->heads);
    lm->turned = size_of(s, "rope.dimension_count", lm->head);
    lm->eps = float_of(s, "attention.layer_norm_rms_epsilon", 1e-5f);
    lm->halves = strcmp(s->kind, "llama") != 0;
    lm->context = (RUSH_MIN(context > 0 ? context : 4096, trained) + 63) / 64 * 64;
    RUSH_CHECK(lm->heads % lm->kv_heads == 0 && lm->head % 16 == 0 && lm->head <= 1024 && lm->turned <= lm->head && lm->turned % 2 == 0 && lm->layers <= 1024 && lm->width % 32 == 0 && lm->feed % 32 == 0 &&
                   size_of(s, "attention.value_length", lm->head) == lm->head,
               RUSH_NOT_IMPLEMENTED, "'%s' has sizes that do not go together, or heads of no multiple of 16", s->file->path);
    return rush_failed() ? -1 : 0;
}

static int take_room(rush_lm *lm)
{
    int64_t rows = RUSH_MIN((int64_t)RUSH_LM_ROWS, lm->context), q = lm->heads * lm->head, kv = lm->kv_heads * lm->head, widest = RUSH_MAX(RUSH_MAX(lm->width, lm->feed), q);
    const struct { float **to; int64_t n; } rooms[] = {{&lm->x, rows * lm->width}, {&lm->y, rows * RUSH_MAX(lm->width, q)}, {&lm->q, rows * q}, {&lm->k, rows * kv}, {&lm->v, rows * kv},
                                                       {&lm->gate, rows * lm->feed}, {&lm->up, rows * lm->feed}, {&lm->turns, rows * lm->turned}, {&lm->logits, lm->vocabulary}};
    for (size_t i = 0; i < RUSH_COUNT(rooms); i++) *rooms[i].to = rush_scope_alloc((size_t)rooms[i].n * sizeof(float));
    lm->rounded = rush_scope_alloc(rush_rounded_bytes(rows, widest));
    lm->fed = rush_scope_alloc((size_t)lm->context * sizeof *lm->fed);
    return rush_failed() ? -1 : 0;
}

static int look_up(rush_lm *lm, const source *s, int64_t context)
{
    char full[64];
    if (take_sizes(lm, s, context)) return -1;
    const rush_gguf_tensor *e = find(s, "token_embd.weight", -1, full, sizeof full);
    if (!e) return missing(s, full);
    lm->vocabulary = e->ndim == 2 ? e->size[0] : 0;
    if (take_weight(s, "token_embd.weight", -1, lm->vocabulary, lm->width, &lm->embedding)) return -1;
    if (!rush_gguf_find(s->file, "output.weight")) lm->output = lm->embedding;
    else if (take_weight(s, "output.weight", -1, lm->vocabulary, lm->width, &lm->output)) return -1;
    lm->norm = take_row(s, "output_norm.weight", -1, lm->width, true);
    lm->layer = rush_scope_alloc((size_t)lm->layers * sizeof *lm->layer);
    if (rush_failed() || take_frequencies(lm, s)) return -1;
    for (int i = 0; i < lm->layers; i++)
        if (take_layer(lm, s, i)) return -1;
    if (take_room(lm) || !(lm->tokenizer = rush_tokenizer_of_gguf(s->file))) return -1;
    RUSH_CHECK(lm->tokenizer->n <= lm->vocabulary, RUSH_VALUE_ERROR, "'%s' names %lld tokens, but has rows for %lld", s->file->path, (long long)lm->tokenizer->n,
               (long long)lm->vocabulary);
    return 0;
}

static void end(void *p)
{
    rush_tokenizer_free(((rush_lm *)p)->tokenizer);
    rush_bury_handle(p, sizeof(rush_lm));
}

rush_lm *rush_lm_load(const char *path, int64_t context)
{
    RUSH_CHECK_NULL(context >= 0, RUSH_VALUE_ERROR, "a context of %lld tokens", (long long)context);
    if (!rush_cpu_suits()) return rush_cpu_refuse(), NULL;
    const rush_gguf *file = rush_gguf_open(path);
    if (!file) return NULL;
    const rush_content *kind = rush_content_get(file->metadata, "general.architecture");
    RUSH_CHECK_NULL(kind && kind->kind == RUSH_CONTENT_TEXT && kind->n < 64, RUSH_VALUE_ERROR, "'%s' does not say of which kind its model is", path);
    rush_lm *lm = rush_calloc(1, sizeof *lm);
    if (!lm) return NULL;
    lm->end = end;
    return rush_park_object(lm) && !look_up(lm, &(source){file, kind->s}, context) ? lm : NULL;
}

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

/* ---- tokens through the layers ---- */

enum { MOST_WEIGHTS = 3 }; /* that multiply the same rows */

/* Results of m rows of several weights of the same width: the rows are rounded once. */
static int products(const rush_lm *lm, const float *a, int64_t m, int n, const rush_weight *const *w, float *const *to, const float *const *bias)
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
        for (int64_t x = 0; bias && bias[i] && x < m * w[i]->n; x++) to[i][x] += bias[i][x % w[i]->n];
    return 0;
}

static int product(const rush_lm *lm, const float *a, int64_t m, const rush_weight *w, float *to)
{
    return products(lm, a, m, 1, (const rush_weight *const[]){w}, (float *const[]){to}, NULL);
}

static void add(float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/* Keys and values of m rows into the cache. */
static void remember(const rush_lm *lm, rush_lm_layer *l, int64_t m)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t h = 0; h < lm->kv_heads; h++) {
            const float *k = lm->k + (i * lm->kv_heads + h) * lm->head, *v = lm->v + (i * lm->kv_heads + h) * lm->head;
            rush_k_decoder->keep(k, l->keys + h * lm->head * lm->context + lm->position + i, lm->head, lm->context);
            rush_k_decoder->keep(v, l->values + (h * lm->context + lm->position + i) * lm->head, lm->head, 1);
        }
}

static int attention(rush_lm *lm, rush_lm_layer *l, int64_t m)
{
    rush_k_decoder->norm(lm->x, l->attention_norm, lm->eps, lm->y, m, lm->width);
    if (products(lm, lm->y, m, 3, (const rush_weight *const[]){&l->q, &l->k, &l->v}, (float *const[]){lm->q, lm->k, lm->v}, (const float *const[]){l->q_bias, l->k_bias, l->v_bias})) return -1;
    if (l->q_norm) rush_k_decoder->norm(lm->q, l->q_norm, lm->eps, lm->q, m * lm->heads, lm->head);
    if (l->k_norm) rush_k_decoder->norm(lm->k, l->k_norm, lm->eps, lm->k, m * lm->kv_heads, lm->head);
    rush_k_decoder->turn(lm->q, lm->turns, m, lm->heads, lm->head, lm->turned, lm->halves);
    rush_k_decoder->turn(lm->k, lm->turns, m, lm->kv_heads, lm->head, lm->turned, lm->halves);
    remember(lm, l, m);
    if (rush_k_decoder->attend(&(rush_attend){m, lm->heads, lm->kv_heads, lm->head, lm->position, lm->context, lm->q, l->keys, l->values, lm->q})) return -1;
    return product(lm, lm->q, m, &l->o, lm->y);
}

static int gated(rush_lm *lm, const rush_lm_layer *l, int64_t m)
{
    rush_k_decoder->norm(lm->x, l->feed_norm, lm->eps, lm->y, m, lm->width);
    if (products(lm, lm->y, m, 2, (const rush_weight *const[]){&l->gate, &l->up}, (float *const[]){lm->gate, lm->up}, NULL)) return -1;
    rush_k_decoder->gate(lm->gate, lm->up, m * lm->feed);
    return product(lm, lm->gate, m, &l->down, lm->y);
}

static void embed(const rush_lm *lm, const int32_t *tokens, int64_t m)
{
    const rush_weight *e = &lm->embedding;
    int64_t item = (int64_t)rush_dtypes[e->type.dtype].size, step = e->type.block ? e->k / e->type.block->elements * e->type.block->bytes : e->k * item;
    for (int64_t i = 0; i < m; i++) {
        const char *row = (const char *)e->data + tokens[i] * step;
        if (e->type.block) rush_k_blocks->to_float(e->type.block, row, lm->x + i * lm->width, lm->width);
        else rush_convert(lm->x + i * lm->width, RUSH_F32, sizeof(float), row, e->type.dtype, item, lm->width);
    }
}

/* Up to RUSH_LM_ROWS tokens. */
static int feed(rush_lm *lm, const int32_t *tokens, int64_t m)
{
    embed(lm, tokens, m);
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < lm->turned / 2; p++) {
            float angle = (float)(lm->position + i) * lm->frequency[p], *to = lm->turns + i * lm->turned + 2 * p;
            to[0] = cosf(angle), to[1] = sinf(angle);
        }
    for (int i = 0; i < lm->layers; i++) {
        rush_lm_layer *l = &lm->layer[i];
        if (attention(lm, l, m)) return -1;
        add(lm->x, lm->y, m * lm->width);
        if (gated(lm, l, m)) return -1;
        add(lm->x, lm->y, m * lm->width);
    }
    memcpy(lm->fed + lm->position, tokens, (size_t)m * sizeof *tokens);
    lm->position += m;
    return 0;
}

/* What the model says after n of the rows that were fed last. */
static int say(rush_lm *lm, int64_t first, int64_t n, float *to)
{
    rush_k_decoder->norm(lm->x + first * lm->width, lm->norm, lm->eps, lm->y, n, lm->width);
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

static float log_probability(const float *logits, int64_t n, int32_t token)
{
    double sum = 0;
    float most = logits[0];
    for (int64_t i = 0; i < n; i++) most = RUSH_MAX(most, logits[i]);
    for (int64_t i = 0; i < n; i++) sum += expf(logits[i] - most);
    return (float)(logits[token] - most - log(sum));
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
            if (!failed && at + i + 1 < n) to[at + i + 1] = log_probability(logits + (int64_t)(i % AT_ONCE) * lm->vocabulary, lm->vocabulary, tokens[at + i + 1]);
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
