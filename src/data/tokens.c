/* tokens.c - text to numbers and back: characters, or byte pairs as in GPT-2.
 *
 * A byte-pair tokeniser is a table of merges: (left token, right token) -> new token, the earlier the merge the sooner
 * it is done. Words are merged each for itself; a word is a run of letters, of digits or of signs, with the space
 * before it. Bytes of characters beyond ASCII count as letters.
 */
#include "base/buried.h"
#include "base/json.h"
#include "base/utf8.h"
#include "io/file.h"
#include <rushlight/data.h>

typedef struct piece { /* what a token stands for */
    char *text;
    int32_t n;
} piece;

typedef struct merge {
    int32_t left, right, into, rank; /* left -1: no entry */
} merge;

struct rush_tokenizer {
    uint64_t lives;     /* first: 1 until its end */
    bool pairs;
    int64_t n;          /* tokens */
    piece *piece;       /* by number */
    uint32_t *letter;   /* characters: code points, ascending; number = index */
    int32_t byte[256];  /* pairs: the token of each byte */
    merge *merges;      /* open hash table */
    size_t slots;
    int64_t *order;     /* merges in order: left << 32 | right */
    int64_t norder;
};

static bool given(const rush_tokenizer *t) { return rush_lives(t, "a tokeniser"); }

static rush_tokenizer *begin(void)
{
    rush_tokenizer *t = rush_calloc(1, sizeof *t);
    if (t) t->lives = 1;
    return t;
}

/* ---- the table of merges ---- */

static merge *find(const rush_tokenizer *t, int32_t left, int32_t right)
{
    size_t at = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u >> 24 & (t->slots - 1);
    while (t->merges[at].left >= 0 && (t->merges[at].left != left || t->merges[at].right != right)) at = (at + 1) & (t->slots - 1);
    return &t->merges[at];
}

static int room_for(rush_tokenizer *t, int64_t tokens, int64_t merges)
{
    t->slots = 64;
    while ((int64_t)t->slots < merges * 2 + 2) t->slots *= 2;
    t->piece = rush_calloc((size_t)tokens, sizeof *t->piece);
    t->merges = rush_malloc(t->slots * sizeof *t->merges);
    t->order = rush_malloc((size_t)(merges + 1) * sizeof *t->order);
    if (!t->piece || !t->merges || !t->order) return -1;
    for (size_t i = 0; i < t->slots; i++) t->merges[i].left = -1;
    return 0;
}

static int set_piece(rush_tokenizer *t, int64_t k, const char *a, int32_t na, const char *b, int32_t nb)
{
    char *s = rush_malloc((size_t)(na + nb) + 1);
    if (!s) return -1;
    memcpy(s, a, (size_t)na);
    if (nb) memcpy(s + na, b, (size_t)nb);
    rush_free(t->piece[k].text);
    t->piece[k] = (piece){s, na + nb};
    return 0;
}

static int add_merge(rush_tokenizer *t, int32_t left, int32_t right, int32_t into)
{
    merge *m = find(t, left, right);
    if (m->left >= 0) return 0;
    *m = (merge){left, right, into, (int32_t)t->norder};
    t->order[t->norder++] = (int64_t)left << 32 | right;
    piece a = t->piece[left], b = t->piece[right];
    return set_piece(t, into, a.text, a.n, b.text, b.n);
}

/* ---- words ---- */

static int kind_of(uint8_t c)
{
    if (c == ' ' || (c >= '\t' && c <= '\r')) return 0;
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return 1;
    if (c >= 0x80) return 1;
    return c >= '0' && c <= '9' ? 2 : 3;
}

/* The end of the word that begins at p: GPT-2's pattern, 's|'t|'re|'ve|'m|'ll|'d| ?letters| ?digits| ?signs|spaces. */
static const char *word_end(const char *p, const char *end)
{
    static const char *tails[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < RUSH_COUNT(tails); i++) {
        size_t n = strlen(tails[i]);
        if ((size_t)(end - p) >= n && !memcmp(p, tails[i], n)) return p + n;
    }
    const char *q = p + (*p == ' ' && p + 1 < end && kind_of((uint8_t)p[1]) ? 1 : 0);
    int kind = kind_of((uint8_t)*q);
    while (q < end && kind_of((uint8_t)*q) == kind) q++;
    /* of several spaces the last one belongs to the word behind them */
    if (!kind && q < end && q - p > 1) q--;
    return q;
}

