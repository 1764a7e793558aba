/* onednn.c - the engine, streams, and the cache of primitives.
 *
 * Making a primitive costs 0.1 ms and more (code is generated), running one a fraction of a microsecond. So
 * each thread keeps what it made, found by the numbers that describe the case, and drops one of them by chance
 * when its bound is reached: a model of more cases than there is room for would find none if the oldest went.
 * A primitive's memory objects are kept with it and only change their pointer, which is why threads do not share
 * them. Their code they do share: oneDNN has a cache of its own behind this one.
 *
 * Descriptors, primitives and the first run of each are made with a lock that a fork takes, too: oneDNN's cache has a lock of its
 * own, and what it sets up at first use is guarded, and a forked child would wait for ever for another thread of its parent.
 */
#include "config.h"
#include "kernels/engine/engine.h"

#if RUSH_HAS_ONEDNN
#include "kernels/engine/onednn.h"
#include "tensor/tensor.h"

#include <pthread.h>
#include <sched.h>

#define BUCKETS 512
#define BOUND (30u << 20)      /* bytes per thread */
#define CODE_BYTES (72u << 10) /* what a primitive weighs with its code: measured over 10,000 random products and convolutions */
#define SHARED 64              /* primitives in oneDNN's own cache, for other threads; its default, 1024, keeps 70 MB */

/* An operand in the layout that a primitive wanted it in. */
typedef struct form {
    const void *data; /* where it lies itself */
    rush_desc layout;
    void *block; /* NULL: there is none */
    size_t got;
} form;

typedef struct thread_cache {
    rush_primitive *bucket[BUCKETS];
    size_t bytes;
    uint32_t chance;
    dnnl_stream_t stream;
    form shared; /* what rush_engine_share() named */
    /* what rush_engine_settled() named */
    const rush_storage *storage;
    const void *in_storage;
    unsigned cell; /* of inside[] */
} thread_cache;

static _Thread_local thread_cache *mine;
static dnnl_engine_t engine;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_primitive(rush_primitive *p)
{
    for (int i = 0; i < p->nmem; ++i) {
        rush_mem *m = &p->mem[i];
        if (m->mem) dnnl_memory_destroy(m->mem);
        if (m->user) dnnl_memory_destroy(m->user);
        if (m->reorder) dnnl_primitive_destroy(m->reorder);
    }
    if (p->p) dnnl_primitive_destroy(p->p);
    free(p);
}

static void free_cache(void *arg)
{
    thread_cache *c = arg;
    for (int b = 0; b < BUCKETS; ++b) {
        for (rush_primitive *p = c->bucket[b], *next; p; p = next) {
            next = p->next;
            free_primitive(p);
        }
    }
    if (c->stream) dnnl_stream_destroy(c->stream);
    free(c);
}

/* oneDNN has locks of its own, which some primitives take each time they run: a child that is forked meanwhile would wait for
 * ever. So a fork waits until nobody is inside, and nobody goes in until it is over. Threads count in cells of their own. */
enum { CELLS = 16 };
static struct {
    _Alignas(64) atomic_int n;
} inside[CELLS];
static atomic_bool forking;

static void fork_begins(void)
{
    atomic_store(&forking, true);
    for (int i = 0; i < CELLS; ++i)
        while (atomic_load(&inside[i].n)) sched_yield();
}

static void fork_ends(void) { atomic_store(&forking, false); }

static void go_in(atomic_int *n)
{
    while (atomic_fetch_add(n, 1), atomic_load(&forking)) {
        atomic_fetch_sub(n, 1);
        sched_yield();
    }
}

