/* text.h - text that means the same everywhere, whatever locale the program has set: schemas, graphs, files and messages have
 * points in their numbers where a German desktop program prints 1,5, and node names an I where toupper('i') in Turkish is i. */
#ifndef RUSH_TEXT_H
#define RUSH_TEXT_H
#include "base/base.h"
#include <stdarg.h>
#include <stdio.h>

/* What the C library's functions of these names do, in the C locale. */
int rush_vsnprintf(char *to, size_t room, const char *format, va_list);
RUSH_PY int rush_snprintf(char *to, size_t room, const char *format, ...) RUSH_PRINTF(3, 4);
int rush_vasprintf(char **, const char *format, va_list);
int rush_fprintf(FILE *, const char *format, ...) RUSH_PRINTF(2, 3);
RUSH_PY double rush_strtod(const char *, char **end);
RUSH_PY bool rush_names(const char *expression, const char *word); /* does it stand there, not as a part of another word, of a number or of a structure? */
static inline char rush_upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }
static inline char rush_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

#endif