/* Merges the tokens of a word in place; returns how many are left. */
static int64_t merge_word(const rush_tokenizer *t, int32_t *w, int64_t n)
{
    while (n > 1) {
        const merge *best = NULL;
        for (int64_t i = 0; i + 1 < n; i++) {
            const merge *m = find(t, w[i], w[i + 1]);
            if (m->left >= 0 && (!best || m->rank < best->rank)) best = m;
        }
        if (!best) break;
        int64_t to = 0;
        for (int64_t i = 0; i < n; to++) {
            bool both = i + 1 < n && w[i] == best->left && w[i + 1] == best->right;
            w[to] = both ? best->into : w[i];
            i += both ? 2 : 1;
        }
        n = to;
    }
    return n;
}

/* ---- making tokenisers ---- */

void rush_tokenizer_free(rush_tokenizer *t)
{
    if (!t || !given(t)) return;
    for (int64_t i = 0; t->piece && i < t->n; i++) rush_free(t->piece[i].text);
    rush_free(t->piece);
    rush_free(t->letter);
    rush_free(t->merges);
    rush_free(t->order);
    rush_bury_handle(t, sizeof *t);
}

/* The character at p: its bytes, and its code point; bytes that are no UTF-8 stand for themselves. */
static int character(const char *p, const char *end, uint32_t *code)
{
    const uint8_t *s = (const uint8_t *)p;
    int n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 1;
    if (n > end - p) n = 1;
    for (int i = 1; i < n; i++)
        if (s[i] >> 6 != 2) n = 1;
    *code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++) *code = *code << 6 | (s[i] & 63);
    return n;
}

static int by_code(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

rush_tokenizer *rush_tokenizer_characters(const char *text, size_t n)
{
    RUSH_CHECK_NULL(text || !n, RUSH_TYPE_ERROR, "a text or a path is missing (NULL)");
    if (rush_failed()) return NULL;
    rush_tokenizer *t = begin();
    uint8_t *seen = rush_calloc(0x200000 / 8, 1); /* a bit for each code point */
    if (!t || !seen) goto fail;
    for (const char *p = text, *end = text + n; p < end;) {
        uint32_t c;
        p += character(p, end, &c);
        t->n += !(seen[c / 8] >> c % 8 & 1);
        seen[c / 8] |= (uint8_t)(1 << c % 8);
    }
    t->letter = rush_malloc((size_t)(t->n + 1) * sizeof *t->letter);
    if (!t->letter) goto fail;
    int64_t k = 0;
    for (uint32_t c = 0; c < 0x200000; c++)
        if (seen[c / 8] >> c % 8 & 1) t->letter[k++] = c;
    rush_free(seen);
    return t;
fail:
    rush_free(seen);
    rush_tokenizer_free(t);
    return NULL;
}

static int start_with_bytes(rush_tokenizer *t)
{
    t->pairs = true;
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        t->byte[b] = b;
        if (set_piece(t, b, &c, 1, NULL, 0)) return -1;
    }
    return 0;
}

typedef struct counted { int64_t pair, count; } counted;

/* The most frequent pair of neighbours within words (a negative token ends a word); ties go to the smaller tokens. */
static counted most_frequent(const int32_t *w, int64_t n, counted *table, size_t slots)
{
    counted best = {-1, 0};
    for (size_t i = 0; i < slots; i++) table[i] = (counted){-1, 0};
    for (int64_t i = 0; i + 1 < n; i++) {
        if (w[i] < 0 || w[i + 1] < 0) continue;
        int64_t pair = (int64_t)w[i] << 32 | w[i + 1];
        size_t at = (uint64_t)pair * 0x9e3779b97f4a7c15u >> 24 & (slots - 1);
        while (table[at].pair >= 0 && table[at].pair != pair) at = (at + 1) & (slots - 1);
        table[at].pair = pair;
        table[at].count++;
    }
    for (size_t i = 0; i < slots; i++)
        if (table[i].count > best.count || (table[i].count && table[i].count == best.count && table[i].pair < best.pair)) best = table[i];
    return best;
}

