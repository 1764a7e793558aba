/* tokenizer_learn.c - tokenisers made from a text: of its characters, or of the byte pairs that are frequent in it; and GPT-2's files, which hold byte pairs. */
#include "base/json.h"
#include "base/utf8.h"
#include "data/tokenizer.h"
#include "data/words.h"
#include "io/file.h"

/* ---- from texts ---- */

rush_tokenizer *rush_tokenizer_characters(const char *text, size_t n)
{
    RUSH_CHECK_NULL(text || !n, RUSH_TYPE_ERROR, "a text or a path is missing (NULL)");
    uint8_t *seen = rush_failed() ? NULL : rush_calloc(0x200000 / 8, 1); /* a bit for each code point */
    int32_t code;
    int64_t count = 0;
    if (!seen) return NULL;
    for (const char *p = text, *end = text + n; p < end;) {
        p += rush_character(p, end, &code);
        count += !(seen[code / 8] >> code % 8 & 1);
        seen[code / 8] |= (uint8_t)(1 << code % 8);
    }
    rush_tokenizer *t = rush_tokenizer_begin(RUSH_CHARACTERS, count);
    char letter[4];
    for (code = 0; t && code < 0x200000 && !rush_failed(); code++)
        if (seen[code / 8] >> code % 8 & 1) rush_tokenizer_put(t, t->n, letter, (size_t)rush_utf8_put(letter, (uint32_t)code), true);
    rush_free(seen);
    if (!rush_failed()) return t;
    rush_tokenizer_free(t);
    return NULL;
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

/* Each pair of neighbours left, right becomes one; how many tokens are left. */
static int64_t merge_pair(int32_t *w, int64_t n, int32_t left, int32_t right, int32_t into)
{
    int64_t to = 0;
    for (int64_t i = 0; i < n; to++) {
        bool both = i + 1 < n && w[i] == left && w[i + 1] == right;
        w[to] = both ? into : w[i];
        i += both ? 2 : 1;
    }
    return to;
}

static int put_bytes(rush_tokenizer *t, const int32_t number[256])
{
    for (int b = 0; b < 256; b++)
        if (rush_tokenizer_put(t, t->byte[b] = number ? number[b] : b, &(char){(char)b}, 1, true)) return -1;
    return 0;
}

rush_tokenizer *rush_tokenizer_learn(const char *text, size_t n, int64_t size)
{
    RUSH_CHECK_NULL(text || !n, RUSH_TYPE_ERROR, "a text or a path is missing (NULL)");
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(size >= 256 && size < 1 << 24, RUSH_VALUE_ERROR, "byte pairs begin with 256 tokens: %lld are too few or too many", (long long)size);
    size_t slots = 1024;
    while (slots < n / 2 && slots < (size_t)1 << 22) slots *= 2;
    slots *= 4;
    rush_tokenizer *t = rush_tokenizer_begin(RUSH_BYTE_PAIRS, size);
    int32_t *w = t ? rush_malloc((n * 2 + 1) * sizeof *w) : NULL;
    counted *table = w ? rush_malloc(slots * sizeof *table) : NULL;
    int failed = !table || put_bytes(t, NULL);
    int64_t m = 0;
    for (const char *p = text, *end = text + n; !failed && p < end;) {
        for (const char *stop = rush_word_end(p, end, 0); p < stop; p++) w[m++] = (uint8_t)*p;
        w[m++] = -1;
    }
    while (!failed && t->n < size) {
        counted best = most_frequent(w, m, table, slots);
        int32_t left = (int32_t)(best.pair >> 32), right = (int32_t)best.pair;
        if (best.count < 2) break;
        m = merge_pair(w, m, left, right, (int32_t)t->n);
        failed = rush_tokenizer_put_pair(t, left, right, -1);
    }
    rush_free(w);
    rush_free(table);
    if (!failed) return t;
    rush_tokenizer_free(t);
    return NULL;
}

/* ---- GPT-2's files: bytes are written as letters ---- */

/* The tokens of vocab.json. */
static rush_tokenizer *read_vocabulary(rush_named_text file)
{
    const char *path = file.name;
    rush_json *json = rush_json_read(file.text, file.n);
    rush_tokenizer *t = NULL;
    char *text = rush_malloc(file.n + 1);
    int64_t most = 0;
    int failed = !text || (rush_json_is(json, RUSH_JSON_OBJECT) ? 0 : rush_fail(RUSH_VALUE_ERROR, "'%s' is no JSON object", path));
    rush_json_each(e, failed ? NULL : json) {
        if (rush_json_is(e, RUSH_JSON_WHOLE) && e->i >= 0 && e->i < 1 << 24) most = RUSH_MAX(most, e->i + 1);
        else failed = rush_fail(RUSH_VALUE_ERROR, "'%s': '%.40s' has no number", path, e->name);
    }
    if (!failed && most > 16 * (int64_t)rush_json_count(json) + 1024)
        failed = rush_fail(RUSH_VALUE_ERROR, "'%s' has %zu tokens and numbers up to %lld", path, rush_json_count(json), (long long)most);
    if (!failed) failed = !(t = rush_tokenizer_begin(RUSH_BYTE_PAIRS, most));
    rush_json_each(e, failed ? NULL : json) {
        int64_t k = failed ? 0 : rush_from_letters(e->name, strlen(e->name), text);
        if (!failed && t->piece[e->i].at) failed = rush_fail(RUSH_VALUE_ERROR, "'%s': two tokens have the number %lld", path, (long long)e->i);
        if (!failed) failed = rush_tokenizer_put(t, e->i, k > 0 ? text : e->name, k > 0 ? (size_t)k : strlen(e->name), k > 0);
    }
    for (int b = 0; b < 256 && !failed; b++)
        if ((t->byte[b] = rush_tokenizer_find(t, &(char){(char)b}, 1)) < 0) failed = rush_fail(RUSH_VALUE_ERROR, "'%s' lacks byte %d", path, b);
    rush_free(text);
    rush_free(json);
    if (!failed) return t;
    rush_tokenizer_free(t);
    return NULL;
}

static int read_merges(rush_tokenizer *t, const char *p, const char *end, bool own, const char *path)
{
    static const char version[] = "#version";
    char *room = rush_malloc((size_t)(end - p) + 1);
    int failed = room ? 0 : -1;
    for (int64_t line = 1; p < end && !failed; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > p && stop[-1] == '\r') stop--;
        bool head = line == 1 && (size_t)(stop - p) >= sizeof version - 1 && !memcmp(p, version, sizeof version - 1);
        if (stop > p && !head) failed = rush_tokenizer_put_merge(t, p, stop, own ? -1 : (int32_t)line, room);
        if (failed > 0) rush_fail(RUSH_VALUE_ERROR, "'%s', line %lld: merges of what is no token", path, (long long)line);
        p = next;
    }
    rush_free(room);
    return failed;
}

