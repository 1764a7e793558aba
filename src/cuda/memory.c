/* memory.c - a caching allocator in the order of streams, as PyTorch's: freed blocks are used again by the same stream at once.
 *
 * The driver gives segments: of 2 MiB for requests up to 1 MiB, of 20 MiB below 10 MiB, else as large as the request. A segment is
 * cut into blocks, for requests up to 1 MiB or for others, and neighbours that are free become one again. A block belongs to the stream that it was allocated on, so what
 * was queued before it was freed is done before what is queued after it is handed out again.
 *
 * With expandable_segments a stream has addresses for all that there is (span.c), whose memory comes as it is needed, so that
 * what was cut for other sizes becomes one again; what is free goes back in whole pieces, wherever it lies.
 *
 * Segments of a pool serve that pool alone: those of graphs, whose memory has to stay where it is as long as they are launched, and
 * those of torch.cuda.MemPool. A pool that nobody uses any more is given back with the rest.
 */
#include "cuda/cuda.h"
#include "base/text.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define GRAIN ((size_t)512)
#define MIB ((size_t)1 << 20)

typedef struct pinned {
    void *p;
    struct pinned *next;
} pinned;

struct memory_pool {
    rush_pool_id id;
    int users;       /* graphs, programs and threads that have it */
    size_t segments;
    bool whole, last_resort; /* segments are not cut; others take from it before there is no memory at all */
    pinned *host;    /* memory of the host that is kept as long */
    memory_pool *next;
};

typedef struct block {
    char *p;
    size_t bytes;
    bool busy, guarded, small;    /* small: of a segment for requests up to 1 MiB */
    bool left;                    /* nobody here has it any more, but others that it was sent to */
    cuda_ticket *tickets;
    bool bare;                    /* addresses without memory, which are in no list */
    int stream;
    memory_pool *pool;            /* that its segment is of; NULL: everybody's */
    struct range *of;             /* that it lies in; NULL: a segment of the driver's */
    uint64_t freed;               /* the higher, the later */
    const char *op;               /* that asked for it */
    struct block *before, *after; /* neighbours in the segment */
    struct block *next;           /* in the list of free blocks, or in a bucket of busy ones */
} block;

/* An expandable segment: its blocks lie one behind the other from the first on, and those that are bare consist of whole pieces. */
typedef struct range {
    cuda_span *span;
    block *first;
    struct range *next;
} range;

enum { BUCKETS = 4096, TOP = 5 };
static struct heap {
    block *idle, *busy[BUCKETS];
    range *ranges;
    size_t left; /* how many blocks only other processes have */
    size_t reserved, peak, active, peak_active, segments, retries, out_of_memory;
    uint64_t frees;
    double fraction; /* 0: all */
} heaps[CUDA_DEVICES];
static memory_pool *pools;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Where this thread's allocations on a device go: the pool that was chosen last. */
typedef struct choice {
    memory_pool *pool;
    int8_t device;
    struct choice *before;
} choice;
static _Thread_local choice *chosen;

static size_t bucket(const void *p) { return ((size_t)p / GRAIN * 2654435761u >> 7) % BUCKETS; }

static void put_idle(struct heap *h, block *b)
{
    b->busy = false;
    b->next = h->idle;
    h->idle = b;
}

static void take_idle(struct heap *h, block *b)
{
    block **at = &h->idle;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
}

static void in_use(struct heap *h, int64_t bytes)
{
    h->active += (size_t)bytes;
    h->peak_active = RUSH_MAX(h->peak_active, h->active);
    cuda_trace_memory((rush_device){RUSH_CUDA, (int8_t)(h - heaps)}, bytes, h->active, h->reserved);
}

static void put_busy(struct heap *h, block *b, const char *op)
{
    block **at = &h->busy[bucket(b->p)];
    b->busy = true;
    b->op = op;
    b->next = *at;
    *at = b;
    in_use(h, (int64_t)b->bytes);
}

static bool is_idle(const block *b) { return b && !b->busy && !b->bare; }

