/* tokenizer_gguf.c - the tokeniser that a GGUF file's metadata tell of: SentencePiece's, whose pairs merge by the score of what they become, or byte pairs. */
#include "data/tokenizer.h"
#include "data/words.h"

#include <stdio.h>

enum { NORMAL = 1, UNKNOWN, CONTROL, WRITTEN, UNUSED, BYTE }; /* types of tokens; WRITTEN: texts that always are a token */

static const rush_content *value(const rush_gguf *g, const char *key)
{
    char name[128];
    snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
    return rush_content_get(g->metadata, name);
}

static bool flag(const rush_gguf *g, const char *key, bool otherwise)
{
    const rush_content *x = value(g, key);
    return x && x->kind == RUSH_CONTENT_BOOL ? x->i != 0 : otherwise;
}

static int32_t number(const rush_gguf *g, const char *key, int64_t n, int32_t otherwise)
{
    const rush_content *x = value(g, key);
    return x && x->kind == RUSH_CONTENT_INT && x->i >= 0 && x->i < n ? (int32_t)x->i : otherwise;
}

/* A list of n numbers of that dtype; NULL without an error: there is none. */
static const void *numbers(const rush_gguf *g, const char *key, rush_dtype d, int64_t n)
{
    const rush_content *x = value(g, key);
    RUSH_CHECK_NULL(!x || (x->kind == RUSH_CONTENT_TENSOR && x->t->numel == n && x->t->dtype == d), RUSH_VALUE_ERROR, "tokenizer.ggml.%s of '%s' is no list of %lld numbers of %s", key,
                    g->path, (long long)n, rush_dtype_name(d));
    return x ? rush_ptr(x->t) : NULL;
}

/* The longest text of a list of them. */
static size_t longest(const rush_content *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i]->kind == RUSH_CONTENT_TEXT) n = RUSH_MAX(n, list->items[i]->n);
    return n;
}

static int take_token(rush_tokenizer *t, int32_t i, const rush_content *x, int type, char *room)
{
    t->ends[i] = type == CONTROL && rush_tokenizer_is_end(x->s);
    if ((type == CONTROL || type == WRITTEN) && rush_tokenizer_put_special(t, i, x->s, x->n)) return -1;
    if (type == CONTROL || type == UNKNOWN || type == UNUSED) return rush_tokenizer_put(t, i, "", 0, false);
    if (type == BYTE && rush_tokenizer_put_byte(t, i, x->s)) return rush_failed() ? -1 : 0;
    if (type == WRITTEN && t->kind == RUSH_BYTE_PAIRS) return rush_tokenizer_put(t, i, x->s, x->n, true);
    return rush_tokenizer_put(t, i, room, rush_tokenizer_open(t, x->s, x->n, room), true);
}

static int take_tokens(rush_tokenizer *t, const rush_gguf *g, const rush_content *list)
{
    const int32_t *type = numbers(g, "token_type", RUSH_I32, list->n);
    char *room = rush_scope_alloc(longest(list) + 1);
    if (rush_failed()) return -1;
    for (uint32_t i = 0; i < list->n; i++) {
        const rush_content *x = list->items[i];
        RUSH_CHECK(x->kind == RUSH_CONTENT_TEXT && x->n < 1 << 16, RUSH_VALUE_ERROR, "token %u of '%s' is no text", i, g->path);
        if (take_token(t, (int32_t)i, x, type ? type[i] : NORMAL, room)) return -1;
    }
    for (int b = 0; b < 256 && t->kind == RUSH_BYTE_PAIRS; b++) t->byte[b] = rush_tokenizer_find(t, &(char){(char)b}, 1);
    return 0;
}

static int take_merges(rush_tokenizer *t, const rush_gguf *g)
{
    const rush_content *list = value(g, "merges");
    RUSH_CHECK(list && list->kind == RUSH_CONTENT_LIST, RUSH_VALUE_ERROR, "'%s' has no merges for its tokens", g->path);
    char *room = rush_scope_alloc(longest(list) + 1);
    for (size_t i = 0; i < list->n && room; i++) {
        const rush_content *x = list->items[i];
        RUSH_CHECK(x->kind == RUSH_CONTENT_TEXT, RUSH_VALUE_ERROR, "merge %zu of '%s' is no text", i, g->path);
        if (rush_tokenizer_put_merge(t, x->s, x->s + x->n, (int32_t)i, room) < 0) return -1; /* what is no token never merges */
    }
    return room ? 0 : -1;
}

