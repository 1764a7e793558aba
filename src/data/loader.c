/* loader.c - batches of a dataset in PyTorch's order, read ahead by threads.
 *
 * A ring of slots, one for each batch that is in work: wanted, taken by somebody, ready. Threads take the oldest
 * wanted slot; the caller waits for the next one in order, and reads it itself if nobody has begun: waiting
 * would not be sooner. Slot k of the ring holds the batches k, k + ring, k + 2 ring, ...
 */
#include "base/buried.h"
#include "data/dataset.h"
#include <pthread.h>

enum state { FREE, WANTED, TAKEN, READY };

typedef struct slot {
    enum state state;
    int64_t batch;                        /* its number in the epoch */
    rush_tensor *t[RUSH_MAXCOLUMNS];      /* READY: kept */
    rush_error_state error;               /* READY: kind RUSH_OK without one */
} slot;

struct rush_loader {
    rush_dataset *data;                   /* first: not NULL until its end */
    rush_loader_options o;
    int64_t *order, samples, batches;     /* of this epoch; NULL order: as they come */
    int64_t asked, given;                 /* batches put into the ring, handed out */
    bool running, stop;
    int ring, nthreads;
    int forks;                            /* of the process whose threads they are */
    slot *slots;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t wanted, ready;
};

/* Reads a batch; what comes of it goes to the slot. Called without the lock. */
static void fill(rush_loader *l, slot *s)
{
    int64_t from = s->batch * l->o.batch, n = RUSH_MIN(l->o.batch, l->samples - from), at = -1;
    size_t mark = rush_scope_open();
    rush_tensor *t[RUSH_MAXCOLUMNS] = {0};
    int64_t *plain = NULL;
    const int64_t *index = l->order + from;
    if (!l->order && (index = plain = rush_malloc((size_t)n * sizeof *plain)))
        for (int64_t i = 0; i < n; i++) plain[i] = from + i;
    int failed = !index || rush_dataset_batch(l->data, n, index, t, &at);
    if (!failed && l->o.transform) failed = l->o.transform(l->o.transform_arg, l->data->columns, t);
    rush_free(plain);
    if (!failed) rush_dataset_filled(l->data, t);
    if (failed && !rush_failed()) rush_fail(RUSH_RUNTIME_ERROR, "the dataset gave no sample and no reason");
    for (int c = 0; c < l->data->columns; c++) s->t[c] = rush_failed() ? NULL : rush_keep(t[c]);
    s->error = (rush_error_state){0};
    if (rush_failed()) {
        rush_error_in("loader, batch %lld, sample %lld", (long long)s->batch, (long long)at);
        s->error = rush_error_take();
    }
    rush_scope_close(mark);
}

static slot *oldest_wanted(rush_loader *l)
{
    slot *found = NULL;
    for (int k = 0; k < l->ring; k++)
        if (l->slots[k].state == WANTED && (!found || l->slots[k].batch < found->batch)) found = &l->slots[k];
    return found;
}

