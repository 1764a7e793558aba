/* nccl.c - the backend "nccl": collectives between devices, by NVIDIA's library, whose functions are in a table (cuda/libraries.h).
 *
 * A call is put on a stream of its communicator, behind what the caller's stream was given before; nobody waits for it. A wait of
 * the caller makes its stream wait for the end of the call. The group's thread looks after what was begun: when a call fails or is
 * late, or the mesh says that a rank is gone, communicators are aborted, the work has the error, and the device says so to
 * whoever waits for it next: what it computed from the results is void.
 *
 * Rank 0 tells the others the communicator's number over the mesh, unless it is split off that of a larger group. Messages go through a communicator of the two ranks, as the others
 * need not know of them; or through that of all ranks, if the group was made for one device and so has it from the beginning.
 */
#define _GNU_SOURCE
#include "dist/group.h"
#include "cuda/libraries.h"
#include "tensor/cuda.h"

#include <stdio.h>

enum { OF_ALL = 0x7ffffff2, OF_TWO = 0x7ffffff3 }; /* slots of the mesh */

typedef struct comm {
    const rush_nccl *owner;
    ncclComm_t comm;
    rush_device device;
    int peer;            /* the other rank, of messages; -1: all */
    int stream;
    int rank;            /* of this process, in it */
    atomic_bool aborted;
    struct comm *next;
} comm;

struct rush_nccl {
    const rush_cuda_interface *cuda;
    const rush_nccl_library *library;
    bool late;            /* emulated devices do nothing that nobody waits for */
    pthread_mutex_t lock; /* calls are given to the devices one after the other, in the order of their numbers */
    comm *comms;
};

/* ---- the library ---- */

bool rush_nccl_is_emulated(const char **why)
{
    const rush_cuda_interface *cuda = rush_cuda(why);
    return cuda && !cuda->libraries();
}

rush_nccl *rush_nccl_new(void)
{
    const char *why;
    const rush_cuda_interface *cuda = rush_cuda(&why);
    RUSH_CHECK_NULL(cuda, RUSH_DIST_BACKEND_ERROR, "the backend 'nccl' needs CUDA devices: %s", why);
    const rush_nccl_library *library = cuda->nccl();
    rush_nccl *n = library ? rush_calloc(1, sizeof *n) : NULL;
    if (!n) return NULL;
    rush_cuda_properties p;
    *n = (rush_nccl){.cuda = cuda, .library = library, .late = !cuda->properties((rush_device){RUSH_CUDA, 0}, &p) && p.emulated};
    pthread_mutex_init(&n->lock, NULL);
    return n;
}

int rush_nccl_version(void)
{
    const char *why;
    const rush_cuda_interface *cuda = rush_cuda(&why);
    RUSH_CHECK(cuda, RUSH_RUNTIME_ERROR, "there are no CUDA devices: %s", why);
    const rush_nccl_library *library = cuda->nccl();
    int version = -1;
    return library && library->version(&version) == ncclSuccess ? version : rush_failed() ? -1 : rush_fail(RUSH_RUNTIME_ERROR, "NCCL does not say its version");
}

static int check(const rush_nccl *n, ncclComm_t of, ncclResult_t code, const char *what)
{
    if (code == ncclSuccess) return 0;
    const char *last = n->library->last_error(of);
    return rush_fail(RUSH_DIST_BACKEND_ERROR, "NCCL error in %s: %s%s%s", what, n->library->error_text(code), last && *last ? ": " : "", last ? last : "");
}

/* ---- communicators ---- */

/* The number that one rank of a communicator makes and the others need. */
static int share_id(rush_group *g, ncclUniqueId *id, int peer)
{
    const int maker = peer < 0 ? 0 : RUSH_MIN(peer, g->rank), slot = peer < 0 ? OF_ALL : OF_TWO;
    if (g->rank == maker && check(g->nccl, NULL, g->nccl->library->unique_id(id), "ncclGetUniqueId")) return -1;
    rush_mesh_buffer *b = rush_mesh_buffer_new(g->mesh, id, sizeof *id, NULL, NULL);
    int failed = !b;
    if (!failed && g->rank != maker) failed = rush_mesh_receive(b, 1, &maker, (uint64_t)slot, 0, sizeof *id) || rush_mesh_wait(b, true, g->timeout, NULL);
    for (int i = 0; i < g->size && !failed && g->rank == maker; i++)
        if (i != g->rank && (peer < 0 || i == peer)) failed = rush_mesh_send(b, i, (uint64_t)slot, 0, sizeof *id) || rush_mesh_wait(b, false, g->timeout, NULL);
    if (b) rush_mesh_buffer_drop(b);
    return failed ? -1 : 0;
}

