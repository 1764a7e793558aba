/* load.c - a language model as a GGUF file has it: its sizes and weights are looked up, and stay where the file was read to.
 *
 * What a family has is a row of `families`, or there if the file has it: biases, norms of queries and keys, an output of its own.
 */
#include "lm/lm.h"
#include "base/buried.h"

#include <math.h>
#include <stdio.h>

typedef struct family {
    const char *name; /* general.architecture */
    bool halves;      /* pairs that are turned are half a head apart, not neighbours */
    bool placed;      /* positions are learned: nothing is turned */
    bool centred;     /* layer norms, with biases */
    bool gated;       /* silu of one product times another; else gelu */
    bool fused;       /* queries, keys and values are one weight */
} family;

static const family families[] = {
    {"llama", .gated = true},
    {"qwen2", .halves = true, .gated = true},
    {"qwen3", .halves = true, .gated = true},
    {"gpt2", .placed = true, .centred = true, .fused = true},
};

typedef struct source {
    const rush_gguf *file;
    const family *of;
} source;

static const rush_content *value(const source *s, const char *key)
{
    char name[256];
    snprintf(name, sizeof name, "%s.%s", s->of->name, key);
    return rush_content_get(s->file->metadata, name);
}

/* A whole number from 1 to 2^24. `otherwise` 0: it must be there. */
static int64_t size_of(const source *s, const char *key, int64_t otherwise)
{
    const rush_content *x = value(s, key);
    int64_t n = !x ? otherwise : x->kind == RUSH_CONTENT_INT ? x->i : 0;
    if (n < 1 || n > 1 << 24) rush_fail(RUSH_VALUE_ERROR, "'%s' says nothing useful of %s.%s", s->file->path, s->of->name, key);
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

/* blk.LAYER.NAME.weight (n, k), and its bias if there is one. */
static int take_weight(const source *s, const char *name, int layer, int64_t n, int64_t k, rush_weight *to)
{
    char full[64], plain[48];
    snprintf(plain, sizeof plain, "%s.weight", name);
    const rush_gguf_tensor *t = find(s, plain, layer, full, sizeof full);
    if (!t) return missing(s, full);
    RUSH_CHECK(t->ndim == 2 && t->size[0] == n && t->size[1] == k, RUSH_VALUE_ERROR, "'%s' of '%s' has sizes %s, not [%lld, %lld]", full, s->file->path,
               rush_shape_text(t->ndim, t->size), (long long)n, (long long)k);
    RUSH_CHECK(t->type.block || t->type.dtype == RUSH_F32 || t->type.dtype == RUSH_F16 || t->type.dtype == RUSH_BF16, RUSH_NOT_IMPLEMENTED, "'%s' of '%s' is a weight of %s", full,
               s->file->path, t->type.name);
    snprintf(plain, sizeof plain, "%s.bias", name);
    *to = (rush_weight){t->type, n, k, t->data, take_row(s, plain, layer, n, false)};
    return rush_failed() ? -1 : 0;
}

/* Rows [first, first + n) of a weight. */
static rush_weight part_of(const rush_weight *w, int64_t first, int64_t n)
{
    return (rush_weight){w->type, n, w->k, (const char *)w->data + first * rush_weight_step(w), w->bias ? w->bias + first : NULL};
}

static int take_norm(const rush_lm *lm, const source *s, const char *name, int layer, int64_t n, bool must, rush_norm *to)
{
    char plain[48];
    snprintf(plain, sizeof plain, "%s.weight", name);
    const float *weight = take_row(s, plain, layer, n, must);
    snprintf(plain, sizeof plain, "%s.bias", name);
    *to = (rush_norm){weight, s->of->centred ? take_row(s, plain, layer, n, must) : NULL, lm->eps, s->of->centred};
    return rush_failed() ? -1 : 0;
}

static int take_attention(const rush_lm *lm, const source *s, int i, rush_lm_layer *l)
{
    int64_t w = lm->width, q = lm->heads * lm->head, kv = lm->kv_heads * lm->head;
    rush_weight all;
    if (!s->of->fused) {
        if (take_weight(s, "attn_q", i, q, w, &l->q) || take_weight(s, "attn_k", i, kv, w, &l->k) || take_weight(s, "attn_v", i, kv, w, &l->v)) return -1;
    } else {
        if (take_weight(s, "attn_qkv", i, q + 2 * kv, w, &all)) return -1;
        l->q = part_of(&all, 0, q), l->k = part_of(&all, q, kv), l->v = part_of(&all, q + kv, kv);
    }
    return take_weight(s, "attn_output", i, w, q, &l->o) || take_norm(lm, s, "attn_norm", i, w, true, &l->attention_norm) || take_norm(lm, s, "attn_q_norm", i, lm->head, false, &l->q_norm) ||
           take_norm(lm, s, "attn_k_norm", i, lm->head, false, &l->k_norm);
}

static int take_cache(const rush_lm *lm, rush_lm_layer *l, bool bytes)
{
    size_t places = (size_t)(lm->kv_heads * lm->places), all = places * (size_t)lm->head * (bytes ? 1 : sizeof(uint16_t)), scales = bytes ? places * sizeof(float) : 0;
    l->keys = rush_scope_alloc(all), l->values = rush_scope_alloc(all);
    if (bytes) l->key_scale = rush_scope_alloc(scales), l->value_scale = rush_scope_alloc(scales);
    if (rush_failed()) return -1;
    memset(l->keys, 0, all); /* scores of places without a key are computed, too */
    if (bytes) memset(l->key_scale, 0, scales);
    return 0;
}

static int take_layer(rush_lm *lm, const source *s, int i, bool bytes)
{
    rush_lm_layer *l = &lm->layer[i];
    *l = (rush_lm_layer){0};
    if (take_cache(lm, l, bytes) || take_attention(lm, s, i, l) || take_norm(lm, s, "ffn_norm", i, lm->width, true, &l->feed_norm) ||
        (s->of->gated && take_weight(s, "ffn_gate", i, lm->feed, lm->width, &l->gate)) || take_weight(s, "ffn_up", i, lm->feed, lm->width, &l->up) ||
        take_weight(s, "ffn_down", i, lm->width, lm->feed, &l->down))
        return -1;
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
    if (!lm->turned) return 0;
    const float *factors = take_row(s, "rope_freqs.weight", -1, lm->turned / 2, false);
    lm->frequency = rush_scope_alloc((size_t)lm->turned / 2 * sizeof *lm->frequency);
    if (rush_failed()) return -1;
    for (int64_t i = 0; i < lm->turned / 2; i++) lm->frequency[i] = powf(base, -2 * (float)i / (float)lm->turned) / factor / (factors ? factors[i] : 1);
    return 0;
}

static int take_sizes(rush_lm *lm, const source *s, int64_t context)
{
    RUSH_CHECK(!value(s, "expert_count"), RUSH_NOT_IMPLEMENTED, "'%s' is a model of the kind %s with experts, which are not run here", s->file->path, s->of->name);
    lm->layers = size_of(s, "block_count", 0);
    lm->width = size_of(s, "embedding_length", 0);
    lm->feed = size_of(s, "feed_forward_length", 0);
    lm->heads = size_of(s, "attention.head_count", 0);
    lm->kv_heads = size_of(s, "attention.head_count_kv", lm->heads);
    int64_t trained = size_of(s, "context_length", 4096);
    if (rush_failed()) return -1;
    lm->head = size_of(s, "attention.key_length", lm->width / lm->heads);
    lm->turned = s->of->placed ? 0 : size_of(s, "rope.dimension_count", lm->head);
    lm->eps = float_of(s, s->of->centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 1e-5f);
    lm->halves = s->of->halves;
    lm->gated = s->of->gated;
    lm->places = (RUSH_MIN(context > 0 ? context : 4096, trained) + RUSH_KEYS - 1) / RUSH_KEYS * RUSH_KEYS;
    lm->context = s->of->placed ? RUSH_MIN(lm->places, trained) : lm->places;
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

static int look_up(rush_lm *lm, const source *s, const rush_lm_options *o)
{
    char full[64];
    if (take_sizes(lm, s, o->context)) return -1;
    const rush_gguf_tensor *e = find(s, "token_embd.weight", -1, full, sizeof full);
    if (!e) return missing(s, full);
    lm->vocabulary = e->ndim == 2 ? e->size[0] : 0;
    if (take_weight(s, "token_embd", -1, lm->vocabulary, lm->width, &lm->embedding)) return -1;
    if (s->of->placed && take_weight(s, "position_embd", -1, size_of(s, "context_length", 0), lm->width, &lm->position_embedding)) return -1;
    if (!rush_gguf_find(s->file, "output.weight")) lm->output = lm->embedding;
    else if (take_weight(s, "output", -1, lm->vocabulary, lm->width, &lm->output)) return -1;
    lm->layer = rush_scope_alloc((size_t)lm->layers * sizeof *lm->layer);
    if (rush_failed() || take_norm(lm, s, "output_norm", -1, lm->width, true, &lm->norm) || take_frequencies(lm, s)) return -1;
    bool bytes = o->cache && !strcmp(o->cache, "int8");
    for (int i = 0; i < lm->layers; i++)
        if (take_layer(lm, s, i, bytes)) return -1;
    lm->style = rush_lm_style_of(s->file, &lm->has_template);
    if (take_room(lm) || !(lm->tokenizer = o->tokenizer ? rush_tokenizer_load(o->tokenizer, NULL) : rush_tokenizer_of_gguf(s->file))) return -1;
    RUSH_CHECK(lm->tokenizer->n <= lm->vocabulary, RUSH_VALUE_ERROR, "'%s' names %lld tokens, but '%s' has rows for %lld", o->tokenizer ? o->tokenizer : s->file->path,
               (long long)lm->tokenizer->n, s->file->path, (long long)lm->vocabulary);
    return 0;
}

static const family *family_of(const rush_gguf *file)
{
    const rush_content *kind = rush_content_get(file->metadata, "general.architecture");
    RUSH_CHECK_NULL(kind && kind->kind == RUSH_CONTENT_TEXT, RUSH_VALUE_ERROR, "'%s' does not say of which kind its model is", file->path);
    for (size_t i = 0; i < RUSH_COUNT(families); i++)
        if (!strcmp(kind->s, families[i].name)) return &families[i];
    rush_fail(RUSH_NOT_IMPLEMENTED, "'%s' is a model of the kind %.60s: llama, qwen2, qwen3 and gpt2 are run here", file->path, kind->s);
    return NULL;
}

static void end(void *p)
{
    rush_tokenizer_free(((rush_lm *)p)->tokenizer);
    rush_bury_handle(p, sizeof(rush_lm));
}

rush_lm *rush_lm_load_with(const char *path, const rush_lm_options *options)
{
    const rush_lm_options *o = RUSH_OPTIONS(options);
    RUSH_CHECK_NULL(o->context >= 0, RUSH_VALUE_ERROR, "a context of %lld tokens", (long long)o->context);
    RUSH_CHECK_NULL(!o->cache || !strcmp(o->cache, "int8") || !strcmp(o->cache, "float16"), RUSH_VALUE_ERROR, "a cache of '%.60s': float16 and int8 are known here", o->cache);
    if (!rush_cpu_suits()) return rush_cpu_refuse(), NULL;
    const rush_gguf *file = rush_gguf_open_held(path);
    const family *of = file ? family_of(file) : NULL;
    rush_lm *lm = of ? rush_calloc(1, sizeof *lm) : NULL;
    if (!lm) return NULL;
    lm->end = end;
    return rush_park_object(lm) && !look_up(lm, &(source){file, of}, o) ? lm : NULL;
}

rush_lm *rush_lm_load(const char *path, int64_t context) { return rush_lm_load_with(path, &(rush_lm_options){.context = context}); }
