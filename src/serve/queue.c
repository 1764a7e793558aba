/* queue.c - jobs of a model: a queue with a bound, threads that take batches from it, answers that are waited for. */
#include "serve/serve.h"
#include <rushlight/ops.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_JOBS = 256 }; /* in a batch */

uint64_t serve_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct timespec serve_time_of(uint64_t ns) { return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)}; }

serve_job *serve_job_new(serve_model *m)
{
    serve_job *j = calloc(1, sizeof *j);
    pthread_condattr_t forward;
    if (!j) return rush_fail(RUSH_MEMORY_ERROR, "out of memory"), NULL;
    atomic_init(&j->refs, 1);
    atomic_fetch_add(&m->refs, 1);
    j->model = m;
    memset(j->cast, -1, sizeof j->cast);
    pthread_condattr_init(&forward);
    pthread_condattr_setclock(&forward, CLOCK_MONOTONIC);
    pthread_cond_init(&j->done, &forward);
    pthread_mutex_init(&j->lock, NULL);
    pthread_condattr_destroy(&forward);
    return j;
}

void serve_job_drop(serve_job *j)
{
    if (!j || atomic_fetch_sub(&j->refs, 1) != 1) return;
    for (int i = 0; i < j->n; ++i) rush_drop(j->in[i]);
    for (int i = 0; i < j->nout; ++i) rush_drop(j->out[i]), rush_drop(j->numbers[i]);
    pthread_cond_destroy(&j->done);
    pthread_mutex_destroy(&j->lock);
    serve_model_drop(j->model);
    serve_talk_drop(j->talk);
    free(j);
}

/* ---- waiting ---- */

/* The samples in a job: equal first sizes of all its inputs; -1: it cannot be part of a batch. */
static int64_t rows_of(const serve_job *j)
{
    int64_t rows = j->n && rush_ndim(j->in[0]) ? rush_size(j->in[0], 0) : 1;
    for (int i = 0; i < j->n; ++i)
        if (!rush_ndim(j->in[i]) || rush_size(j->in[i], 0) != rows) return -1;
    return rows;
}

/* How many rows of a batch a job fills. */
static int64_t share_of(const serve_job *j) { return j->rows > 0 ? j->rows : j->model->max_batch; }

static void unlink_at(serve_model *m, serve_job **at)
{
    serve_job *j = *at;
    *at = j->next;
    if (m->last == &j->next) m->last = at;
    m->waiting--;
    m->rows -= share_of(j);
}

static int refuse(serve_job *j, int status, const char *why)
{
    j->why = why;
    return status;
}

/* Each job has a lock of its own, so that those of one batch wake without waiting for each other. 0: the time is over. */
static int wait_for_answer(serve_job *j, const struct timespec *until)
{
    pthread_mutex_lock(&j->lock);
    for (int waited = 0; !j->status && waited != ETIMEDOUT;) waited = pthread_cond_timedwait(&j->done, &j->lock, until);
    int status = j->status;
    pthread_mutex_unlock(&j->lock);
    return status;
}

void serve_job_take_back(serve_job *j)
{
    serve_model *m = j->model;
    pthread_mutex_lock(&m->lock);
    serve_job **at = &m->first;
    while (*at && *at != j) at = &(*at)->next;
    bool queued = *at;
    if (queued) unlink_at(m, at);
    pthread_mutex_unlock(&m->lock);
    if (queued) serve_job_drop(j);
}

int serve_job_late(serve_job *j)
{
    serve_job_take_back(j);
    atomic_fetch_add(&j->model->stats->timed_out, 1);
    return refuse(j, 504, "the request took longer than the server allows");
}

/* Where one thread may compute a batch with all processors, it is the leader that does so, and only while the helpers rest: they
 * compute batches of their own beside it. (OpenMP keeps threads for each that computes with several.) */
static bool may_take(const serve_model *m, bool helps)
{
    bool beside = m->apart && !m->gathering;
    return m->first && (!m->led || (helps ? beside && m->leading : beside || !m->computing));
}

