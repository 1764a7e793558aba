/* group.c - process groups: a queue of collectives, which a thread of the group does one after the other.
 *
 * All ranks of a group call the same collectives in the same order, so one at a time is enough, and each has the next number.
 * Messages to and from single ranks go by themselves. Whatever fails breaks the group: its ranks would no longer agree. The
 * error of a call says which one it was, and the cause, which names the rank.
 */
#define _GNU_SOURCE
#include "dist/mpi.h"
#include "dist/recorder.h"
#include "tensor/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* ---- engines ---- */

typedef struct loadable { /* an engine in a shared object of its own */
    const char *name, *told_by, *remedy;
    const rush_engine *engine;   /* once it is open */
} loadable;

static loadable loadables[] = {{"gloo", "RUSHLIGHT_GLOO", "between machines it needs libgloo: install libgloo-dev and build again", NULL}};

/* The shared object lies beside the library, or where the loader looks, or where the environment says. */
static int load(loadable *l)
{
    char beside[4096], plain[64], symbol[64], why[512] = "";
    const char *told = getenv(l->told_by);
    snprintf(symbol, sizeof symbol, "rush_engine_%s", l->name);
    snprintf(plain, sizeof plain, "librushlight_%s.so", l->name);
    rush_beside_library(beside, sizeof beside, plain);
    const char *tries[] = {told, beside, plain};
    for (size_t i = told ? 0 : 1; !l->engine && i < (told ? 1 : RUSH_COUNT(tries)); i++) {
        void *so = dlopen(tries[i], RTLD_NOW | RTLD_LOCAL);
        l->engine = so ? dlsym(so, symbol) : NULL;
        if (!l->engine) snprintf(why, sizeof why, "%s", dlerror());
    }
    RUSH_CHECK(l->engine, RUSH_DIST_BACKEND_ERROR, "the backend '%s' is not in this installation (%s); %s", l->name, why, l->remedy);
    return 0;
}

const rush_engine *rush_engine_load(const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!strcmp(name, "mpi")) return &rush_engine_mpi;
    size_t i = 0;
    while (i < RUSH_COUNT(loadables) && strcmp(loadables[i].name, name)) i++;
    RUSH_ASSERT(i < RUSH_COUNT(loadables));
    pthread_mutex_lock(&lock);
    if (!loadables[i].engine) load(&loadables[i]);
    pthread_mutex_unlock(&lock);
    return loadables[i].engine;
}

int rush_nccl_available(void)
{
    const char *why = NULL;
    if (rush_nccl_is_emulated(&why)) return 0;
    RUSH_CHECK(!why, RUSH_DIST_BACKEND_ERROR, "the backend 'nccl' is not in this installation (%s)", why);
    return rush_cuda(NULL)->nccl() ? 0 : -1;
}

static void *wire_buffer(void *mesh, void *data, size_t n) { return rush_mesh_buffer_new(mesh, data, n, NULL, NULL); }
static void wire_drop(void *b) { rush_mesh_buffer_drop(b); }
static int wire_send(void *b, int to, uint64_t slot, size_t offset, size_t n) { return rush_mesh_send(b, to, slot, offset, n); }
static int wire_receive(void *b, int nfrom, const int *from, uint64_t slot, size_t offset, size_t n) { return rush_mesh_receive(b, nfrom, from, slot, offset, n); }
static int wire_wait(void *b, int receives, double seconds, int *rank) { return rush_mesh_wait(b, receives, seconds, rank); }
static int wire_broken(void *mesh) { return rush_mesh_broken(mesh); }
static const rush_wire wire = {wire_buffer, wire_drop, wire_send, wire_receive, wire_wait, wire_broken};

/* ---- works ---- */

/* A group that was dropped stays in memory as long as works of it are held. */
static void group_release(rush_group *g)
{
    if (atomic_fetch_sub_explicit(&g->alive, 1, memory_order_acq_rel) > 1) return;
    if (g->mesh) rush_mesh_free(g->mesh);
    rush_stage_free(&g->stage);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    rush_free(g->seen);
    rush_free(g->name);
    rush_free(g);
}

