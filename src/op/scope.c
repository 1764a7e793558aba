/* scope.c - the thread's stack of parked things, and the memory that goes with it.
 *
 * A scope is a mark in one stack of pointers; closing it drops what lies above. Tensors, plain blocks and
 * objects share the stack: a block's pointer has its lowest bit set, an object's (a module, an optimizer) the
 * one above.
 */
#include "op/object.h"
#include <pthread.h>

static pthread_key_t key; /* its value only makes thread_ends be called */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void thread_ends(void *unused)
{
    rush_scope_close(0);
    rush_free(rush_now.parked);
    rush_now.parked = NULL;
    rush_now.room = 0;
}

static void start(void)
{
    pthread_key_create(&key, thread_ends);
}

static int grow(void)
{
    pthread_once(&once, start);
    size_t room = rush_now.room ? rush_now.room * 2 : 64;
    void **more = rush_realloc(rush_now.parked, room * sizeof *more);
    if (!more) return -1;
    rush_now.parked = more;
    rush_now.room = room;
    pthread_setspecific(key, &rush_now);
    return 0;
}

/* What stands before a plain block: the size that its memory goes back with. Both kinds of memory are kept for the next one, so that
 * a call that was made before takes none from the system. */
typedef struct block {
    _Alignas(16) size_t size;
} block;

enum { MOST_SMALL = 512 };

static void free_block(block *b)
{
    if (b->size <= MOST_SMALL) rush_small_free(b, b->size);
    else rush_block_free(b, b->size);
}

RUSH_HOT size_t rush_scope_open(void)
{
    return rush_now.nparked;
}

RUSH_HOT void rush_scope_close(size_t mark)
{
    while (rush_now.nparked > mark) {
        uintptr_t p = (uintptr_t)rush_now.parked[--rush_now.nparked];
        if (p & 1) free_block((block *)(p - 1) - 1);
        else if (p & 2) (*(rush_object_end *)(p - 2))((void *)(p - 2));
        else rush_drop((rush_tensor *)p);
    }
    if (mark == 0 && rush_now.room > 4096) { /* an outermost scope: a long list of temporaries is not kept */
        rush_free(rush_now.parked);
        rush_now.parked = NULL;
        rush_now.room = 0;
    }
}

RUSH_HOT void rush_scope_leave(size_t mark, int nout, const rush_value *out)
{
    for (int i = 0; i < nout; ++i)
        if (out[i].kind >= RUSH_V_INTS && out[i].kind <= RUSH_V_STRING) return; /* the array lives in the scope: all is left to the caller's */
    for (int i = 0; i < nout; ++i)
        if (out[i].kind == RUSH_V_TENSOR) rush_keep(out[i].t);
        else if (out[i].kind == RUSH_V_OBJECT) rush_object_keep(out[i].object);
    rush_scope_close(mark);
    for (int i = 0; i < nout; ++i)
        if (out[i].kind == RUSH_V_TENSOR) rush_park(out[i].t);
        else if (out[i].kind == RUSH_V_OBJECT) rush_object_park(out[i].object);
}

RUSH_HOT rush_tensor *rush_park(rush_tensor *t)
{
    if (!t || RUSH_UNLIKELY(t->ndim == RUSH_T_ENDED && !rush_tensor_given(t))) return NULL;
    if (RUSH_UNLIKELY(rush_now.nparked == rush_now.room) && grow()) return rush_drop(t), NULL;
    rush_now.parked[rush_now.nparked++] = t;
    return t;
}

void *rush_park_object(void *object)
{
    if (!object) return NULL;
    if (rush_now.nparked == rush_now.room && grow()) return (*(rush_object_end *)object)(object), NULL;
    rush_now.parked[rush_now.nparked++] = (void *)((uintptr_t)object + 2);
    return object;
}

void *rush_scope_copy(const void *from, size_t bytes)
{
    RUSH_CHECK_NULL(from || !bytes, RUSH_TYPE_ERROR, "a copy of %zu bytes at NULL", bytes);
    void *p = rush_scope_alloc(bytes);
    return p && bytes ? memcpy(p, from, bytes) : p;
}

RUSH_HOT void *rush_scope_alloc(size_t bytes)
{
    if (rush_now.nparked == rush_now.room && grow()) return NULL;
    RUSH_CHECK_NULL(bytes < SIZE_MAX / 2, RUSH_MEMORY_ERROR, "%zu bytes are more than there can be", bytes);
    size_t size = sizeof(block) + bytes;
    block *b = size <= MOST_SMALL ? rush_small_alloc(size) : rush_block_alloc(size, &size);
    if (!b) return NULL;
    b->size = size;
    rush_now.parked[rush_now.nparked++] = (void *)((uintptr_t)(b + 1) + 1);
    return b + 1;
}