static int meet(rush_group *g, comm *c)
{
    ncclUniqueId id;
    return share_id(g, &id, c->peer) ? -1 : check(g->nccl, NULL, g->nccl->library->init(&c->comm, c->peer < 0 ? g->size : 2, id, c->rank), "ncclCommInitRank");
}

static int check_alive(const comm *c, const char *what)
{
    RUSH_CHECK(!c->aborted, RUSH_DIST_BACKEND_ERROR, "%s: the group's communicators were aborted", what);
    return 0;
}

/* *made: in the order of `rank`, of those who say the same part; NULL, if that is NCCL_SPLIT_NOCOLOR. Nothing may be under way in `whole`. */
static int split(const comm *whole, int part, int rank, ncclComm_t *made)
{
    const rush_nccl *n = whole->owner;
    if (check_alive(whole, "split")) return -1;
    return rush_stream_synchronize(whole->device, whole->stream) ? -1 : check(n, whole->comm, n->library->split(whole->comm, part, rank, made, NULL), "ncclCommSplit");
}

/* `whole`: that it is a part of, or NULL. */
static comm *comm_new(rush_group *g, rush_device d, int peer, const comm *whole, int part)
{
    comm *c = rush_calloc(1, sizeof *c);
    if (!c) return NULL;
    *c = (comm){.owner = g->nccl, .device = d, .peer = peer, .stream = rush_stream_new(d, g->urgent ? -1 : 0), .rank = peer < 0 ? g->rank : g->rank > peer};
    if (c->stream < 0 || (whole ? split(whole, part, c->rank, &c->comm) : meet(g, c))) return rush_free(c), NULL;
    c->next = g->nccl->comms;
    return g->nccl->comms = c;
}

/* The one of all ranks, or of this one and another, for a device; under the lock. */
static comm *comm_of(rush_group *g, rush_device d, int peer)
{
    comm *c = g->nccl->comms;
    while (c && (c->peer != peer || !rush_same_device(c->device, d))) c = c->next;
    return c ? c : comm_new(g, d, peer, NULL, 0);
}

rush_device rush_nccl_device(rush_nccl *n)
{
    rush_device d = {RUSH_CUDA, -1};
    pthread_mutex_lock(&n->lock);
    for (const comm *c = n->comms; c; c = c->next)
        if (c->peer < 0) d = c->device; /* the last in the list is the first that was made */
    pthread_mutex_unlock(&n->lock);
    return rush_device_resolve(d);
}

/* Ends what is under way in all of them, from any thread; what is given to them meanwhile fails. */
static void abort_all(rush_nccl *n)
{
    for (comm *c = n->comms; c; c = c->next)
        if (!atomic_exchange(&c->aborted, true)) n->library->abort(c->comm);
}

void rush_nccl_free(rush_nccl *n, bool broken)
{
    if (!n) return;
    if (broken) abort_all(n);
    for (comm *c = n->comms, *next; c; c = next) {
        next = c->next;
        if (!c->aborted) n->library->destroy(c->comm);
        rush_free(c);
    }
    pthread_mutex_destroy(&n->lock);
    rush_free(n);
}

/* ---- what the library gets ---- */

