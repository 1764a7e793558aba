/* shared.c - collectives between the ranks of one machine in memory that they share: the engine "shared".
 *
 * A collective is a row of steps, counted through all calls of the group. In a step some ranks post a block of bytes in their
 * slot and others read it. Each rank has two slots, used by turns, and two counters: of the steps that it has posted, and of
 * those that it is through with. So a reader waits for `posted` of whom it reads, and a rank that posts step k waits until all
 * others are through with step k - 2. Nobody waits for a rank that it does not need.
 *
 *     all_reduce, step k:  slot of rank r:  [ what the call is | numbers of block k | rank r's part of block k - 1, reduced ]
 *
 * so that each block costs one wait: when the others' step k is there, this rank takes over the reduced parts of the block
 * before, reduces its own part of block k, and posts both with the numbers of block k + 1.
 *
 * Waits look at a counter for a moment, then sleep in a futex, and ask the mesh who is gone. The memory is a memfd of rank 0,
 * which the others open under /proc: nothing has a name, so nothing is left behind by whoever is killed.
 */
#define _GNU_SOURCE
#include "dist/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct counter {
    alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} counter;

typedef struct lane { counter posted, taken; } lane;

enum { DEPTH = 4, LARGEST = 1 << 21, LEAST = 1 << 17, TOGETHER = 1 << 26, SMALL = 1 << 13, RESERVED = 0x7ffffff0 };

typedef struct head { /* of a slot: what the call is, and what came before it, for two ranks that only send hear nothing of one another */
    uint64_t history;        /* hash of all calls up to this one */
    char what[192], before[192];
} head;

enum { HEAD = (sizeof(head) + 63) / 64 * 64 };

typedef struct page { /* the beginning of the memory, then the lanes, then the slots */
    uint64_t token;
    uint32_t size, slot;     /* ranks; bytes of a slot */
} page;

struct rush_shared {
    page *page;
    lane *lanes;             /* (size) */
    char *slots;             /* (size, DEPTH, slot) */
    rush_mesh *mesh;
    size_t bytes, slot, room; /* of all; of a slot; of it for data */
    int fd, rank, size, spins;
    uint32_t step;
    head head;               /* of this rank's call */
};

/* ---- the memory ---- */

static uint64_t hash(uint64_t h, const char *text, size_t n)
{
    for (; n--; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3;
    return h;
}

/* Processes with the same number run under one kernel, see each other's /proc and may open each other's memory. */
static uint64_t machine(void)
{
    const char *told = getenv("RUSHLIGHT_DIST_SHARED");
    if (told && !strcmp(told, "0")) return 0;
    char boot[64] = "", space[64] = "", user[32];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof boot - 1);
    if (fd >= 0) close(fd);
    if (n <= 0 || readlink("/proc/self/ns/pid", space, sizeof space - 1) <= 0) return 0;
    snprintf(user, sizeof user, "%u", (unsigned)geteuid());
    return hash(hash(hash(0xcbf29ce484222325, boot, strlen(boot)), space, strlen(space)), user, strlen(user)) | 1;
}

/* Bytes of a slot; what is never used takes no memory. */
static size_t slot_size(int size) { return RUSH_MIN(RUSH_MAX(TOGETHER / DEPTH / (size_t)size / 4096 * 4096, LEAST), LARGEST); }

static size_t size_of(int size)
{
    size_t front = (sizeof(page) + 4095) / 4096 * 4096, lanes = ((size_t)size * sizeof(lane) + 4095) / 4096 * 4096;
    return front + lanes + DEPTH * (size_t)size * slot_size(size);
}

static int map(rush_shared *s, int fd, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return -1;
    s->page = at;
    s->bytes = bytes;
    return 0;
}

static rush_shared *memory_new(int size, uint64_t *token)
{
    rush_shared *s = rush_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->fd = memfd_create("rushlight", MFD_CLOEXEC);
    size_t bytes = size_of(size);
    if (s->fd < 0 || getrandom(token, sizeof *token, 0) != sizeof *token || ftruncate(s->fd, (off_t)bytes) || map(s, s->fd, bytes)) return rush_shared_free(s), NULL;
    *s->page = (page){*token, (uint32_t)size, (uint32_t)slot_size(size)};
    return s;
}

