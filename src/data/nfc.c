/* nfc.c - normal form C as Unicode's annex 15 defines it: characters are taken apart, the marks after each sorted by class, and what can be put together is. */
#include "data/nfc.h"
#include "base/utf8.h"
#include "data/words.h"
#include "data/nfc.inc"

enum { HANGUL = 0xac00, LEAD = 0x1100, VOWEL = 0x1161, TAIL = 0x11a7, VOWELS = 21, TAILS = 28, LEADS = 19 }; /* syllables are numbered, not listed */

typedef struct part {
    int32_t code;
    int32_t class; /* of a mark; 0: none; -1: a byte that is no UTF-8 */
    size_t at;     /* its number */
} part;

typedef struct parts {
    part *of;
    size_t n;
} parts;

static const int32_t *row_of(int32_t c, const int32_t (*rows)[3], size_t n)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (rows[middle][0] <= c) low = middle + 1;
        else n = middle;
    }
    return low ? rows[low - 1] : NULL;
}

static int32_t class_of(int32_t c)
{
    const int32_t *row = row_of(c, marks, RUSH_COUNT(marks));
    return row && c <= row[1] ? row[2] : 0;
}

static void put(parts *p, int32_t c)
{
    p->of[p->n] = (part){c, class_of(c), p->n};
    p->n++;
}

/* What is taken apart first may be of parts, too: four are the most. */
static void take_apart(parts *p, int32_t c)
{
    int32_t s = c - HANGUL;
    if (s >= 0 && s < LEADS * VOWELS * TAILS) {
        put(p, LEAD + s / (VOWELS * TAILS));
        put(p, VOWEL + s / TAILS % VOWELS);
        if (s % TAILS) put(p, TAIL + s % TAILS);
        return;
    }
    const int32_t *row = row_of(c, put_together, RUSH_COUNT(put_together));
    if (!row || row[0] != c) row = row_of(c, taken_apart, RUSH_COUNT(taken_apart));
    if (!row || row[0] != c) {
        put(p, c);
        return;
    }
    take_apart(p, row[1]);
    if (row[2]) take_apart(p, row[2]);
}

static int by_class(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->class != y->class ? (x->class > y->class) - (x->class < y->class) : (x->at > y->at) - (x->at < y->at);
}

/* Marks that follow each other, by class. */
static void sort_marks(parts *p)
{
    for (size_t i = 0, j; i < p->n; i = j + 1) {
        for (j = i; j < p->n && p->of[j].class > 0;) j++;
        if (j - i > 1) qsort(p->of + i, j - i, sizeof *p->of, by_class);
    }
}

static int32_t together(int32_t a, int32_t b)
{
    if (a >= LEAD && a < LEAD + LEADS && b >= VOWEL && b < VOWEL + VOWELS) return HANGUL + ((a - LEAD) * VOWELS + b - VOWEL) * TAILS;
    if (a >= HANGUL && a < HANGUL + LEADS * VOWELS * TAILS && (a - HANGUL) % TAILS == 0 && b > TAIL && b < TAIL + TAILS) return a + b - TAIL;
    bool sign = (b >= 0x9be && b <= 0x1b35) || (b >= 0x11000 && b <= 0x11fff); /* vowels of Indic scripts have no class, and join */
    for (size_t i = 0; i < RUSH_COUNT(put_together) && (sign || class_of(b)); i++)
        if (put_together[i][1] == a && put_together[i][2] == b) return put_together[i][0];
    return 0;
}

/* Each part joins the last character before it that is no mark, unless another one of its class, or a character, stands between. */
static void put_all_together(parts *p)
{
    part *start = NULL;
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        part x = p->of[i];
        bool blocked = !start || (start + 1 < p->of + n && (p->of[n - 1].class == 0 || p->of[n - 1].class >= x.class));
        int32_t c = blocked || x.class < 0 ? 0 : together(start->code, x.code);
        if (c) start->code = c;
        else {
            p->of[n++] = x;
            if (x.class <= 0) start = x.class ? NULL : &p->of[n - 1];
        }
    }
    p->n = n;
}

char *rush_nfc(const char *text, size_t n, size_t *made)
{
    const char *end = text + n, *p = text;
    while (p < end && (uint8_t)*p < 0xcc) p++; /* nothing below U+0300 is a mark or taken apart for good */
    if (p == end) return NULL;
    parts all = {rush_malloc((4 * n + 1) * sizeof *all.of), 0};
    if (!all.of) return NULL;
    for (int32_t code, step; text < end; text += step) {
        step = rush_character(text, end, &code);
        if (step == 1 && code >= 128) all.of[all.n++] = (part){code, -1, 0};
        else take_apart(&all, code);
    }
    sort_marks(&all);
    put_all_together(&all);
    char *to = rush_malloc(4 * all.n + 1);
    size_t k = 0;
    for (size_t i = 0; to && i < all.n; i++)
        if (all.of[i].class < 0) to[k++] = (char)all.of[i].code;
        else k += (size_t)rush_utf8_put(to + k, (uint32_t)all.of[i].code);
    rush_free(all.of);
    *made = k;
    return to;
}
