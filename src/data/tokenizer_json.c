/* tokenizer_json.c - Hugging Face's tokenizer.json: byte pairs, of bytes or of SentencePiece's characters. What it says and is not known here is an error. */
#include "base/json.h"
#include "data/tokenizer.h"

typedef struct source {
    const rush_json *json;
    const char *path;
    rush_tokenizer *t;
    char *room; /* for any text that it has */
    bool bytes; /* pairs are of bytes */
} source;

static int unknown(const source *s, const char *what, const char *type)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "'%s' has a %s '%.60s', which is not known here", s->path, what, type ? type : "?");
}

static bool is(const rush_json *x, const char *type)
{
    const char *text = rush_json_text_of(x, "type");
    return text && !strcmp(text, type);
}

/* A step of a name, or several of them: of a Sequence those that it lists. */
static int each(source *s, const char *what, const char *list, const rush_json *x, int (*take)(source *, const char *what, const rush_json *))
{
    if (!x || x->kind == RUSH_JSON_NULL) return 0;
    if (!is(x, "Sequence")) return take(s, what, x);
    rush_json_each(y, rush_json_get(x, list))
        if (is(y, "Sequence") ? unknown(s, what, "Sequence within another") : take(s, what, y)) return -1;
    return 0;
}

static bool says(const rush_json *x, const char *name, const char *text)
{
    const char *found = rush_json_text_of(x, name);
    return found && !strcmp(found, text);
}

static int take_normalizer(source *s, const char *what, const rush_json *x)
{
    if (is(x, "NFC")) s->t->composes = true;
    else if (is(x, "Prepend") && says(x, "prepend", RUSH_BLANK_MARK)) s->t->adds_blank = RUSH_BLANK_EACH;
    else if (!is(x, "Replace") || !says(x, "content", RUSH_BLANK_MARK) || !says(rush_json_get(x, "pattern"), "String", " ")) return unknown(s, what, rush_json_text_of(x, "type"));
    return 0;
}

/* The patterns of GPT-2, Llama 3 and Qwen. */
static int take_split(source *s, const rush_json *x)
{
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
#define LATER(numbers) "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    const struct { const char *pattern; int digits; } known[] = {{gpt2, 0}, {LATER("\\p{N}"), 1}, {LATER("\\p{N}{1,3}"), 3}};
    const char *pattern = rush_json_text_of(rush_json_get(x, "pattern"), "Regex");
    size_t i = 0;
    while (i < RUSH_COUNT(known) && (!pattern || strcmp(known[i].pattern, pattern))) i++;
    if (i == RUSH_COUNT(known) || !says(x, "behavior", "Isolated") || rush_json_is_true(rush_json_get(x, "invert"))) return unknown(s, "pattern", pattern);
    s->t->digits = known[i].digits;
    return 0;
}

static int take_pre_tokenizer(source *s, const char *what, const rush_json *x)
{
    const char *scheme = rush_json_text_of(x, "prepend_scheme");
    if (is(x, "Split")) return take_split(s, x);
    if (is(x, "ByteLevel")) return rush_json_is_true(rush_json_get(x, "add_prefix_space")) ? unknown(s, what, "ByteLevel that adds a blank") : (s->bytes = true, 0);
    if (!is(x, "Metaspace") || !says(x, "replacement", RUSH_BLANK_MARK) || !rush_json_is_false(rush_json_get(x, "split"))) return unknown(s, what, rush_json_text_of(x, "type"));
    if (scheme && !strcmp(scheme, "first")) s->t->adds_blank = RUSH_BLANK_FIRST_WITHOUT;
    else if (!scheme || !strcmp(scheme, "always")) s->t->adds_blank = RUSH_BLANK_EACH_WITHOUT;
    return 0;
}

/* A text is what is put before it, and itself. */
static int take_post_processor(source *s, const char *what, const rush_json *x)
{
    if (is(x, "ByteLevel")) return 0;
    const rush_json *list = rush_json_get(x, "single"), *first = list ? list->first : NULL, *begin = rush_json_get(first, "SpecialToken"), *text = begin ? first->next : first;
    if (!is(x, "TemplateProcessing") || !rush_json_get(text, "Sequence") || text->next) return unknown(s, what, rush_json_text_of(x, "type"));
    if (!begin) return 0;
    const char *name = rush_json_text_of(begin, "id");
    const rush_json *ids = rush_json_get(rush_json_get(rush_json_get(x, "special_tokens"), name ? name : ""), "ids");
    RUSH_CHECK(ids && ids->n == 1 && rush_json_is(ids->first, RUSH_JSON_WHOLE) && ids->first->i >= 0 && ids->first->i < s->t->n, RUSH_VALUE_ERROR,
               "'%s' puts a token before texts that it does not have", s->path);
    s->t->begin = (int32_t)ids->first->i;
    return 0;
}

/* ---- tokens ---- */

static int take_number(const source *s, const rush_json *x, const char *name, int64_t *most)
{
    RUSH_CHECK(rush_json_is(x, RUSH_JSON_WHOLE) && x->i >= 0 && x->i < 1 << 24, RUSH_VALUE_ERROR, "'%s': '%.40s' has no number", s->path, name ? name : "");
    *most = RUSH_MAX(*most, x->i + 1);
    return 0;
}

static int take_vocabulary(source *s, const rush_json *model)
{
    bool by_byte = rush_json_is_true(rush_json_get(model, "byte_fallback"));
    rush_json_each(x, rush_json_get(model, "vocab")) {
        if (by_byte && rush_tokenizer_put_byte(s->t, (int32_t)x->i, x->name)) continue;
        if (rush_failed() || rush_tokenizer_put(s->t, x->i, s->room, rush_tokenizer_open(s->t, x->name, strlen(x->name), s->room), true)) return -1;
    }
    for (int b = 0; b < 256 && s->bytes; b++) s->t->byte[b] = rush_tokenizer_find(s->t, &(char){(char)b}, 1);
    return rush_failed() ? -1 : 0;
}