rush_tokenizer *rush_tokenizer_learn(const char *text, size_t n, int64_t size)
{
    RUSH_CHECK_NULL(text || !n, RUSH_TYPE_ERROR, "a text or a path is missing (NULL)");
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(size >= 256 && size < 1 << 24, RUSH_VALUE_ERROR, "byte pairs begin with 256 tokens: %lld are too few or too many", (long long)size);
    rush_tokenizer *t = begin();
    int32_t *w = rush_malloc((n * 2 + 1) * sizeof *w);
    size_t slots = 1024;
    while (slots < n / 2 && slots < (size_t)1 << 22) slots *= 2;
    slots *= 4;
    counted *table = rush_malloc(slots * sizeof *table);
    int failed = !t || !w || !table || room_for(t, size, size - 256);
    int64_t m = 0;
    if (!failed) t->n = size, failed = start_with_bytes(t);
    for (const char *p = text, *end = text + n; !failed && p < end;) {
        for (const char *stop = word_end(p, end); p < stop; p++) w[m++] = (uint8_t)*p;
        w[m++] = -1;
    }
    int64_t k = 256;
    for (; !failed && k < size; k++) {
        counted best = most_frequent(w, m, table, slots);
        if (best.count < 2) break;
        int32_t left = (int32_t)(best.pair >> 32), right = (int32_t)best.pair;
        failed = add_merge(t, left, right, (int32_t)k);
        int64_t to = 0;
        for (int64_t i = 0; i < m; to++) {
            bool both = i + 1 < m && w[i] == left && w[i + 1] == right;
            w[to] = both ? (int32_t)k : w[i];
            i += both ? 2 : 1;
        }
        m = to;
    }
    if (t) t->n = RUSH_MIN(k, t->n);
    rush_free(w);
    rush_free(table);
    if (!failed) return t;
    rush_tokenizer_free(t);
    return NULL;
}

/* ---- GPT-2's files: bytes are shown as printable characters ---- */

static bool shown_as_is(int b) { return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff); }

/* The code points of all bytes: themselves, or 256 and up for those that can't be seen. order: GPT-2's numbers. */
static void byte_letters(uint32_t code[256], int32_t order[256])
{
    uint32_t next = 256;
    int32_t k = 0;
    for (int b = 0; b < 256; b++) code[b] = shown_as_is(b) ? (uint32_t)b : next++;
    for (int b = 0; b < 256; b++)
        if (shown_as_is(b)) order[b] = k++;
    for (int b = 0; b < 256; b++)
        if (!shown_as_is(b)) order[b] = k++;
}

static int write_letter(char *out, uint32_t c)
{
    if (c < 0x80) return out[0] = (char)c, 1;
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 63));
    return 2;
}

/* Shown text back to bytes; -1 when a character stands for none. */
static int64_t unshown(const char *p, size_t n, char *out)
{
    uint32_t code[256], c;
    int32_t order[256];
    int64_t k = 0;
    byte_letters(code, order);
    for (const char *end = p + n; p < end; k++) {
        p += character(p, end, &c);
        int b = 0;
        while (b < 256 && code[b] != c) b++;
        if (b == 256) return -1;
        out[k] = (char)b;
    }
    return k;
}

/* From the text of a token to its number, while files are read. */
typedef struct names { int32_t *slot; size_t slots; } names;

static int32_t *name_slot(const rush_tokenizer *t, names *l, const char *p, int64_t n)
{
    size_t h = 1469598103934665603u;
    for (int64_t i = 0; i < n; i++) h = (h ^ (uint8_t)p[i]) * 1099511628211u;
    for (h &= l->slots - 1; l->slot[h] >= 0; h = (h + 1) & (l->slots - 1))
        if (t->piece[l->slot[h]].n == n && !memcmp(t->piece[l->slot[h]].text, p, (size_t)n)) break;
    return &l->slot[h];
}

static int read_merges(rush_tokenizer *t, names *l, const char *p, const char *end, const char *path)
{
    char left[1024], right[1024], whole[2048];
    for (int64_t line = 1, k = 256; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        const char *space = memchr(p, ' ', (size_t)(stop - p));
        if (stop > p && *p != '#' && space) {
            size_t room = sizeof left;
            bool fits = (size_t)(space - p) < room && (size_t)(stop - space) < room;
            int64_t a = fits ? unshown(p, (size_t)(space - p), left) : -1, b = fits ? unshown(space + 1, (size_t)(stop - space - 1), right) : -1;
            int32_t x = a > 0 ? *name_slot(t, l, left, a) : -1, y = b > 0 ? *name_slot(t, l, right, b) : -1;
            RUSH_CHECK(x >= 0 && y >= 0, RUSH_VALUE_ERROR, "'%s', line %lld: merges of what no earlier line made", path, (long long)line);
            if (add_merge(t, x, y, (int32_t)k)) return -1;
            memcpy(whole, left, (size_t)a);
            memcpy(whole + a, right, (size_t)b);
            *name_slot(t, l, whole, a + b) = (int32_t)k++;
        }
        p = stop + (stop < end);
    }
    return 0;
}