/* Of numbers the least first, as integers in the same order. */
static int32_t rank_of(float score)
{
    int32_t i;
    memcpy(&i, &(float){0 - score}, sizeof i);
    return i < 0 ? i ^ INT32_MAX : i;
}

/* Any two tokens merge that are a third together. */
static int take_scores(rush_tokenizer *t, const rush_gguf *g)
{
    const float *score = numbers(g, "scores", RUSH_F32, t->n);
    for (int64_t i = 0; i < t->n; i++) {
        size_t n;
        const char *p = rush_tokenizer_piece(t, i, &n), *end = p + n;
        if (rush_tokenizer_find(t, p, n) != i) continue;
        int32_t rank = score && score[i] == score[i] ? rank_of(score[i]) : 0, code;
        for (const char *at = p + (n ? rush_character(p, end, &code) : 0); at < end; at += rush_character(at, end, &code)) {
            int32_t left = rush_tokenizer_find(t, p, (size_t)(at - p)), right = left < 0 ? -1 : rush_tokenizer_find(t, at, (size_t)(end - at));
            if (right >= 0 && rush_pairs_add(&t->pairs, (rush_pair){left, right, (int32_t)i, rank})) return -1;
        }
    }
    return rush_failed() ? -1 : 0;
}

static int take_all(rush_tokenizer *t, const rush_gguf *g, const rush_content *list, int digits)
{
    bool bpe = t->kind == RUSH_BYTE_PAIRS;
    if (take_tokens(t, g, list) || (bpe ? take_merges(t, g) : take_scores(t, g))) return -1;
    t->digits = digits;
    t->whole_words = digits == 3;
    t->unknown = number(g, "unknown_token_id", t->n, bpe ? -1 : 0);
    if (flag(g, "add_bos_token", !bpe || digits == 3)) t->begin = number(g, "bos_token_id", t->n, bpe || t->n < 2 ? -1 : 1);
    t->adds_blank = flag(g, "add_space_prefix", !bpe) ? RUSH_BLANK_EACH : RUSH_BLANK_NONE;
    int32_t end = number(g, "eos_token_id", t->n, -1), turn = number(g, "eot_token_id", t->n, -1);
    if (end >= 0) t->ends[end] = true;
    if (turn >= 0) t->ends[turn] = true;
    rush_tokenizer_finish(t);
    return 0;
}

rush_tokenizer *rush_tokenizer_of_gguf(const rush_gguf *g)
{
    const rush_content *model = value(g, "model"), *list = value(g, "tokens"), *pattern = value(g, "pre");
    bool named = model && model->kind == RUSH_CONTENT_TEXT, bpe = named && !strcmp(model->s, "gpt2");
    RUSH_CHECK_NULL(bpe || (named && !strcmp(model->s, "llama")), RUSH_NOT_IMPLEMENTED, "'%s' has a tokenizer of the kind %.60s: gpt2 (BPE) and llama (SentencePiece) are known here", g->path,
                    named ? model->s : "(none)");
    RUSH_CHECK_NULL(list && list->kind == RUSH_CONTENT_LIST && list->n && list->n < 1 << 24, RUSH_VALUE_ERROR, "'%s' has no list of tokens", g->path);
    const char *pre = pattern && pattern->kind == RUSH_CONTENT_TEXT ? pattern->s : "gpt-2";
    bool llama3 = !strcmp(pre, "llama-bpe") || !strcmp(pre, "llama3") || !strcmp(pre, "llama-v3"), qwen = !strcmp(pre, "qwen2");
    RUSH_CHECK_NULL(!bpe || llama3 || qwen || !strcmp(pre, "gpt-2") || !strcmp(pre, "default"), RUSH_NOT_IMPLEMENTED,
                    "'%s' cuts texts into words as %.60s does: gpt-2, llama-bpe and qwen2 are known here", g->path, pre);
    rush_tokenizer *t = rush_tokenizer_begin(bpe ? RUSH_BYTE_PAIRS : RUSH_PIECES, list->n);
    if (t && !take_all(t, g, list, bpe && llama3 ? 3 : bpe && qwen ? 1 : 0)) return t;
    rush_tokenizer_free(t);
    return NULL;
}
