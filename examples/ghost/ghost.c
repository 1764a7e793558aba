/* ghost.c - a device whose memory the host cannot touch: a backend in a file of its own, and a test of all the others.
 *
 * Its memory is one arena without access rights, opened only while one of the functions below works. They compute with the
 * CPU's kernels, so numbers are the CPU's bit for bit; whatever else of the host reads or writes an element is stopped with
 * "ghost: host touched device memory in operation X". With RUSHLIGHT_GHOST=lazy operations are queued, a queue per stream, and
 * run in order at the next synchronisation, the youngest stream first, so that a missing one shows as well.
 *
 * Loaded like an extension: register_operations() registers the backend. torch_ghost.py makes it torch.ghost.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <rushlight.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define TRACE() do { void *frame[32]; backtrace_symbols_fd(frame, backtrace(frame, 32), 2); } while (0)
#else
#define TRACE() (void)0
#endif

#define ARENA ((size_t)1 << 36) /* addresses; pages come as they are written */
#define CLASSES 36              /* blocks of 64 bytes, 128, 256, ... */

static char *arena;
static size_t used; /* of the arena, free blocks included */
static int open_now;
static pthread_mutex_t lock; /* recursive: held while anything works */

/* ---- the arena ---- */

static void arena_open(void)
{
    pthread_mutex_lock(&lock);
    if (open_now++ == 0) mprotect(arena, ARENA, PROT_READ | PROT_WRITE);
}

static void arena_close(void)
{
    if (--open_now == 0) mprotect(arena, ARENA, PROT_NONE);
    pthread_mutex_unlock(&lock);
}

static struct sigaction before;

static void touched(int sig, siginfo_t *info, void *context)
{
    char *at = info->si_addr, text[256];
    if (at >= arena && at < arena + ARENA) {
        const rush_op *op = rush_op_running();
        int n = snprintf(text, sizeof text, "ghost: host touched device memory in operation %s\n", op ? op->name : "(none)");
        if (write(2, text, (size_t)n) == n) TRACE();
    }
    sigaction(SIGSEGV, &before, NULL); /* the access comes again, and is dealt with as ever */
}

/* Free blocks of a class; the list is the host's. */
static struct { void **block; size_t n, room; } idle[CLASSES];

static int class_of(size_t bytes)
{
    int c = 0;
    while (((size_t)64 << c) < bytes) c++;
    return c;
}

static void *ghost_alloc(rush_device device, size_t bytes)
{
    int c = class_of(bytes);
    void *p = NULL;
    pthread_mutex_lock(&lock);
    if (c < CLASSES && idle[c].n) p = idle[c].block[--idle[c].n];
    else if (c < CLASSES && used + ((size_t)64 << c) <= ARENA) p = arena + used, used += (size_t)64 << c;
    pthread_mutex_unlock(&lock);
    return p;
}

static void ghost_free(rush_device device, void *p, size_t bytes)
{
    int c = class_of(bytes);
    pthread_mutex_lock(&lock);
    if (idle[c].n == idle[c].room) {
        size_t room = idle[c].room ? 2 * idle[c].room : 64;
        void **more = realloc(idle[c].block, sizeof *more * room);
        if (more) idle[c].block = more, idle[c].room = room;
    }
    if (idle[c].n < idle[c].room) idle[c].block[idle[c].n++] = p; /* else lost */
    pthread_mutex_unlock(&lock);
}

/* ---- work: an operation with arguments of its own, now or later ---- */

/* A point in a stream: what an event is at. Work that waits holds it, too. */
typedef struct point {
    int refs;
    bool done;
    rush_device device;
    int stream;
    double ms; /* when it was passed */
} point;

typedef struct work {
    struct work *next;
    const rush_op *op;           /* NULL: passes a point, or waits for one */
    point *point;
    bool waits;
    rush_generator *generator; /* that of the call or of the device: lives as long as the device or the call */
    rush_value in[64], out[RUSH_MAXOUT];
} work;

#define DEVICES 2
#define STREAMS 32

static bool lazy;
static struct queue { work *first, **last; } queues[DEVICES][STREAMS];
static int nstreams[DEVICES] = {1, 1};

