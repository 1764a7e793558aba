/* words.c - where texts are cut into words, see words.h. */
#include "data/words.h"
#include "data/unicode.inc"

int rush_character(const char *p, const char *end, int32_t *code)
{
    const uint8_t *s = (const uint8_t *)p;
    int n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 1;
    if (n > end - p) n = 1;
    for (int i = 1; i < n; i++)
        if (s[i] >> 6 != 2) n = 1;
    *code = n == 1 ? s[0] : s[0] & (0x7f >> n);
    for (int i = 1; i < n; i++) *code = *code << 6 | (s[i] & 63);
    return n;
}

/* ---- kinds of characters ---- */

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

static bool is_letter(int32_t c) { return c < 128 ? (c | 32) >= 'a' && (c | 32) <= 'z' : within(c, letters, RUSH_COUNT(letters)); }
static bool is_number(int32_t c) { return c < 128 ? c >= '0' && c <= '9' : within(c, numerals, RUSH_COUNT(numerals)); }
static bool is_break(int32_t c) { return c == '\r' || c == '\n'; }
static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
static bool is_other(int32_t c) { return !is_space(c) && !is_letter(c) && !is_number(c); }

/* ---- words ---- */

/* Of what is no UTF-8, a byte is a sign. */
static int next(const char *p, const char *end, int32_t *code)
{
    int n = rush_character(p, end, code);
    if (n == 1 && *code >= 128) *code = 0xfffd;
    return n;
}

/* The end of the characters of one kind, of `most` at most. */
static const char *run_of(const char *p, const char *end, bool (*is)(int32_t), int64_t most)
{
    int32_t c;
    for (int n; p < end && most > 0; p += n, most--)
        if (n = next(p, end, &c), !is(c)) break;
    return p;
}

/* 's and its like; NULL: there is none. */
static const char *contraction(const char *p, const char *end, bool any_case)
{
    static const char *const all[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    for (size_t i = 0; *p == '\'' && i < RUSH_COUNT(all); i++) {
        size_t n = 0, whole = strlen(all[i]);
        while (n < whole && n + 1 < (size_t)(end - p) && (p[1 + n] == all[i][n] || (any_case && p[1 + n] == all[i][n] - 32))) n++;
        if (n == whole) return p + 1 + n;
    }
    return NULL;
}

/* Blanks: up to the last line break (`breaks`), else all but the last one if a word follows. */
static const char *blanks(const char *p, const char *end, bool breaks)
{
    const char *last = p, *broken = NULL, *q = p;
    int32_t c;
    for (int n; q < end; q += n) {
        if (n = next(q, end, &c), !is_space(c)) break;
        last = q;
        if (breaks && is_break(c)) broken = q + 1;
    }
    return broken ? broken : q < end && last > p ? last : q;
}

const char *rush_word_end(const char *p, const char *end, int digits)
{
    const char *q = contraction(p, end, digits > 0), *after = p + (*p == ' ');
    if (q) return q;
    if (!digits) {
        bool (*const kinds[])(int32_t) = {is_letter, is_number, is_other};
        for (int i = 0; i < 3; i++)
            if ((q = run_of(after, end, kinds[i], INT64_MAX)) > after) return q;
        return blanks(p, end, false);
    }
    int32_t c;
    int n = next(p, end, &c);
    const char *word = p + (is_letter(c) || is_number(c) || is_break(c) ? 0 : n);
    if ((q = run_of(word, end, is_letter, INT64_MAX)) > word) return q;
    if ((q = run_of(p, end, is_number, digits)) > p) return q;
    if ((q = run_of(after, end, is_other, INT64_MAX)) > after) return run_of(q, end, is_break, INT64_MAX);
    return blanks(p, end, true);
}

/* ---- bytes as letters ---- */

void rush_byte_letters(int32_t code[256], int32_t order[256])
{
    int32_t hidden = 0, shown = 0;
    for (int b = 0; b < 256; b++) {
        bool is_shown = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        code[b] = is_shown ? b : 256 + hidden++;
        order[b] = is_shown ? shown++ : 188 + hidden - 1; /* 188 are shown */
    }
}

int64_t rush_from_letters(const char *p, size_t n, char *to)
{
    int32_t code[256], order[256], c;
    int64_t k = 0;
    rush_byte_letters(code, order);
    for (const char *end = p + n; p < end; k++) {
        p += rush_character(p, end, &c);
        int b = 0;
        while (b < 256 && code[b] != c) b++;
        if (b == 256) return -1;
        to[k] = (char)b;
    }
    return k;
}
