/* memory.c - small structures from free lists, tensor bytes from size classes.
 *
 * A thread owns its free lists, so the hot path takes no lock. A block has no owner: whoever frees it puts it
 * on its own list, and lists that grow too long hand half of themselves to a shared pool, from which empty
 * lists are filled. Blocks of tensors up to 64 KiB go the same way; larger ones are cached in one shared cache, from
 * which the block that lay idle longest goes back to the system first. It is bounded by a share of the machine's
 * memory and by what the program needed at its peak: a loop over ever new sizes doesn't fill it with all of them.
 */
#define _GNU_SOURCE
#include "base/base.h"
#include "base/buried.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define PLAIN 1 /* leave every block to the sanitizer */
#define POISON ASAN_POISON_MEMORY_REGION
#define UNPOISON ASAN_UNPOISON_MEMORY_REGION
#else
#define PLAIN 0
#define POISON(p, n) ((void)(n))
#define UNPOISON(p, n) ((void)(n))
#endif

#define SMALL_STEP 16
#define SMALL_MAX 512
#define SMALL_CLASSES (SMALL_MAX / SMALL_STEP)  /* class c holds (c + 1) * 16 bytes                  */
#define QUICK_MAX ((size_t)64 << 10)            /* largest tensor block that threads keep for themselves */
#define QUICK_CLASSES 41                        /* 64 B .. 64 KiB, see class_of                      */
#define LISTS (SMALL_CLASSES + QUICK_CLASSES)
#define BIG_CLASSES 400
#define CHUNK ((size_t)64 << 10)
#define HELD ((size_t)64 << 10) /* of a class of tensor blocks in a thread */
#define MAPPED_FROM ((size_t)256 << 10) /* larger blocks are pages of their own: in the heap they would leave holes */
#define HUGE_FROM ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define WIDE 8                         /* classes to four times the size */
#define SPARE ((size_t)16 << 20) /* cached beyond the peak of what was in use */

typedef struct block {
    struct block *next;
} block;

/* A free large block remembers its neighbours in its class and in age within itself. */
typedef struct big {
    struct big *next, *prev;       /* of the same class             */
    struct big *younger, *older;
    size_t size;
} big;

typedef struct thread_memory {
    block *list[LISTS];
    uint16_t held[LISTS];
    /* Written by the owner only, read by whoever asks for statistics: what was ever taken and returned here. */
    _Atomic int64_t taken, returned, blocks_taken, blocks_returned;
    _Atomic int64_t quick_bytes;   /* taken less returned, in blocks up to QUICK_MAX */
    char words[8][RUSH_WORDS];           /* of rush_words() */
    void *room[RUSH_ROOMS];        /* of rush_of_thread() */
    unsigned turn;
    int wider;                     /* classes beyond its own from which a large block may come */
    int64_t seen;                  /* quick_bytes when the peak was last looked at */
    struct thread_memory *next, *prev;
} thread_memory;

static _Thread_local thread_memory *mine RUSH_QUICK_TLS;
static thread_memory *threads;
static int nthreads;
static atomic_int crowd;           /* how often 8 threads are doubled by those that there are */
static thread_memory gone;         /* sums over threads that ended; its lists are the shared pool */
static big *big_free[BIG_CLASSES];
static big *youngest, *oldest;
static size_t cached_bytes, cache_limit;
static _Atomic size_t big_bytes, peak_bytes;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- size classes of tensor blocks: four steps to a doubling ---- */

static inline int class_of(size_t size, size_t *got)
{
    if (size <= 256) {
        int c = size ? (int)((size - 1) >> 6) : 0;
        *got = (size_t)(c + 1) << 6;
        return c;
    }
    int top = 63 - __builtin_clzll(size - 1);  /* 2^top < size <= 2^(top+1), top >= 8 */
    size_t step = (size_t)1 << (top - 2);
    size_t over = (size - 1 - ((size_t)1 << top)) / step; /* 0..3 */
    *got = ((size_t)1 << top) + (over + 1) * step;
    return 4 + (top - 8) * 4 + (int)over;
}

