/* store.c - the functions of rushlight/dist.h that every store has, and the two stores that need no other process: in memory,
 * and another store with a prefix before each key.
 */
#define _GNU_SOURCE
#include "base/buried.h"
#include "dist/store.h"

#include <stdio.h>
#include <time.h>

static bool given(const rush_store *s) { return rush_lives(s, "a store"); }

void *rush_store_new(const rush_store_kind *kind, size_t size)
{
    rush_store *s = rush_calloc(1, size);
    if (!s) return NULL;
    s->kind = kind;
    atomic_init(&s->refs, 1);
    s->timeout = 300;
    return s;
}

rush_store *rush_store_keep(rush_store *s)
{
    if (!s || !given(s)) return NULL;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void rush_store_drop(rush_store *s)
{
    if (!s || !given(s) || !rush_refs_drop(&s->refs)) return;
    s->kind->end(s);
    rush_bury_handle(s, sizeof *s);
}

rush_store *rush_store_clone(rush_store *s)
{
    if (!given(s)) return NULL;
    return s->kind->clone ? s->kind->clone(s) : rush_store_keep(s);
}

/* Is all there that a request of this kind reads and writes? */
static int check(const rush_request *r)
{
    bool sets = r->kind == RUSH_STORE_SET || r->kind == RUSH_STORE_APPEND || r->kind == RUSH_STORE_PUSH || r->kind == RUSH_STORE_MULTI_SET;
    bool answers = r->kind == RUSH_STORE_GET || r->kind == RUSH_STORE_MULTI_GET || r->kind == RUSH_STORE_COMPARE_SET || r->kind == RUSH_STORE_POP;
    int values = sets ? r->n : r->kind == RUSH_STORE_COMPARE_SET ? 2 : 0;
    RUSH_CHECK(r->n >= 0 && (r->keys || !r->n), RUSH_TYPE_ERROR, "a store: %d keys (NULL)", r->n);
    for (int i = 0; i < r->n; i++) RUSH_CHECK(r->keys[i], RUSH_TYPE_ERROR, "a store: key %d is missing (NULL)", i);
    RUSH_CHECK(r->values || !values, RUSH_TYPE_ERROR, "a store: the values are missing (NULL)");
    for (int i = 0; i < values; i++) RUSH_CHECK(r->values[i].data || !r->values[i].n, RUSH_TYPE_ERROR, "a store: value %d has bytes, but there are none (NULL)", i);
    RUSH_CHECK(r->answers || !answers || !r->n, RUSH_TYPE_ERROR, "a store: there is no room for the answer (NULL)");
    return 0;
}

int rush_store_run(rush_store *s, rush_request *r)
{
    if (rush_failed() || !given(s) || check(r)) return -1;
    return s->kind->run(s, r);
}

/* ---- requests ---- */

int rush_store_set(rush_store *s, const char *key, const void *data, size_t n)
{
    return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_SET, .n = 1, .keys = &key, .values = &(rush_bytes){(void *)data, n}});
}

int rush_store_append(rush_store *s, const char *key, const void *data, size_t n)
{
    return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_APPEND, .n = 1, .keys = &key, .values = &(rush_bytes){(void *)data, n}});
}

int rush_store_add(rush_store *s, const char *key, int64_t amount, int64_t *total)
{
    rush_request r = {.kind = RUSH_STORE_ADD, .n = 1, .keys = &key, .amount = amount};
    if (rush_store_run(s, &r)) return -1;
    if (total) *total = r.number;
    return 0;
}

int rush_store_wait(rush_store *s, int n, const char *const *keys, double seconds)
{
    return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_WAIT, .n = n, .keys = keys, .seconds = seconds});
}

int rush_store_get(rush_store *s, const char *key, rush_bytes *value)
{
    RUSH_CHECK(value, RUSH_TYPE_ERROR, "a store: there is no room for the answer (NULL)");
    if (rush_store_wait(s, 1, &key, rush_store_timeout(s))) return -1;
    return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_GET, .n = 1, .keys = &key, .answers = value});
}

int rush_store_get_all(rush_store *s, int n, const char *const *keys, rush_bytes *values)
{
    RUSH_CHECK(values || !n, RUSH_TYPE_ERROR, "a store: there is no room for the answers (NULL)");
    if (rush_store_wait(s, n, keys, rush_store_timeout(s))) return -1;
    return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_MULTI_GET, .n = n, .keys = keys, .answers = values});
}

int rush_store_set_all(rush_store *s, int n, const char *const *keys, const rush_bytes *values)
{
    return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_MULTI_SET, .n = n, .keys = keys, .values = values});
}