/* Numbers of vocab.json in place of those in order; tokens that are no merges (<|endoftext|>) only decode. */
static int renumber(rush_tokenizer *t, names *l, const char *path)
{
    rush_mapping *m = rush_map(path);
    rush_json *json = m ? rush_json_read(m->data, m->size) : NULL;
    int failed = rush_json_is(json, RUSH_JSON_OBJECT) ? 0 : m ? rush_fail(RUSH_VALUE_ERROR, "'%s' is no JSON object", path) : -1;
    int64_t most = 0;
    rush_json_each(e, failed ? NULL : json) {
        if (rush_json_is(e, RUSH_JSON_WHOLE) && e->i >= 0 && e->i < 1 << 24) most = RUSH_MAX(most, e->i + 1);
        else failed = rush_fail(RUSH_VALUE_ERROR, "'%s': '%.40s' has no number", path, e->name);
    }
    int32_t *to = failed ? NULL : rush_malloc((size_t)t->n * sizeof *to);
    piece *pieces = to ? rush_calloc((size_t)most + 1, sizeof *pieces) : NULL;
    failed = failed || !pieces;
    for (int64_t i = 0; !failed && i < t->n; i++) to[i] = -1;
    rush_json_each(e, failed ? NULL : json) {
        if (failed) break;
        size_t room = strlen(e->name);
        char *text = rush_malloc(room + 1);
        int64_t k = text ? unshown(e->name, room, text) : -1;
        int32_t old = k > 0 ? *name_slot(t, l, text, k) : -1, now = (int32_t)e->i;
        if (!text || pieces[now].text) failed = text ? rush_fail(RUSH_VALUE_ERROR, "'%s': two tokens have the number %d", path, now) : -1;
        if (old >= 0) to[old] = now;
        if (failed) rush_free(text);
        else if (k > 0) pieces[now] = (piece){text, (int32_t)k};
        else memcpy(text, e->name, room), pieces[now] = (piece){text, (int32_t)room};
    }
    for (int64_t i = 0; !failed && i < t->n; i++)
        if (to[i] < 0) failed = rush_fail(RUSH_VALUE_ERROR, "'%s' lacks token %lld of the merges", path, (long long)i);
    if (!failed) {
        for (int b = 0; b < 256; b++) t->byte[b] = to[t->byte[b]];
        merge *old = t->merges;
        t->merges = rush_malloc(t->slots * sizeof *t->merges);
        failed = !t->merges;
        for (size_t i = 0; !failed && i < t->slots; i++) t->merges[i].left = -1;
        for (size_t i = 0; !failed && i < t->slots; i++)
            if (old[i].left >= 0) *find(t, to[old[i].left], to[old[i].right]) = (merge){to[old[i].left], to[old[i].right], to[old[i].into], old[i].rank};
        for (int64_t i = 0; !failed && i < t->norder; i++) t->order[i] = (int64_t)to[t->order[i] >> 32] << 32 | to[(int32_t)t->order[i]];
        rush_free(old);
        piece *was = t->piece;
        int64_t were = t->n;
        t->piece = pieces;
        t->n = most;
        pieces = was;
        most = were;
    }
    for (int64_t i = 0; pieces && i < most; i++) rush_free(pieces[i].text);
    rush_free(pieces);
    rush_free(to);
    rush_free(json);
    rush_unmap(m);
    return failed ? -1 : 0;
}

rush_tokenizer *rush_tokenizer_load(const char *merges, const char *vocabulary)
{
    RUSH_CHECK_NULL(merges, RUSH_TYPE_ERROR, "a text or a path is missing (NULL)");
    rush_mapping *m = rush_failed() ? NULL : rush_map(merges);
    if (!m) return NULL;
    rush_tokenizer *t = begin();
    int64_t lines = 1;
    for (size_t i = 0; i < m->size; i++) lines += m->data[i] == '\n';
    names l = {.slots = 1024};
    while ((int64_t)l.slots < (lines + 256) * 2) l.slots *= 2;
    l.slot = rush_malloc(l.slots * sizeof *l.slot);
    int failed = !t || !l.slot || room_for(t, lines + 256, lines);
    if (!failed) {
        uint32_t code[256];
        t->n = lines + 256;
        t->pairs = true;
        byte_letters(code, t->byte);
        for (size_t i = 0; i < l.slots; i++) l.slot[i] = -1;
        for (int b = 0; !failed && b < 256; b++) {
            char c = (char)b;
            failed = set_piece(t, t->byte[b], &c, 1, NULL, 0);
            if (!failed) *name_slot(t, &l, &c, 1) = t->byte[b];
        }
        if (!failed) failed = read_merges(t, &l, m->data, m->data + m->size, merges);
        t->n = 256 + t->norder;
        if (!failed && vocabulary) failed = renumber(t, &l, vocabulary);
    }
    rush_free(l.slot);
    rush_unmap(m);
    if (!failed) return t;
    rush_tokenizer_free(t);
    return NULL;
}