static void start(void)
{
    pthread_atfork(fork_begins, fork_ends, fork_ends); /* which runs before those of lock.c, while all locks are free for who is inside */
    const char *asked = getenv("RUSHLIGHT_ONEDNN"); /* 0: do without, for tests and valgrind */
    if ((asked && !strcmp(asked, "0")) || dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
    pthread_key_create(&at_exit, free_cache);
    int capacity;
    if (engine && dnnl_get_primitive_cache_capacity(&capacity) == dnnl_success && capacity > SHARED)
        dnnl_set_primitive_cache_capacity(SHARED);
}

dnnl_engine_t rush_onednn(void)
{
    pthread_once(&once, start);
    return engine;
}

static thread_cache *cache(void)
{
    if (mine) return mine;
    if (!rush_onednn()) return NULL;
    thread_cache *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    if (dnnl_stream_create(&c->stream, engine, dnnl_stream_default_flags) != dnnl_success) {
        free(c);
        return NULL;
    }
    static atomic_uint threads;
    c->cell = atomic_fetch_add(&threads, 1) % CELLS;
    pthread_setspecific(at_exit, c);
    return mine = c;
}

void rush_case_add(rush_case *c, int n, const int64_t *numbers)
{
    memcpy(c->key + c->n, numbers, sizeof *numbers * (size_t)n);
    c->n += n;
}

static unsigned hash(const rush_case *c)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < c->n; ++i) {
        h ^= (uint64_t)c->key[i];
        h *= 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (unsigned)(h % BUCKETS);
}

/* NULL: there is none yet; `unknown` tells a case that failed before. */
static rush_primitive *find(const rush_case *id, bool *unknown)
{
    thread_cache *c = cache();
    *unknown = !c;
    if (!c) return NULL;
    for (rush_primitive *p = c->bucket[hash(id)]; p; p = p->next) {
        if (p->id.n != id->n || memcmp(p->id.key, id->key, sizeof *id->key * (size_t)id->n)) continue;
        *unknown = !p->p;
        return p->p ? p : NULL;
    }
    return NULL;
}

static void drop_one(thread_cache *c)
{
    c->chance = c->chance * 1664525u + 1013904223u;
    unsigned b = (c->chance >> 16) % BUCKETS;
    while (!c->bucket[b]) b = (b + 1) % BUCKETS;
    rush_primitive *p = c->bucket[b];
    c->bucket[b] = p->next;
    c->bytes -= p->bytes;
    free_primitive(p);
}

static dnnl_primitive_t create(dnnl_primitive_desc_t desc)
{
    dnnl_primitive_t p = NULL;
    return dnnl_primitive_create(&p, desc) == dnnl_success ? p : NULL;
}

rush_primitive *rush_primitive_add(const rush_case *id, dnnl_primitive_desc_t desc)
{
    thread_cache *c = cache();
    if (!c) return NULL;
    rush_primitive *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->id = *id;
    p->bytes = sizeof *p + (desc ? CODE_BYTES : 0);
    if (desc) p->p = create(desc);
    while (c->bytes && c->bytes + p->bytes > BOUND) drop_one(c);
    unsigned h = hash(id);
    p->next = c->bucket[h];
    c->bucket[h] = p;
    c->bytes += p->bytes;
    return p->p ? p : NULL;
}

void rush_primitive_forget(rush_primitive *p)
{
    if (p->p) dnnl_primitive_destroy(p->p);
    p->p = NULL;
}

static dnnl_primitive_t reorder_between(rush_const_desc from, rush_const_desc to)
{
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t p = NULL;
    if (dnnl_reorder_primitive_desc_create(&desc, from, engine, to, engine, NULL) != dnnl_success) return NULL;
    p = create(desc);
    dnnl_primitive_desc_destroy(desc);
    return p;
}

bool rush_primitive_mem(rush_primitive *p, dnnl_primitive_desc_t desc, dnnl_query_t query, int index, int arg,
                        rush_const_desc user, bool result)
{
    rush_const_desc want = dnnl_primitive_desc_query_md(desc, query, index);
    rush_mem *m = &p->mem[p->nmem++];
    m->arg = arg;
    m->result = result;
    if (!want || dnnl_memory_create(&m->mem, want, engine, NULL) != dnnl_success) return false;
    if (dnnl_memory_desc_equal(want, user)) return true;
    m->size = dnnl_memory_desc_get_size(want);
    if (dnnl_memory_create(&m->user, user, engine, NULL) != dnnl_success) return false;
    if (rush_repack_plan(&m->own, user, want) && (!result || rush_repack_both_ways(&m->own))) return true;
    m->own.kind = RUSH_REPACK_NONE;
    m->reorder = result ? reorder_between(want, user) : reorder_between(user, want);
    return m->reorder != NULL;
}