rush_tokenizer *rush_tokenizer_read(rush_named_text merges, const rush_named_text *vocabulary)
{
    if (!vocabulary && merges.n && *merges.text == '{') return rush_tokenizer_of_json(merges); /* a merge of that character comes after a line with the version */
    if (!merges.n) merges.text = ""; /* an empty file is nowhere in memory */
    int64_t lines = 1;
    for (size_t i = 0; i < merges.n; i++) lines += merges.text[i] == '\n';
    int32_t code[256], order[256];
    rush_byte_letters(code, order);
    rush_tokenizer *t = vocabulary ? read_vocabulary(*vocabulary) : rush_tokenizer_begin(RUSH_BYTE_PAIRS, 256 + lines);
    int failed = !t || (!vocabulary && put_bytes(t, order)) || read_merges(t, merges.text, merges.text + merges.n, !vocabulary, merges.name);
    if (!failed) return t;
    rush_tokenizer_free(t);
    return NULL;
}

rush_tokenizer *rush_tokenizer_load(const char *merges, const char *vocabulary)
{
    RUSH_CHECK_NULL(merges, RUSH_TYPE_ERROR, "a text or a path is missing (NULL)");
    rush_mapping *m = rush_failed() ? NULL : rush_map(merges), *v = m && vocabulary ? rush_map(vocabulary) : NULL;
    bool there = m && (v || !vocabulary);
    rush_tokenizer *t = there ? rush_tokenizer_read((rush_named_text){m->data, m->size, merges}, v ? &(rush_named_text){v->data, v->size, vocabulary} : NULL) : NULL;
    rush_unmap(m);
    rush_unmap(v);
    return t;
}

static int write_letters(rush_writing *w, const rush_tokenizer *t, int32_t token, const int32_t code[256], const char *after)
{
    size_t n;
    char letter[4];
    const char *p = rush_tokenizer_piece(t, token, &n);
    for (size_t i = 0; i < n; i++)
        if (rush_write(w, letter, (size_t)rush_utf8_put(letter, (uint32_t)code[(uint8_t)p[i]]))) return -1;
    return rush_write(w, after, 1);
}

int rush_tokenizer_save(const rush_tokenizer *t, const char *path)
{
    if (rush_failed()) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (!rush_tokenizer_given(t)) return -1;
    RUSH_CHECK(t->kind == RUSH_BYTE_PAIRS, RUSH_TYPE_ERROR, "only tokenisers of byte pairs are saved: those of characters are made from their text");
    int32_t code[256], order[256];
    rush_byte_letters(code, order);
    rush_writing w;
    if (rush_write_begin(&w, path)) return -1;
    int failed = rush_write(&w, "#version: 0.2\n", 14);
    for (size_t i = 0; !failed && i < t->pairs.n; i++)
        failed = write_letters(&w, t, t->pairs.pair[i].left, code, " ") || write_letters(&w, t, t->pairs.pair[i].right, code, "\n");
    return rush_write_end(&w, !failed) || failed ? -1 : 0;
}