/* Our dtypes and reductions as NCCL has them; truth values are numbers of which the largest is their sum. */
int rush_nccl_numbers(const char *what, rush_dtype dtype, rush_reduce reduce, int *type, int *op)
{
    static const struct { rush_dtype ours; ncclDataType_t its; } dtypes[] = {
        {RUSH_I8, ncclInt8}, {RUSH_U8, ncclUint8}, {RUSH_BOOL, ncclUint8}, {RUSH_I32, ncclInt32}, {RUSH_U32, ncclUint32}, {RUSH_I64, ncclInt64}, {RUSH_U64, ncclUint64},
        {RUSH_F16, ncclFloat16}, {RUSH_BF16, ncclBfloat16}, {RUSH_F32, ncclFloat32}, {RUSH_F64, ncclFloat64}};
    static const ncclRedOp_t ops[] = {ncclSum, ncclAvg, ncclProd, ncclMin, ncclMax}; /* ORDER: rush_reduce */
    static const char *const names[] = {"BAND", "BOR", "BXOR"};
    *op = ncclSum;
    if (reduce != RUSH_REDUCE_PREMUL_SUM) {
        RUSH_CHECK(reduce < (int)RUSH_COUNT(ops), RUSH_VALUE_ERROR, "%s: Cannot use ReduceOp.%s with NCCL", what, names[reduce - RUSH_REDUCE_BAND]);
        *op = ops[reduce];
    }
    if (dtype == RUSH_BOOL) {
        RUSH_CHECK(*op != ncclAvg, RUSH_TYPE_ERROR, "%s: Cannot use ReduceOp.AVG with Boolean inputs", what);
        *op = *op == ncclSum ? ncclMax : *op == ncclProd ? ncclMin : *op;
    }
    RUSH_CHECK(reduce != RUSH_REDUCE_PREMUL_SUM || rush_dtype_is_float(dtype), RUSH_TYPE_ERROR, "%s: PREMUL_SUM Data type must be half, float, bfloat16 or double", what);
    for (size_t i = 0; i < RUSH_COUNT(dtypes); i++)
        if (dtypes[i].ours == dtype) return *type = dtypes[i].its, 0;
    return rush_fail(RUSH_TYPE_ERROR, "%s: Input tensor data type is not supported for NCCL process group: %s", what, rush_dtype_name(dtype));
}

int rush_nccl_reduces(const char *what, rush_dtype dtype, rush_reduce reduce)
{
    ncclDataType_t type;
    ncclRedOp_t op;
    return rush_nccl_numbers(what, rush_dtype_real(dtype), reduce, &type, &op);
}

/* A sum of numbers that are multiplied before, on each rank by its own factor. */
static ncclResult_t scaled_sum(const comm *c, ncclDataType_t type, int dtype, double factor, ncclRedOp_t *op)
{
    union { float f; double d; uint16_t h; } scalar = {0};
    if (dtype == RUSH_F64) scalar.d = factor;
    else if (dtype == RUSH_F32) scalar.f = (float)factor;
    else scalar.h = dtype == RUSH_F16 ? rush_f32_to_f16((float)factor) : rush_f32_to_bf16((float)factor);
    return c->owner->library->premul_create(op, &scalar, type, ncclScalarHostImmediate, c->comm);
}

/* What NCCL has no function for: messages between each two, all at once. */
static ncclResult_t messages(const comm *c, cudaStream_t s, int size, const rush_engine_call *e)
{
    const rush_nccl_library *nccl = c->owner->library;
    ncclResult_t code = nccl->group_start();
    const size_t each = (e->kind == RUSH_ENGINE_ALL_TO_ALL ? e->n / (size_t)size : e->n) * e->size;
    for (int i = 0; i < size && code == ncclSuccess; i++) {
        const bool sends = e->kind == RUSH_ENGINE_GATHER ? i == e->root : e->kind == RUSH_ENGINE_SCATTER ? c->rank == e->root : true;
        const bool gets = e->kind == RUSH_ENGINE_GATHER ? c->rank == e->root : e->kind == RUSH_ENGINE_SCATTER ? i == e->root : true;
        const size_t in = e->in_counts ? (size_t)e->in_counts[i] * e->size : each, out = e->out_counts ? (size_t)e->out_counts[i] * e->size : each;
        if (sends && in) code = nccl->send(e->ins ? e->ins[i] : e->in, in, ncclUint8, i, c->comm, s);
        if (gets && out && code == ncclSuccess) code = nccl->receive(e->outs ? e->outs[i] : e->out, out, ncclUint8, i, c->comm, s);
    }
    const ncclResult_t end = nccl->group_end();
    return code == ncclSuccess ? end : code;
}