rush_offer rush_shared_offer(int rank, int size, rush_shared **made)
{
    rush_offer o = {.machine = machine(), .fd = -1};
    *made = NULL;
    if (rank || !o.machine) return o;
    *made = memory_new(size, &o.token);
    rush_error_clear(); /* without it the ranks talk by TCP */
    if (*made) o.pid = getpid(), o.fd = (*made)->fd;
    return o;
}

/* The memory of rank 0, which is another process. */
static rush_shared *memory_open(const rush_offer *of, int size)
{
    char path[64];
    struct stat st;
    rush_shared *s = rush_calloc(1, sizeof *s);
    if (!s) return NULL;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)of->pid, (long long)of->fd);
    s->fd = open(path, O_RDWR | O_CLOEXEC);
    bool good = s->fd >= 0 && !fstat(s->fd, &st) && (size_t)st.st_size == size_of(size) && !map(s, s->fd, (size_t)st.st_size);
    if (good && s->page->token == of->token && s->page->size == (uint32_t)size && s->page->slot == slot_size(size)) return s;
    rush_shared_free(s);
    return NULL;
}

void rush_shared_free(rush_shared *s)
{
    if (!s) return;
    if (s->page) munmap(s->page, s->bytes);
    if (s->fd >= 0) close(s->fd);
    rush_free(s);
}

/* Does every rank say yes? Each tells all others; -1 and an error where one is gone. */
static int agree(rush_mesh *m, int rank, int size, bool yes, double seconds)
{
    int32_t mine = yes, *all = rush_calloc((size_t)size, sizeof *all);
    rush_mesh_buffer *out = all ? rush_mesh_buffer_new(m, &mine, sizeof mine, NULL, NULL) : NULL;
    rush_mesh_buffer *in = out ? rush_mesh_buffer_new(m, all, (size_t)size * sizeof *all, NULL, NULL) : NULL;
    int failed = !in;
    for (int i = 0; i < size && !failed; i++)
        if (i != rank) failed = rush_mesh_receive(in, 1, &i, RESERVED, (size_t)i * sizeof *all, sizeof *all) || rush_mesh_send(out, i, RESERVED, 0, sizeof mine);
    for (int i = 1; i < size && !failed; i++) failed = rush_mesh_wait(in, true, seconds, NULL) || rush_mesh_wait(out, false, seconds, NULL);
    for (int i = 0; i < size && !failed; i++) yes &= i == rank || all[i];
    if (in) rush_mesh_buffer_drop(in);
    if (out) rush_mesh_buffer_drop(out);
    rush_free(all);
    return failed ? -1 : yes;
}

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

rush_shared *rush_shared_join(rush_shared *made, rush_mesh *m, int rank, int size, const rush_offer *of, double seconds)
{
    rush_shared *s = rank ? memory_open(of, size) : made;
    rush_error_clear();
    int all = agree(m, rank, size, s, seconds);
    if (all <= 0) return rush_shared_free(s), NULL;
    close(s->fd);
    s->fd = -1;
    s->mesh = m;
    s->rank = rank;
    s->size = size;
    s->slot = slot_size(size);
    s->room = s->slot - HEAD;
    s->spins = size <= processors() ? 2000 : 50;
    s->lanes = (lane *)((char *)s->page + 4096);
    s->slots = (char *)s->page + s->bytes - DEPTH * (size_t)size * s->slot;
    return s;
}

/* ---- steps ---- */

typedef struct run { /* a call that is being done */
    rush_shared *s;
    const rush_engine_call *c;
    double until;
} run;

static bool reached(counter *x, uint32_t target) { return (int32_t)(atomic_load_explicit(&x->value, memory_order_acquire) - target) >= 0; }

/* Sleeps until the counter changes, a moment at most. */
static void sleep_on(counter *x, uint32_t target)
{
    struct timespec moment = {0, 20000000};
    atomic_fetch_add(&x->sleepers, 1);
    uint32_t seen = atomic_load(&x->value);
    if ((int32_t)(seen - target) < 0) syscall(SYS_futex, &x->value, FUTEX_WAIT, seen, &moment, NULL, 0);
    atomic_fetch_sub(&x->sleepers, 1);
}