int rush_tokenizer_save(const rush_tokenizer *t, const char *path)
{
    if (rush_failed()) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (!given(t)) return -1;
    RUSH_CHECK(t->pairs, RUSH_TYPE_ERROR, "only tokenisers of byte pairs are saved: those of characters are made from their text");
    uint32_t code[256];
    int32_t order[256];
    byte_letters(code, order);
    rush_writing w;
    if (rush_write_begin(&w, path)) return -1;
    int failed = rush_write(&w, "#version: 0.2\n", 14);
    for (int64_t i = 0; !failed && i < t->norder; i++) {
        const piece *side[2] = {&t->piece[t->order[i] >> 32], &t->piece[(int32_t)t->order[i]]};
        for (int k = 0; !failed && k < 2; k++) {
            char letter[4];
            for (int32_t j = 0; !failed && j < side[k]->n; j++) failed = rush_write(&w, letter, (size_t)write_letter(letter, code[(uint8_t)side[k]->text[j]]));
            if (!failed) failed = rush_write(&w, k ? "\n" : " ", 1);
        }
    }
    return rush_write_end(&w, !failed) || failed ? -1 : 0;
}

/* ---- using them ---- */

int64_t rush_tokenizer_size(const rush_tokenizer *t) { return given(t) ? t->n : 0; }

rush_tensor *rush_tokenizer_encode(const rush_tokenizer *t, const char *text, size_t n)
{
    if (rush_failed()) return NULL;
    if (!given(t)) return NULL;
    RUSH_CHECK_NULL(text || !n, RUSH_TYPE_ERROR, "there is no text");
    int32_t *w = rush_malloc((n + 1) * sizeof *w);
    int64_t m = 0;
    if (!w) return NULL;
    for (const char *p = text, *end = text + n; p < end;) {
        if (t->pairs) {
            const char *stop = word_end(p, end);
            int64_t from = m;
            while (p < stop) w[m++] = t->byte[(uint8_t)*p++];
            m = from + merge_word(t, w + from, m - from);
        } else {
            uint32_t c;
            const char *at = p;
            p += character(p, end, &c);
            const uint32_t *found = bsearch(&c, t->letter, (size_t)t->n, sizeof c, by_code);
            if (!found) {
                rush_free(w);
                return rush_fail(RUSH_KEY_ERROR, "the character '%.*s' (U+%04X) is not in the tokeniser's text", (int)(p - at), at, (unsigned)c), NULL;
            }
            w[m++] = (int32_t)(found - t->letter);
        }
    }
    rush_tensor *r = rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 1, &m);
    int64_t *to = r ? rush_ptr(r) : NULL;
    for (int64_t i = 0; r && i < m; i++) to[i] = w[i];
    rush_free(w);
    return r;
}

int64_t rush_tokenizer_decode(const rush_tokenizer *t, const rush_tensor *numbers, char *buf, size_t size)
{
    if (rush_failed()) return -1;
    if (!given(t) || !rush_tensor_given(numbers)) return -1;
    RUSH_CHECK(numbers->ndim == 1, RUSH_TYPE_ERROR, "what is decoded is a 1-d tensor of integers");
    int64_t length = 0;
    rush_scope() {
        const rush_tensor *w = rush_cast_copy(numbers, RUSH_I64);
        const int64_t *k = w ? rush_ptr(w) : NULL;
        for (int64_t i = 0; w && i < w->numel; i++) {
            RUSH_CHECK(k[i] >= 0 && k[i] < t->n, RUSH_INDEX_ERROR, "token %lld of a tokeniser of %lld", (long long)k[i], (long long)t->n);
            char own[4];
            const char *p = t->pairs ? t->piece[k[i]].text : own;
            int64_t n = t->pairs ? t->piece[k[i]].n : rush_utf8_put(own, t->letter[k[i]]);
            for (int64_t j = 0; j < n; j++, length++)
                if (size && length < (int64_t)size - 1) buf[length] = p[j];
        }
        if (size) buf[RUSH_MIN(length, (int64_t)size - 1)] = 0;
    }
    return rush_failed() ? -1 : length;
}