static void wake(serve_model *m)
{
    if (!m->leading) pthread_cond_signal(&m->more);
    else if (may_take(m, true)) pthread_cond_signal(&m->help);
}

int serve_job_queue(serve_job *j)
{
    serve_model *m = j->model;
    j->rows = rows_of(j);
    pthread_mutex_lock(&m->lock);
    if (m->ending || m->waiting >= serve_given.queue) {
        bool ending = m->ending;
        pthread_mutex_unlock(&m->lock);
        if (!ending) atomic_fetch_add(&m->stats->refused, 1);
        return ending ? refuse(j, 410, "the model was unloaded") : refuse(j, 429, "too many requests: the model's queue is full");
    }
    atomic_fetch_add(&j->refs, 1); /* the queue's */
    j->queued_at = serve_now();
    *m->last = j;
    m->last = &j->next;
    m->rows += share_of(j);
    if (!m->waiting++ || m->rows >= m->max_batch) wake(m); /* in between, a thread waits for more already */
    pthread_mutex_unlock(&m->lock);
    return 0;
}

int serve_job_run(serve_job *j)
{
    struct timespec until = serve_time_of(serve_now() + (uint64_t)serve_given.timeout_ms * 1000000u);
    int status = serve_job_queue(j);
    if (status) return status;
    status = wait_for_answer(j, &until);
    return status ? refuse(j, status, j->error) : serve_job_late(j);
}

/* ---- batches ---- */

/* Texts of one batch get one length: what that adds is bounded. */
static bool texts_fit(int64_t a, int64_t b) { return RUSH_MAX(a, b) <= RUSH_MAX(2 * RUSH_MIN(a, b), 4096); }

static bool fits(const serve_job *a, const serve_job *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; ++i) {
        const rush_tensor *x = a->in[i], *y = b->in[i];
        int n = rush_ndim(x);
        if (n < 1 || n != rush_ndim(y) || rush_dtype_of(x) != rush_dtype_of(y) || a->cast[i] != b->cast[i]) return false;
        bool texts = a->model->in[i].dtype == SERVE_BYTES;
        for (int d = 1; d < n - texts; ++d)
            if (rush_size(x, d) != rush_size(y, d)) return false;
        if (texts && !texts_fit(rush_size(x, n - 1), rush_size(y, n - 1))) return false;
    }
    return true;
}

/* ---- how large a batch pays, and whether threads should compute one together or each its own: nanoseconds for a row in
 * batches of at most 1, 2, 4 ... rows; all with the lock ---- */

enum { TOGETHER, APART };

static int size_of(int64_t rows) { return rows > 1 ? RUSH_MIN(64 - __builtin_clzll((unsigned long long)rows - 1), SERVE_SIZES - 1) : 0; }

static bool is_known(const serve_pace *p) { return p->runs >= 3; } /* the first ones prepare what later ones use */

/* The least that was seen, which is slowly forgotten: what else the machine has to do makes runs slower, none faster. */
static void note_pace(serve_pace *p, uint64_t each)
{
    p->ns = p->ns ? RUSH_MIN(each + 1, p->ns + p->ns / 16 + 1) : each + 1;
    p->runs += p->runs < 3;
}

static uint64_t pace_of(const serve_model *m, int way, int64_t rows)
{
    const serve_pace *p = &m->pace[way][size_of(rows)];
    return is_known(p) ? p->ns : 0;
}

/* The smallest size that is about as fast for a row as the fastest; as many as may be while nothing says that more are no faster. */
static int64_t rows_that_pay(const serve_model *m, int way)
{
    uint64_t best = UINT64_MAX;
    int paying = 0, largest = 0;
    for (int k = 0; k < SERVE_SIZES; ++k)
        if (is_known(&m->pace[way][k])) best = RUSH_MIN(best, m->pace[way][k].ns), largest = k;
    while (paying < largest && (!is_known(&m->pace[way][paying]) || m->pace[way][paying].ns > best + best / 32)) ++paying;
    return paying < largest ? RUSH_MIN(INT64_C(1) << paying, m->max_batch) : m->max_batch;
}