/* Works that are done and that nobody else holds: their tensors go in the thread of a caller, not in the group's. */
static void reap(rush_group *g)
{
    pthread_mutex_lock(&g->lock);
    rush_work *list = g->finished;
    g->finished = NULL;
    pthread_mutex_unlock(&g->lock);
    for (rush_work *w = list, *next; w; w = next) {
        next = w->next;
        rush_work_drop(w);
    }
}

static bool there(const void *p, const char *what) { return p || (rush_fail(RUSH_TYPE_ERROR, "there is no %s (NULL)", what), false); }

rush_work *rush_work_keep(rush_work *w)
{
    if (w) atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    return w;
}

void rush_work_drop(rush_work *w)
{
    if (!w || !rush_refs_drop(&w->refs)) return;
    rush_group *g = w->group;
    if (w->message) rush_mesh_buffer_drop(w->message);
    for (int i = 0; i < w->call.nin; i++) rush_drop(w->call.in[i]);
    for (int i = 0; i < w->call.nout; i++) rush_drop(w->call.out[i]);
    rush_drop(w->dense);
    rush_event_free(w->ready);
    rush_event_free(w->end);
    rush_free(w->call.in);
    rush_free((void *)w->call.in_splits);
    rush_free((void *)w->call.out_splits);
    free(w->error.message);
    rush_free(w);
    group_release(g);
}

static int copy_splits(const int64_t **splits, int size)
{
    if (!*splits) return 0;
    int64_t *own = rush_malloc((size_t)size * sizeof *own);
    if (own) memcpy(own, *splits, (size_t)size * sizeof *own);
    *splits = own;
    return own ? 0 : -1;
}

static rush_work *work_new(rush_group *g, const rush_collective *call)
{
    rush_work *w = rush_calloc(1, sizeof *w);
    if (!w) return NULL;
    atomic_init(&w->refs, 1);
    w->group = g;
    atomic_fetch_add_explicit(&g->alive, 1, memory_order_relaxed);
    w->call = *call;
    if (!(call->timeout > 0)) w->call.timeout = g->timeout;
    w->call.nin = w->call.nout = 0; /* until they are kept */
    w->device = (rush_device){RUSH_CPU, -1};
    w->number = -1;
    w->source = call->root;
    rush_tensor **t = rush_malloc((size_t)(call->nin + call->nout + 1) * sizeof *t);
    w->call.in = t;
    w->call.out = t + call->nin;
    int failed = copy_splits(&w->call.in_splits, g->size);
    failed = copy_splits(&w->call.out_splits, g->size) || failed || !t || rush_collective_check(g, call, w->what, sizeof w->what);
    if (failed) return rush_work_drop(w), NULL;
    for (int i = 0; i < call->nin; i++) t[i] = rush_keep(call->in[i]);
    for (int i = 0; i < call->nout; i++) w->call.out[i] = rush_keep(call->out[i]);
    w->call.nin = call->nin;
    w->call.nout = call->nout;
    if (call->nin + call->nout) w->device = rush_device_of(t[0]); /* the others' too: they were checked */
    else if (g->nccl && call->kind == RUSH_DIST_BARRIER && call->device.type != RUSH_CPU) w->device = call->device.index < 0 ? rush_nccl_device(g->nccl) : call->device;
    w->engine = g->engine;
    w->opened = g->opened;
    return w;
}

/* The pending error, with the call that it ended; becomes the work's. */
static void take_error(rush_work *w)
{
    rush_group *g = w->group;
    char host[64] = "", number[48] = "";
    gethostname(host, sizeof host - 1);
    snprintf(number, sizeof number, w->number >= 0 ? " (collective %lld)" : " (after collective %lld)", w->number >= 0 ? (long long)w->number : (long long)g->number - 1);
    rush_error_in("%s%s of group '%s', rank %d of %d on host %s", w->what, number, g->name, g->rank, g->size, host);
    w->error = rush_error_take();
    rush_recorder_end(w);
    rush_recorder_dump(g, w->error.message ? w->error.message : "not enough memory");
}