static inline void add(_Atomic int64_t *counter, int64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

static void raise_peak(void)
{
    int64_t sum = (int64_t)atomic_load(&big_bytes) + atomic_load(&gone.quick_bytes);
    rush_lock(RUSH_LOCK_MEMORY);
    for (thread_memory *m = threads; m; m = m->next) sum += atomic_load_explicit(&m->quick_bytes, memory_order_relaxed);
    if (sum > 0 && (size_t)sum > atomic_load(&peak_bytes)) atomic_store(&peak_bytes, (size_t)sum);
    rush_unlock(RUSH_LOCK_MEMORY);
}

/* ---- threads come and go ---- */

/* Called with the lock. */
static void count_threads(int by)
{
    int doubled = 0;
    nthreads += by;
    while (nthreads >> doubled > 8) ++doubled;
    atomic_store_explicit(&crowd, doubled, memory_order_relaxed);
}

static void thread_ends(void *arg)
{
    thread_memory *m = arg;
    mine = NULL;
    rush_lock(RUSH_LOCK_MEMORY);
    for (int c = 0; c < LISTS; c++) {
        if (!m->list[c]) continue;
        block *last = m->list[c];
        while (last->next) last = last->next;
        last->next = gone.list[c];
        gone.list[c] = m->list[c];
    }
    gone.taken += m->taken;
    gone.returned += m->returned;
    gone.blocks_taken += m->blocks_taken;
    gone.blocks_returned += m->blocks_returned;
    gone.quick_bytes += m->quick_bytes;
    if (m->prev) m->prev->next = m->next;
    else threads = m->next;
    if (m->next) m->next->prev = m->prev;
    count_threads(-1);
    rush_unlock(RUSH_LOCK_MEMORY);
    for (int i = 0; i < RUSH_ROOMS; ++i) free(m->room[i]);
    free(m);
}

static void start(void)
{
    pthread_key_create(&at_exit, thread_ends);
    if (!cache_limit) {
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        size_t ram = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : (size_t)4 << 30;
        cache_limit = RUSH_MAX(ram / 8, (size_t)256 << 20);
    }
}

static thread_memory *arrive(void)
{
    pthread_once(&once, start);
    thread_memory *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    rush_lock(RUSH_LOCK_MEMORY);
    m->next = threads;
    if (threads) threads->prev = m;
    threads = m;
    count_threads(1);
    rush_unlock(RUSH_LOCK_MEMORY);
    pthread_setspecific(at_exit, m);
    return mine = m;
}

static inline thread_memory *me(void)
{
    return RUSH_LIKELY(mine != NULL) ? mine : arrive();
}

char *rush_words(void)
{
    static char last_resort[RUSH_WORDS]; /* shared, but there is no memory for one of one's own */
    thread_memory *m = me();
    return m ? m->words[m->turn++ % RUSH_COUNT(m->words)] : last_resort;
}

void *rush_of_thread(rush_thread_room which, size_t size)
{
    thread_memory *m = size ? me() : mine;
    if (m && size && !m->room[which]) m->room[which] = calloc(1, size);
    return m ? m->room[which] : NULL;
}

/* ---- the switch that makes the n-th allocation fail ---- */

static atomic_bool armed;
static bool fail_all;
static _Atomic int64_t until_failure;

void rush_memory_fail_at(uint64_t n, bool all)
{
    fail_all = all;
    atomic_store(&until_failure, (int64_t)n);
    atomic_store(&armed, n != 0);
}

static bool must_fail(void)
{
    int64_t left = atomic_fetch_sub(&until_failure, 1);
    return left == 1 || (left < 1 && fail_all);
}

static inline bool is_armed(void) { return atomic_load_explicit(&armed, memory_order_relaxed); }
#define SPOILED() (RUSH_UNLIKELY(is_armed()) && must_fail())

static __attribute__((noinline)) void *no_memory(size_t size)
{
    rush_fail(RUSH_MEMORY_ERROR, "not enough memory: %zu bytes could not be allocated", size);
    return NULL;
}

/* ---- lists ---- */

/* Blocks that a thread may hold, and how many it asks for when it has none. Where many threads are, as in a server, each holds
 * less: what they hold together stays about what 8 may, and is soon reached. */
static inline int hold_limit(int c, size_t size)
{
    int few = c < SMALL_CLASSES ? 256 : RUSH_MAX(RUSH_MIN((int)(HELD / size), 64), 4);
    return few >> atomic_load_explicit(&crowd, memory_order_relaxed);
}

static inline int fill_of(int c, size_t size)
{
    int few = c < SMALL_CLASSES ? 128 : RUSH_MIN((int)(HELD / 4 / size), 32);
    return RUSH_MAX(few >> atomic_load_explicit(&crowd, memory_order_relaxed), 1);
}

/* Empty list: from the shared pool, or cut from a new chunk. Returns one block, the rest are on the list. */
static __attribute__((noinline)) block *refill(thread_memory *m, int c, size_t size)
{
    int want = fill_of(c, size);
    rush_lock(RUSH_LOCK_MEMORY);
    block *first = gone.list[c], *last = first;
    if (first) {
        int n = 1;
        while (n < want && last->next) last = last->next, n++;
        gone.list[c] = last->next;
        rush_unlock(RUSH_LOCK_MEMORY);
        last->next = NULL;
        m->list[c] = first->next;
        m->held[c] = (uint16_t)(n - 1);
        return first;
    }
    rush_unlock(RUSH_LOCK_MEMORY);
    size_t align = c < SMALL_CLASSES ? 16 : 64;
    if (size > CHUNK / 16) return aligned_alloc(align, size);
    char *chunk = aligned_alloc(align, CHUNK);
    if (!chunk) return NULL;
    size_t n = CHUNK / size;
    /* Only what the list may hold is put there: the rest goes to the pool, untouched memory stays untouched longer. */
    block *rest = NULL, *pool = NULL, *pool_last = NULL;
    for (size_t i = n - 1; i > 0; i--) {
        block *b = (block *)(chunk + i * size);
        if (i <= (size_t)want) {
            b->next = rest;
            rest = b;
        } else {
            b->next = pool;
            if (!pool) pool_last = b;
            pool = b;
        }
    }
    m->list[c] = rest;
    m->held[c] = (uint16_t)RUSH_MIN(n - 1, (size_t)want);
    if (pool) {
        rush_lock(RUSH_LOCK_MEMORY);
        pool_last->next = gone.list[c];
        gone.list[c] = pool;
        rush_unlock(RUSH_LOCK_MEMORY);
    }
    return (block *)chunk;
}

static inline void *take(thread_memory *m, int c, size_t size)
{
    block *b = m->list[c];
    if (RUSH_UNLIKELY(!b)) return refill(m, c, size);
    m->list[c] = b->next;
    m->held[c]--;
    return b;
}

/* Half of what it may hold stays. */
static void hand_over(thread_memory *m, int c, size_t size)
{
    int n = m->held[c] - hold_limit(c, size) / 2;
    block *first = m->list[c], *last = first;
    for (int i = 1; i < n; i++) last = last->next;
    m->list[c] = last->next;
    m->held[c] = (uint16_t)(m->held[c] - n);
    rush_lock(RUSH_LOCK_MEMORY);
    last->next = gone.list[c];
    gone.list[c] = first;
    rush_unlock(RUSH_LOCK_MEMORY);
}

static inline void give(thread_memory *m, int c, size_t size, void *p)
{
    block *b = p;
    b->next = m->list[c];
    m->list[c] = b;
    if (RUSH_UNLIKELY(++m->held[c] > hold_limit(c, size))) hand_over(m, c, size);
}

/* ---- small structures and counted malloc ---- */

static inline size_t small_class(size_t size) { return (size - 1) / SMALL_STEP; } /* of 0 none either */

static inline void *small_of(thread_memory *m, size_t size)
{
    size_t c = small_class(size);
    void *p = PLAIN || RUSH_UNLIKELY(c >= SMALL_CLASSES) ? malloc(size ? size : 1) : take(m, (int)c, (c + 1) * SMALL_STEP);
    if (RUSH_UNLIKELY(!p)) return no_memory(size);
    add(&m->taken, 1);
    return p;
}

/* In a thread that is new, or while allocations may be made to fail. */
static __attribute__((noinline)) void *small_slowly(size_t size)
{
    thread_memory *m = me();
    return !m || SPOILED() ? no_memory(size) : small_of(m, size);
}

RUSH_HOT void *rush_small_alloc(size_t size)
{
    thread_memory *m = mine;
    return RUSH_UNLIKELY(!m || is_armed()) ? small_slowly(size) : small_of(m, size);
}

RUSH_HOT void rush_small_free(void *p, size_t size)
{
    if (!p) return;
    thread_memory *m = me();
    size_t c = small_class(size);
    if (m) add(&m->returned, 1);
    if (PLAIN || c >= SMALL_CLASSES) free(p);
    else if (m) give(m, (int)c, (c + 1) * SMALL_STEP, p);
}

static void *counted(void *p, size_t size)
{
    if (RUSH_UNLIKELY(!p)) return no_memory(size);
    thread_memory *m = me();
    if (m) add(&m->taken, 1);
    return p;
}

void *rush_malloc(size_t size)
{
    return counted(SPOILED() ? NULL : malloc(size ? size : 1), size);
}

void *rush_calloc(size_t n, size_t size)
{
    return counted(SPOILED() ? NULL : calloc(n ? n : 1, size ? size : 1), n * size);
}

void *rush_realloc(void *p, size_t size)
{
    if (!p) return rush_malloc(size);
    void *q = SPOILED() ? NULL : realloc(p, size ? size : 1);
    if (!q) return no_memory(size);
    thread_memory *m = me();
    if (m) add(&m->taken, 1), add(&m->returned, 1);
    return q;
}

RUSH_HOT void rush_free(void *p)
{
    if (!p) return;
    thread_memory *m = me();
    if (m) add(&m->returned, 1);
    free(p);
}

/* ---- structures that have ended: buried.h ---- */

static struct grave {
    void *p;
    size_t size;
} graves[RUSH_GRAVES];
static size_t next_grave;

void rush_bury(void *p, size_t size, size_t legible)
{
    memset((char *)p + legible, 0, size - legible); /* what it pointed to is not held by it any more */
    POISON((char *)p + legible, size - legible);
    thread_memory *m = me();
    if (m) add(&m->returned, 1);
    rush_lock(RUSH_LOCK_MEMORY);
    struct grave old = graves[next_grave];
    graves[next_grave] = (struct grave){p, size};
    next_grave = (next_grave + 1) % RUSH_GRAVES;
    rush_unlock(RUSH_LOCK_MEMORY);
    if (old.p) UNPOISON(old.p, old.size);
    free(old.p);
}

/* ---- large blocks: one cache for all threads, under the lock ---- */

/* Huge pages spare the processor a level of tables, and the kernel 511 of 512 faults; but in a virtual machine whose host gives memory at its first use one
 * can take as long as fifty times its small pages, which come from memory that was used before. So the first of a block is timed. After a slow one the block
 * keeps small pages, and so do the next ones, more each time; the kernel makes them huge in the background once the block has been in the cache. */
#ifdef MADV_HUGEPAGE
#define SLOW_NS 2000000 /* the processor's time for a page: 0.1 to 0.7 ms is usual, and 2 for 512 small ones */
#define UNASKED_MOST 64
static _Atomic unsigned unasked, unasked_next; /* blocks that go without, now and after the next slow page */
static _Atomic bool small_given;

static int64_t my_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void ask_for_huge(char *p, size_t size)
{
    unsigned left = atomic_load(&unasked);
    if (left && atomic_compare_exchange_strong(&unasked, &left, left - 1)) return;
    if (madvise(p, size, MADV_HUGEPAGE)) return;
    int64_t before = my_nanoseconds();
    *(volatile char *)p = 0;
    if (my_nanoseconds() - before < SLOW_NS) {
        atomic_store(&unasked_next, 0);
        return;
    }
    madvise(p + HUGE_PAGE, size - HUGE_PAGE, MADV_NOHUGEPAGE);
    atomic_store(&small_given, true);
    unsigned next = RUSH_MIN(2 * atomic_load(&unasked_next) + 1, UNASKED_MOST);
    atomic_store(&unasked_next, next);
    atomic_store(&unasked, next);
}

static void make_huge_later(void *p, size_t size)
{
    if (size >= HUGE_FROM && atomic_load_explicit(&small_given, memory_order_relaxed)) madvise(p, size, MADV_HUGEPAGE);
}
#else
static void ask_for_huge(char *p, size_t size) { (void)p, (void)size; }
static void make_huge_later(void *p, size_t size) { (void)p, (void)size; }
#endif

static void *big_from_system(size_t size)
{
    if (size < MAPPED_FROM) return aligned_alloc(64, size);
    if (size < HUGE_FROM) {
        void *pages = mmap(NULL, size + RUSH_BEHIND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return pages == MAP_FAILED ? NULL : pages;
    }
    size_t room = size + RUSH_BEHIND + HUGE_PAGE;
    if (room < size) return NULL;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    char *start_at = (char *)(((uintptr_t)p + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    if (start_at > p) munmap(p, (size_t)(start_at - p));
    char *end = start_at + size + RUSH_BEHIND;
    if (p + room > end) munmap(end, (size_t)(p + room - end));
    ask_for_huge(start_at, size);
    return start_at;
}

static void big_to_system(void *p, size_t size)
{
    if (size < MAPPED_FROM) free(p);
    else munmap(p, size + RUSH_BEHIND);
}

static void unlink_big(big *b, int c)
{
    if (b->prev) b->prev->next = b->next;
    else big_free[c] = b->next;
    if (b->next) b->next->prev = b->prev;
    if (b->younger) b->younger->older = b->older;
    else youngest = b->older;
    if (b->older) b->older->younger = b->younger;
    else oldest = b->younger;
    cached_bytes -= b->size;
}

/* Takes the oldest blocks off the cache until `limit` holds; they are returned as a list to be freed unlocked. */
static big *evict(size_t limit)
{
    big *out = NULL;
    while (cached_bytes > limit && oldest) {
        big *b = oldest;
        size_t got;
        unlink_big(b, class_of(b->size, &got));
        b->next = out;
        out = b;
    }
    return out;
}

static void free_all(big *b)
{
    while (b) {
        big *next = b->next;
        big_to_system(b, b->size);
        b = next;
    }
}

/* What may lie idle. */
static size_t cache_room(void) { return RUSH_MIN(cache_limit, atomic_load_explicit(&peak_bytes, memory_order_relaxed) + SPARE); }

/* Where a new block would soon drive out others, the least of those that are there and up to four times as large serves instead: a program whose
 * sizes come in turn would get pages of the system, which are cleared first, for each of them in every turn. */
static void *big_alloc(const thread_memory *m, int c, size_t *size)
{
    big *b = NULL;
    rush_lock(RUSH_LOCK_MEMORY);
    bool full = cached_bytes + atomic_load_explicit(&big_bytes, memory_order_relaxed) + *size > cache_room();
    for (int k = c; !b && k <= c + (full ? WIDE : m->wider) && k < BIG_CLASSES; ++k)
        if ((b = big_free[k])) unlink_big(b, k);
    rush_unlock(RUSH_LOCK_MEMORY);
    if (b) return *size = b->size, b;
    void *p = big_from_system(*size);
    if (p) return p;
    rush_memory_trim();
    return big_from_system(*size);
}

static void big_give(int c, void *p, size_t size)
{
    size_t limit = cache_room();
    if (size > limit) {
        big_to_system(p, size);
        return;
    }
    make_huge_later(p, size);
    big *b = p;
    *b = (big){.size = size};
    rush_lock(RUSH_LOCK_MEMORY);
    b->next = big_free[c];
    if (b->next) b->next->prev = b;
    big_free[c] = b;
    b->older = youngest;
    if (youngest) youngest->younger = b;
    else oldest = b;
    youngest = b;
    cached_bytes += size;
    big *out = cached_bytes > limit ? evict(limit) : NULL;
    rush_unlock(RUSH_LOCK_MEMORY);
    free_all(out);
}

/* Not a byte more than asked for, so that the sanitizer sees who writes past the end. */
static void *exactly(size_t size)
{
    void *p = NULL;
    return posix_memalign(&p, 64, size) ? NULL : p;
}

static __attribute__((noinline)) void *look_at_peak(thread_memory *m, void *p)
{
    m->seen = m->quick_bytes;
    raise_peak();
    return p;
}

static __attribute__((noinline)) void *big_block(thread_memory *m, int c, size_t *size)
{
    void *p = PLAIN ? exactly(*size) : big_alloc(m, c, size);
    if (!p) return no_memory(*size);
    atomic_fetch_add(&big_bytes, *size);
    add(&m->blocks_taken, 1);
    raise_peak();
    return p;
}

RUSH_HOT static inline void *block_of(thread_memory *m, size_t head, size_t size, size_t *got)
{
    if (RUSH_UNLIKELY(size > (size_t)1 << 62)) return no_memory(size);
    int c = class_of(size, got);
    if (PLAIN) *got = size ? size : 1;
    if (*got > QUICK_MAX) return big_block(m, c, got); /* large blocks have no head */
    void *p = PLAIN ? exactly(*got) : take(m, SMALL_CLASSES + c, *got);
    if (RUSH_UNLIKELY(!p)) return no_memory(size);
    add(&m->quick_bytes, (int64_t)(*got - head));
    add(&m->blocks_taken, 1);
    return RUSH_UNLIKELY(m->quick_bytes - m->seen > (int64_t)QUICK_MAX) ? look_at_peak(m, p) : p;
}

static __attribute__((noinline)) void *block_slowly(size_t head, size_t size, size_t *got)
{
    thread_memory *m = me();
    return !m || SPOILED() ? no_memory(size) : block_of(m, head, size, got);
}

RUSH_HOT void *rush_block_alloc_with(size_t head, size_t size, size_t *got)
{
    thread_memory *m = mine;
    return RUSH_UNLIKELY(!m || is_armed()) ? block_slowly(head, head + size, got) : block_of(m, head, head + size, got);
}

RUSH_HOT void rush_block_free_with(size_t head, void *p, size_t got)
{
    if (!p) return;
    thread_memory *m = me();
    if (!m) return; /* no room for a list of free blocks: better lost than a crash */
    size_t same;
    int c = class_of(got, &same);
    add(&m->blocks_returned, 1);
    if (RUSH_LIKELY(got <= QUICK_MAX)) add(&m->quick_bytes, -(int64_t)(got - head));
    else atomic_fetch_sub(&big_bytes, got);
    if (PLAIN) free(p);
    else if (RUSH_LIKELY(got <= QUICK_MAX)) give(m, SMALL_CLASSES + c, got, p);
    else big_give(c, p, got);
}

void *rush_block_alloc(size_t size, size_t *got) { return rush_block_alloc_with(0, size, got); }
void rush_block_free(void *p, size_t got) { rush_block_free_with(0, p, got); }

/* ---- statistics ---- */

void rush_memory_stats_read(rush_memory_stats *s)
{
    raise_peak();
    rush_lock(RUSH_LOCK_MEMORY);
    int64_t bytes = gone.quick_bytes, blocks = gone.blocks_taken - gone.blocks_returned, small = gone.taken - gone.returned;
    for (thread_memory *m = threads; m; m = m->next) {
        bytes += m->quick_bytes;
        blocks += m->blocks_taken - m->blocks_returned;
        small += m->taken - m->returned;
    }
    s->cached_bytes = cached_bytes;
    rush_unlock(RUSH_LOCK_MEMORY);
    s->live_bytes = (size_t)bytes + atomic_load(&big_bytes);
    s->live_blocks = (size_t)blocks;
    s->small_live = (size_t)small;
    s->peak_bytes = atomic_load(&peak_bytes);
}

void rush_memory_wide(bool wide)
{
    thread_memory *m = me();
    if (m) m->wider = wide ? WIDE : 0;
}

void rush_memory_trim(void)
{
    rush_lock(RUSH_LOCK_MEMORY);
    big *out = evict(0);
    rush_unlock(RUSH_LOCK_MEMORY);
    free_all(out);
}

void rush_memory_limit_cache(size_t bytes)
{
    pthread_once(&once, start);
    rush_lock(RUSH_LOCK_MEMORY);
    cache_limit = bytes;
    big *out = evict(bytes);
    rush_unlock(RUSH_LOCK_MEMORY);
    free_all(out);
}

uint64_t rush_memory_count(void)
{
    rush_lock(RUSH_LOCK_MEMORY);
    int64_t n = gone.taken + gone.blocks_taken;
    for (thread_memory *m = threads; m; m = m->next) n += m->taken + m->blocks_taken;
    rush_unlock(RUSH_LOCK_MEMORY);
    return (uint64_t)n;
}