bool rush_primitive_zero(rush_primitive *p, int arg)
{
    rush_desc one;
    rush_mem *m = &p->mem[p->nmem++];
    *m = (rush_mem){.arg = DNNL_ARG_ATTR_ZERO_POINTS | arg};
    if (dnnl_memory_desc_create_with_strides(&one, 1, (dnnl_dims_t){1}, dnnl_s32, (dnnl_dims_t){1}) != dnnl_success) return false;
    bool ok = dnnl_memory_create(&m->mem, one, engine, NULL) == dnnl_success;
    dnnl_memory_desc_destroy(one);
    return ok;
}

/* Between the caller's `data` and the room `block`. */
static bool reorder(rush_mem *m, dnnl_stream_t stream, void *data, void *block)
{
    if (m->own.kind) {
        rush_repack_run(&m->own, m->result ? data : block, m->result ? block : data, m->result);
        return true;
    }
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, m->result ? m->mem : m->user}, {DNNL_ARG_TO, m->result ? m->user : m->mem}};
    return dnnl_primitive_execute(m->reorder, stream, 2, args) == dnnl_success;
}

/* Is it what the memory wants of data? */
static bool form_fits(const form *f, const rush_mem *m, const void *data)
{
    rush_const_desc layout;
    return f->block && f->data == data && dnnl_memory_get_memory_desc(m->mem, &layout) == dnnl_success && dnnl_memory_desc_equal(layout, f->layout);
}

/* Takes the block over, unless there is no memory. */
static bool form_take(form *f, const rush_mem *m, const void *data, void *block, size_t got)
{
    rush_const_desc layout;
    rush_desc copy;
    if (dnnl_memory_get_memory_desc(m->mem, &layout) != dnnl_success || dnnl_memory_desc_clone(&copy, layout) != dnnl_success) return false;
    *f = (form){data, copy, block, got};
    return true;
}

static void form_end(form *f)
{
    if (!f->block) return;
    rush_block_free(f->block, f->got);
    dnnl_memory_desc_destroy(f->layout);
    f->block = NULL;
}

void rush_engine_share(const void *data)
{
    thread_cache *c = cache();
    if (!c) return;
    form_end(&c->shared);
    c->shared.data = data;
}

/* Frees the room of a run, or keeps it as the shared operand. */
static void give_room(thread_cache *c, const rush_mem *m, const void *data, void *block, size_t got)
{
    bool wanted = c->shared.data && data == c->shared.data && !c->shared.block && !m->result;
    if (!wanted || !form_take(&c->shared, m, data, block, got)) rush_block_free(block, got);
}

void rush_engine_settled(const rush_storage *s, const void *data)
{
    if (s && !rush_storage_settled(s)) s = NULL;
    thread_cache *c = s ? cache() : mine;
    if (c) c->storage = s, c->in_storage = data;
}

/* A settled operand's form, beside its storage. */
typedef struct kept_form {
    rush_kept base;
    form form;
} kept_form;

typedef struct wanted_form {
    rush_mem *m;
    void *data;
    dnnl_stream_t stream;
} wanted_form;

static void end_kept(rush_kept *base)
{
    form_end(&((kept_form *)base)->form);
    free(base);
}

static bool kept_fits(const rush_kept *k, const void *arg)
{
    const wanted_form *w = arg;
    return k->end == end_kept && form_fits(&((const kept_form *)k)->form, w->m, w->data);
}

static rush_kept *make_kept(const void *arg)
{
    const wanted_form *w = arg;
    size_t got;
    void *block = rush_block_alloc(w->m->size, &got);
    kept_form *k = block ? calloc(1, sizeof *k) : NULL;
    if (k) k->base.end = end_kept;
    if (k && dnnl_memory_set_data_handle(w->m->mem, block) == dnnl_success && reorder(w->m, w->stream, w->data, block) &&
        form_take(&k->form, w->m, w->data, block, got)) return &k->base;
    free(k);
    if (block) rush_block_free(block, got);
    return NULL;
}