/* Among how many threads are the rows that wait divided? Apart, among those that are free. */
static int64_t threads_for(const serve_model *m, int way) { return way == APART ? RUSH_MAX(m->takers - m->computing, 1) : 1; }

/* What a thread finds: equal parts. */
static int64_t rows_there(const serve_model *m, int way)
{
    int64_t threads = threads_for(m, way);
    return RUSH_MIN((m->rows + threads - 1) / threads, m->max_batch);
}

/* A size of those that are there which was not measured yet; -1: all were. */
static int to_be_tried(const serve_model *m, int way)
{
    for (int k = 0, most = size_of(rows_there(m, way)); k <= most; ++k)
        if (!is_known(&m->pace[way][k]) && m->pace[way][k].tries < 4 * (way == APART ? m->takers : 1)) return k;
    return -1;
}

/* Sizes that are not known are tried first, as soon as there are so many rows; later each 32nd batch tries one again. */
static int64_t rows_to_take(serve_model *m, int way)
{
    int top = size_of(m->max_batch), tried = to_be_tried(m, way);
    unsigned turn = m->turn++;
    if (tried >= 0) return ++m->pace[way][tried].tries, RUSH_MIN(INT64_C(1) << tried, m->max_batch);
    if (turn % 32 == 31) return RUSH_MIN(INT64_C(1) << turn / 32 % (unsigned)(top + 1), m->max_batch);
    return way == APART ? RUSH_MIN(rows_that_pay(m, way), rows_there(m, way)) : rows_that_pay(m, way);
}

/* Threads that compute a batch together wait for each other in every loop, and all for one that something else holds up; those that
 * compute one each wait for nothing, but read the weights once more. So they do that unless it is clearly slower. Chosen while nothing
 * is computed, where a batch takes a millisecond; now and then the other way is tried. */
static int way_to_go(serve_model *m)
{
    int64_t rows = RUSH_MIN(rows_that_pay(m, TOGETHER), rows_there(m, TOGETHER));
    uint64_t together = pace_of(m, TOGETHER, rows), apart = pace_of(m, APART, RUSH_MIN(rows_that_pay(m, APART), rows_there(m, APART)));
    bool gathering = m->gathering;
    m->gathering = false;
    if (m->waiting < 2 || to_be_tried(m, TOGETHER) >= 0 || gathering || together * (uint64_t)rows < 1000000) return TOGETHER;
    return to_be_tried(m, APART) >= 0 || (apart && apart < together + together / 8) || m->turn % 32 == 7;
}

/* Takes what fits behind the first job, as it stands in the queue. Called with the lock. */
static int take(serve_model *m, int way, serve_job **batch)
{
    int n = 0;
    int64_t rows = 0, most = rows_to_take(m, way);
    uint64_t now = serve_now();
    for (serve_job **at = &m->first; *at && n < MOST_JOBS;) {
        serve_job *j = *at;
        if (n && (batch[0]->rows < 0 || j->rows < 0 || rows + j->rows > most || !fits(batch[0], j))) {
            at = &j->next;
            continue;
        }
        unlink_at(m, at);
        j->began = now;
        batch[n++] = j;
        rows += j->rows;
        if (m->max_batch <= 1) break;
    }
    return n;
}

/* While a batch could grow, its first job is held back for at most delay_us, and no longer than computing what is there would take. */
static void wait_for_more(serve_model *m, bool helps)
{
    if (!m->delay_us || m->max_batch <= 1) return;
    int64_t threads = threads_for(m, m->apart);
    uint64_t all = pace_of(m, m->apart, rows_there(m, m->apart)) * (uint64_t)RUSH_MAX(m->rows, 1);
    struct timespec until = serve_time_of(m->first->queued_at + RUSH_MIN((uint64_t)m->delay_us * 1000u, all));
    while (may_take(m, helps) && m->rows < threads * rows_that_pay(m, m->apart) && !m->ending)
        if (pthread_cond_timedwait(helps ? &m->help : &m->more, &m->lock, &until) == ETIMEDOUT) return;
}

