/* text.c - formatting and reading numbers in the C locale: text.h. */
#define _GNU_SOURCE
#include "base/text.h"
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* C's own locale: it takes no memory, so it is never freed, and cannot fail. */
static locale_t plain;
static void find_plain(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static locale_t plain_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_plain);
    return plain;
}

int rush_vsnprintf(char *to, size_t room, const char *format, va_list args)
{
    locale_t before = uselocale(plain_locale());
    int n = vsnprintf(to, room, format, args);
    uselocale(before);
    return n;
}

int rush_snprintf(char *to, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = rush_vsnprintf(to, room, format, args);
    va_end(args);
    return n;
}

int rush_vasprintf(char **to, const char *format, va_list args)
{
    locale_t before = uselocale(plain_locale());
    int n = vasprintf(to, format, args);
    uselocale(before);
    return n;
}

int rush_fprintf(FILE *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    locale_t before = uselocale(plain_locale());
    int n = vfprintf(to, format, args);
    uselocale(before);
    va_end(args);
    return n;
}

double rush_strtod(const char *text, char **end) { return strtod_l(text, end, plain_locale()); }

static bool in_word(char c) { return (c >= '0' && c <= '9') || (rush_lower(c) >= 'a' && rush_lower(c) <= 'z') || c == '_' || c == '.'; }

bool rush_names(const char *expression, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = expression; (p = strstr(p, word)); p += n)
        if ((p == expression || !in_word(p[-1])) && !in_word(p[n])) return true;
    return false;
}
