/* arena.h - memory that grows in chunks and ends at once: for what is made of many small parts that live as long as the whole. */
#ifndef RUSH_BASE_ARENA_H
#define RUSH_BASE_ARENA_H

#include <stddef.h>

typedef struct rush_arena { /* all zeros: empty */
    void **chunk;
    size_t nchunks, used, room; /* used and room: of the last chunk */
} rush_arena;

void *rush_arena_alloc(rush_arena *, size_t bytes);                /* zeroed; NULL and an error            */
char *rush_arena_copy(rush_arena *, const char *text, size_t n);   /* n bytes, and a zero behind them      */
void rush_arena_free(rush_arena *);

#endif