static ncclResult_t begin(const comm *c, cudaStream_t s, int size, const rush_engine_call *e, ncclDataType_t type, ncclRedOp_t op)
{
    const rush_nccl_library *nccl = c->owner->library;
    switch (e->kind) {
    case RUSH_ENGINE_ALL_REDUCE: return nccl->all_reduce(e->out, e->out, e->n, type, op, c->comm, s);
    case RUSH_ENGINE_REDUCE: return nccl->reduce(e->in, e->out, e->n, type, op, e->root, c->comm, s);
    case RUSH_ENGINE_REDUCE_SCATTER: return nccl->reduce_scatter(e->in, e->out, e->n, type, op, c->comm, s);
    case RUSH_ENGINE_BROADCAST: return nccl->broadcast(e->out, e->out, e->n * e->size, ncclUint8, e->root, c->comm, s);
    case RUSH_ENGINE_BARRIER: return nccl->all_reduce(e->out, e->out, 1, ncclInt32, ncclSum, c->comm, s);
    case RUSH_ENGINE_ALL_GATHER: return nccl->all_gather(e->in, e->out, e->n * e->size, ncclUint8, c->comm, s);
    default: return messages(c, s, size, e);
    }
}

/* On the thread's stream of the device. */
static int run(void *x, const rush_engine_call *e, char *why, size_t room)
{
    comm *c = x;
    const rush_nccl *n = c->owner;
    ncclDataType_t type = ncclUint8;
    ncclRedOp_t op = ncclSum, made = ncclSum;
    why[0] = 0;
    if (e->reduction && rush_nccl_numbers(e->what, (rush_dtype)e->dtype, (rush_reduce)e->reduce, &type, &op)) return -1;
    ncclResult_t code = e->reduction && e->reduce == RUSH_REDUCE_PREMUL_SUM ? scaled_sum(c, type, e->dtype, e->factor, &made) : ncclSuccess;
    if (made != ncclSum) op = made;
    if (code == ncclSuccess) code = begin(c, n->cuda->stream(c->device, rush_device_stream(c->device)), e->ranks, e, type, op);
    if (made != ncclSum) n->library->op_destroy(made, c->comm);
    return check(n, c->comm, code, e->what);
}

enum { BY_PARTS = 1 << RUSH_ENGINE_GATHER | 1 << RUSH_ENGINE_SCATTER | 1 << RUSH_ENGINE_ALL_TO_ALL | 1 << RUSH_ENGINE_ALL_TO_ALL_V };
static const rush_engine engine = {.name = "nccl", .run = run, .reduces_scattered = true, .reduces_in_place = true, .takes_parts = BY_PARTS, .averages = true};

/* ---- calls ---- */

/* One tensor without gaps goes as it is, so that nothing has to be done between the parts of one step. */
static bool goes_as_it_is(const rush_work *w)
{
    return w->call.nin <= 1 && w->call.nout <= 1 && (!w->call.nin || rush_is_contiguous(w->call.in[0])) && (!w->call.nout || rush_is_contiguous(w->call.out[0]));
}

/* What it needs besides, on the communicator's stream: the tensor of a barrier, or that of a message that has gaps. */
static int prepare(rush_work *w)
{
    rush_tensor *made = NULL, *in = w->call.nin ? w->call.in[0] : NULL;
    if (w->call.kind == RUSH_DIST_BARRIER) {
        made = rush_tensor_new(RUSH_I32, w->device, 1, (int64_t[]){1});
        if (!made || rush_device_fill(made, rush_v_int(1))) return -1;
    } else if (rush_work_is_message(w) && !goes_as_it_is(w)) {
        rush_tensor *t = in ? in : w->call.out[0];
        made = rush_tensor_new(t->dtype, w->device, t->ndim, t->size);
        if (!made || (in && rush_copy_into(made, in))) return -1;
    }
    w->dense = rush_keep(made);
    return 0;
}

