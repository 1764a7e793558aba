/* arena.c - chunks, of which the last one is cut up. */
#include "base/arena.h"
#include "base/base.h"

enum { CHUNK = 1 << 14 };

void *rush_arena_alloc(rush_arena *a, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    if (!a->nchunks || a->used + bytes > a->room) {
        size_t room = RUSH_MAX(bytes, (size_t)CHUNK);
        void **more = rush_realloc(a->chunk, (a->nchunks + 1) * sizeof *more);
        if (!more) return NULL;
        a->chunk = more;
        if (!(a->chunk[a->nchunks] = rush_calloc(1, room))) return NULL;
        ++a->nchunks;
        a->used = 0;
        a->room = room;
    }
    char *p = (char *)a->chunk[a->nchunks - 1] + a->used;
    a->used += bytes;
    return p;
}

char *rush_arena_copy(rush_arena *a, const char *text, size_t n)
{
    char *copy = rush_arena_alloc(a, n + 1);
    return copy ? memcpy(copy, text, n) : NULL;
}

void rush_arena_free(rush_arena *a)
{
    for (size_t i = 0; i < a->nchunks; ++i) rush_free(a->chunk[i]);
    rush_free(a->chunk);
}
