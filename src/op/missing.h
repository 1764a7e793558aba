/* missing.h - what a program asks for and the library does not have: gathered while it is read, told all at once. */
#ifndef RUSH_OP_MISSING_H
#define RUSH_OP_MISSING_H

#include <stddef.h>

typedef struct rush_missing {
    char text[4096];
    size_t used, n;
} rush_missing;

void rush_missing_add(rush_missing *, const char *what, const char *where); /* where: NULL if it is not known */

#endif