/* A tensor as the kernel will see it: of ghost's memory a view, which keeps it; of the host's, when it waits, a copy. */
static rush_tensor *seen(rush_tensor *t)
{
    if (!t) return NULL; /* lists may have holes */
    rush_tensor *view = rush_host_view(t);
    return rush_keep(lazy && view == t ? rush_clone(t) : view);
}

static const void *copied(const void *p, size_t bytes)
{
    void *q = malloc(bytes ? bytes : 1);
    if (!q) return rush_fail(RUSH_MEMORY_ERROR, "ghost: no memory for a queued operation"), NULL;
    return bytes ? memcpy(q, p, bytes) : q; /* nothing may lie nowhere */
}

static rush_value own(rush_value v)
{
    switch (v.kind) {
    case RUSH_V_TENSOR: v.t = seen(v.t); break;
    case RUSH_V_TENSORS:
        v.tensors = (rush_tensor **)copied(v.tensors, sizeof *v.tensors * v.n);
        for (uint32_t k = 0; v.tensors && k < v.n; k++) v.tensors[k] = seen(v.tensors[k]);
        break;
    case RUSH_V_INTS: v.ints = copied(v.ints, sizeof *v.ints * v.n); break;
    case RUSH_V_FLOATS: v.floats = copied(v.floats, sizeof *v.floats * v.n); break;
    case RUSH_V_VALUES: v.values = copied(v.values, sizeof *v.values * v.n); break; /* numbers */
    case RUSH_V_STRING: v.s = copied(v.s, strlen(v.s) + 1); break;
    }
    return v;
}

static void disown(rush_value v)
{
    switch (v.kind) {
    case RUSH_V_TENSOR: rush_drop(v.t); break;
    case RUSH_V_TENSORS:
        for (uint32_t k = 0; v.tensors && k < v.n; k++) rush_drop(v.tensors[k]);
        free(v.tensors);
        break;
    case RUSH_V_INTS: free((void *)v.ints); break;
    case RUSH_V_FLOATS: free((void *)v.floats); break;
    case RUSH_V_VALUES: free((void *)v.values); break;
    case RUSH_V_STRING: free((void *)v.s); break;
    }
}

static void point_drop(point *p)
{
    if (p && --p->refs == 0) free(p);
}

static void work_end(work *w)
{
    for (int i = 0; w->op && i < w->op->nargs; i++) disown(w->in[i]);
    for (int i = 0; w->op && i < w->op->nout; i++) disown(w->out[i]);
    point_drop(w->point);
    free(w);
}

static int work_run(const work *w)
{
    rush_value out[RUSH_MAXOUT];
    memcpy(out, w->out, sizeof out);
    rush_generator *others = rush_thread_generator_set(w->generator);
    arena_open();
    rush_scope() w->op->cpu(w->op, w->in, out);
    arena_close();
    rush_thread_generator_set(others);
    return rush_error() ? -1 : 0;
}

/* Results whose sizes depend on data: the kernel made them on the host. */
static int work_run_open(const work *w, rush_device device, rush_value *out)
{
    const rush_value where = {.kind = RUSH_V_DEVICE, .device = device};
    arena_open();
    w->op->cpu(w->op, w->in, out);
    arena_close();
    for (int i = 0; i < w->op->nout && !rush_error(); i++)
        if (out[i].kind == RUSH_V_TENSOR)
            out[i] = rush_v_tensor(rush_apply(rush_op_find("_to_copy"), 4, (rush_value[]){out[i], RUSH_NONE, RUSH_NONE, where}));
    return rush_error() ? -1 : 0;
}

