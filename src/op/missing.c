/* missing.c - each operation that is missing is told once, with the first place that calls it. */
#include "op/missing.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool told(const rush_missing *m, const char *what)
{
    size_t n = strlen(what);
    for (const char *at = m->text; (at = strstr(at, "\n  ")); at += 3)
        if (!strncmp(at + 3, what, n) && (at[3 + n] == ',' || at[3 + n] == '\n' || !at[3 + n])) return true;
    return false;
}

void rush_missing_add(rush_missing *m, const char *what, const char *where)
{
    char line[400];
    int n = snprintf(line, sizeof line, "\n  %.150s%s%.200s", what, where ? ", called by " : "", where ? where : "");
    if (told(m, what)) return;
    ++m->n;
    if (n > 0 && m->used + (size_t)n < sizeof m->text) memcpy(m->text + m->used, line, (size_t)n + 1), m->used += (size_t)n;
}