static void *work(void *arg)
{
    rush_loader *l = arg;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    rush_now.in_parallel = 1; /* the threads are the parallelism */
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        slot *s = oldest_wanted(l);
        if (!s) {
            pthread_cond_wait(&l->wanted, &l->lock);
            continue;
        }
        s->state = TAKEN;
        pthread_mutex_unlock(&l->lock);
        fill(l, s);
        pthread_mutex_lock(&l->lock);
        s->state = READY;
        pthread_cond_broadcast(&l->ready);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the order ---- */

static int64_t draw(rush_generator *g)
{
    rush_generator_lock(g);
    int64_t x = (int64_t)(rush_random64(g) & INT64_MAX); /* as random_() of an int64 tensor */
    rush_generator_unlock(g);
    return x;
}

static int64_t parts(int64_t n, int64_t each, bool whole) { return n / each + (!whole && n % each); }

/* The samples of the epoch that begins, drawn as PyTorch's DataLoader and RandomSampler do. */
static int begin_epoch(rush_loader *l)
{
    rush_generator *g = l->o.generator ? l->o.generator : rush_default_generator();
    int64_t n = l->data->size;
    size_t mark = rush_scope_open();
    rush_tensor *order = NULL;
    draw(g); /* the seed of workers */
    if (l->o.shuffle) {
        int64_t seed = l->o.generator ? 0 : draw(g);
        rush_generator *own = l->o.generator ? NULL : rush_generator_new((uint64_t)seed);
        rush_value v = {.kind = RUSH_V_GENERATOR, .gen = own ? own : g};
        order = T("randperm.generator", V(n), v);
        if (own) rush_generator_drop(own);
    }
    rush_free(l->order);
    l->order = NULL;
    l->samples = n;
    int64_t shares = RUSH_MAX(l->o.shares, 1);
    int failed = l->o.shuffle && !order ? -1 : 0;
    if (!failed && (order || shares > 1)) {
        l->samples = parts(n, shares, l->o.drop_last);
        l->order = rush_malloc((size_t)RUSH_MAX(l->samples, 1) * sizeof *l->order);
        failed = l->order ? 0 : -1;
        const int64_t *from = order ? rush_ptr(order) : NULL;
        for (int64_t i = 0; !failed && i < l->samples; i++) {
            int64_t k = (i * shares + l->o.share) % RUSH_MAX(n, 1); /* the last ones are filled up from the start */
            l->order[i] = from ? from[k] : k;
        }
    }
    rush_scope_close(mark);
    l->batches = parts(l->samples, l->o.batch, l->o.drop_last);
    l->asked = l->given = 0;
    l->running = !failed;
    return failed;
}

/* Puts as many batches into the ring as fit. With the lock. */
static void ask(rush_loader *l)
{
    while (l->asked < l->batches && l->asked < l->given + l->ring) {
        slot *s = &l->slots[l->asked % l->ring];
        s->batch = l->asked++;
        s->state = WANTED;
        if (l->nthreads) pthread_cond_signal(&l->wanted);
    }
}

static int start_threads(rush_loader *l)
{
    l->forks = rush_forks();
    while (l->nthreads < l->o.threads) {
        if (pthread_create(&l->threads[l->nthreads], NULL, work, l)) return rush_fail(RUSH_RUNTIME_ERROR, "loader: thread %d of %d can't be started", l->nthreads + 1, l->o.threads);
        l->nthreads++;
    }
    return 0;
}

int rush_loader_next(rush_loader *l, rush_tensor **batch)
{
    if (rush_failed()) return -1;
    if (!rush_lives(l, "a loader")) return -1;
    RUSH_CHECK(batch, RUSH_TYPE_ERROR, "the next batch needs room");
    RUSH_CHECK(!l->nthreads || l->forks == rush_forks(), RUSH_RUNTIME_ERROR, "the loader's threads are in the process that this one was forked from");
    if ((!l->running && begin_epoch(l)) || start_threads(l)) return -1;
    if (l->given == l->batches) return l->running = false, 0;
    pthread_mutex_lock(&l->lock);
    ask(l);
    slot *s = &l->slots[l->given % l->ring];
    if (s->state == WANTED) {
        s->state = TAKEN;
        pthread_mutex_unlock(&l->lock);
        bool grad = rush_grad_enabled_set(false);
        fill(l, s);
        rush_grad_enabled_set(grad);
        pthread_mutex_lock(&l->lock);
        s->state = READY;
    }
    while (s->state != READY) pthread_cond_wait(&l->ready, &l->lock);
    rush_tensor *got[RUSH_MAXCOLUMNS];
    rush_error_state e = s->error;
    memcpy(got, s->t, sizeof got);
    s->state = FREE;
    l->given++;
    ask(l);
    pthread_mutex_unlock(&l->lock);
    if (e.kind) return rush_error_restore(e), -1;
    for (int c = 0; c < l->data->columns; c++) batch[c] = rush_park(got[c]);
    return 1;
}

int64_t rush_loader_batches(const rush_loader *l)
{
    if (!rush_lives(l, "a loader")) return 0;
    return parts(parts(l->data->size, RUSH_MAX(l->o.shares, 1), l->o.drop_last), l->o.batch, l->o.drop_last);
}

rush_loader *rush_loader_new_with(rush_dataset *data, const rush_loader_options *o)
{
    if (rush_failed()) return NULL;
    if (!rush_lives(data, "a dataset")) return NULL;
    o = RUSH_OPTIONS(o);
    RUSH_CHECK_NULL(o->batch >= 0 && o->threads >= 0 && o->prefetch >= 0, RUSH_VALUE_ERROR, "loader: batch, threads and prefetch are not negative");
    RUSH_CHECK_NULL(o->threads <= 1024 && o->prefetch <= 1024, RUSH_VALUE_ERROR, "loader: at most 1024 threads, and as many batches ahead of each");
    RUSH_CHECK_NULL(o->share >= 0 && o->share < RUSH_MAX(o->shares, 1), RUSH_VALUE_ERROR, "loader: share %d of %d", o->share, o->shares);
    rush_loader *l = rush_calloc(1, sizeof *l);
    if (!l) return NULL;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wanted, NULL);
    pthread_cond_init(&l->ready, NULL);
    l->data = rush_dataset_keep(data);
    l->o = *o;
    if (!l->o.batch) l->o.batch = 1;
    l->ring = RUSH_MAX(l->o.threads, 1) * (l->o.prefetch ? l->o.prefetch : 2);
    if (!l->o.threads) l->ring = 1;
    if (l->o.generator) rush_generator_keep(l->o.generator);
    l->slots = rush_calloc((size_t)l->ring, sizeof *l->slots);
    l->threads = rush_calloc((size_t)l->o.threads + 1, sizeof *l->threads);
    if (!l->slots || !l->threads) return rush_loader_free(l), NULL;
    return l;
}

void rush_loader_free(rush_loader *l)
{
    if (!l || !rush_lives(l, "a loader") || (l->nthreads && l->forks != rush_forks())) return; /* a forked child cannot tell what the threads were at */
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->wanted);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->nthreads; i++) pthread_join(l->threads[i], NULL);
    for (int k = 0; l->slots && k < l->ring; k++)
        if (l->slots[k].state == READY) {
            for (int c = 0; c < l->data->columns; c++) rush_drop(l->slots[k].t[c]);
            rush_free(l->slots[k].error.message);
        }
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->wanted);
    pthread_cond_destroy(&l->ready);
    if (l->o.generator) rush_generator_drop(l->o.generator);
    rush_dataset_drop(l->data);
    rush_free(l->order);
    rush_free(l->slots);
    rush_free(l->threads);
    rush_bury_handle(l, sizeof *l);
}