/* The smallest free block of the stream that is large enough; NULL: there is none, or it is larger than the settings allow. */
static block *fitting(struct heap *h, size_t bytes, int stream, const memory_pool *pool, const rush_cuda_settings *s)
{
    block *best = NULL;
    for (block *b = h->idle; b; b = b->next)
        if (b->pool == pool && b->stream == stream && b->small == (bytes <= MIB) && b->bytes >= bytes && (!best || b->bytes < best->bytes) && (!b->of || s->expandable)) best = b;
    if (!best || best->of) return best;
    return bytes < s->max_split ? best->bytes < s->max_split ? best : NULL : best->bytes < bytes + s->max_rounding ? best : NULL;
}

static size_t segment_size(size_t bytes, const rush_cuda_settings *s)
{
    return bytes <= MIB ? 2 * MIB : bytes < 10 * MIB ? s->large_segment : (bytes + 2 * MIB - 1) / (2 * MIB) * 2 * MIB;
}

static double fraction_of(const struct heap *h, const rush_cuda_settings *s) { return h->fraction == 0 ? s->fraction : h->fraction; }

static bool may_take(const struct heap *h, size_t bytes, const rush_cuda_settings *s)
{
    size_t free, total;
    const double fraction = fraction_of(h, s);
    return fraction == 0 || cuda_driver->memory_info(&free, &total) || (double)(h->reserved + bytes) <= fraction * (double)total;
}

static void reserve(struct heap *h, size_t bytes)
{
    h->reserved += bytes;
    h->peak = RUSH_MAX(h->peak, h->reserved);
}

/* A new segment as one block; NULL without an error when the driver has none. */
static block *segment(struct heap *h, rush_device d, size_t bytes, int stream, memory_pool *pool, const rush_cuda_settings *s)
{
    CUdeviceptr p;
    size_t n = segment_size(bytes, s);
    if (!may_take(h, n, s)) return NULL;
    block *b = rush_calloc(1, sizeof *b);
    if (!b) return NULL;
    const int mode = cuda_relaxed(d);
    const CUresult failed = cuda_driver->memory_alloc(&p, n);
    cuda_strict(mode);
    if (failed) {
        rush_free(b);
        return NULL;
    }
    *b = (block){.p = (char *)(size_t)p, .bytes = n, .small = bytes <= MIB, .stream = stream, .pool = pool};
    if (pool) pool->segments++;
    h->segments++;
    reserve(h, n);
    put_idle(h, b);
    return b;
}

/* ---- segments that grow ---- */

/* What lies behind the first bytes of a block, as one that is in no list; NULL without an error. */
static block *split(block *b, size_t bytes)
{
    block *rest = rush_calloc(1, sizeof *rest);
    if (!rest) return rush_error_clear(), NULL; /* it stays whole */
    *rest = *b;
    rest->p += bytes, rest->bytes -= bytes, rest->before = b;
    if (b->after) b->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    return rest;
}

static block *join(block *a, block *b)
{
    a->bytes += b->bytes;
    a->after = b->after;
    if (b->after) b->after->before = a;
    rush_free(b);
    return a;
}

static range *range_new(struct heap *h, rush_device d, bool small, int stream, memory_pool *pool, const rush_cuda_settings *s)
{
    range *r = rush_calloc(1, sizeof *r);
    block *b = r ? rush_calloc(1, sizeof *b) : NULL;
    cuda_span *span = b ? cuda_span_new(d, small ? 2 * MIB : s->large_segment) : NULL;
    if (!span) return rush_free(b), rush_free(r), NULL;
    *b = (block){.p = cuda_span_base(span), .bytes = cuda_span_room(span), .bare = true, .small = small, .stream = stream, .pool = pool, .of = r};
    *r = (range){span, b, h->ranges};
    h->ranges = r;
    h->segments++;
    if (pool) pool->segments++;
    return r;
}

static bool is_bare(const range *r) { return r->first->bare && !r->first->after; }

static void range_end(struct heap *h, range *r)
{
    range **at = &h->ranges;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    h->segments--;
    if (r->first->pool) r->first->pool->segments--;
    cuda_span_free(r->span);
    rush_free(r->first);
    rush_free(r);
}