static int take_added(source *s, const rush_json *x)
{
    static const char *const strips[] = {"single_word", "lstrip", "rstrip"};
    const char *text = rush_json_text_of(x, "content");
    for (size_t i = 0; i < RUSH_COUNT(strips); i++)
        if (rush_json_is_true(rush_json_get(x, strips[i]))) return unknown(s, "token with", strips[i]);
    RUSH_CHECK(text, RUSH_VALUE_ERROR, "'%s' adds a token without a text", s->path);
    bool special = rush_json_is_true(rush_json_get(x, "special"));
    int32_t token = (int32_t)rush_json_get(x, "id")->i;
    s->t->ends[token] = special && rush_tokenizer_is_end(text);
    return rush_tokenizer_put(s->t, token, special ? "" : text, special ? 0 : strlen(text), false) || rush_tokenizer_put_special(s->t, token, text, strlen(text));
}

/* A text of two with a blank between, or a list of the two. */
static int take_merge(source *s, const rush_json *x, int32_t rank)
{
    const char *a = rush_json_text(rush_json_is(x, RUSH_JSON_LIST) ? x->first : x), *b = rush_json_is(x, RUSH_JSON_LIST) && x->n == 2 ? rush_json_text(x->first->next) : NULL;
    int failed = -1;
    if (a && x->kind == RUSH_JSON_TEXT) failed = rush_tokenizer_put_merge(s->t, a, a + strlen(a), rank, s->room);
    else if (a && b) {
        size_t n = rush_tokenizer_open(s->t, a, strlen(a), s->room), m = rush_tokenizer_open(s->t, b, strlen(b), s->room + n);
        int32_t left = rush_tokenizer_find(s->t, s->room, n), right = rush_tokenizer_find(s->t, s->room + n, m);
        failed = left < 0 || right < 0 ? 1 : rush_tokenizer_put_pair(s->t, left, right, rank);
    }
    RUSH_CHECK(!failed || rush_failed(), RUSH_VALUE_ERROR, "'%s': merge %d is not of two tokens to a third", s->path, rank);
    return failed;
}

static int take_model(source *s, const rush_json *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *none = rush_json_text_of(model, "unk_token");
    int32_t rank = 0;
    for (size_t i = 0; i < RUSH_COUNT(affixes); i++)
        if (rush_json_text_of(model, affixes[i]) && *rush_json_text_of(model, affixes[i])) return unknown(s, "model with", affixes[i]);
    if (take_vocabulary(s, model)) return -1;
    rush_json_each(x, rush_json_get(model, "merges"))
        if (take_merge(s, x, rank++)) return -1;
    s->t->whole_words = rush_json_is_true(rush_json_get(model, "ignore_merges"));
    if (s->t->whole_words && !s->bytes) return unknown(s, "model with", "ignore_merges");
    s->t->fuses = rush_json_is_true(rush_json_get(model, "fuse_unk"));
    const rush_json *of_none = none ? rush_json_get(rush_json_get(model, "vocab"), none) : NULL;
    if (of_none) s->t->unknown = (int32_t)of_none->i;
    return 0;
}

static int take_all(source *s, size_t n)
{
    const rush_json *model = rush_json_get(s->json, "model"), *vocabulary = rush_json_get(model, "vocab"), *added = rush_json_get(s->json, "added_tokens");
    int64_t most = 0;
    RUSH_CHECK(rush_json_is(vocabulary, RUSH_JSON_OBJECT) && rush_json_is(rush_json_get(model, "merges"), RUSH_JSON_LIST) && (!rush_json_get(model, "type") || is(model, "BPE")),
               RUSH_NOT_IMPLEMENTED, "'%s' is no tokenizer.json of byte pairs", s->path);
    rush_json_each(x, vocabulary)
        if (take_number(s, x, x->name, &most)) return -1;
    rush_json_each(x, added)
        if (take_number(s, rush_json_get(x, "id"), rush_json_text_of(x, "content"), &most)) return -1;
    RUSH_CHECK(most <= 16 * (int64_t)(rush_json_count(vocabulary) + rush_json_count(added)) + 1024, RUSH_VALUE_ERROR, "'%s' has %zu tokens and numbers up to %lld", s->path,
               rush_json_count(vocabulary) + rush_json_count(added), (long long)most);
    if (!(s->t = rush_tokenizer_begin(RUSH_PIECES, most)) || !(s->room = rush_malloc(n + 1))) return -1;
    if (each(s, "pre-tokeniser", "pretokenizers", rush_json_get(s->json, "pre_tokenizer"), take_pre_tokenizer)) return -1;
    if (s->bytes) s->t->kind = RUSH_BYTE_PAIRS;
    if (each(s, "normaliser", "normalizers", rush_json_get(s->json, "normalizer"), take_normalizer) || take_model(s, model)) return -1;
    rush_json_each(x, added)
        if (take_added(s, x)) return -1;
    rush_tokenizer_finish(s->t);
    return each(s, "post-processor", "processors", rush_json_get(s->json, "post_processor"), take_post_processor);
}

rush_tokenizer *rush_tokenizer_of_json(rush_named_text text)
{
    source s = {rush_json_read(text.text, text.n), text.name};
    if (!s.json && !rush_failed()) rush_fail(RUSH_VALUE_ERROR, "'%s' is no JSON", text.name);
    int failed = !s.json || take_all(&s, text.n);
    rush_free((void *)s.json);
    rush_free(s.room);
    if (!failed) return s.t;
    rush_tokenizer_free(s.t);
    return NULL;
}
