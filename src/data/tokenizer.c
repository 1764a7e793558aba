/* tokenizer.c - texts to tokens and back, see tokenizer.h. */
#include "data/tokenizer.h"
#include "base/buried.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "data/nfc.h"
#include "data/words.h"

#include <stdio.h>

bool rush_tokenizer_given(const rush_tokenizer *t) { return rush_lives(t, "a tokeniser"); }

void rush_tokenizer_free(rush_tokenizer *t)
{
    if (!t || !rush_tokenizer_given(t)) return;
    rush_free(t->piece);
    rush_free(t->ends);
    rush_free(t->bytes);
    rush_free(t->slot);
    rush_free(t->special);
    rush_pairs_drop(&t->pairs);
    rush_bury_handle(t, sizeof *t);
}

/* ---- what tokens stand for ---- */

rush_tokenizer *rush_tokenizer_begin(rush_tokenizer_kind kind, int64_t room)
{
    rush_tokenizer *t = rush_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->lives = 1, t->kind = kind, t->room = room, t->begin = t->unknown = -1, t->nbytes = 1;
    for (t->slots = 64; (int64_t)t->slots < 2 * room; t->slots *= 2) {}
    for (int b = 0; b < 256; b++) t->byte[b] = -1;
    t->piece = rush_calloc((size_t)room + 1, sizeof *t->piece);
    t->ends = rush_calloc((size_t)room + 1, 1);
    t->bytes = rush_calloc(t->bytes_room = 64 + 8 * (size_t)room, 1);
    t->slot = rush_malloc(t->slots * sizeof *t->slot);
    if (!t->piece || !t->ends || !t->bytes || !t->slot) return rush_tokenizer_free(t), NULL;
    for (size_t i = 0; i < t->slots; i++) t->slot[i] = -1;
    return t;
}

static int32_t *slot_of(const rush_tokenizer *t, const char *text, size_t n)
{
    size_t at = rush_hash_bytes(text, n) & (t->slots - 1);
    for (; t->slot[at] >= 0; at = (at + 1) & (t->slots - 1)) {
        const rush_piece *x = &t->piece[t->slot[at]];
        if (x->n == n && !memcmp(t->bytes + x->at, text, n)) break;
    }
    return &t->slot[at];
}

int32_t rush_tokenizer_find(const rush_tokenizer *t, const char *text, size_t n) { return *slot_of(t, text, n); }

/* A copy of a text, which may be one of the tokeniser's own. */
static int keep(rush_tokenizer *t, const char *text, size_t n, rush_piece *to)
{
    if (n >= t->bytes_room - t->nbytes) {
        size_t room = 2 * t->bytes_room + n + 1;
        char *more = rush_malloc(room);
        if (!more) return -1;
        memcpy(more, t->bytes, t->nbytes);
        memcpy(more + t->nbytes, text, n);
        rush_free(t->bytes);
        t->bytes = more, t->bytes_room = room;
    } else memcpy(t->bytes + t->nbytes, text, n);
    *to = (rush_piece){t->nbytes, (uint32_t)n, to->token};
    t->bytes[t->nbytes + n] = 0;
    t->nbytes += n + 1;
    return 0;
}

size_t rush_tokenizer_open(const rush_tokenizer *t, const char *text, size_t n, char *to)
{
    int64_t of_letters = t->kind == RUSH_BYTE_PAIRS ? rush_from_letters(text, n, to) : -1;
    if (of_letters >= 0) return (size_t)of_letters;
    size_t k = 0;
    for (size_t i = 0, step; i < n; i += step) {
        bool lower = t->kind == RUSH_PIECES && n - i >= 3 && !memcmp(text + i, RUSH_BLANK_MARK, 3);
        step = lower ? 3 : 1;
        to[k++] = lower ? ' ' : text[i];
    }
    return k;
}

int rush_tokenizer_put(rush_tokenizer *t, int64_t token, const char *text, size_t n, bool found)
{
    RUSH_CHECK(token >= 0 && token < t->room && n < 1 << 24, RUSH_VALUE_ERROR, "token %lld of %zu bytes: there is room for %lld tokens of less than 16 MB", (long long)token, n, (long long)t->room);
    if (keep(t, text, n, &t->piece[token])) return -1;
    t->n = RUSH_MAX(t->n, token + 1);
    int32_t *slot = found ? slot_of(t, text, n) : NULL;
    if (slot && *slot < 0) *slot = (int32_t)token;
    return 0;
}

bool rush_tokenizer_put_byte(rush_tokenizer *t, int32_t token, const char *text)
{
    unsigned byte;
    int end = 0;
    if (sscanf(text, "<0x%2X>%n", &byte, &end) != 1 || end != 6 || text[6]) return false;
    t->byte[byte] = token;
    rush_tokenizer_put(t, token, &(char){(char)byte}, 1, false);
    return true;
}

