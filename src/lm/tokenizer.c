/* tokenizer.c - texts to tokens and back, from the tokens, merges and scores that a GGUF file holds.
 *
 * Both kinds begin with single characters and merge neighbours, the best pair first: SentencePiece the one whose text is the token of the highest score,
 * in all of the text at once; BPE the one that comes first in the list of merges, within words that a pattern cuts the text into. BPE writes each byte as a
 * character of its own, as GPT-2 does.
 */
#define _GNU_SOURCE /* qsort_r */
#include "lm/lm.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>

enum { NORMAL = 1, UNKNOWN, CONTROL, WRITTEN, UNUSED, BYTE }; /* types of tokens; WRITTEN: texts that always are a token */

typedef struct token {
    const char *text; /* as the file has it */
    uint32_t length, type;
    float score;
    const char *piece; /* the bytes that it stands for */
    uint32_t bytes;
} token;

typedef struct merge {
    int32_t left, right, rank;
} merge;

struct rush_lm_tokenizer {
    bool bpe, adds_begin, adds_space, whole_words; /* whole_words: one that is a token is not merged */
    int digits; /* BPE: of a number that go together; 0: GPT-2's pattern */
    int32_t n, begin, end, unknown, byte[256]; /* -1: none */
    token *token;
    int32_t *by_text;  /* sorted by text */
    int32_t *special, specials; /* those that are found as they are written, the longest first */
    merge *merges;     /* sorted by both tokens */
    int32_t nmerges;
    const bool *ends;  /* of each token */
};

/* ---- looking up ---- */

static int compare(const char *a, size_t n, const char *b, size_t m)
{
    int c = memcmp(a, b, RUSH_MIN(n, m));
    return c ? c : (n > m) - (n < m);
}

static int by_text(const void *a, const void *b, void *tokens)
{
    const token *x = (const token *)tokens + *(const int32_t *)a, *y = (const token *)tokens + *(const int32_t *)b;
    int c = compare(x->text, x->length, y->text, y->length);
    return c ? c : (x > y) - (x < y);
}

static int by_length(const void *a, const void *b, void *tokens)
{
    const token *x = (const token *)tokens + *(const int32_t *)a, *y = (const token *)tokens + *(const int32_t *)b;
    return (x->length < y->length) - (x->length > y->length);
}

/* The token of that text, the first if there are several; -1. */
static int32_t find(const rush_lm_tokenizer *t, const char *p, size_t n)
{
    int32_t low = 0, high = t->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        const token *x = &t->token[t->by_text[middle]];
        if (compare(x->text, x->length, p, n) < 0) low = middle + 1;
        else high = middle;
    }
    const token *x = low < t->n ? &t->token[t->by_text[low]] : NULL;
    return x && x->length == n && !memcmp(x->text, p, n) ? t->by_text[low] : -1;
}

static int by_pair(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    int c = x->left != y->left ? (x->left > y->left) - (x->left < y->left) : (x->right > y->right) - (x->right < y->right);
    return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

/* How early two neighbours merge: the smaller, the earlier; INFINITY: never. */
static float order_of(const rush_lm_tokenizer *t, int32_t left, int32_t right, int32_t both)
{
    if (both < 0) return INFINITY;
    if (!t->bpe) return -t->token[both].score;
    int32_t low = 0, high = t->nmerges;
    merge pair = {left, right, -1};
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (by_pair(&t->merges[middle], &pair) < 0) low = middle + 1;
        else high = middle;
    }
    return low < t->nmerges && t->merges[low].left == left && t->merges[low].right == right ? (float)t->merges[low].rank : INFINITY;
}

/* ---- merging ---- */

typedef struct symbol { /* part of the text; neighbours by number, -1: none */
    uint32_t at, length; /* length 0: merged into its left neighbour */
    int32_t before, after, token;
} symbol;

typedef struct pair { /* two neighbours that may merge */
    float order;
    int32_t left, right, both;
    uint32_t length; /* of both, to see whether they still are what they were */
} pair;

typedef struct merging {
    const rush_lm_tokenizer *t;
    const char *text;
    symbol *s;
    pair *heap; /* the first comes first */
    int32_t n;
} merging;

static bool comes_before(const pair *a, const pair *b) { return a->order != b->order ? a->order < b->order : a->left < b->left; }