/* The first of blocks side by side that nobody has, with room for so many bytes together. */
static block *room_in(const range *r, size_t bytes)
{
    size_t n = 0;
    block *first = NULL;
    for (block *b = r->first; b && n < bytes; b = b->after) {
        if (b->busy) n = 0;
        else if (!n) first = b;
        n += b->busy ? 0 : b->bytes;
    }
    return n >= bytes ? first : NULL;
}

/* Memory for the first `bytes` of a bare block, in whole pieces. */
static bool clothe(struct heap *h, block *b, size_t bytes, const rush_cuda_settings *s)
{
    const size_t piece = cuda_span_piece(b->of->span), n = RUSH_MIN(b->bytes, (bytes + piece - 1) / piece * piece);
    if (!may_take(h, n, s) || (n < b->bytes && !split(b, n))) return false;
    if (cuda_span_map(b->of->span, b->p, n)) {
        b->bare = false;
        put_idle(h, b);
        reserve(h, n);
        return true;
    }
    if (b->after && b->after->bare) join(b, b->after);
    return false;
}

/* A block of so many bytes where addresses have memory or get it; NULL without an error: there is none. */
static block *grow(struct heap *h, rush_device d, size_t bytes, int stream, memory_pool *pool, const rush_cuda_settings *s)
{
    const bool small = bytes <= MIB;
    block *b = NULL;
    range *r = h->ranges;
    for (; r; r = r->next)
        if (r->first->stream == stream && r->first->pool == pool && r->first->small == small && (b = room_in(r, bytes))) break;
    if (!r && !((r = range_new(h, d, small, stream, pool, s)) && (b = room_in(r, bytes)))) return NULL;
    const int mode = cuda_relaxed(d);
    bool fine = !b->bare || clothe(h, b, bytes, s);
    while (fine && b->bytes < bytes && (fine = !b->after->bare || clothe(h, b->after, bytes - b->bytes, s))) {
        take_idle(h, b->after);
        join(b, b->after);
    }
    cuda_strict(mode);
    if (fine && is_idle(b->after)) {
        take_idle(h, b->after);
        join(b, b->after);
    }
    if (!fine && is_bare(r)) range_end(h, r);
    return fine ? b : NULL;
}

/* The pieces that lie wholly in a free block lose their memory. The block may be gone then. */
static void strip(struct heap *h, block *b)
{
    const cuda_span *span = b->of->span;
    const size_t piece = cuda_span_piece(span), from = (size_t)(b->p - cuda_span_base(span));
    const size_t first = (from + piece - 1) / piece * piece, end = (from + b->bytes) / piece * piece;
    block *rest;
    if (first >= end) return;
    if (end < from + b->bytes) {
        if (!(rest = split(b, end - from))) return;
        put_idle(h, rest);
    }
    if (first > from) {
        if (!(rest = split(b, first - from))) return;
        b = rest;
    } else {
        take_idle(h, b);
    }
    cuda_span_unmap(b->of->span, b->p, b->bytes);
    b->bare = true;
    h->reserved -= b->bytes;
    if (b->after && b->after->bare) join(b, b->after);
    if (b->before && b->before->bare) join(b->before, b);
}

static void pool_end(memory_pool *pool)
{
    memory_pool **at = &pools;
    while (*at != pool) at = &(*at)->next;
    *at = pool->next;
    for (pinned *p = pool->host, *next; p; p = next) {
        next = p->next;
        cuda_driver->host_free(p->p);
        rush_free(p);
    }
    rush_free(pool);
}

/* A segment that is free as a whole goes back to the driver, with all that is queued done; false: it is needed. */
static bool segment_end(struct heap *h, block *b)
{
    if (b->of || b->before || b->after || (b->pool && b->pool->users) || cuda_driver->memory_free((CUdeviceptr)(size_t)b->p)) return false;
    if (b->pool) b->pool->segments--;
    take_idle(h, b);
    h->reserved -= b->bytes;
    h->segments--;
    rush_free(b);
    return true;
}

