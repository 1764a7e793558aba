/* utf8.h - letters of Unicode as bytes. */
#ifndef RUSH_BASE_UTF8_H
#define RUSH_BASE_UTF8_H

#include <stdbool.h>
#include <stdint.h>

/* Writes a code point; how many bytes it took, at most 4. */
static inline int rush_utf8_put(char *to, uint32_t c)
{
    if (c < 0x80) return to[0] = (char)c, 1;
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 63));
    return to[0] = (char)((0xf00 >> n) | c), n;
}

/* How many bytes the letter at s has; 0: it is none, or the end of the text. Never looks past a zero. */
static inline int rush_utf8_length(const char *text)
{
    const uint8_t *s = (const uint8_t *)text;
    int n = s[0] < 0x80 ? s[0] > 0 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if (s[i] >> 6 != 2) return 0;
    if (n < 3) return n;
    uint8_t least = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80, most = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf; /* no longer than needed, no halves of pairs */
    return s[1] >= least && s[1] <= most ? n : 0;
}

static inline bool rush_utf8_is(const char *text)
{
    for (int n; *text; text += n)
        if (!(n = rush_utf8_length(text))) return false;
    return true;
}

#endif
