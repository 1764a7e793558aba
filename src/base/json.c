/* json.c - one pass over a copy of the text: texts are unescaped where they stand, values are taken from the room before it.
 *
 * The copy ends with a zero, which is part of nothing, so that nothing is read past the end; what is open is found by the way
 * up, so that texts of any shape need the same few bytes of a thread's stack, which may be small.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "base/base.h"
#include "base/utf8.h"
#include "base/text.h"

#include <errno.h>

enum { DEEPEST = 1000 };

typedef struct reader {
    char *at;
    rush_json *free; /* the next value */
} reader;

static char next(reader *r) /* of what is no blank; it stays */
{
    while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r') r->at++;
    return *r->at;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static char *digits(char *p)
{
    while (is_digit(*p)) p++;
    return p;
}

/* ---- texts ---- */

/* Four hexadecimal digits at p; -1. */
static int unit(const char *p)
{
    static const char all[] = "0123456789abcdef";
    int x = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = p[i] ? strchr(all, p[i] >= 'A' && p[i] <= 'F' ? p[i] | 32 : p[i]) : NULL;
        if (!digit) return -1;
        x = x * 16 + (int)(digit - all);
    }
    return x;
}

/* What stands behind a backslash, written to `to`; how many bytes that are, 0: it is wrong. */
static int escape(reader *r, char *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *one = *r->at ? strchr(from, *r->at) : NULL;
    if (one) return r->at++, *to = into[one - from], 1;
    int c = *r->at == 'u' ? unit(r->at + 1) : -1;
    if (c <= 0 || (c >= 0xdc00 && c < 0xe000)) return 0;
    r->at += 5;
    if (c < 0xd800 || c >= 0xe000) return rush_utf8_put(to, (uint32_t)c);
    int low = r->at[0] == '\\' && r->at[1] == 'u' ? unit(r->at + 2) : -1; /* the second half of a pair */
    if (low < 0xdc00 || low >= 0xe000) return 0;
    r->at += 6;
    return rush_utf8_put(to, 0x10000 + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
}

/* The text at the quote, which never becomes longer; NULL. */
static const char *read_text(reader *r)
{
    if (next(r) != '"') return NULL;
    char *text = ++r->at, *to = text;
    while (*r->at != '"') {
        int n = 0;
        if (*r->at == '\\') r->at++, n = escape(r, to);
        else if ((unsigned char)*r->at >= ' ' && (n = rush_utf8_length(r->at))) memmove(to, r->at, (size_t)n), r->at += n;
        if (!n) return NULL;
        to += n;
    }
    r->at++;
    return *to = 0, text;
}

/* ---- values ---- */

static bool read_number(reader *r, rush_json *x)
{
    char *begin = r->at, *p = begin + (*begin == '-'), *end = digits(p);
    if (end == p || (*p == '0' && end > p + 1)) return false;
    x->kind = RUSH_JSON_WHOLE;
    for (int power = 0; power < 2; power++) {
        if (power ? *end != 'e' && *end != 'E' : *end != '.') continue;
        p = end + 1;
        if (power && (*p == '+' || *p == '-')) p++;
        if ((end = digits(p)) == p) return false;
        x->kind = RUSH_JSON_NUMBER;
    }
    errno = 0;
    if (x->kind == RUSH_JSON_WHOLE) x->i = strtoll(begin, NULL, 10);
    if (errno) x->kind = RUSH_JSON_NUMBER, x->i = 0;
    x->number = x->kind == RUSH_JSON_WHOLE ? (double)x->i : rush_strtod(begin, NULL);
    r->at = end;
    return true;
}

static bool read_plain(reader *r, rush_json *x)
{
    static const struct { const char *word; rush_json_kind kind; int i; } words[] = {{"null", RUSH_JSON_NULL, 0}, {"false", RUSH_JSON_BOOL, 0}, {"true", RUSH_JSON_BOOL, 1}};
    for (size_t k = 0; k < RUSH_COUNT(words); k++) {
        size_t n = strlen(words[k].word);
        if (strncmp(r->at, words[k].word, n)) continue;
        x->kind = words[k].kind;
        x->i = words[k].i;
        return r->at += n, true;
    }
    if (*r->at != '"') return read_number(r, x);
    x->kind = RUSH_JSON_TEXT;
    return (x->text = read_text(r)) != NULL;
}

/* Room for the next item of a list or an object, its name read; NULL. Items are linked backwards until the end is met. */
static rush_json *item(reader *r, rush_json *box)
{
    rush_json *x = r->free++;
    if (box->kind == RUSH_JSON_OBJECT) {
        if (!(x->name = read_text(r)) || next(r) != ':') return NULL;
        r->at++;
    }
    x->up = box;
    x->next = box->first;
    box->first = x;
    box->n++;
    return x;
}

/* The end of a list or an object: its items in their order; what it is in, NULL: nothing. */
static rush_json *end(reader *r, rush_json *box)
{
    rush_json *before = NULL;
    for (rush_json *x = box->first, *after; x; before = x, x = after) after = x->next, x->next = before;
    box->first = before;
    r->at++;
    return box->up;
}

static bool read_all(reader *r)
{
    int depth = 0;
    for (rush_json *x = r->free++, *box = NULL; x; x = item(r, box)) { /* box: what x is in */
        char c = next(r);
        if (c == '[' || c == '{') {
            if (++depth > DEEPEST) return false;
            x->kind = c == '[' ? RUSH_JSON_LIST : RUSH_JSON_OBJECT;
            r->at++;
            box = x;
            if (next(r) != c + 2) continue; /* no ] or }, which are two letters behind */
        } else if (!read_plain(r, x)) return false;
        for (; c = next(r), box && c == (box->kind == RUSH_JSON_LIST ? ']' : '}'); depth--) box = end(r, box);
        if (!box) return true;
        if (c != ',') return false;
        r->at++;
    }
    return false;
}

/* No fewer than the values of the text: one, one behind each comma, one in each list or object. */
static size_t most_values(const char *p, const char *end)
{
    size_t n = 1;
    for (bool text = false; p < end; p++) {
        if (*p == '"') text = !text;
        else if (text) p += *p == '\\';
        else n += *p == ',' || *p == '[' || *p == '{';
    }
    return n;
}

rush_json *rush_json_read(const char *bytes, size_t n)
{
    if (n > UINT32_MAX) return NULL;
    size_t most = most_values(bytes, bytes + n);
    rush_json *root = rush_calloc(1, most * sizeof *root + n + 1);
    if (!root) return NULL;
    char *copy = memcpy(root + most, bytes, n);
    reader r = {copy, root};
    bool fine = read_all(&r);
    if (fine) next(&r);
    if (fine && r.at == copy + n) return root;
    rush_free(root);
    return NULL;
}

/* ---- what was read ---- */

const rush_json *rush_json_get(const rush_json *object, const char *name)
{
    rush_json_each(x, object) if (x->name && !strcmp(x->name, name)) return x;
    return NULL;
}

bool rush_json_same(const rush_json *a, const rush_json *b)
{
    if (!a || !b) return a == b;
    if (a->kind != b->kind || a->n != b->n || a->i != b->i || a->number != b->number || (a->text && strcmp(a->text, b->text)) ||
        (a->name && b->name && strcmp(a->name, b->name))) return false;
    for (a = a->first, b = b->first; a; a = a->next, b = b->next)
        if (!rush_json_same(a, b)) return false;
    return true;
}

void rush_json_write_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == '"' || *c == '\\') fprintf(f, "\\u%04x", *c);
        else fputc(*c, f);
    fputc('"', f);
}