static int give(rush_work *w)
{
    comm *c = w->opened;
    const rush_nccl *n = c->owner;
    if (!rush_work_is_message(w)) return rush_collective_run(w);
    const bool sends = w->call.kind == RUSH_DIST_SEND;
    const int other = c->peer < 0 ? w->call.root : !c->rank;
    const rush_tensor *t = w->dense ? w->dense : sends ? w->call.in[0] : w->call.out[0];
    const size_t bytes = (size_t)t->numel * rush_dtype_size(rush_dtype_of(t));
    cudaStream_t s = n->cuda->stream(c->device, rush_device_stream(c->device));
    return check(n, c->comm, sends ? n->library->send(rush_data(t), bytes, ncclUint8, other, c->comm, s) : n->library->receive(rush_data(t), bytes, ncclUint8, other, c->comm, s), w->what);
}

/* Calls step(work) with that stream as the thread's. */
static int on_stream(int stream, rush_work *w, int (*step)(rush_work *))
{
    const int before = rush_device_stream(w->device);
    int failed = rush_device_stream_set(w->device, stream);
    rush_scope() failed = failed || step(w);
    rush_device_stream_set(w->device, before);
    return failed ? -1 : 0;
}

/* `later` waits for what `stream` was given so far. */
static int order(rush_device d, int stream, int later)
{
    if (stream == later) return 0;
    rush_event *e = rush_event_new(d, false);
    const int failed = !e || rush_event_record(e, stream) || rush_event_wait(e, later);
    rush_event_free(e);
    return failed ? -1 : 0;
}

static int finish_step(rush_work *w)
{
    if (w->call.kind == RUSH_DIST_RECEIVE && w->dense && rush_copy_into(w->call.out[0], w->dense)) return -1;
    w->end = rush_event_new(w->device, false);
    return w->end ? rush_event_record(w->end, rush_device_stream(w->device)) : -1;
}

/* In the order of the ranks, lest two of them wait for one another. */
static int open_comms(rush_group *g, rush_work **w, int n)
{
    for (int peer = -1; peer < g->size; peer++)
        for (int i = 0; i < n; i++) {
            if ((rush_work_is_message(w[i]) && g->bound.type == RUSH_CPU ? w[i]->call.root : -1) != peer) continue;
            comm *c = comm_of(g, w[i]->device, peer);
            if (!c) return -1;
            if (check_alive(c, w[i]->what)) return -1;
            w[i]->engine = &engine;
            w[i]->opened = c;
        }
    return 0;
}

/* One step is on one stream, that of the first communicator; those of the others wait before and after. */
static int launch(rush_group *g, rush_work **w, int n)
{
    int together = 0, started = 0, failed = open_comms(g, w, n);
    const int stream = failed ? 0 : ((comm *)w[0]->opened)->stream;
    for (int i = 0; i < n && !failed; i++) {
        failed = order(w[i]->device, ((comm *)w[i]->opened)->stream, stream) || rush_event_wait(w[i]->ready, stream) || on_stream(stream, w[i], prepare);
        if (!failed && !rush_work_is_message(w[i]) && !goes_as_it_is(w[i])) failed = on_stream(stream, w[i], give);
        else together++;
    }
    if (!failed && together > 1) failed = check(g->nccl, NULL, g->nccl->library->group_start(), "ncclGroupStart"), started = !failed;
    for (int i = 0; i < n && !failed; i++)
        if (rush_work_is_message(w[i]) || goes_as_it_is(w[i])) failed = on_stream(stream, w[i], give);
    if (started) failed = check(g->nccl, NULL, g->nccl->library->group_end(), "ncclGroupEnd") || failed;
    for (int i = 0; i < n && !failed; i++) failed = on_stream(stream, w[i], finish_step) || order(w[i]->device, stream, ((comm *)w[i]->opened)->stream);
    for (int i = 0; i < n && !failed; i++) rush_group_enqueue(w[i]);
    for (int i = 0; i < n && failed; i++) { /* while the call was given, another thread may have aborted what it was given to: NCCL says no more than "invalid" */
        const comm *c = w[i]->opened;
        if (!c || !c->aborted) continue;
        rush_error_clear();
        return check_alive(c, w[i]->what);
    }
    return failed ? -1 : 0;
}

int rush_nccl_open(rush_group *g, rush_device d)
{
    pthread_mutex_lock(&g->nccl->lock);
    const comm *c = comm_of(g, d, -1);
    pthread_mutex_unlock(&g->nccl->lock);
    return c ? 0 : -1;
}