int rush_store_compare_set(rush_store *s, const char *key, rush_bytes expected, rush_bytes desired, rush_bytes *now)
{
    return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_COMPARE_SET, .n = 1, .keys = &key,
                                             .values = (rush_bytes[]){expected, desired}, .answers = now});
}

/* A request whose answer is a number. */
static int64_t number(rush_store *s, rush_request r)
{
    return rush_store_run(s, &r) ? -1 : r.number;
}

int rush_store_check(rush_store *s, int n, const char *const *keys)
{
    return (int)number(s, (rush_request){.kind = RUSH_STORE_CHECK, .n = n, .keys = keys});
}

int rush_store_delete(rush_store *s, const char *key)
{
    return (int)number(s, (rush_request){.kind = RUSH_STORE_DELETE, .n = 1, .keys = &key});
}

int64_t rush_store_count(rush_store *s)
{
    return number(s, (rush_request){.kind = RUSH_STORE_COUNT});
}

int64_t rush_store_queued(rush_store *s, const char *queue)
{
    return number(s, (rush_request){.kind = RUSH_STORE_QUEUED, .n = 1, .keys = &queue});
}

int rush_store_push(rush_store *s, const char *queue, const void *data, size_t n)
{
    return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_PUSH, .n = 1, .keys = &queue, .values = &(rush_bytes){(void *)data, n}});
}

int rush_store_pop(rush_store *s, const char *queue, bool wait, rush_bytes *value)
{
    double until = rush_seconds() + rush_store_timeout(s);
    for (;;) { /* another one may take what a wait has seen */
        rush_request r = {.kind = RUSH_STORE_POP, .n = 1, .keys = &queue, .answers = value};
        if (rush_store_run(s, &r)) return -1;
        if (r.number) return 0;
        RUSH_CHECK(wait, RUSH_DIST_QUEUE_ERROR, "queue is empty");
        if (rush_store_wait(s, 1, &queue, RUSH_MAX(until - rush_seconds(), 0))) return -1;
    }
}

int rush_store_list(rush_store *s, rush_bytes **keys, int *n)
{
    RUSH_CHECK(keys && n, RUSH_TYPE_ERROR, "a store: there is no room for the keys (NULL)");
    rush_request r = {.kind = RUSH_STORE_LIST};
    if (rush_store_run(s, &r)) return -1;
    *keys = r.answers;
    *n = r.nanswers;
    return 0;
}

void rush_store_list_free(rush_bytes *keys, int n)
{
    for (int i = 0; keys && i < n; i++) rush_bytes_free(&keys[i]);
    rush_free(keys);
}

/* A server counts; elsewhere the last one to come says so, and the others wait for that. */
int rush_store_barrier(rush_store *s, const char *key, int world_size, double seconds)
{
    if (rush_failed() || !given(s)) return -1;
    RUSH_CHECK(key, RUSH_TYPE_ERROR, "a store: the key of a barrier is missing (NULL)");
    rush_store *last = s;
    while (rush_store_under(last)) last = rush_store_under(last);
    if (last->kind == &rush_store_tcp_kind)
        return rush_store_run(s, &(rush_request){.kind = RUSH_STORE_BARRIER, .n = 1, .keys = &key, .amount = world_size, .seconds = seconds});
    char *count = NULL, *done = NULL;
    int64_t here = 0;
    int failed = asprintf(&count, "%s/num_members", key) < 0 || asprintf(&done, "%s/last_member", key) < 0
                     ? rush_fail(RUSH_MEMORY_ERROR, "not enough memory")
                     : rush_store_add(s, count, 1, &here);
    if (!failed && here == world_size) failed = rush_store_set(s, done, "1", 1);
    if (!failed) failed = rush_store_wait(s, 1, (const char *const *)&done, seconds);
    free(count);
    free(done);
    return failed;
}

/* ---- in memory ---- */

typedef struct hash_store {
    rush_store s;
    rush_table *table;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} hash_store;

/* Waits in turns; the lock is held on both sides. */
static int hash_wait(hash_store *h, rush_request *r)
{
    double until = rush_seconds() + r->seconds, turn;
    for (;;) {
        if (rush_table_run(h->table, r)) return -1;
        if (r->number) return 0;
        if (rush_wait_turn(until, &turn)) return -1;
        RUSH_CHECK(turn, RUSH_DIST_STORE_ERROR, "Wait timeout");
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += (long)(turn * 1e9);
        if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&h->changed, &h->lock, &t);
    }
}

static int hash_run(rush_store *s, rush_request *r)
{
    hash_store *h = (hash_store *)s;
    pthread_mutex_lock(&h->lock);
    int failed = r->kind == RUSH_STORE_WAIT ? hash_wait(h, r) : rush_table_run(h->table, r);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return failed;
}