static void *kept_block(const rush_storage *s, rush_mem *m, void *data, dnnl_stream_t stream)
{
    const kept_form *k = (const kept_form *)rush_storage_form(s, m->size, kept_fits, make_kept, &(wanted_form){m, data, stream});
    return k ? k->form.block : NULL;
}

/* Room for other layouts is taken for the run only: the allocator hands the next layer the same, still cached, block. */
static bool run(rush_primitive *p, void *const *data)
{
    thread_cache *c = cache();
    dnnl_stream_t stream = c->stream;
    dnnl_exec_arg_t args[RUSH_MEMS];
    void *block[RUSH_MEMS] = {NULL};
    size_t got[RUSH_MEMS];
    bool ok = true;
    rush_parallel_elsewhere();
    for (int i = 0; i < p->nmem && ok; ++i) {
        rush_mem *m = &p->mem[i];
        args[i] = (dnnl_exec_arg_t){m->arg, m->mem};
        dnnl_memory_set_data_handle(m->user ? m->user : m->mem, data[i]);
        if (!m->user) continue;
        bool keeps = c->storage && !m->result && data[i] == c->in_storage;
        void *made = m->result ? NULL : form_fits(&c->shared, m, data[i]) ? c->shared.block : keeps ? kept_block(c->storage, m, data[i], stream) : NULL;
        if (made) {
            ok = dnnl_memory_set_data_handle(m->mem, made) == dnnl_success;
            continue;
        }
        block[i] = rush_block_alloc(m->size, &got[i]);
        ok = block[i] && dnnl_memory_set_data_handle(m->mem, block[i]) == dnnl_success && (m->result || reorder(m, stream, data[i], block[i]));
    }
    ok = ok && dnnl_primitive_execute(p->p, stream, p->nmem, args) == dnnl_success;
    for (int i = 0; i < p->nmem; ++i) {
        if (ok && p->mem[i].user && p->mem[i].result) ok = reorder(&p->mem[i], stream, data[i], block[i]);
        if (!block[i]) continue;
        if (ok) give_room(c, &p->mem[i], data[i], block[i], got[i]);
        else rush_block_free(block[i], got[i]);
    }
    return ok;
}

bool rush_primitive_do(const rush_case *id, rush_primitive *(*make)(const void *arg, const rush_case *), const void *arg, void *const *data)
{
    bool unknown;
    rush_primitive *p = find(id, &unknown);
    if (p && p->ran) {
        atomic_int *n = &inside[cache()->cell].n;
        go_in(n);
        bool done = run(p, data);
        atomic_fetch_sub(n, 1);
        return done;
    }
    if (unknown) return false;
    rush_lock(RUSH_LOCK_ONEDNN); /* which a fork waits for, too */
    if (!p) p = make(arg, id);
    bool done = p && (p->ran = run(p, data));
    rush_unlock(RUSH_LOCK_ONEDNN);
    return done;
}

void rush_primitive_done(dnnl_primitive_desc_t desc)
{
    if (desc) dnnl_primitive_desc_destroy(desc);
}

int rush_onednn_dtype(rush_dtype d)
{
    return d == RUSH_F32 ? dnnl_f32 : d == RUSH_BF16 ? dnnl_bf16 : d == RUSH_F16 ? dnnl_f16 : d == RUSH_I8 ? dnnl_s8 : d == RUSH_U8 ? dnnl_u8 : dnnl_data_type_undef;
}

bool rush_onednn_exact_bytes(void)
{
#if defined(__x86_64__)
#if defined(__clang__) && __clang_major__ < 18 /* does not know the second */
    return __builtin_cpu_supports("avx512vnni");
#else
    return __builtin_cpu_supports("avx512vnni") || __builtin_cpu_supports("avxvnni");
#endif
#else
    return false;
#endif
}

bool rush_engine_has_bf16(void)
{
#if defined(__x86_64__)
    return rush_onednn() && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

#else

bool rush_engine_has_bf16(void)
{
    return false;
}

void rush_engine_settled(const rush_storage *s, const void *data)
{
    (void)s, (void)data;
}

void rush_engine_share(const void *data)
{
    (void)data;
}

#endif