int rush_nccl_split(rush_group *parent, rush_group *to, int part)
{
    ncclComm_t none;
    pthread_mutex_lock(&parent->nccl->lock);
    const comm *whole = comm_of(parent, parent->bound, -1);
    const bool failed = !whole || (to ? !comm_new(to, to->bound, -1, whole, part) : split(whole, NCCL_SPLIT_NOCOLOR, 0, &none));
    pthread_mutex_unlock(&parent->nccl->lock);
    return failed ? -1 : 0;
}

int rush_nccl_launch(rush_work **w, int n)
{
    rush_group *g = w[0]->group;
    if (rush_mesh_broken(g->mesh)) return rush_mesh_begin(g->mesh, g->number, w[0]->what, false) ? -1 : 0;
    pthread_mutex_lock(&g->nccl->lock);
    const int failed = launch(g, w, n);
    pthread_mutex_unlock(&g->nccl->lock);
    return failed;
}

/* ---- looking after them ---- */

/* Has a rank left that the work needs? One that has begun it does its part before. Of a message that is not known: it gets some seconds. */
static int check_left(const rush_work *w, double waited)
{
    rush_mesh *m = w->group->mesh;
    for (int r = 0; r < w->group->size; r++) {
        if (r == w->group->rank || (w->number < 0 && (r != w->call.root || waited < 5)) || !rush_mesh_gone(m, r)) continue;
        if (w->number < 0 || rush_mesh_reached(m, r) < w->number) return rush_mesh_fail_gone(m, r);
    }
    return 0;
}

static void *wait_for(void *arg)
{
    const rush_work *w = arg;
    w->group->nccl->cuda->spoil(w->device, RUSH_OK, NULL);
    rush_event_synchronize(w->end);
    rush_error_clear();
    return NULL;
}

static int look(rush_work *w, const comm *c, pthread_t *waiter, bool *waits)
{
    rush_group *g = w->group;
    const rush_nccl *n = g->nccl;
    const double began = rush_seconds(), until = began + w->call.timeout;
    for (double nap = 20e-6;; nap = RUSH_MIN(1.5 * nap, 1e-3)) {
        ncclResult_t code = ncclSuccess;
        const int done = rush_event_query(w->end);
        if (done) return done < 0 ? -1 : 0;
        if (rush_mesh_broken(g->mesh)) return rush_mesh_begin(g->mesh, w->number, w->what, false);
        if (check(n, c->comm, n->library->async_error(c->comm, &code), w->what) || (code != ncclInProgress && check(n, c->comm, code, w->what))) return -1;
        if (check_left(w, rush_seconds() - began)) return -1;
        RUSH_CHECK(rush_seconds() < until, RUSH_DIST_BACKEND_ERROR, "it is not done after %.1f s; a rank may not have called it", w->call.timeout);
        if (n->late && !*waits && rush_seconds() > began + 0.1) *waits = !pthread_create(waiter, NULL, wait_for, w);
        rush_nap(nap);
    }
}

static void give_up(const rush_work *w)
{
    char why[512];
    snprintf(why, sizeof why, "%s failed, and what was computed from its results is void: %s", w->what, rush_error() ? rush_error() : "for an unknown reason");
    w->group->nccl->cuda->spoil(w->device, RUSH_DIST_BACKEND_ERROR, why); /* first, as those who wait go on when it is aborted */
    abort_all(w->group->nccl);
}

int rush_nccl_watch(rush_work *w)
{
    rush_group *g = w->group;
    const comm *c = w->opened;
    if (check_alive(c, w->what)) return -1;
    pthread_t waiter;
    bool waits = false;
    const bool broken = rush_mesh_broken(g->mesh);
    rush_mesh_waiting(g->mesh, 1);
    int failed = w->number >= 0 && rush_mesh_begin(g->mesh, w->number, w->what, w->told);
    if (broken && rush_event_query(w->end) == 1) rush_error_clear(), failed = 0; /* it was through before */
    else failed = failed || look(w, c, &waiter, &waits);
    rush_mesh_waiting(g->mesh, -1);
    if (failed) give_up(w);
    if (waits) pthread_join(waiter, NULL);
    return failed;
}