static void hash_end(rush_store *s)
{
    hash_store *h = (hash_store *)s;
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    rush_table_free(h->table);
}

const rush_store_kind rush_store_hash_kind = {.name = "HashStore", .run = hash_run, .end = hash_end};

rush_store *rush_store_hash(void)
{
    if (rush_failed()) return NULL;
    rush_table *table = rush_table_new();
    hash_store *h = table ? rush_store_new(&rush_store_hash_kind, sizeof *h) : NULL;
    if (!h) {
        rush_table_free(table);
        return NULL;
    }
    h->table = table;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    return &h->s;
}

/* ---- with a prefix ---- */

typedef struct prefix_store {
    rush_store s;
    char *prefix;
    rush_store *under;
} prefix_store;

/* "prefix/key" of each key; one block, to be freed. */
static const char **prefixed(const prefix_store *p, const rush_request *r)
{
    size_t before = strlen(p->prefix) + 1, all = (size_t)r->n * sizeof(char *);
    for (int i = 0; i < r->n; i++) all += before + strlen(r->keys[i]) + 1;
    const char **keys = rush_malloc(RUSH_MAX(all, 1));
    char *at = (char *)(keys + r->n);
    for (int i = 0; keys && i < r->n; i++) {
        keys[i] = at;
        at += sprintf(at, "%s/%s", p->prefix, r->keys[i]) + 1;
    }
    return keys;
}

/* Only keys with the prefix are shown, without it. */
static void keep_own_keys(const prefix_store *p, rush_request *r)
{
    size_t n = strlen(p->prefix);
    int kept = 0;
    for (int i = 0; i < r->nanswers; i++) {
        rush_bytes *key = &r->answers[i];
        char *text = key->data;
        if (key->n > n && !memcmp(text, p->prefix, n) && text[n] == '/') {
            memmove(text, text + n + 1, key->n - n);
            key->n -= n + 1;
            r->answers[kept++] = *key;
        } else {
            rush_bytes_free(key);
        }
    }
    r->nanswers = kept;
}

static int prefix_run(rush_store *s, rush_request *r)
{
    prefix_store *p = (prefix_store *)s;
    const char *const *keys = r->keys, **longer = prefixed(p, r);
    if (!longer) return -1;
    r->keys = longer;
    int failed = rush_store_run(p->under, r);
    r->keys = keys;
    rush_free(longer);
    if (!failed && r->kind == RUSH_STORE_LIST) keep_own_keys(p, r);
    return failed;
}

static void prefix_end(rush_store *s)
{
    prefix_store *p = (prefix_store *)s;
    rush_store_drop(p->under);
    rush_free(p->prefix);
}

static rush_store *prefix_clone(rush_store *s)
{
    prefix_store *p = (prefix_store *)s;
    rush_store *under = rush_store_clone(p->under), *made = under ? rush_store_prefix(p->prefix, under) : NULL;
    rush_store_drop(under);
    return made;
}

const rush_store_kind rush_store_prefix_kind = {.name = "PrefixStore", .run = prefix_run, .end = prefix_end, .clone = prefix_clone};

rush_store *rush_store_prefix(const char *prefix, rush_store *under)
{
    rush_bytes text;
    if (rush_failed() || !given(under)) return NULL;
    RUSH_CHECK_NULL(prefix, RUSH_TYPE_ERROR, "a prefix is missing (NULL)");
    if (rush_bytes_copy(&text, prefix, strlen(prefix))) return NULL;
    prefix_store *p = rush_store_new(&rush_store_prefix_kind, sizeof *p);
    if (!p) {
        rush_bytes_free(&text);
        return NULL;
    }
    p->prefix = text.data;
    p->under = rush_store_keep(under);
    return &p->s;
}

rush_store *rush_store_under(rush_store *s)
{
    return s->kind == &rush_store_prefix_kind ? ((prefix_store *)s)->under : NULL;
}

const char *rush_store_prefix_of(const rush_store *s)
{
    return s->kind == &rush_store_prefix_kind ? ((const prefix_store *)s)->prefix : NULL;
}

double rush_store_timeout(const rush_store *s)
{
    if (!given(s)) return -1;
    return s->kind == &rush_store_prefix_kind ? rush_store_timeout(((const prefix_store *)s)->under) : s->timeout;
}

void rush_store_timeout_set(rush_store *s, double seconds)
{
    if (!given(s)) return;
    if (s->kind == &rush_store_prefix_kind) rush_store_timeout_set(((prefix_store *)s)->under, seconds);
    else s->timeout = seconds;
}