/* Results of a whole batch, cut into the jobs' parts. */
static int share(serve_job **batch, int n, int64_t rows, int nout, rush_tensor **out)
{
    for (int k = 0; k < nout; ++k)
        if (!rush_ndim(out[k]) || rush_size(out[k], 0) != rows)
            return rush_fail(RUSH_VALUE_ERROR, "result %d has no row for each row of the inputs", k);
    for (int i = 0, at = 0; i < n; at += (int)batch[i++]->rows)
        for (int k = 0; k < nout; ++k) {
            rush_tensor *part = rush_contiguous(rush_slice(out[k], .dim = 0, .start = RUSH_V((int64_t)at), .end = RUSH_V((int64_t)(at + batch[i]->rows))));
            if (!part) return -1;
            batch[i]->out[k] = rush_keep(part);
            batch[i]->nout = k + 1;
        }
    return 0;
}

/* With zeros behind texts, up to the longest. */
static void lengthen(rush_tensor **parts, int n)
{
    int64_t longest = 0;
    for (int i = 0; i < n; ++i) longest = RUSH_MAX(longest, rush_size(parts[i], rush_ndim(parts[i]) - 1));
    for (int i = 0; i < n; ++i) {
        int64_t more = longest - rush_size(parts[i], rush_ndim(parts[i]) - 1);
        if (more) parts[i] = rush_constant_pad_nd(parts[i], RUSH_INTS(0, more));
    }
}

static int compute(rush_module *net, serve_job **batch, int n)
{
    const serve_model *m = batch[0]->model;
    rush_tensor *in[SERVE_TENSORS], *out[SERVE_TENSORS];
    int64_t rows = 0;
    for (int i = 0; i < n; ++i) rows += batch[i]->rows;
    for (int k = 0; k < batch[0]->n; ++k) {
        rush_tensor *parts[MOST_JOBS];
        for (int i = 0; i < n; ++i) parts[i] = batch[i]->in[k];
        if (m->in[k].dtype == SERVE_BYTES) lengthen(parts, n);
        in[k] = n == 1 ? parts[0] : rush_cat(((rush_tensors){parts, (size_t)n}), .dim = 0);
        if (in[k] && batch[0]->cast[k] >= 0) in[k] = rush_to(in[k], rush_v_dtype(batch[0]->cast[k]));
        if (!in[k]) return -1;
    }
    int nout = rush_program_run(net, batch[0]->n, in, SERVE_TENSORS, out);
    if (nout < 0) return -1;
    if (n > 1) return share(batch, n, rows, nout, out);
    for (int k = 0; k < nout; ++k) {
        rush_tensor *t = out[k] ? rush_contiguous(out[k]) : NULL;
        if (!t) return rush_error() ? -1 : rush_fail(RUSH_RUNTIME_ERROR, "the model has no tensor as result %d", k);
        batch[0]->out[k] = rush_keep(t);
        batch[0]->nout = k + 1;
    }
    return 0;
}

static int show(serve_job *j)
{
    for (int k = 0; k < j->nout; ++k) {
        if (!(j->shown >> k & 1) || (k < j->model->nout && j->model->out[k].dtype == SERVE_BYTES)) continue;
        rush_tensor *t = rush_to(j->out[k], rush_v_dtype(rush_dtype_is_float(rush_dtype_of(j->out[k])) ? RUSH_F64 : RUSH_I64));
        if (!t) return -1;
        j->numbers[k] = rush_keep(t);
    }
    return 0;
}

static void forget(serve_job *j)
{
    for (int k = 0; k < j->nout; ++k) rush_drop(j->out[k]), rush_drop(j->numbers[k]), j->numbers[k] = NULL;
    j->nout = 0;
}