/* What is free goes back to the driver, segments as a whole, unless it is of a pool in use; not while a graph is captured, which it would end. */
static void give_back(struct heap *h)
{
    if (cuda_captures() || cuda_driver->context_synchronize()) return;
    for (block *b = h->idle, *next; b; b = next) {
        next = b->next;
        segment_end(h, b);
    }
    for (range *r = h->ranges, *next; r; r = next) {
        next = r->next;
        for (block *b = r->first, *after; b && !(b->pool && b->pool->users); b = after) {
            after = b->after && b->after->bare ? b->after->after : b->after; /* that is joined with what becomes bare */
            if (is_idle(b)) strip(h, b);
        }
        if (is_bare(r)) range_end(h, r);
    }
    for (memory_pool *p = pools, *next; p; p = next) {
        next = p->next;
        if (!p->users && !p->segments) pool_end(p);
    }
}

/* Segments that have been free for longest go back, down to the part of the memory that garbage_collection_threshold says. */
static void collect(struct heap *h, const rush_cuda_settings *s)
{
    size_t free, total;
    const double fraction = fraction_of(h, s);
    if (s->collect == 0 || fraction == 0 || cuda_captures() || cuda_driver->memory_info(&free, &total)) return;
    const double most = s->collect * fraction * (double)total;
    if ((double)h->reserved <= most || cuda_driver->context_synchronize()) return;
    for (block *oldest = (block[1]){{0}}; oldest && (double)h->reserved > most;) {
        oldest = NULL;
        for (block *b = h->idle; b; b = b->next)
            if (!b->of && !b->before && !b->after && !(b->pool && b->pool->users) && (!oldest || b->freed < oldest->freed)) oldest = b;
        if (oldest && !segment_end(h, oldest)) return;
    }
}

/* The first bytes of a free block; what is left stays free. */
static void cut(struct heap *h, block *b, size_t bytes, const rush_cuda_settings *s)
{
    const size_t left = b->bytes - bytes;
    if ((b->small || b->of ? left < GRAIN : bytes >= s->max_split || left <= MIB) || (b->pool && b->pool->whole)) return;
    block *rest = split(b, bytes);
    if (rest) put_idle(h, rest);
}

static size_t largest_idle(const struct heap *h)
{
    size_t most = 0;
    for (const block *b = h->idle; b; b = b->next) most = RUSH_MAX(most, b->bytes);
    return most;
}

/* Who holds most, by the operation that asked for it. */
static void say_holders(const struct heap *h, char *text, size_t room)
{
    const block *top[TOP] = {NULL};
    for (int i = 0; i < BUCKETS; i++)
        for (const block *b = h->busy[i]; b; b = b->next)
            for (int k = 0; k < TOP; k++)
                if (!top[k] || b->bytes > top[k]->bytes) {
                    memmove(top + k + 1, top + k, sizeof *top * (size_t)(TOP - 1 - k));
                    top[k] = b;
                    break;
                }
    size_t n = 0;
    text[0] = 0;
    for (int k = 0; k < TOP && top[k]; k++) n += (size_t)rush_snprintf(text + n, room - n, "%s%.2f MiB by %s", k ? ", " : "", (double)top[k]->bytes / MIB, top[k]->op);
}

static void refuse(struct heap *h, rush_device d, size_t bytes)
{
    size_t free = 0, total = 0;
    char holders[512];
    h->out_of_memory++;
    if (cuda_driver->memory_info(&free, &total)) free = total = 0;
    say_holders(h, holders, sizeof holders);
    rush_error_clear();
    rush_fail(RUSH_MEMORY_ERROR,
              "CUDA out of memory. Tried to allocate %.2f MiB. %s has a total capacity of %.2f MiB of which %.2f MiB is free. Of the allocated memory %.2f MiB is in use, "
              "and %.2f MiB is reserved but unallocated (the largest piece %.2f MiB). In use are most of all: %s.",
              (double)bytes / MIB, rush_device_text(d), (double)total / MIB, (double)free / MIB, (double)h->active / MIB, (double)(h->reserved - h->active) / MIB,
              (double)largest_idle(h) / MIB, holders[0] ? holders : "nothing");
}