static bool is_new(rush_group *g, const char *what)
{
    uint64_t h = 0xcbf29ce484222325;
    for (const char *c = what; *c && *c != '['; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3;
    for (int i = 0; i < g->nseen; i++)
        if (g->seen[i] == h) return false;
    if (g->nseen == g->room) {
        int room = g->room ? 2 * g->room : 32;
        uint64_t *seen = rush_realloc(g->seen, (size_t)room * sizeof *seen);
        if (!seen) return rush_error_clear(), true; /* it is told once more */
        g->seen = seen;
        g->room = room;
    }
    g->seen[g->nseen++] = h;
    return true;
}

/* ---- doing a collective ---- */

static void do_work(rush_work *w)
{
    rush_group *g = w->group;
    rush_recorder_start(w);
    rush_scope() {
        int failed = w->end ? rush_nccl_watch(w) : (g->mesh && rush_mesh_begin(g->mesh, w->number, w->what, w->told)) || rush_stage_run(w, rush_collective_run);
        if (!failed) continue;
        if (!rush_error()) rush_fail(RUSH_DIST_BACKEND_ERROR, "it failed for an unknown reason");
        if (g->mesh) rush_mesh_break(g->mesh, "%s of rank %d failed: %s", w->what, g->rank, rush_error());
        if (rush_error_kind_now() == RUSH_FOREIGN_ERROR) g->interrupted = true; /* stays pending */
        else take_error(w);
    }
}

/* Under the lock: the work is over. */
static void finish(rush_group *g, rush_work *w)
{
    rush_recorder_end(w);
    g->now = NULL;
    w->done = true;
    w->next = g->finished;
    g->finished = w;
    pthread_cond_broadcast(&g->changed);
}

/* In the thread of its caller, who waits for it: two changes of threads less. */
static void do_directly(rush_work *w)
{
    rush_group *g = w->group;
    uint32_t mode = rush_now.mode;
    bool alone = rush_now.alone;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    rush_parallel_alone(true);
    do_work(w);
    rush_parallel_alone(alone);
    rush_now.mode = mode;
    pthread_mutex_lock(&g->lock);
    finish(g, w);
    pthread_mutex_unlock(&g->lock);
}

/* ---- the group's thread ---- */

static void *run(void *arg)
{
    rush_group *g = arg;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    rush_parallel_alone(true);
    pthread_mutex_lock(&g->lock);
    for (;;) {
        while (g->now || (!g->first && !g->stop)) pthread_cond_wait(&g->changed, &g->lock); /* now: a caller is doing it */
        rush_work *w = g->first;
        if (!w) break;
        g->first = w->next;
        if (!g->first) g->last = &g->first;
        g->now = w;
        pthread_mutex_unlock(&g->lock);
        do_work(w);
        pthread_mutex_lock(&g->lock);
        finish(g, w);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* ---- messages to and from one rank ---- */

static void release_work(void *w) { rush_work_drop(w); }

/* The memory of a message: that of a contiguous tensor of the host, else of a copy there. */
static rush_tensor *dense_of(rush_work *w, rush_tensor *t, bool filled)
{
    if (rush_is_contiguous(t) && w->device.type == RUSH_CPU) return t;
    rush_scope() {
        rush_tensor *dense = rush_tensor_new(rush_dtype_of(t), (rush_device){RUSH_CPU, -1}, rush_ndim(t), rush_sizes(t));
        if (dense && !(filled && rush_copy_into(dense, t))) w->dense = rush_keep(dense);
    }
    return w->dense;
}

static int start_message(rush_work *w)
{
    rush_group *g = w->group;
    bool receives = w->call.kind == RUSH_DIST_RECEIVE;
    rush_tensor *t = dense_of(w, receives ? w->call.out[0] : w->call.in[0], !receives);
    if (!t) return -1;
    if (!g->mesh) return w->done = true, 0;
    size_t n = (size_t)rush_numel(t) * rush_dtype_size(rush_dtype_of(t));
    int *from = rush_malloc((size_t)g->size * sizeof *from), nfrom = 0;
    if (!from) return -1;
    for (int i = 0; i < g->size; i++)
        if (i != g->rank && (w->call.root < 0 || i == w->call.root)) from[nfrom++] = i;
    w->message = rush_mesh_buffer_new(g->mesh, rush_data(t), n, release_work, w);
    if (w->message) rush_work_keep(w); /* the message's: it outlives a work that nobody waits for */
    int failed = !w->message;
    if (!failed) failed = receives ? rush_mesh_receive(w->message, nfrom, from, w->call.tag, 0, n) : rush_mesh_send(w->message, w->call.root, w->call.tag, 0, n);
    rush_free(from);
    return failed ? -1 : 0;
}

static int wait_message(rush_work *w, double seconds)
{
    bool receives = w->call.kind == RUSH_DIST_RECEIVE;
    if (w->done) return 0;
    if (rush_mesh_wait(w->message, receives, seconds > 0 ? seconds : w->call.timeout, receives ? &w->source : NULL)) {
        if (rush_error_kind_now() == RUSH_FOREIGN_ERROR) return -1;
        take_error(w);
    } else if (receives && w->dense && rush_copy_into(w->call.out[0], w->dense)) {
        take_error(w);
    }
    rush_recorder_end(w);
    w->done = true;
    return 0;
}

/* ---- calls ---- */

/* Gives the work its number, and leaves it to the group's thread; or to the caller, who waits, if nothing is before it. */
static void enqueue(rush_group *g, rush_work *w, bool waits)
{
    pthread_mutex_lock(&g->lock);
    if (!rush_work_is_message(w)) {
        w->number = g->number++;
        w->tag = g->tag;
        /* PyTorch's count: two messages, and one reduction for each tensor */
        g->tag += w->call.kind == RUSH_DIST_MONITORED_BARRIER ? 2 : w->call.kind == RUSH_DIST_REDUCE_SCATTER ? (uint32_t)w->call.nin : 1;
        w->told = is_new(g, w->what) || g->detail;
    }
    rush_recorder_begin(w);
    w->direct = waits && w->engine == &rush_engine_shared && !g->now && !g->first;
    rush_work_keep(w);
    if (w->direct) {
        g->now = w;
    } else {
        *g->last = w;
        g->last = &w->next;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
}

void rush_group_enqueue(rush_work *w) { enqueue(w->group, w, false); }

/* Works for devices that this thread has begun and not launched yet. */
static _Thread_local struct {
    int depth, n, room;
    rush_work **works;
} step;

static int keep_for_step(rush_work *w)
{
    if (step.n == step.room) {
        int room = step.room ? 2 * step.room : 16;
        rush_work **works = rush_realloc(step.works, (size_t)room * sizeof *works);
        if (!works) return -1;
        step.works = works;
        step.room = room;
    }
    step.works[step.n++] = rush_work_keep(w);
    return 0;
}

int rush_dist_step_begin(void)
{
    step.depth++;
    return 0;
}

/* Those of each group and device by themselves, in the order of their first calls. */
int rush_dist_step_end(void)
{
    RUSH_CHECK(step.depth > 0, RUSH_RUNTIME_ERROR, "the end of a step that was not begun");
    if (--step.depth) return 0;
    int failed = rush_failed();
    rush_work **of_one = step.n && !failed ? rush_malloc((size_t)step.n * sizeof *of_one) : NULL;
    for (int i = 0; i < step.n && of_one && !failed; i++) {
        const rush_work *first = step.works[i];
        int n = 0;
        for (int k = i; k < step.n; k++)
            if (step.works[k]->group == first->group && rush_same_device(step.works[k]->device, first->device) && !step.works[k]->end) of_one[n++] = step.works[k];
        if (n) failed = rush_nccl_launch(of_one, n);
    }
    rush_free(of_one);
    for (int i = 0; i < step.n; i++) rush_work_drop(step.works[i]);
    rush_free(step.works);
    memset(&step, 0, sizeof step);
    return failed || rush_failed() ? -1 : 0;
}

static rush_work *start(rush_group *g, const rush_collective *call, bool waits)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(g && call, RUSH_TYPE_ERROR, "a call of a group needs the group and what it is to do (NULL)");
    RUSH_CHECK_NULL(g->forks == rush_forks(), RUSH_DIST_BACKEND_ERROR, "group '%s' is the parent process's; a forked child makes its own", g->name);
    reap(g);
    rush_work *w = work_new(g, call);
    if (!w) return NULL;
    if (g->nccl && w->device.type != RUSH_CPU) {
        if (!rush_stage_mark(w) && !(step.depth ? keep_for_step(w) : rush_nccl_launch(&w, 1))) return w;
        return rush_work_drop(w), NULL;
    }
    if (rush_work_is_message(w)) {
        rush_recorder_begin(w);
        if (!start_message(w)) return w;
        take_error(w);
        rush_error_restore(w->error);
        w->error = (rush_error_state){0};
        return rush_work_drop(w), NULL;
    }
    if (rush_stage_mark(w)) return rush_work_drop(w), NULL;
    enqueue(g, w, waits);
    if (w->direct) do_directly(w);
    return w;
}

rush_work *rush_dist_start(rush_group *g, const rush_collective *call) { return start(g, call, false); }

static void wait_a_moment(rush_group *g, double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += (long)(RUSH_MIN(seconds, 0.1) * 1e9);
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&g->changed, &g->lock, &t);
}

static int wait_collective(rush_work *w, double seconds)
{
    rush_group *g = w->group;
    double until = rush_seconds() + seconds;
    pthread_mutex_lock(&g->lock);
    while (!w->done) {
        if (seconds > 0 && rush_seconds() >= until) {
            pthread_mutex_unlock(&g->lock);
            return rush_fail(RUSH_DIST_BACKEND_ERROR, "Operation timed out! %s of group '%s' is not done after %.1f s", w->what, g->name, seconds);
        }
        wait_a_moment(g, 0.1);
        if (w->done || !rush_wait_interrupted) continue;
        pthread_mutex_unlock(&g->lock);
        int interrupted = rush_wait_interrupted();
        pthread_mutex_lock(&g->lock);
        if (!interrupted) continue;
        g->interrupted = true;
        pthread_mutex_unlock(&g->lock);
        return -1;
    }
    pthread_mutex_unlock(&g->lock);
    return 0;
}

static bool is_done(rush_work *w)
{
    pthread_mutex_lock(&w->group->lock);
    bool done = w->done;
    pthread_mutex_unlock(&w->group->lock);
    return done;
}

/* What a device does: the caller's stream waits for it. The caller itself does for a barrier, or if it says how long. */
static int wait_device(rush_work *w, double seconds)
{
    const char *told = getenv("TORCH_NCCL_BLOCKING_WAIT");
    if (seconds > 0) return wait_collective(w, seconds);
    if (w->call.kind == RUSH_DIST_BARRIER || (told && *told && strcmp(told, "0"))) return rush_event_synchronize(w->end) || wait_collective(w, 0) ? -1 : 0;
    return rush_event_wait(w->end, rush_device_stream(w->device));
}

int rush_work_wait(rush_work *w, double seconds)
{
    if (rush_failed() || !there(w, "work")) return -1;
    RUSH_CHECK(w->end || !w->group->nccl || w->device.type == RUSH_CPU, RUSH_RUNTIME_ERROR, "%s waits for the end of the step that it is part of", w->what);
    if (w->end && !is_done(w)) return wait_device(w, seconds);
    if (!w->end && (w->number < 0 ? wait_message(w, seconds) : wait_collective(w, seconds))) return -1;
    if (!w->error.kind) return 0;
    return rush_fail(w->error.kind, "%s", w->error.message ? w->error.message : "not enough memory");
}

bool rush_work_done(rush_work *w)
{
    if (!there(w, "work")) return false;
    if (w->end) return is_done(w) || rush_event_query(w->end) == 1;
    if (w->number < 0 && w->message) return w->done || rush_mesh_done(w->message, w->call.kind == RUSH_DIST_RECEIVE);
    return is_done(w);
}

int rush_work_source(const rush_work *w) { return there(w, "work") ? w->source : -1; }
uint64_t rush_work_number(const rush_work *w) { return (uint64_t)w->number; }

rush_work *rush_dist_do(rush_group *g, const rush_collective *call)
{
    rush_work *w = start(g, call, true);
    if (w) rush_work_wait(w, 0);
    return w;
}

int rush_dist_run(rush_group *g, const rush_collective *call)
{
    rush_work *w = start(g, call, true);
    int failed = !w || rush_work_wait(w, 0);
    rush_work_drop(w);
    return failed ? -1 : 0;
}

/* ---- groups ---- */

rush_group *rush_group_keep(rush_group *g)
{
    if (g) atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

/* What was begun gets some seconds to end; then it is given up, and the others are told. */
static void stop_thread(rush_group *g)
{
    if (!g->running || g->forks != rush_forks()) return;
    double until = rush_seconds() + (g->interrupted ? 0 : 3);
    pthread_mutex_lock(&g->lock);
    g->stop = true;
    pthread_cond_broadcast(&g->changed);
    while ((g->now || g->first) && rush_seconds() < until) wait_a_moment(g, 0.1);
    bool busy = g->now || g->first;
    pthread_mutex_unlock(&g->lock);
    if (busy && g->mesh) rush_mesh_break(g->mesh, "rank %d gave up its collective %lld", g->rank, (long long)g->number - 1);
    pthread_mutex_lock(&g->lock);
    while (g->now) wait_a_moment(g, 0.1); /* which may be another thread's */
    pthread_mutex_unlock(&g->lock);
    pthread_join(g->thread, NULL);
}

void rush_group_drop(rush_group *g)
{
    if (!g || !rush_refs_drop(&g->refs)) return;
    stop_thread(g);
    rush_nccl_free(g->nccl, g->mesh && rush_mesh_broken(g->mesh));
    if (g->opened) g->engine->close(g->opened);
    g->opened = NULL;
    if (g->mesh) rush_mesh_close(g->mesh);
    rush_store_drop(g->store);
    g->store = NULL;
    reap(g);
    group_release(g);
}

void rush_group_abort(rush_group *g, const char *why)
{
    if (there(g, "group") && there(why, "reason") && g->mesh) rush_mesh_break(g->mesh, "%s", why);
}

int rush_group_rank(const rush_group *g) { return there(g, "group") ? g->rank : -1; }
int rush_group_size(const rush_group *g) { return there(g, "group") ? g->size : -1; }
bool rush_group_foreign(const rush_group *g) { return g->mesh && rush_mesh_foreign(g->mesh); }
const char *rush_group_name(const rush_group *g) { return g->name; }
const char *rush_group_backend(const rush_group *g) { return g->backend ? g->backend : g->device_backend; }

/* Keys as PyTorch has them: "0//cpu//0/1" is what rank 1 of group "0" leaves. */
static rush_mesh *meet(rush_group *g, rush_store *store, rush_group *parent, const rush_offer *mine, rush_offer *first)
{
    char *outer = NULL;
    if (asprintf(&outer, "%s/", g->name) < 0) return rush_fail(RUSH_MEMORY_ERROR, "not enough memory"), NULL;
    rush_store *a = rush_store_prefix(outer, store), *b = a ? rush_store_prefix("cpu/", a) : NULL, *c = b ? rush_store_prefix("0", b) : NULL;
    rush_mesh *m = c ? rush_mesh_new(c, g->rank, g->size, g->timeout, parent ? parent->mesh : NULL, mine, first) : NULL;
    rush_store_drop(c);
    rush_store_drop(b);
    rush_store_drop(a);
    free(outer);
    return m;
}

/* Meets the others; where all are on one machine they share memory, else gloo talks over the mesh. `host`: what serves its memory. */
static int open_engine(rush_group *g, const char *host, rush_store *store, rush_group *parent)
{
    char why[512];
    rush_shared *made = NULL;
    bool gloo = !strcmp(host, "gloo");
    rush_offer mine = gloo ? rush_shared_offer(g->rank, g->size, &made) : (rush_offer){.fd = -1}, first;
    if (!gloo && !rush_engine_load(host)) return -1; /* before anybody waits */
    g->mesh = meet(g, store, parent, &mine, &first);
    if (g->mesh && first.machine) {
        g->opened = rush_shared_join(made, g->mesh, g->rank, g->size, &first, g->timeout);
        g->engine = g->opened ? &rush_engine_shared : NULL;
    } else {
        rush_shared_free(made);
    }
    if (g->opened) return 0;
    if (rush_failed() || !(g->engine = rush_engine_load(host))) return -1;
    g->opened = g->engine->open(&wire, g->mesh, g->rank, g->size, g->timeout, why, sizeof why);
    RUSH_CHECK(g->opened, RUSH_DIST_BACKEND_ERROR, "%s", why);
    return 0;
}

static int group_open(rush_group *g, rush_store *store, rush_group *parent, int part)
{
    const char *host = g->backend ? g->backend : g->device_backend;
    if (!strcmp(host, "nccl")) host = "gloo";
    if (strcmp(host, "fake") && open_engine(g, host, store, parent)) return -1;
    if (g->device_backend && !strcmp(g->device_backend, "nccl") && !rush_nccl_is_emulated(NULL) && !(g->nccl = rush_nccl_new())) return -1;
    if (g->nccl && g->bound.type != RUSH_CPU && (part ? rush_nccl_split(parent, g, part - 1) : rush_nccl_open(g, g->bound))) return -1;
    int code = pthread_create(&g->thread, NULL, run, g);
    RUSH_CHECK(!code, RUSH_DIST_BACKEND_ERROR, "no thread for the group: %s", strerror(code));
    g->running = true;
    return 0;
}

static int backend_of(const char *name, const char **known)
{
    static const char *const backends[] = {"gloo", "mpi", "nccl", "fake"};
    *known = NULL;
    for (size_t i = 0; i < RUSH_COUNT(backends) && !*known; i++)
        if (!strcmp(name, backends[i])) *known = backends[i];
    RUSH_CHECK(*known || !strcmp(name, "none"), RUSH_VALUE_ERROR, "there is no backend '%s' here; 'gloo', 'mpi', 'nccl' and 'fake' are", name);
    return 0;
}

/* Who serves tensors of the CPU, and of devices. Both may be the host's, but then the same: a group has one engine for its memory. */
static int backends_of(const rush_group_options *o, const char **host, const char **device)
{
    const char *given = o->backend ? o->backend : "gloo";
    if (backend_of(given, host) || backend_of(o->device_backend ? o->device_backend : given, device)) return -1;
    bool nccl = *device && !strcmp(*device, "nccl");
    if (*host && !strcmp(*host, "nccl")) *host = NULL;
    RUSH_CHECK(*host || *device, RUSH_VALUE_ERROR, "a group without a backend");
    RUSH_CHECK(nccl || !*host || !*device || *host == *device, RUSH_NOT_IMPLEMENTED, "a group whose tensors of the CPU are served by '%s', those of devices by '%s'", *host, *device);
    return nccl ? rush_nccl_available() : 0;
}

static bool can_be_split(const rush_group *g) { return g->bound.type != RUSH_CPU && g->device_backend && !strcmp(g->device_backend, "nccl"); }

rush_group *rush_group_new_with(rush_store *store, const rush_group_options *o)
{
    if (rush_failed() || !there(o, "group's options") || !rush_store_keep(store)) return rush_fail(RUSH_TYPE_ERROR, "a group needs a store to meet in"), NULL;
    rush_store_drop(store);
    const char *name = o->name ? o->name : "0", *detail = getenv("TORCH_DISTRIBUTED_DEBUG"), *host, *device;
    if (rush_failed() || backends_of(o, &host, &device)) return NULL;
    RUSH_CHECK_NULL(o->size > 0 && o->rank >= 0 && o->rank < o->size, RUSH_VALUE_ERROR, "rank %d of a group of %d", o->rank, o->size);
    RUSH_CHECK_NULL(!o->part || (o->part > 0 && device && !strcmp(device, "nccl") && o->parent && can_be_split(o->parent) && rush_same_device(o->device, o->parent->bound)), RUSH_VALUE_ERROR,
                    "part %d of a group needs the backend 'nccl', and a parent that has it for the same device", o->part);
    rush_bytes text;
    if (rush_bytes_copy(&text, name, strlen(name))) return NULL;
    rush_group *g = rush_calloc(1, sizeof *g);
    if (!g) return rush_bytes_free(&text), NULL;
    *g = (rush_group){.refs = 1, .alive = 1, .store = rush_store_keep(store), .name = text.data, .backend = host, .device_backend = device, .bound = o->device, .urgent = o->urgent, .rank = o->rank, .size = o->size, .forks = rush_forks(),
                      .timeout = o->timeout > 0 ? o->timeout : 1800, .detail = detail && !strcmp(detail, "DETAIL")};
    g->last = &g->first;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    if (!group_open(g, store, o->parent, o->part)) return g;
    rush_group_drop(g);
    return NULL;
}

int rush_group_in_no_part(rush_group *parent)
{
    if (rush_failed() || !there(parent, "group")) return -1;
    RUSH_CHECK(can_be_split(parent), RUSH_VALUE_ERROR, "only a group that was made for one device, with the backend 'nccl', has parts");
    return parent->nccl ? rush_nccl_split(parent, NULL, 0) : 0;
}

/* ---- meeting ---- */

static int environment(const char *name, int *value, bool needed)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (!text && !needed) return 0;
    RUSH_CHECK(text, RUSH_VALUE_ERROR, "Error initializing torch.distributed using env:// rendezvous: environment variable %s expected, but not set", name);
    long x = strtol(text, &end, 10);
    RUSH_CHECK(*text && !*end, RUSH_VALUE_ERROR, "the environment variable %s is '%s', which is no number", name, text);
    *value = (int)x;
    return 0;
}

static rush_store *meet_tcp(const char *address, int rank, int world_size, double timeout)
{
    const char *colon = strrchr(address, ':');
    RUSH_CHECK_NULL(colon && colon[1], RUSH_VALUE_ERROR, "tcp://%s names no port", address);
    char host[256];
    snprintf(host, sizeof host, "%.*s", (int)RUSH_MIN(colon - address, (ptrdiff_t)sizeof host - 1), address);
    return rush_store_tcp(host, atoi(colon + 1), .world_size = world_size, .server = rank == 0, .timeout = timeout);
}

/* What a job that failed has left in its launcher's store is not seen by the next attempt. Takes the store. */
static rush_store *of_this_attempt(rush_store *s)
{
    const char *attempt = getenv("TORCHELASTIC_RESTART_COUNT");
    char prefix[64];
    snprintf(prefix, sizeof prefix, "/worker/attempt_%.20s", attempt ? attempt : "0");
    rush_store *under = rush_store_prefix(prefix, s);
    rush_store_drop(s);
    return under;
}

rush_store *rush_dist_meet(const char *method, int *rank, int *world_size, double timeout)
{
    if (rush_failed()) return NULL;
    if (!there(rank, "room for the rank") || !there(world_size, "room for the size")) return NULL;
    timeout = timeout > 0 ? timeout : 1800;
    if (!method || !strncmp(method, "env://", 6)) {
        int port = 0;
        const char *host = getenv("MASTER_ADDR");
        if (*world_size <= 0 && (environment("RANK", rank, true) || environment("WORLD_SIZE", world_size, true))) return NULL;
        RUSH_CHECK_NULL(host, RUSH_VALUE_ERROR, "Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but not set");
        if (environment("MASTER_PORT", &port, true)) return NULL;
        const char *served = getenv("TORCHELASTIC_USE_AGENT_STORE"); /* the launcher serves the store already */
        bool agent = served && !strcmp(served, "True");
        rush_store *s = rush_store_tcp(host, port, .world_size = *world_size, .server = *rank == 0 && !agent, .timeout = timeout);
        return s && agent ? of_this_attempt(s) : s;
    }
    RUSH_CHECK_NULL(*world_size > 0, RUSH_VALUE_ERROR, "rank and world_size are needed with %s", method);
    if (!strncmp(method, "tcp://", 6)) return meet_tcp(method + 6, *rank, *world_size, timeout);
    if (!strncmp(method, "file://", 7)) {
        rush_store *s = rush_store_file(method + 7, *world_size);
        if (s) rush_store_timeout_set(s, timeout);
        return s;
    }
    rush_fail(RUSH_VALUE_ERROR, "No rendezvous handler for %s", method);
    return NULL;
}

rush_group *rush_dist_init(const rush_dist_init_options *o)
{
    static const rush_dist_init_options none;
    if (!o) o = &none;
    int rank = o->rank, size = o->world_size;
    bool mpi = o->backend && !strcmp(o->backend, "mpi") && !o->init_method;
    rush_store *store = mpi ? rush_mpi_meet(&rank, &size, o->timeout > 0 ? o->timeout : 1800) : rush_dist_meet(o->init_method, &rank, &size, o->timeout), *first = store ? rush_store_prefix("default_pg", store) : NULL;
    rush_group *g = first ? rush_group_new(first, .backend = o->backend, .rank = rank, .size = size, .timeout = o->timeout) : NULL;
    rush_store_drop(first);
    rush_store_drop(store);
    return g;
}