/* When a batch fails, each job is tried by itself: one that is wrong harms no other. */
static void run_batch(void *arg, serve_job **batch, int n)
{
    rush_module *net = arg;
    int failed = 0;
    rush_scope() {
        failed = compute(net, batch, n);
        for (int i = 0; !failed && i < n; ++i) failed = show(batch[i]);
    }
    if (!failed) return;
    for (int i = 0; i < n; ++i) forget(batch[i]);
    if (n == 1) {
        snprintf(batch[0]->error, sizeof batch[0]->error, "%s", rush_error() ? rush_error() : "the model failed");
        rush_error_clear();
        return;
    }
    rush_error_clear();
    for (int i = 0; i < n; ++i) run_batch(net, &batch[i], 1);
}

static void finish(const serve_model *m, serve_job **batch, int n)
{
    uint64_t now = serve_now();
    serve_stats *s = m->stats;
    atomic_fetch_add(&s->executions, 1);
    for (int i = 0; i < n; ++i) {
        serve_job *j = batch[i];
        atomic_fetch_add(&s->waited.n, 1);
        atomic_fetch_add(&s->waited.ns, j->began - j->queued_at);
        atomic_fetch_add(&s->infer.n, 1);
        atomic_fetch_add(&s->infer.ns, now - j->began);
        atomic_fetch_add(&s->rows, (unsigned long long)(j->rows > 0 ? j->rows : 1));
        pthread_mutex_lock(&j->lock);
        j->status = j->error[0] ? 400 : 200;
        pthread_mutex_unlock(&j->lock);
        pthread_cond_signal(&j->done);
        serve_job_drop(j);
    }
}

void serve_instance_settle(void)
{
    rush_grad_enabled_set(false);
    rush_memory_wide(true);
    rush_parallel_alone(false); /* OpenMP's number is each thread's own */
}

/* A thread begins (1) or ends (-1) to compute: `work` grows by a nanosecond for each that one thread computes. */
static void count(serve_model *m, int change)
{
    uint64_t now = serve_now();
    m->work += (uint64_t)m->computing * (now - m->counted);
    m->counted = now;
    m->computing += change;
}

void serve_each_batch(serve_model *m, bool helps, void (*run)(void *arg, serve_job **, int n), void *arg)
{
    serve_job *batch[MOST_JOBS];
    bool leads = m->led && !helps;
    pthread_mutex_lock(&m->lock);
    for (;;) {
        while (!may_take(m, helps) && !(m->ending && (helps || !m->first))) pthread_cond_wait(helps ? &m->help : &m->more, &m->lock);
        if (!may_take(m, helps)) break;
        wait_for_more(m, helps);
        if (!may_take(m, helps)) continue;
        if (leads && !m->computing) m->apart = way_to_go(m);
        else if (m->apart && m->turn % 64 == 7) m->gathering = true; /* the next batch is computed together */
        int way = m->apart, n = take(m, way, batch);
        int64_t rows = 0;
        for (int i = 0; i < n; ++i) rows += batch[i]->rows;
        count(m, 1);
        if (leads) m->leading = true;
        uint64_t begin = m->counted, before = m->work;
        if (m->first) wake(m); /* what did not fit, for another thread */
        pthread_mutex_unlock(&m->lock);
        if (leads) rush_parallel_alone(way == APART);
        run(arg, batch, n);
        uint64_t took = serve_now() - begin;
        finish(m, batch, n);
        pthread_mutex_lock(&m->lock);
        count(m, -1);
        if (leads) m->leading = false;
        if (m->gathering && !m->computing) pthread_cond_signal(&m->more);
        /* apart: shared by as many threads as computed beside it on the average */
        double shared = way == APART ? (double)took / (double)(m->work - before + 1) : 1;
        if (rows > 0) note_pace(&m->pace[way][size_of(rows)], (uint64_t)((double)took / (double)rows * shared));
    }
    pthread_mutex_unlock(&m->lock);
}

void *serve_instance(void *arg)
{
    serve_instance_start start = *(serve_instance_start *)arg;
    free(arg);
    serve_instance_settle();
    if (start.helps) rush_parallel_alone(true);
    serve_each_batch(start.model, start.helps, run_batch, start.net);
    rush_module_drop(start.net);
    serve_model_drop(start.model);
    return NULL;
}