/* RUSHLIGHT_CUDA_GUARD=1 on emulated devices: bytes behind each tensor that nobody may write, looked at when it goes. */
static size_t guarded(void)
{
    static atomic_int known; /* 1: no, 2: yes */
    if (!known) known = 1 + (cuda_emulated && getenv("RUSHLIGHT_CUDA_GUARD") != NULL);
    return known == 2 ? GRAIN : 0;
}

/* What is taken for so many bytes. */
static size_t padded(size_t bytes) { return (bytes + guarded() + GRAIN - 1) / GRAIN * GRAIN; }

/* As roundup_power2_divisions has it: up to the next of so many steps between powers of two. */
static size_t rounded(size_t bytes, const rush_cuda_settings *s)
{
    enum { FIRST = 20 }; /* the first number is for what is below 2^21 */
    const int power = 63 - __builtin_clzll(bytes | 1);
    const size_t steps = s->divisions[RUSH_MIN(RUSH_MAX(power - FIRST, 0), RUSH_CUDA_DIVISIONS - 1)], step = ((size_t)1 << power) / RUSH_MAX(steps, 1);
    return steps > 1 && bytes > GRAIN * steps ? (bytes + step - 1) / step * step : bytes;
}

typedef struct guard {
    const unsigned char *begin, *end;
    const char *op;
} guard;

static int look_at_guard(void *arg)
{
    const guard *g = arg;
    for (const unsigned char *p = g->begin; p < g->end; p++)
        if (*p != 0xff) {
            fprintf(stderr, "cuda (emulated): a kernel wrote %zu bytes behind the memory of %s\n", (size_t)(p - g->begin), g->op);
            abort();
        }
    return 0;
}

static memory_pool *pool_chosen(rush_device d)
{
    const choice *c = chosen;
    while (c && c->device != d.index) c = c->before;
    return c ? c->pool : NULL;
}

static void collect_left(struct heap *h);

/* A free block of n bytes, with the lock held; NULL without an error. */
static block *find(struct heap *h, rush_device d, size_t n, int stream, memory_pool *pool, const rush_cuda_settings *s)
{
    block *(*const more)(struct heap *, rush_device, size_t, int, memory_pool *, const rush_cuda_settings *) = s->expandable && !(pool && pool->whole) ? grow : segment;
    block *b = fitting(h, n, stream, pool, s);
    if (!b && h->left) {
        collect_left(h);
        b = fitting(h, n, stream, pool, s);
    }
    if (!b) collect(h, s);
    if (b || (b = more(h, d, n, stream, pool, s))) return b;
    h->retries++;
    give_back(h);
    if ((b = fitting(h, n, stream, pool, s)) || (b = more(h, d, n, stream, pool, s)) || pool) return b;
    for (const memory_pool *p = pools; p && !b; p = p->next)
        if (p->last_resort) b = fitting(h, n, stream, p, s);
    return b;
}

void *cuda_alloc(rush_device d, size_t bytes)
{
    struct heap *h = &heaps[d.index];
    const rush_cuda_settings *s = rush_cuda_settings_now();
    if (!s || !cuda_enter(d)) return NULL;
    size_t n = rounded(padded(bytes), s);
    int stream = rush_device_stream(d);
    const rush_cuda_graph *graph = cuda_capture(d);
    memory_pool *pool = graph ? cuda_graph_memory(graph) : pool_chosen(d);
    const bool fills = cuda_emulated && !graph; /* a graph would do so at each launch */
    pthread_mutex_lock(&lock);
    block *b = n >= bytes ? find(h, d, n, stream, pool, s) : NULL;
    if (b) {
        take_idle(h, b);
        cut(h, b, n, s);
        put_busy(h, b, rush_now.op ? rush_now.op->name : "(none)");
        b->guarded = fills && guarded();
    } else {
        refuse(h, d, bytes);
    }
    char *p = b ? b->p : NULL;
    pthread_mutex_unlock(&lock);
    /* What is read before it is written shows: NaN, and -1 */
    if (p && fills) cuda_check(cuda_driver->set_bytes((CUdeviceptr)(size_t)p, 0xff, n, cuda_stream(d)), "cuMemsetD8");
    return p;
}