static void offer(merging *m, int32_t left, int32_t right)
{
    if (left < 0 || right < 0) return;
    const symbol *a = &m->s[left], *b = &m->s[right];
    int32_t both = find(m->t, m->text + a->at, a->length + b->length);
    pair p = {order_of(m->t, a->token, b->token, both), left, right, both, a->length + b->length};
    if (p.order == INFINITY) return;
    int32_t i = m->n++;
    for (; i > 0 && comes_before(&p, &m->heap[(i - 1) / 2]); i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = p;
}

static pair take_first(merging *m)
{
    pair first = m->heap[0], last = m->heap[--m->n];
    int32_t i = 0, child;
    for (; (child = 2 * i + 1) < m->n; i = child) {
        if (child + 1 < m->n && comes_before(&m->heap[child + 1], &m->heap[child])) child++;
        if (!comes_before(&m->heap[child], &last)) break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return first;
}

/* Symbols 0 to n of a text. Each merge takes one away and offers two pairs, so that the heap has room for 3 n. */
static void merge_all(merging *m, int32_t n)
{
    m->n = 0;
    for (int32_t i = 0; i + 1 < n; i++) offer(m, i, i + 1);
    while (m->n) {
        pair p = take_first(m);
        symbol *a = &m->s[p.left], *b = &m->s[p.right];
        if (!a->length || !b->length || a->after != p.right || a->length + b->length != p.length) continue;
        a->length = p.length, a->token = p.both, a->after = b->after;
        b->length = 0;
        if (a->after >= 0) m->s[a->after].before = p.left;
        offer(m, a->before, p.left);
        offer(m, p.left, a->after);
    }
}

/* ---- where words end ---- */

#include "lm/unicode.inc"

static bool within(int32_t c, const int32_t (*runs)[2], size_t n)
{
    size_t low = 0;
    while (n - low > 0) {
        size_t middle = low + (n - low) / 2;
        if (c > runs[middle][1]) low = middle + 1;
        else if (c < runs[middle][0]) n = middle;
        else return true;
    }
    return false;
}

static bool is_letter(int32_t c) { return within(c, letters, RUSH_COUNT(letters)); }
static bool is_number(int32_t c) { return within(c, numerals, RUSH_COUNT(numerals)); }
static bool is_break(int32_t c) { return c == '\r' || c == '\n'; }
static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
static bool is_other(int32_t c) { return c && !is_space(c) && !is_letter(c) && !is_number(c); }

/* 's and its like at c, whose end has a zero. */
static int contraction(const int32_t *c, bool any_case)
{
    static const char *const all[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (c[0] != '\'') return 0;
    for (size_t i = 0; i < RUSH_COUNT(all); i++) {
        int n = 0;
        while (all[i][n] && (c[1 + n] == all[i][n] || (any_case && c[1 + n] == all[i][n] - 32))) n++;
        if (!all[i][n]) return 1 + n;
    }
    return 0;
}

static size_t run_of(const int32_t *c, bool (*is)(int32_t))
{
    size_t n = 0;
    while (is(c[n])) n++;
    return n;
}

/* Blanks: up to the last line break (`breaks`), else all but the last one if a word follows. */
static size_t blanks(const int32_t *c, bool breaks)
{
    size_t n = run_of(c, is_space), last = n;
    while (breaks && last && !is_break(c[last - 1])) last--;
    if (breaks && last) return last;
    return n > 1 && c[n] ? n - 1 : n;
}

/* How many characters the first word of c has. GPT-2's pattern; and that of Llama 3 (numbers of three digits) and Qwen (of one). */
static size_t word(const int32_t *c, int digits)
{
    size_t n = (size_t)contraction(c, digits > 0), blank = c[0] == ' ';
    if (n) return n;
    if (!digits) {
        bool (*const kinds[])(int32_t) = {is_letter, is_number, is_other};
        for (int i = 0; i < 3; i++)
            if ((n = run_of(c + blank, kinds[i]))) return blank + n;
        return blanks(c, false);
    }
    size_t lead = !is_letter(c[0]) && !is_number(c[0]) && !is_break(c[0]);
    if ((n = run_of(c + lead, is_letter))) return lead + n;
    if ((n = run_of(c, is_number))) return RUSH_MIN(n, (size_t)digits);
    if ((n = run_of(c + blank, is_other))) return blank + n + run_of(c + blank + n, is_break);
    return blanks(c, true);
}

/* ---- encoding ---- */

typedef struct found { /* tokens of a text; room for all that there can be */
    int32_t *token;
    size_t n;
} found;

static size_t character(const char *p, size_t n) /* its bytes; of what is no UTF-8, one */
{
    unsigned char c = (unsigned char)*p;
    size_t want = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (want > n || c >= 0xf8) return 1;
    for (size_t i = 1; i < want; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80) return 1;
    return want;
}

static int32_t code_of(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    switch (n) {
    case 2: return (u[0] & 31) << 6 | (u[1] & 63);
    case 3: return (u[0] & 15) << 12 | (u[1] & 63) << 6 | (u[2] & 63);
    case 4: return (u[0] & 7) << 18 | (u[1] & 63) << 12 | (u[2] & 63) << 6 | (u[3] & 63);
    default: return u[0] < 128 && u[0] ? u[0] : 0xfffd;
    }
}

/* The character that GPT-2 writes a byte as: itself where it can be seen, else one from 256 on. */
static int32_t code_of_byte(int b)
{
    int hidden = 0;
    if ((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174) return b;
    for (int i = 0; i < b; i++) hidden += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
    return 256 + hidden;
}

/* Symbols of a character each, merged, and the tokens that they are; what is none, byte by byte. */
static int encode_part(const rush_lm_tokenizer *t, const char *p, size_t n, merging *m, found *to)
{
    int32_t count = 0, whole = t->whole_words ? find(t, p, n) : -1;
    if (whole >= 0) return to->token[to->n++] = whole, 0;
    m->text = p;
    for (size_t at = 0, step; at < n; at += step, count++) {
        step = character(p + at, n - at);
        m->s[count] = (symbol){(uint32_t)at, (uint32_t)step, count - 1, at + step < n ? count + 1 : -1, find(t, p + at, step)};
    }
    merge_all(m, count);
    for (int32_t i = 0; i >= 0 && i < count; i = m->s[i].after) {
        const symbol *s = &m->s[i];
        for (uint32_t b = 0; s->token < 0 && b < s->length; b++) {
            int32_t byte = t->bpe ? find(t, p + s->at + b, 1) : t->byte[(unsigned char)p[s->at + b]];
            if (byte < 0) byte = t->unknown;
            if (byte >= 0) to->token[to->n++] = byte;
        }
        if (s->token >= 0) to->token[to->n++] = s->token;
    }
    return 0;
}

/* A text without special tokens; `first`: the begin of a text, or after one of them. */
static int encode_plain(const rush_lm_tokenizer *t, const char *p, size_t n, bool first, found *to)
{
    size_t room = 3 * n + 3, made = 0;
    char *text = rush_scope_alloc(room);
    merging m = {t, NULL, rush_scope_alloc(room * sizeof *m.s), rush_scope_alloc(3 * room * sizeof *m.heap), 0};
    if (!text || !m.s || !m.heap || !n) return rush_failed() ? -1 : 0;
    if (!t->bpe) {
        if (first && t->adds_space) memcpy(text, "\xe2\x96\x81", 3), made = 3;
        for (size_t i = 0; i < n; i++)
            if (p[i] == ' ') memcpy(text + made, "\xe2\x96\x81", 3), made += 3;
            else text[made++] = p[i];
        return encode_part(t, text, made, &m, to);
    }
    int32_t *code = rush_scope_alloc((n + 1) * sizeof *code);
    size_t *at = rush_scope_alloc((n + 1) * sizeof *at), count = 0;
    if (!code || !at) return -1;
    for (size_t i = 0, step; i < n; i += step, count++) step = character(p + i, n - i), code[count] = code_of(p + i, step), at[count] = i;
    code[count] = 0, at[count] = n;
    for (size_t i = 0, length; i < count; i += length) {
        length = word(code + i, t->digits);
        made = 0;
        for (size_t b = at[i]; b < at[i + length]; b++) made += (size_t)rush_utf8_put(text + made, (uint32_t)code_of_byte((unsigned char)p[b]));
        if (encode_part(t, text, made, &m, to)) return -1;
    }
    return 0;
}

static int32_t special_at(const rush_lm_tokenizer *t, const char *p, size_t n)
{
    for (int32_t i = 0; i < t->specials; i++) {
        const token *x = &t->token[t->special[i]];
        if (x->length <= n && *x->text == *p && !memcmp(x->text, p, x->length)) return t->special[i];
    }
    return -1;
}

const int32_t *rush_lm_tokenizer_encode(const rush_lm_tokenizer *t, const char *text, size_t n, size_t *count)
{
    RUSH_CHECK_NULL(text && count, RUSH_TYPE_ERROR, "a text was expected, but there is none (NULL)");
    RUSH_CHECK_NULL(n < 1 << 28, RUSH_VALUE_ERROR, "a text of %zu bytes is too long for a language model", n);
    found to = {rush_scope_alloc((3 * n + 8) * sizeof(int32_t)), 0};
    if (!to.token) return NULL;
    if (t->adds_begin && t->begin >= 0) to.token[to.n++] = t->begin;
    int failed = 0;
    for (size_t at = 0, from = 0; at <= n && !failed; at++) {
        int32_t special = at < n ? special_at(t, text + at, n - at) : -1;
        if (at < n && special < 0) continue;
        rush_scope() failed = encode_plain(t, text + from, at - from, from == 0 || to.n > 0, &to);
        if (special < 0) break;
        to.token[to.n++] = special;
        from = at + t->token[special].length;
        at = from - 1;
    }
    *count = to.n;
    return failed ? NULL : to.token;
}

const char *rush_lm_tokenizer_piece(const rush_lm_tokenizer *t, int32_t i, size_t *n)
{
    const token *x = i >= 0 && i < t->n ? &t->token[i] : NULL;
    if (n) *n = x ? x->bytes : 0;
    return x ? x->piece : "";
}

bool rush_lm_tokenizer_ends(const rush_lm_tokenizer *t, int32_t i) { return i >= 0 && i < t->n && t->ends[i]; }
int64_t rush_lm_tokenizer_count(const rush_lm_tokenizer *t) { return t->n; }

/* ---- from the file ---- */

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

static int32_t number(const rush_gguf *g, const char *key, int32_t n, int32_t otherwise)
{
    const rush_content *x = value(g, key);
    return x && x->kind == RUSH_CONTENT_INT && x->i >= 0 && x->i < n ? (int32_t)x->i : otherwise;
}

/* A list of n numbers of that dtype; NULL without an error: there is none. */
static const void *numbers(const rush_gguf *g, const char *key, rush_dtype d, int32_t n)
{
    const rush_content *x = value(g, key);
    RUSH_CHECK_NULL(!x || (x->kind == RUSH_CONTENT_TENSOR && x->t->numel == n && x->t->dtype == d), RUSH_VALUE_ERROR, "tokenizer.ggml.%s of '%s' is no list of %d numbers of %s", key,
                    g->path, n, rush_dtype_name(d));
    return x ? rush_ptr(x->t) : NULL;
}

/* The bytes that a token stands for. */
static int open_piece(const rush_lm_tokenizer *t, token *x)
{
    char *to = rush_scope_alloc(x->length + 1);
    size_t made = 0;
    if (!to) return -1;
    bool plain = x->type == WRITTEN, none = x->type == CONTROL || x->type == UNKNOWN || x->type == UNUSED;
    for (size_t at = 0, step; at < x->length && !none; at += step) {
        step = character(x->text + at, x->length - at);
        int32_t code = code_of(x->text + at, step);
        int byte = 0;
        while (t->bpe && !plain && byte < 256 && code_of_byte(byte) != code) byte++;
        if (t->bpe && !plain && byte < 256) to[made++] = (char)byte;
        else if (!t->bpe && code == 0x2581) to[made++] = ' ';
        else memcpy(to + made, x->text + at, step), made += step;
    }
    unsigned of_byte;
    if (x->type == BYTE && x->length == 6 && sscanf(x->text, "<0x%2X>", &of_byte) == 1) to[0] = (char)of_byte, made = 1;
    to[made] = 0;
    x->piece = to, x->bytes = (uint32_t)made;
    return 0;
}

static int take_merges(rush_lm_tokenizer *t, const rush_gguf *g)
{
    const rush_content *list = value(g, "merges");
    RUSH_CHECK(list && list->kind == RUSH_CONTENT_LIST && list->n < INT32_MAX, RUSH_VALUE_ERROR, "'%s' has no merges for its tokens", g->path);
    if (!(t->merges = rush_scope_alloc(RUSH_MAX(list->n, 1u) * sizeof *t->merges))) return -1;
    for (size_t i = 0; i < list->n; i++) {
        const rush_content *x = list->items[i];
        RUSH_CHECK(x->kind == RUSH_CONTENT_TEXT, RUSH_VALUE_ERROR, "merge %zu of '%s' is no text", i, g->path);
        const char *blank = x->n > 1 ? memchr(x->s + 1, ' ', x->n - 1) : NULL; /* the first character is no blank between two */
        int32_t left = blank ? find(t, x->s, (size_t)(blank - x->s)) : -1, right = blank ? find(t, blank + 1, x->n - 1 - (size_t)(blank - x->s)) : -1;
        if (left >= 0 && right >= 0) t->merges[t->nmerges++] = (merge){left, right, (int32_t)i};
    }
    qsort(t->merges, (size_t)t->nmerges, sizeof *t->merges, by_pair);
    return 0;
}

static int take_tokens(rush_lm_tokenizer *t, const rush_gguf *g, const rush_content *list)
{
    const float *score = numbers(g, "scores", RUSH_F32, t->n);
    const int32_t *type = numbers(g, "token_type", RUSH_I32, t->n);
    t->token = rush_scope_alloc((size_t)t->n * sizeof *t->token);
    t->by_text = rush_scope_alloc((size_t)t->n * sizeof *t->by_text);
    t->special = rush_scope_alloc((size_t)t->n * sizeof *t->special);
    bool *ends = rush_scope_alloc((size_t)t->n);
    if (rush_failed()) return -1;
    t->ends = memset(ends, 0, (size_t)t->n);
    for (int b = 0; b < 256; b++) t->byte[b] = -1;
    for (int32_t i = 0; i < t->n; i++) {
        const rush_content *x = list->items[i];
        RUSH_CHECK(x->kind == RUSH_CONTENT_TEXT && x->n < 1 << 16, RUSH_VALUE_ERROR, "token %d of '%s' is no text", i, g->path);
        token *k = &t->token[i];
        *k = (token){x->s, (uint32_t)x->n, type ? (uint32_t)type[i] : NORMAL, score && score[i] == score[i] ? score[i] : 0};
        t->by_text[i] = i;
        if (open_piece(t, k)) return -1;
        if (k->type == BYTE && k->bytes == 1) t->byte[(unsigned char)*k->piece] = i;
        if ((k->type == CONTROL || k->type == WRITTEN) && k->length) t->special[t->specials++] = i;
        static const char *const words[] = {"<|eot_id|>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>", "<|end|>"};
        for (size_t w = 0; w < RUSH_COUNT(words); w++) ends[i] = ends[i] || (k->type == CONTROL && !strcmp(k->text, words[w]));
    }
    t->end = number(g, "eos_token_id", t->n, -1);
    if (t->end >= 0) ends[t->end] = true;
    if (number(g, "eot_token_id", t->n, -1) >= 0) ends[number(g, "eot_token_id", t->n, -1)] = true;
    qsort_r(t->by_text, (size_t)t->n, sizeof *t->by_text, by_text, t->token);
    qsort_r(t->special, (size_t)t->specials, sizeof *t->special, by_length, t->token);
    return 0;
}

rush_lm_tokenizer *rush_lm_tokenizer_of(const rush_gguf *g)
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
    rush_lm_tokenizer *t = rush_scope_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (rush_lm_tokenizer){.bpe = bpe, .n = (int32_t)list->n, .digits = llama3 ? 3 : qwen ? 1 : 0, .whole_words = llama3};
    if (take_tokens(t, g, list) || (bpe && take_merges(t, g))) return NULL;
    t->begin = number(g, "bos_token_id", t->n, bpe ? -1 : 1);
    t->unknown = number(g, "unknown_token_id", t->n, bpe ? -1 : 0);
    t->adds_begin = flag(g, "add_bos_token", !bpe || llama3);
    t->adds_space = flag(g, "add_space_prefix", !bpe);
    return t;
}
