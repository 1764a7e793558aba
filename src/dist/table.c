/* table.c - keys and values in memory: what a hash store has, a server keeps, and a file store reads.
 *
 * Chained hashing; the number of chains doubles with the entries. An entry may hold a value, a queue of values, or both.
 */
#include "base/hash.h"
#include "dist/store.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

typedef struct entry {
    struct entry *next;
    char *key;
    uint64_t hash;
    bool has;           /* a value */
    rush_bytes value;
    rush_bytes *queue;  /* (queued), the oldest first */
    int64_t queued, room;
} entry;

struct rush_table {
    entry **chains;
    size_t nchains, entries, bytes;
};

double rush_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void rush_nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) && errno == EINTR) { }
}

int (*rush_wait_interrupted)(void);
_Thread_local int (*rush_wait_hopeless)(void);

int rush_wait_turn(double until, double *turn)
{
    if ((rush_wait_interrupted && rush_wait_interrupted()) || (rush_wait_hopeless && rush_wait_hopeless())) return -1;
    double left = until - rush_seconds();
    *turn = left > 0 ? RUSH_MIN(left, 0.1) : 0; /* of NaN, too */
    return 0;
}

int rush_bytes_copy(rush_bytes *to, const void *data, size_t n)
{
    char *p = rush_malloc(n + 1);
    if (!p) return -1;
    if (n) memcpy(p, data, n);
    p[n] = 0;
    *to = (rush_bytes){p, n};
    return 0;
}

void rush_bytes_free(rush_bytes *b)
{
    if (!b) return;
    rush_free(b->data);
    *b = (rush_bytes){0};
}

rush_table *rush_table_new(void)
{
    rush_table *t = rush_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->nchains = 64;
    t->chains = rush_calloc(t->nchains, sizeof *t->chains);
    if (t->chains) return t;
    rush_free(t);
    return NULL;
}

static void entry_free(entry *e)
{
    for (int64_t i = 0; i < e->queued; i++) rush_bytes_free(&e->queue[i]);
    rush_free(e->queue);
    rush_bytes_free(&e->value);
    rush_free(e->key);
    rush_free(e);
}

void rush_table_free(rush_table *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->nchains; i++)
        for (entry *e = t->chains[i], *next; e; e = next) {
            next = e->next;
            entry_free(e);
        }
    rush_free(t->chains);
    rush_free(t);
}

size_t rush_table_bytes(const rush_table *t)
{
    return t->bytes;
}

static entry **find(const rush_table *t, const char *key)
{
    uint64_t h = rush_hash_name(key);
    entry **e = &t->chains[h & (t->nchains - 1)];
    while (*e && ((*e)->hash != h || strcmp((*e)->key, key))) e = &(*e)->next;
    return e;
}

bool rush_table_has(const rush_table *t, const char *key)
{
    entry *e = *find(t, key);
    return e && (e->has || e->queued);
}

static void grow(rush_table *t)
{
    size_t n = t->nchains * 2;
    entry **chains = rush_calloc(n, sizeof *chains);
    if (!chains) return rush_error_clear(); /* long chains serve, too */
    for (size_t i = 0; i < t->nchains; i++)
        for (entry *e = t->chains[i], *next; e; e = next) {
            next = e->next;
            e->next = chains[e->hash & (n - 1)];
            chains[e->hash & (n - 1)] = e;
        }
    rush_free(t->chains);
    t->chains = chains;
    t->nchains = n;
}

/* The entry of a key, made if it is not there. */
static entry *entry_of(rush_table *t, const char *key)
{
    entry **at = find(t, key), *e = *at;
    if (e) return e;
    e = rush_calloc(1, sizeof *e);
    rush_bytes name;
    if (!e || rush_bytes_copy(&name, key, strlen(key))) {
        rush_free(e);
        return NULL;
    }
    e->key = name.data;
    e->hash = rush_hash_name(key);
    *at = e;
    t->bytes += name.n;
    if (++t->entries > 2 * t->nchains && !rush_failed()) grow(t);
    return e;
}

static void entry_remove(rush_table *t, entry **at)
{
    entry *e = *at;
    t->bytes -= strlen(e->key) + e->value.n;
    for (int64_t i = 0; i < e->queued; i++) t->bytes -= e->queue[i].n;
    *at = e->next;
    t->entries--;
    entry_free(e);
}

static int set(rush_table *t, const char *key, const void *data, size_t n)
{
    rush_bytes v;
    if (rush_bytes_copy(&v, data, n)) return -1;
    entry *e = entry_of(t, key);
    if (!e) return rush_bytes_free(&v), -1;
    t->bytes += n - e->value.n;
    rush_bytes_free(&e->value);
    e->value = v;
    e->has = true;
    return 0;
}

static int append(rush_table *t, const char *key, const rush_bytes *v)
{
    entry *e = entry_of(t, key);
    char *p = e ? rush_realloc(e->value.data, e->value.n + v->n + 1) : NULL;
    if (!p) return -1;
    if (v->n) memcpy(p + e->value.n, v->data, v->n);
    e->value = (rush_bytes){p, e->value.n + v->n};
    p[e->value.n] = 0;
    e->has = true;
    t->bytes += v->n;
    return 0;
}