/* A busy block is free, and one with its neighbours that are. */
static void put_back(struct heap *h, block *b)
{
    block **at = &h->busy[bucket(b->p)];
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    in_use(h, -(int64_t)b->bytes);
    b->busy = false;
    if (is_idle(b->after)) {
        take_idle(h, b->after);
        join(b, b->after);
    }
    if (is_idle(b->before)) {
        take_idle(h, b->before);
        b = join(b->before, b);
    }
    b->freed = ++h->frees;
    put_idle(h, b);
}

void cuda_free(rush_device d, void *p, size_t bytes)
{
    struct heap *h = &heaps[d.index];
    pthread_mutex_lock(&lock);
    block *b = h->busy[bucket(p)];
    while (b && b->p != p) b = b->next;
    if (b && b->guarded) rush_emulator_host(look_at_guard, &(guard){(unsigned char *)p + bytes, (unsigned char *)p + padded(bytes), b->op});
    if (b && !cuda_tickets_back(&b->tickets)) b->left = true, h->left++;
    else if (b) put_back(h, b); /* else it is not of this heap: nothing that could be given back */
    pthread_mutex_unlock(&lock);
}

/* ---- what other processes have ---- */

static void collect_left(struct heap *h)
{
    for (int i = 0; i < BUCKETS && h->left; i++)
        for (block *b = h->busy[i], *next; b; b = next) {
            next = b->next;
            if (!cuda_tickets_back(&b->tickets) || !b->left) continue;
            b->left = false;
            h->left--;
            put_back(h, b);
        }
}

void cuda_memory_collect(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < cuda_backend.devices; i++) collect_left(&heaps[i]);
    pthread_mutex_unlock(&lock);
}

void cuda_memory_lend(const cuda_home *home, cuda_ticket *t)
{
    pthread_mutex_lock(&lock);
    cuda_tickets_add(home->tickets, t);
    pthread_mutex_unlock(&lock);
}

int cuda_memory_home(rush_device d, const void *p, cuda_home *home)
{
    const char *at = p;
    block *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS && !found; i++)
        for (block *b = heaps[d.index].busy[i]; b && !found; b = b->next)
            if (at >= b->p && at < b->p + b->bytes) found = b;
    block *first = found;
    while (first && first->before) first = first->before;
    if (found) *home = (cuda_home){found->p, found->bytes, first->p, found->of ? found->of->span : NULL, &found->tickets};
    pthread_mutex_unlock(&lock);
    RUSH_CHECK(found, RUSH_RUNTIME_ERROR, "%p is not memory that this process has from %s", p, rush_device_text(d));
    return 0;
}