bool rush_tokenizer_is_end(const char *text)
{
    static const char *const all[] = {"</s>", "<|eot_id|>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>", "<|end|>"};
    size_t i = 0;
    while (i < RUSH_COUNT(all) && strcmp(text, all[i])) i++;
    return i < RUSH_COUNT(all);
}

int rush_tokenizer_put_special(rush_tokenizer *t, int32_t token, const char *text, size_t n)
{
    if (!n) return 0;
    if ((t->specials & (t->specials - 1)) == 0) { /* room for the next power of two */
        rush_piece *more = rush_realloc(t->special, 2 * (t->specials + 1) * sizeof *more);
        if (!more) return -1;
        t->special = more;
    }
    t->special[t->specials].token = token;
    t->leads[(uint8_t)*text] = true;
    return keep(t, text, n, &t->special[t->specials]) ? -1 : (t->specials++, 0);
}

int rush_tokenizer_put_pair(rush_tokenizer *t, int32_t left, int32_t right, int32_t rank)
{
    char few[256];
    size_t a = t->piece[left].n, b = t->piece[right].n;
    char *text = a + b <= sizeof few ? few : rush_malloc(a + b);
    if (!text) return -1;
    memcpy(text, t->bytes + t->piece[left].at, a);
    memcpy(text + a, t->bytes + t->piece[right].at, b);
    int failed = rank < 0 ? rush_tokenizer_put(t, t->n, text, a + b, true) : 0;
    int32_t into = rush_tokenizer_find(t, text, a + b);
    if (text != few) rush_free(text);
    if (failed || into < 0) return failed ? -1 : 1;
    return rush_pairs_add(&t->pairs, (rush_pair){left, right, into, rank < 0 ? (int32_t)t->n : rank});
}

int rush_tokenizer_put_merge(rush_tokenizer *t, const char *p, const char *end, int32_t rank, char *room)
{
    const char *blank = end - p > 1 ? memchr(p + 1, ' ', (size_t)(end - p - 1)) : NULL; /* a first character that is a blank is none between two */
    if (!blank) return 1;
    size_t a = rush_tokenizer_open(t, p, (size_t)(blank - p), room), b = rush_tokenizer_open(t, blank + 1, (size_t)(end - blank - 1), room + a);
    int32_t left = a ? rush_tokenizer_find(t, room, a) : -1, right = b ? rush_tokenizer_find(t, room + a, b) : -1;
    return left < 0 || right < 0 ? 1 : rush_tokenizer_put_pair(t, left, right, rank);
}

static int by_length(const void *a, const void *b)
{
    const rush_piece *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : (x->token > y->token) - (x->token < y->token);
}

void rush_tokenizer_finish(rush_tokenizer *t)
{
    if (t->specials) qsort(t->special, t->specials, sizeof *t->special, by_length);
}

int64_t rush_tokenizer_size(const rush_tokenizer *t) { return rush_tokenizer_given(t) ? t->n : 0; }

const char *rush_tokenizer_piece(const rush_tokenizer *t, int64_t i, size_t *n)
{
    bool there = i >= 0 && i < t->n;
    if (n) *n = there ? t->piece[i].n : 0;
    return t->bytes + (there ? t->piece[i].at : 0);
}

/* ---- encoding ---- */

typedef struct encoding {
    const rush_tokenizer *t;
    int32_t *to;
    int64_t n;
    bool first; /* is it the begin of the text? */
} encoding;

static void put(encoding *e, int32_t token) { if (token >= 0) e->to[e->n++] = token; }
/* A character as its bytes, or, if one of them is no token, as the unknown one. */
static void put_bytes(encoding *e, const char *p, size_t n)
{
    size_t known = 0;
    while (known < n && e->t->byte[(uint8_t)p[known]] >= 0) known++;
    for (size_t i = 0; i < n && known == n; i++) put(e, e->t->byte[(uint8_t)p[i]]);
    if (known < n && !(e->t->fuses && e->n && e->to[e->n - 1] == e->t->unknown)) put(e, e->t->unknown);
}

static int merge_from(encoding *e, int64_t from)
{
    int64_t left = rush_pairs_merge(&e->t->pairs, e->to + from, e->n - from);
    e->n = from + left;
    return left < 0 ? -1 : 0;
}

static int encode_words(encoding *e, const char *p, const char *end)
{
    for (const char *stop; p < end; p = stop) {
        int64_t from = e->n;
        stop = rush_word_end(p, end, e->t->digits);
        int32_t whole = e->t->whole_words ? rush_tokenizer_find(e->t, p, (size_t)(stop - p)) : -1;
        put(e, whole);
        for (; p < stop && whole < 0; p++) put_bytes(e, p, 1);
        if (merge_from(e, from)) return -1;
    }
    return 0;
}

static void put_character(encoding *e, const char *p, size_t n)
{
    bool blank = (n == 1 && *p == ' ') || (n == 3 && !memcmp(p, RUSH_BLANK_MARK, 3));
    int32_t token = rush_tokenizer_find(e->t, blank ? " " : p, blank ? 1 : n);
    put(e, token);
    if (token < 0) put_bytes(e, blank ? RUSH_BLANK_MARK : p, blank ? 3 : n);
}