static void set(counter *x, uint32_t value)
{
    atomic_store(&x->value, value);
    if (atomic_load(&x->sleepers)) syscall(SYS_futex, &x->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
}

/* Until that rank's counter has reached the target; -1 and an error when the rank is gone, or too late. */
static int await(run *r, int rank, counter *x, uint32_t target)
{
    for (int i = 0; i < r->s->spins; i++) {
        if (reached(x, target)) return 0;
        relax();
    }
    int failed = 0;
    rush_mesh_waiting(r->s->mesh, 1);
    while (!failed && !reached(x, target)) {
        sleep_on(x, target);
        if (reached(x, target)) break;
        bool gone = rush_mesh_gone(r->s->mesh, rank); /* what it did before it went counts */
        if (reached(x, target)) break;
        if (gone) failed = rush_mesh_fail_gone(r->s->mesh, rank);
        else if (rush_seconds() > r->until) failed = rush_mesh_fail_late(r->s->mesh, rank, r->c->seconds);
        else if (r->c->direct && rush_wait_interrupted) failed = rush_wait_interrupted();
    }
    rush_mesh_waiting(r->s->mesh, -1);
    return failed;
}

static char *slot_at(rush_shared *s, int rank, uint32_t step) { return s->slots + (DEPTH * (size_t)rank + step % DEPTH) * s->slot; }
static char *slot_of(rush_shared *s, int rank) { return slot_at(s, rank, s->step); }

/* Room for what this rank posts in this step, or NULL: all others have read what was there DEPTH steps ago. */
static char *room(run *r)
{
    rush_shared *s = r->s;
    for (int i = 0; i < s->size; i++)
        if (i != s->rank && await(r, i, &s->lanes[i].taken, s->step - DEPTH + 1)) return NULL;
    char *p = slot_of(s, s->rank);
    memcpy(p, &s->head, sizeof s->head);
    return p + HEAD;
}

static void post(run *r) { set(&r->s->lanes[r->s->rank].posted, r->s->step + 1); }

/* What a rank has posted in this step, or NULL. It must be doing the same call. */
static const char *posted(run *r, int rank)
{
    rush_shared *s = r->s;
    if (await(r, rank, &s->lanes[rank].posted, s->step + 1)) return NULL;
    const char *p = slot_of(s, rank);
    const head *its = (const head *)p;
    if (rush_mesh_same(s->mesh, 0, s->head.what, rank, its->what)) return NULL;
    if (its->history == s->head.history) return p + HEAD;
    if (!rush_mesh_same(s->mesh, 1, s->head.before, rank, its->before)) rush_mesh_fail_history(s->mesh, rank);
    return NULL;
}

/* This rank is through with the step. */
static void next(run *r)
{
    r->s->step++;
    set(&r->s->lanes[r->s->rank].taken, r->s->step);
}

/* ---- collectives ---- */

/* A tensor may be its own copy, as one's part of a list that is gathered. */
static void copy(void *to, const void *from, size_t n)
{
    if (n && to != from) memcpy(to, from, n);
}

static int all_posted(run *r)
{
    for (int i = 0; i < r->s->size; i++)
        if (i != r->s->rank && !posted(r, i)) return -1;
    return 0;
}

static int barrier(run *r)
{
    if (!room(r)) return -1;
    post(r);
    if (all_posted(r)) return -1;
    next(r);
    return 0;
}

static int broadcast(run *r)
{
    const rush_engine_call *c = r->c;
    char *data = c->out;
    size_t all = c->n * c->size;
    size_t at = 0, n;
    do { /* once for no bytes, too: the others are to find the same call */
        n = RUSH_MIN(all - at, r->s->room);
        bool root = r->s->rank == c->root;
        char *own = root ? room(r) : NULL;
        const char *its = root ? NULL : posted(r, c->root);
        if (!own && !its) return -1;
        if (root) memcpy(own, data + at, n), post(r);
        else memcpy(data + at, its, n);
        next(r);
        at += n;
    } while (at < all);
    return 0;
}

/* Few numbers: each rank posts all of them, and reduces those of all. */
static int reduce_small(run *r, const char *in, char *out)
{
    rush_shared *s = r->s;
    const rush_engine_call *c = r->c;
    size_t bytes = c->n * c->size;
    char *own = room(r);
    if (!own) return -1;
    memcpy(own, in, bytes);
    post(r);
    for (int i = 0; out && i < s->size; i++) { /* in the order of the ranks, so that all find the same sum */
        const char *its = i == s->rank ? own : posted(r, i);
        if (!its) return -1;
        if (i) c->reduction(out, out, its, c->n);
        else memcpy(out, its, bytes);
    }
    next(r);
    return 0;
}

typedef struct block { /* of the numbers: those that one step carries */
    size_t n, part;      /* numbers, and of each rank's part but the last ones */
    const char *in;
    char *out;           /* NULL: this rank gets no result */
} block;

static size_t part_begins(const block *b, int rank) { return RUSH_MIN((size_t)rank * b->part, b->n); }

static block block_of(run *r, const char *in, char *out, size_t at, size_t most)
{
    const rush_engine_call *c = r->c;
    block b = {.n = at < c->n ? RUSH_MIN(c->n - at, most) : 0};
    b.part = (b.n + (size_t)r->s->size - 1) / (size_t)r->s->size;
    if (b.n) b.in = in + at * c->size, b.out = out ? out + at * c->size : NULL;
    return b;
}

/* The others' parts of a block's numbers go to the slot. */
static void put_block(run *r, char *own, const block *b)
{
    size_t size = r->c->size, from = part_begins(b, r->s->rank), to = part_begins(b, r->s->rank + 1);
    if (!b->n) return; /* what follows the last block: nothing lies anywhere */
    memcpy(own, b->in, from * size);
    memcpy(own + to * size, b->in + to * size, (b->n - to) * size);
}

/* The parts that the others have reduced, which stand behind the numbers in their slots. */
static void take_reduced(run *r, const block *b, size_t offset)
{
    for (int i = 0; b->out && i < r->s->size; i++) {
        size_t from = part_begins(b, i), to = part_begins(b, i + 1);
        if (i != r->s->rank) memcpy(b->out + from * r->c->size, slot_of(r->s, i) + HEAD + offset, (to - from) * r->c->size);
    }
}

/* Reduces this rank's part of a block into `to`: its own numbers, then the others' as they stand in their slots. */
static void reduce_part(run *r, const block *b, char *to)
{
    rush_shared *s = r->s;
    size_t size = r->c->size, from = part_begins(b, s->rank), n = part_begins(b, s->rank + 1) - from;
    const char *sum = b->in + from * size;
    for (int k = 1; k < s->size; k++) {
        r->c->reduction(to, sum, slot_of(s, (s->rank + k) % s->size) + HEAD + from * size, n);
        sum = to;
    }
    if (b->out) memcpy(b->out + from * size, to, n * size);
}

/* Many numbers: see the head of this file. Every rank posts and reads in every step, so a rank that sees all others' step k
 * knows that they are through with step k - 1, and may write into the slot of step k + 1. */
static int reduce_large(run *r, const char *in, char *out)
{
    rush_shared *s = r->s;
    size_t size = r->c->size, ranks = (size_t)s->size, most = s->room / size * ranks / (ranks + 1) - ranks, offset = most * size;
    block before = {0}, now = block_of(r, in, out, 0, most);
    char *own = room(r);
    if (!own) return -1;
    put_block(r, own, &now);
    post(r);
    for (size_t at = most; now.n || before.n; at += most) {
        char *other = slot_at(s, s->rank, s->step + 1);
        block after = block_of(r, in, out, at, most);
        if (all_posted(r)) return -1;
        take_reduced(r, &before, offset);
        if (now.n) {
            reduce_part(r, &now, other + HEAD + offset);
            put_block(r, other + HEAD, &after);
            memcpy(other, &s->head, sizeof s->head);
        }
        next(r);
        if (now.n) post(r);
        before = now;
        now = after;
    }
    return 0;
}

/* To one rank, of a few: it reduces what the others post. */
static int reduce_to_root(run *r, const char *in, char *out)
{
    rush_shared *s = r->s;
    const rush_engine_call *c = r->c;
    size_t most = s->room / c->size;
    for (size_t at = 0, n; at < c->n; at += n) {
        n = RUSH_MIN(c->n - at, most);
        char *own = out ? NULL : room(r);
        if (!out && !own) return -1;
        if (!out) memcpy(own, in + at * c->size, n * c->size), post(r);
        const char *sum = in + at * c->size;
        for (int i = 0; out && i < s->size; i++) {
            if (i == s->rank) continue;
            const char *its = posted(r, i);
            if (!its) return -1;
            c->reduction(out + at * c->size, sum, its, n);
            sum = out + at * c->size;
        }
        next(r);
    }
    return 0;
}

static int reduce(run *r, const void *in, void *out)
{
    bool few = r->s->size <= 4 && r->c->kind == RUSH_ENGINE_REDUCE;
    if (few && r->c->n * r->c->size > SMALL) return reduce_to_root(r, in, out);
    return r->c->n * r->c->size <= SMALL ? reduce_small(r, in, out) : reduce_large(r, in, out);
}

/* Every rank, or only one of them, gets the numbers of all. */
static int gather(run *r, bool everybody)
{
    rush_shared *s = r->s;
    const rush_engine_call *c = r->c;
    size_t all = c->n * c->size;
    bool posts = everybody || s->rank != c->root, reads = everybody || s->rank == c->root;
    for (size_t at = 0, n; at < all; at += n) {
        n = RUSH_MIN(all - at, s->room);
        char *own = posts ? room(r) : NULL;
        if (posts && !own) return -1;
        if (posts) memcpy(own, (const char *)c->in + at, n), post(r);
        for (int i = 0; reads && i < s->size; i++) {
            const char *its = i == s->rank ? (const char *)c->in + at : posted(r, i);
            if (!its) return -1;
            copy(c->outs[i] + at, its, n);
        }
        next(r);
    }
    return 0;
}

/* The root's own part comes last: the others need not wait for it. */
static int scatter(run *r)
{
    rush_shared *s = r->s;
    const rush_engine_call *c = r->c;
    size_t all = c->n * c->size, ranks = (size_t)s->size, most = s->room / RUSH_MAX(ranks - 1, 1), turn = (size_t)(s->rank - c->root) + ranks - 1; /* of this rank in the slot */
    bool root = s->rank == c->root;
    for (size_t at = 0, n; at < all; at += n) {
        n = RUSH_MIN(all - at, most);
        char *own = root ? room(r) : NULL;
        const char *its = root ? NULL : posted(r, c->root);
        if (!own && !its) return -1;
        for (size_t k = 0; root && k < ranks - 1; k++) copy(own + k * most, c->ins[((size_t)s->rank + k + 1) % ranks] + at, n);
        if (root) post(r);
        else copy((char *)c->out + at, its + turn % ranks * most, n);
        next(r);
    }
    if (root) copy(c->out, c->ins[s->rank], all);
    return 0;
}

/* Each rank has something for each: bytes for rank i, or from it. */
typedef struct exchange {
    size_t each;            /* where no counts are told */
    const int64_t *ins, *outs; /* (ranks) numbers */
    size_t most;            /* bytes between any two ranks */
    bool sum;               /* what comes is reduced into `out`, which holds this rank's own */
} exchange;

static size_t bytes_of(const rush_engine_call *c, const exchange *x, const int64_t *counts, int i) { return counts ? (size_t)counts[i] * c->size : x->each; }

/* At most `share` of `all` bytes, from `at` on. */
static size_t share_of(size_t all, size_t at, size_t share) { return all > at ? RUSH_MIN(all - at, share) : 0; }

static int exchange_run(run *r, const exchange *x)
{
    rush_shared *s = r->s;
    const rush_engine_call *c = r->c;
    size_t share = s->room / (size_t)s->size / 8 * 8;
    for (size_t at = 0; at < x->most; at += share) {
        char *own = room(r);
        if (!own) return -1;
        for (int i = 0; i < s->size; i++)
            if (i != s->rank) copy(own + (size_t)i * share, c->ins[i] + at, share_of(bytes_of(c, x, x->ins, i), at, share));
        post(r);
        for (int k = 1; k < s->size; k++) {
            int i = (s->rank + k) % s->size;
            const char *its = posted(r, i);
            if (!its) return -1;
            its += (size_t)s->rank * share;
            size_t n = share_of(bytes_of(c, x, x->outs, i), at, share);
            char *to = x->sum ? (char *)c->out + at : c->outs[i] + at;
            if (x->sum) c->reduction(to, to, its, n / c->size);
            else copy(to, its, n);
        }
        next(r);
    }
    return 0;
}

/* The numbers that each rank has for each: all tell theirs, so that all know the most, and each whether it is what it expects. */
static int exchange_counts(run *r, size_t *most)
{
    rush_shared *s = r->s;
    const rush_engine_call *c = r->c;
    size_t bytes = (size_t)s->size * sizeof *c->in_counts;
    RUSH_CHECK(bytes <= s->room, RUSH_DIST_BACKEND_ERROR, "all_to_all of %d ranks", s->size);
    char *own = room(r);
    if (!own) return -1;
    memcpy(own, c->in_counts, bytes);
    post(r);
    int64_t largest = 0;
    for (int i = 0; i < s->size; i++) {
        const int64_t *its = i == s->rank ? c->in_counts : (const int64_t *)posted(r, i);
        if (!its) return -1;
        for (int k = 0; k < s->size; k++) largest = RUSH_MAX(largest, its[k]);
        RUSH_CHECK(its[s->rank] == c->out_counts[i], RUSH_DIST_BACKEND_ERROR, "rank %d sends %lld numbers where rank %d expects %lld", i, (long long)its[s->rank],
                   s->rank, (long long)c->out_counts[i]);
    }
    next(r);
    *most = (size_t)largest * c->size;
    return 0;
}

static int all_to_all(run *r, bool counted, bool sum)
{
    const rush_engine_call *c = r->c;
    exchange x = {.each = c->n * c->size / (c->kind == RUSH_ENGINE_ALL_TO_ALL ? (size_t)r->s->size : 1), .sum = sum};
    x.most = x.each;
    if (counted) x.ins = c->in_counts, x.outs = c->out_counts;
    if (counted && exchange_counts(r, &x.most)) return -1;
    int rank = r->s->rank;
    copy(sum ? c->out : c->outs[rank], c->ins[rank], bytes_of(c, &x, x.ins, rank));
    return exchange_run(r, &x);
}

static void begin(rush_shared *s, const char *what)
{
    memcpy(s->head.before, s->head.what, sizeof s->head.before);
    snprintf(s->head.what, sizeof s->head.what, "%s", what);
    s->head.history = hash(s->head.history, what, strcspn(what, "[")); /* shapes may differ where the numbers do not */
}

static int shared_run(void *opened, const rush_engine_call *c, char *why, size_t space)
{
    run r = {opened, c, rush_seconds() + c->seconds};
    why[0] = 0;
    begin(r.s, c->what);
    switch (c->kind) {
    case RUSH_ENGINE_ALL_REDUCE: return reduce(&r, c->out, c->out);
    case RUSH_ENGINE_REDUCE: return reduce(&r, c->in, r.s->rank == c->root ? c->out : NULL);
    case RUSH_ENGINE_BROADCAST: return broadcast(&r);
    case RUSH_ENGINE_ALL_GATHER: return gather(&r, true);
    case RUSH_ENGINE_GATHER: return gather(&r, false);
    case RUSH_ENGINE_SCATTER: return scatter(&r);
    case RUSH_ENGINE_ALL_TO_ALL: return all_to_all(&r, false, false);
    case RUSH_ENGINE_ALL_TO_ALL_V: return all_to_all(&r, true, false);
    case RUSH_ENGINE_REDUCE_SCATTER: return all_to_all(&r, false, true);
    case RUSH_ENGINE_BARRIER: return barrier(&r);
    }
    return -1;
}

static void shared_close(void *s) { rush_shared_free(s); }

const rush_engine rush_engine_shared = {"shared", NULL, shared_close, shared_run, true, true, ~0u, false};