int cuda_memory_read(rush_device d, rush_cuda_memory *m)
{
    struct heap *h = &heaps[d.index];
    const rush_cuda_settings *s = rush_cuda_settings_now();
    if (!s) return -1;
    pthread_mutex_lock(&lock);
    const double fraction = fraction_of(h, s);
    *m = (rush_cuda_memory){.reserved = h->reserved, .peak_reserved = h->peak, .active = h->active, .peak_active = h->peak_active, .cached = h->reserved - h->active, .largest_free = largest_idle(h),
                            .segments = h->segments, .retries = h->retries, .out_of_memory = h->out_of_memory, .fraction = fraction == 0 ? 1 : fraction};
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuda_memory_empty(rush_device d)
{
    if (!cuda_enter(d)) return -1;
    pthread_mutex_lock(&lock);
    give_back(&heaps[d.index]);
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuda_memory_fraction(rush_device d, double fraction)
{
    heaps[d.index].fraction = fraction;
    return 0;
}

int cuda_memory_reset_peak(rush_device d)
{
    heaps[d.index].peak = heaps[d.index].reserved;
    heaps[d.index].peak_active = heaps[d.index].active;
    return 0;
}

/* ---- pools ---- */

static memory_pool *pool_of(rush_pool_id id)
{
    memory_pool *p = pools;
    while (p && memcmp(&p->id, &id, sizeof id)) p = p->next;
    return p;
}

rush_pool_id cuda_pool_id(bool of_a_graph)
{
    static atomic_uint_least64_t last[2];
    const uint64_t number = atomic_fetch_add(&last[of_a_graph], 1) + 1;
    return of_a_graph ? (rush_pool_id){number, 0} : (rush_pool_id){0, number};
}

memory_pool *cuda_pool_keep(rush_pool_id id)
{
    pthread_mutex_lock(&lock);
    memory_pool *p = pool_of(id);
    if (!p && (p = rush_calloc(1, sizeof *p))) *p = (memory_pool){.id = id, .next = pools}, pools = p;
    if (p) p->users++;
    pthread_mutex_unlock(&lock);
    return p;
}

void cuda_pool_drop(memory_pool *p)
{
    pthread_mutex_lock(&lock);
    p->users--; /* the rest is done by give_back(), after what still runs */
    pthread_mutex_unlock(&lock);
}

int cuda_pool_pin(memory_pool *pool, void *p)
{
    pinned *one = rush_calloc(1, sizeof *one);
    if (!one) return -1;
    pthread_mutex_lock(&lock);
    *one = (pinned){p, pool->host};
    pool->host = one;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuda_pool_new(rush_pool_id id, bool whole, bool last_resort)
{
    memory_pool *p = cuda_pool_keep(id);
    if (p) p->whole = whole, p->last_resort = last_resort;
    return p ? 0 : -1;
}

int cuda_pool_free(rush_pool_id id)
{
    pthread_mutex_lock(&lock);
    memory_pool *p = pool_of(id);
    const bool used = p && p->users;
    if (used) p->users--;
    pthread_mutex_unlock(&lock);
    RUSH_CHECK(used, RUSH_RUNTIME_ERROR, "there is no pool (%llu, %llu)", (unsigned long long)id.graph, (unsigned long long)id.user);
    return 0;
}

int cuda_pool_users(rush_pool_id id)
{
    pthread_mutex_lock(&lock);
    const memory_pool *p = pool_of(id);
    const int users = p ? p->users : 0;
    pthread_mutex_unlock(&lock);
    return users;
}

int cuda_pool_begin(rush_device d, rush_pool_id id)
{
    choice *c = rush_calloc(1, sizeof *c);
    memory_pool *p = c ? cuda_pool_keep(id) : NULL;
    if (!p) return rush_free(c), -1;
    *c = (choice){p, d.index, chosen};
    chosen = c;
    return 0;
}

int cuda_pool_end(rush_device d, rush_pool_id id)
{
    choice **at = &chosen;
    while (*at && ((*at)->device != d.index || memcmp(&(*at)->pool->id, &id, sizeof id))) at = &(*at)->before;
    choice *c = *at;
    RUSH_CHECK(c, RUSH_RUNTIME_ERROR, "this thread does not allocate from the pool (%llu, %llu)", (unsigned long long)id.graph, (unsigned long long)id.user);
    *at = c->before;
    cuda_pool_drop(c->pool);
    rush_free(c);
    return 0;
}

/* ---- what there is ---- */

/* What has memory of blocks one behind the other; of a segment that grows each run is one. */
static void show(const block *first, rush_cuda_block *to, size_t room, size_t *n)
{
    for (const block *b = first; b; b = b->after) {
        if (b->bare) continue;
        if (*n < room)
            to[*n] = (rush_cuda_block){.p = b->p, .bytes = b->bytes, .busy = b->busy, .first = b == first || b->before->bare, .stream = b->stream, .op = b->busy ? b->op : NULL,
                                       .expandable = b->of, .small = b->small, .pool = b->pool ? b->pool->id : (rush_pool_id){0, 0}};
        ++*n;
    }
}

size_t cuda_memory_blocks(rush_device d, rush_cuda_block *to, size_t room)
{
    const struct heap *h = &heaps[d.index];
    size_t n = 0;
    pthread_mutex_lock(&lock);
    for (const block *b = h->idle; b; b = b->next)
        if (!b->before && !b->of) show(b, to, room, &n);
    for (int i = 0; i < BUCKETS; i++)
        for (const block *b = h->busy[i]; b; b = b->next)
            if (!b->before && !b->of) show(b, to, room, &n);
    for (const range *r = h->ranges; r; r = r->next) show(r->first, to, room, &n);
    pthread_mutex_unlock(&lock);
    return n;
}