static int add(rush_table *t, rush_request *r)
{
    entry *e = *find(t, r->keys[0]);
    int64_t before = 0;
    if (e && e->has) {
        char *end;
        errno = 0;
        before = strtoll(e->value.data, &end, 10);
        RUSH_CHECK(end != (char *)e->value.data && !errno, RUSH_VALUE_ERROR, "add(): the value of key '%s' is no number", r->keys[0]);
    }
    r->number = (int64_t)((uint64_t)before + (uint64_t)r->amount);
    char text[32];
    return set(t, r->keys[0], text, (size_t)snprintf(text, sizeof text, "%lld", (long long)r->number));
}

static int compare_set(rush_table *t, rush_request *r)
{
    entry *e = *find(t, r->keys[0]);
    const rush_bytes *expected = &r->values[0], *desired = &r->values[1];
    if (!e || !e->has) {
        if (expected->n) return rush_bytes_copy(r->answers, expected->data, expected->n);
    } else if (e->value.n != expected->n || memcmp(e->value.data, expected->data, expected->n)) {
        return rush_bytes_copy(r->answers, e->value.data, e->value.n);
    }
    if (set(t, r->keys[0], desired->data, desired->n)) return -1;
    return rush_bytes_copy(r->answers, desired->data, desired->n);
}

static int get_all(rush_table *t, rush_request *r)
{
    for (int i = 0; i < r->n; i++) {
        entry *e = *find(t, r->keys[i]);
        int failed = !e || !e->has ? rush_fail(RUSH_KEY_ERROR, "no key '%s' in the store", r->keys[i])
                                   : rush_bytes_copy(&r->answers[i], e->value.data, e->value.n);
        if (!failed) continue;
        while (i--) rush_bytes_free(&r->answers[i]);
        return -1;
    }
    return 0;
}

static int list(rush_table *t, rush_request *r)
{
    r->nanswers = 0;
    r->answers = rush_calloc(t->entries + 1, sizeof *r->answers);
    if (!r->answers) return -1;
    for (size_t i = 0; i < t->nchains; i++)
        for (entry *e = t->chains[i]; e; e = e->next) {
            if (!e->has) continue;
            if (rush_bytes_copy(&r->answers[r->nanswers], e->key, strlen(e->key))) {
                rush_store_list_free(r->answers, r->nanswers);
                r->answers = NULL;
                return -1;
            }
            r->nanswers++;
        }
    return 0;
}

static int count(rush_table *t, rush_request *r)
{
    r->number = 0;
    for (size_t i = 0; i < t->nchains; i++)
        for (entry *e = t->chains[i]; e; e = e->next) r->number += e->has;
    return 0;
}

static int push(rush_table *t, const char *key, const rush_bytes *v)
{
    entry *e = entry_of(t, key);
    if (!e) return -1;
    if (e->queued == e->room) {
        int64_t room = e->room ? 2 * e->room : 4;
        rush_bytes *queue = rush_realloc(e->queue, (size_t)room * sizeof *queue);
        if (!queue) return -1;
        e->queue = queue;
        e->room = room;
    }
    if (rush_bytes_copy(&e->queue[e->queued], v->data, v->n)) return -1;
    e->queued++;
    t->bytes += v->n;
    return 0;
}

static int pop(rush_table *t, rush_request *r)
{
    entry **at = find(t, r->keys[0]), *e = *at;
    r->number = e && e->queued;
    if (!r->number) return 0;
    *r->answers = e->queue[0];
    t->bytes -= e->queue[0].n;
    memmove(e->queue, e->queue + 1, (size_t)--e->queued * sizeof *e->queue);
    if (!e->queued && !e->has) entry_remove(t, at);
    return 0;
}

int rush_table_run(rush_table *t, rush_request *r)
{
    entry **at = r->n == 1 ? find(t, r->keys[0]) : NULL;
    switch (r->kind) {
    case RUSH_STORE_SET: return set(t, r->keys[0], r->values[0].data, r->values[0].n);
    case RUSH_STORE_APPEND: return append(t, r->keys[0], &r->values[0]);
    case RUSH_STORE_ADD: return add(t, r);
    case RUSH_STORE_COMPARE_SET: return compare_set(t, r);
    case RUSH_STORE_GET:
    case RUSH_STORE_MULTI_GET: return get_all(t, r);
    case RUSH_STORE_MULTI_SET:
        for (int i = 0; i < r->n; i++)
            if (set(t, r->keys[i], r->values[i].data, r->values[i].n)) return -1;
        return 0;
    case RUSH_STORE_CHECK:
    case RUSH_STORE_WAIT:
        r->number = 1;
        for (int i = 0; i < r->n; i++) r->number &= rush_table_has(t, r->keys[i]);
        return 0;
    case RUSH_STORE_COUNT: return count(t, r);
    case RUSH_STORE_LIST: return list(t, r);
    case RUSH_STORE_DELETE:
        r->number = *at != NULL;
        if (*at) entry_remove(t, at);
        return 0;
    case RUSH_STORE_PUSH: return push(t, r->keys[0], &r->values[0]);
    case RUSH_STORE_POP: return pop(t, r);
    case RUSH_STORE_QUEUED:
        r->number = *at ? (*at)->queued : 0;
        return 0;
    default: return rush_fail(RUSH_DIST_STORE_ERROR, "a request of unknown kind %d", r->kind);
    }
}