static void work_add(work *w, rush_device device, int stream)
{
    struct queue *q = &queues[device.index][stream];
    pthread_mutex_lock(&lock);
    if (!q->first) q->last = &q->first;
    *q->last = w;
    q->last = &w->next;
    pthread_mutex_unlock(&lock);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void pass(point *p)
{
    p->done = true;
    p->ms = now();
}

/* Runs what is queued, up to a point if one is given. After a failure the rest is given up: its arguments are not what they
 * should be. */
static int drain(rush_device device, int stream, const point *until)
{
    struct queue *q = &queues[device.index][stream];
    int failed = 0;
    pthread_mutex_lock(&lock);
    while (q->first && !(until && until->done)) {
        work *w = q->first;
        q->first = w->next;
        if (w->op) failed = failed || work_run(w);
        else if (!w->waits) pass(w->point);
        else if (!w->point->done) failed = drain(w->point->device, w->point->stream, w->point) || failed;
        work_end(w);
    }
    pthread_mutex_unlock(&lock);
    return failed ? -1 : 0;
}

static int drain_current(rush_device device) { return drain(device, rush_device_stream(device), NULL); }

/* Random numbers are drawn in the order of the calls, whatever the seed is when the queue runs. */
static bool waits(const rush_op *op)
{
    bool writes = false;
    for (int i = 0; i < op->nargs; i++) {
        writes |= op->args[i].written;
        if (op->args[i].type == RUSH_A_GENERATOR) return false;
    }
    return lazy && (writes || !(op->flags & RUSH_SIDE_EFFECT));
}

static int ghost_run(rush_device device, const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!op->cpu) return rush_fail(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' on device 'ghost': the CPU has no kernel for it either.", op->name);
    work *w = calloc(1, sizeof *w);
    if (!w) return rush_fail(RUSH_MEMORY_ERROR, "ghost: no memory for an operation");
    w->op = op;
    w->generator = rush_device_generator(device);
    rush_scope() {
        for (int i = 0; i < op->nargs; i++) {
            w->in[i] = own(in[i]);
            if (in[i].kind == RUSH_V_GENERATOR && in[i].gen) w->generator = in[i].gen, w->in[i] = RUSH_NONE;
        }
        for (int i = 0; i < op->nout; i++) w->out[i] = own(out[i]);
    }
    bool open = op->flags & RUSH_DATA_SIZED && out[0].kind == RUSH_V_NONE;
    if (!open && waits(op) && !rush_error()) {
        work_add(w, device, rush_device_stream(device));
        return 0;
    }
    int failed = drain_current(device) || (open ? work_run_open(w, device, out) : work_run(w));
    work_end(w);
    return failed;
}

/* ---- the other slots ---- */

static int ghost_copy(void *to, rush_device to_device, const void *from, rush_device from_device, size_t bytes)
{
    if ((to_device.type != RUSH_CPU && drain_current(to_device)) || (from_device.type != RUSH_CPU && drain_current(from_device))) return -1;
    arena_open();
    memcpy(to, from, bytes);
    arena_close();
    return 0;
}

static int ghost_convert(rush_tensor *to, const rush_tensor *from)
{
    const rush_value in[] = {RUSH_V(to), RUSH_V((rush_tensor *)from), RUSH_V((bool)false)};
    return ghost_run(rush_device_of(to), rush_op_find("copy_"), in, (rush_value[]){in[0]});
}

static int ghost_fill(rush_tensor *t, rush_value number)
{
    const rush_value in[] = {RUSH_V(t), number};
    return ghost_run(rush_device_of(t), rush_op_find("fill_.Scalar"), in, (rush_value[]){in[0]});
}

static int ghost_synchronize(rush_device device)
{
    int failed = 0;
    for (int stream = nstreams[device.index] - 1; stream >= 0; stream--) failed = drain(device, stream, NULL) || failed;
    return failed ? -1 : 0;
}

/* ---- streams and events ---- */

static int ghost_stream_new(rush_device device, int priority)
{
    pthread_mutex_lock(&lock);
    int stream = nstreams[device.index] < STREAMS ? nstreams[device.index]++ : 1; /* there are so many; then the first is handed out again */
    pthread_mutex_unlock(&lock);
    return stream;
}

static int need(rush_device device, int stream)
{
    return stream < nstreams[device.index] ? 0 : rush_fail(RUSH_RUNTIME_ERROR, "ghost:%d has no stream %d", device.index, stream);
}

static int ghost_stream_query(rush_device device, int stream) { return need(device, stream) ? -1 : !queues[device.index][stream].first; }
static int ghost_stream_synchronize(rush_device device, int stream) { return need(device, stream) ? -1 : drain(device, stream, NULL); }

/* An event is where its point is; recorded again, it is at another. */
typedef struct event { point *at; } event;

static void *ghost_event_new(rush_device device, bool timing)
{
    event *e = calloc(1, sizeof *e);
    return e ? e : (rush_fail(RUSH_MEMORY_ERROR, "ghost: no memory for an event"), NULL);
}

static void ghost_event_free(rush_device device, void *own)
{
    pthread_mutex_lock(&lock);
    point_drop(((event *)own)->at);
    pthread_mutex_unlock(&lock);
    free(own);
}

/* Work that passes a point, or waits for it. */
static int add_point(rush_device device, int stream, point *p, bool waits_for)
{
    work *w = calloc(1, sizeof *w);
    if (!w) return rush_fail(RUSH_MEMORY_ERROR, "ghost: no memory for an event");
    w->waits = waits_for;
    w->point = p;
    pthread_mutex_lock(&lock);
    p->refs++;
    work_add(w, device, stream);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int ghost_event_record(rush_device device, int stream, void *own)
{
    event *e = own;
    if (need(device, stream)) return -1;
    point *p = calloc(1, sizeof *p);
    if (!p) return rush_fail(RUSH_MEMORY_ERROR, "ghost: no memory for an event");
    *p = (point){.refs = 1, .device = device, .stream = stream};
    pthread_mutex_lock(&lock);
    point_drop(e->at);
    e->at = p;
    if (!queues[device.index][stream].first) pass(p);
    int failed = p->done ? 0 : add_point(device, stream, p, false);
    pthread_mutex_unlock(&lock);
    return failed;
}

static int ghost_event_wait(rush_device device, int stream, void *own)
{
    point *p = ((event *)own)->at;
    if (need(device, stream)) return -1;
    return !p || p->done ? 0 : add_point(device, stream, p, true);
}

static int ghost_event_query(rush_device device, void *own)
{
    point *p = ((event *)own)->at;
    return !p || p->done;
}

static int ghost_event_synchronize(rush_device device, void *own)
{
    point *p = ((event *)own)->at;
    return !p || p->done ? 0 : drain(p->device, p->stream, p);
}

static int ghost_event_elapsed(rush_device device, void *begin, void *end, double *ms)
{
    if (ghost_event_synchronize(device, begin) || ghost_event_synchronize(device, end)) return -1;
    *ms = ((event *)end)->at->ms - ((event *)begin)->at->ms;
    return 0;
}

/* The host's memory is as good as any to it. */
static void *ghost_pin(size_t bytes)
{
    void *p = malloc(bytes);
    return p ? p : (rush_fail(RUSH_MEMORY_ERROR, "ghost: no memory for %zu bytes", bytes), NULL);
}

static void ghost_unpin(void *p, size_t bytes) { free(p); }

static rush_backend ghost = {
    .name = "ghost", .devices = DEVICES, .alloc = ghost_alloc, .free = ghost_free, .copy = ghost_copy, .convert = ghost_convert, .fill = ghost_fill,
    .synchronize = ghost_synchronize, .fallback = ghost_run, .stream_new = ghost_stream_new, .stream_query = ghost_stream_query,
    .stream_synchronize = ghost_stream_synchronize, .event_new = ghost_event_new, .event_free = ghost_event_free, .event_record = ghost_event_record,
    .event_wait = ghost_event_wait, .event_query = ghost_event_query, .event_synchronize = ghost_event_synchronize, .event_elapsed = ghost_event_elapsed,
    .pin = ghost_pin, .unpin = ghost_unpin};

RUSH_API int register_operations(void);
int register_operations(void)
{
    const char *how = getenv("RUSHLIGHT_GHOST");
    pthread_mutexattr_t again;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &again);
    lazy = how && !strcmp(how, "lazy");
    if (how && !strcmp(how, "bare")) ghost.fallback = NULL;
    arena = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) return rush_fail(RUSH_MEMORY_ERROR, "ghost: no addresses for its memory");
    struct sigaction action = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, &before);
    return rush_backend_register(&ghost) < 0 ? -1 : 0;
}