static int encode_pieces(encoding *e, const char *p, const char *end)
{
    int64_t from = e->n;
    bool blank = *p == ' ' || (end - p >= 3 && !memcmp(p, RUSH_BLANK_MARK, 3)), asked[] = {false, true, !blank, !blank && e->first};
    if (asked[e->t->adds_blank]) put_character(e, " ", 1);
    for (int32_t code, n; p < end; p += n) put_character(e, p, (size_t)(n = rush_character(p, end, &code)));
    return merge_from(e, from);
}

static int encode_characters(encoding *e, const char *p, const char *end)
{
    char letter[4];
    for (int32_t code, n; p < end; p += n) {
        n = rush_character(p, end, &code);
        int32_t token = rush_tokenizer_find(e->t, letter, (size_t)rush_utf8_put(letter, (uint32_t)code));
        RUSH_CHECK(token >= 0, RUSH_KEY_ERROR, "the character '%.*s' (U+%04X) is not in the tokeniser's text", n, p, (unsigned)code);
        put(e, token);
    }
    return 0;
}

static const rush_piece *special_at(const rush_tokenizer *t, const char *p, const char *end)
{
    for (size_t i = 0; t->leads[(uint8_t)*p] && i < t->specials; i++)
        if (t->special[i].n <= (size_t)(end - p) && !memcmp(t->bytes + t->special[i].at, p, t->special[i].n)) return &t->special[i];
    return NULL;
}

size_t rush_tokenizer_most(const rush_tokenizer *t, size_t n) { return t->kind == RUSH_PIECES || t->composes ? 3 * n + 8 : n + 2; }

/* What is between special tokens. */
static int encode_part(encoding *e, const char *p, const char *end)
{
    static int (*const encode[])(encoding *, const char *, const char *) = {encode_characters, encode_words, encode_pieces};
    size_t n = (size_t)(end - p);
    char *composed = e->t->composes ? rush_nfc(p, n, &n) : NULL;
    if (rush_failed()) return -1;
    if (composed) p = composed;
    int failed = n ? encode[e->t->kind](e, p, p + n) : 0;
    rush_free(composed);
    return failed;
}

int64_t rush_tokenizer_encode_to(const rush_tokenizer *t, const char *p, size_t n, int32_t *to)
{
    encoding e = {t, to, 0, true};
    put(&e, t->begin);
    for (const char *end = p + n, *at = p; at < end; e.first = false) {
        const rush_piece *special = NULL;
        while (at < end && !(special = special_at(t, at, end))) at++;
        if (encode_part(&e, p, at)) return -1;
        if (special) put(&e, special->token), at += special->n;
        p = at;
    }
    return e.n;
}

rush_tensor *rush_tokenizer_encode(const rush_tokenizer *t, const char *text, size_t n)
{
    if (rush_failed() || !rush_tokenizer_given(t)) return NULL;
    RUSH_CHECK_NULL(text || !n, RUSH_TYPE_ERROR, "there is no text");
    int32_t *w = rush_malloc(rush_tokenizer_most(t, n) * sizeof *w);
    int64_t m = w ? rush_tokenizer_encode_to(t, text, n, w) : -1;
    rush_tensor *r = m >= 0 ? rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 1, &m) : NULL;
    for (int64_t i = 0; r && i < m; i++) ((int64_t *)rush_ptr(r))[i] = w[i];
    rush_free(w);
    return r;
}

int64_t rush_tokenizer_decode(const rush_tokenizer *t, const rush_tensor *numbers, char *buf, size_t size)
{
    if (rush_failed() || !rush_tokenizer_given(t) || !rush_tensor_given(numbers)) return -1;
    RUSH_CHECK(numbers->ndim == 1 && rush_dtype_is_integer((rush_dtype)numbers->dtype), RUSH_TYPE_ERROR, "what is decoded is a 1-d tensor of integers");
    int64_t length = 0;
    if (!buf) size = 0;
    rush_scope() {
        const rush_tensor *w = rush_cast_copy(numbers, RUSH_I64);
        const int64_t *k = w ? rush_ptr(w) : NULL;
        for (int64_t i = 0; w && i < w->numel; i++) {
            RUSH_CHECK(k[i] >= 0 && k[i] < t->n, RUSH_INDEX_ERROR, "token %lld of a tokeniser of %lld", (long long)k[i], (long long)t->n);
            size_t n;
            const char *p = rush_tokenizer_piece(t, k[i], &n);
            for (size_t j = 0; j < n; j++, length++)
                if (size && length < (int64_t)size - 1) buf[length] = p[j];
        }
        if (size) buf[RUSH_MIN(length, (int64_t)size - 1)] = 0;
    }
    return rush_failed() ? -1 : length;
}
