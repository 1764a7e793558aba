/* stand_in_nccl.c - a stand-in for NCCL on emulated devices: what src/dist/nccl.c asks of it, between processes of one machine.
 *
 * A call is put into the stream that it is given, so that it runs when the stream does, behind what is there before and no sooner. Ranks have a
 * socket for each other, and what a collective needs goes over them: everybody's numbers to everybody, summed in the order of
 * the ranks. tests/python/test_dist_cuda.py compiles this file and puts it where RUSHLIGHT_CUDA_LIBRARIES says. The counts at the end are for the tests.
 */
#define _GNU_SOURCE
#include "cuda/libraries.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, OPS = 64, SYSTEM = 2, INVALID = 4, REMOTE = 6 };

struct ncclComm {
    int rank, size, fd[MOST];
    atomic_int aborted, error, refs; /* refs: of who made it, and of calls in streams */
    struct { int type; double factor; } made[OPS]; /* reductions from 5 on */
    struct ncclComm **mates;       /* of devices of one process, all of them; NULL: processes */
    struct call *now;              /* of such: what its stream has come to */
    cudaStream_t stream;
    int device;
};

typedef struct call {
    enum { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECEIVE } kind;
    const void *in;
    void *out;
    size_t n;
    int type, op, root;
    double factor;
    struct ncclComm *comm;
    struct call *next; /* of one step */
} call;

int stand_in_nccl_calls, stand_in_nccl_steps, stand_in_nccl_live, stand_in_nccl_aborted, stand_in_nccl_splits;
static _Thread_local int depth;
static _Thread_local call *step, **step_end;
static _Thread_local cudaStream_t step_stream;

/* ---- numbers ---- */

static size_t size_of(int type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return sizes[type];
}

static double half(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double x = e == 31 ? (m ? 0.0 / 0.0 : 1.0 / 0.0) : e ? __builtin_ldexp(1024 + m, e - 25) : __builtin_ldexp(m, -24);
    return h & 0x8000 ? -x : x;
}

static double brain(uint16_t h)
{
    union { uint32_t u; float f; } x = {.u = (uint32_t)h << 16};
    return x.f;
}

static uint16_t to_brain(double d)
{
    union { float f; uint32_t u; } x = {.f = (float)d};
    return d != d ? 0x7fc0 : (uint16_t)((x.u + 0x7fff + (x.u >> 16 & 1)) >> 16);
}

static uint16_t to_half(double d) /* gcc 11 has no _Float16 */
{
    union { float f; uint32_t u; } x = {.f = (float)d};
    uint32_t sign = x.u >> 16 & 0x8000, a = x.u & 0x7fffffff;
    if (d != d) return 0x7e00;
    if (a < 0x38800000) return (uint16_t)(sign | (uint32_t)nearbyint(fabs(d) * 0x1p24)); /* below the least normal one */
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | (a >= 0x47800000 ? 0x7c00 : (a - 0x38000000) >> 13));
}

static double read_at(const void *p, size_t i, int type)
{
    switch (type) {
    case ncclInt8: return ((const int8_t *)p)[i];
    case ncclUint8: return ((const uint8_t *)p)[i];
    case ncclInt32: return ((const int32_t *)p)[i];
    case ncclUint32: return ((const uint32_t *)p)[i];
    case ncclFloat16: return half(((const uint16_t *)p)[i]);
    case ncclFloat32: return ((const float *)p)[i];
    case ncclFloat64: return ((const double *)p)[i];
    case ncclBfloat16: return brain(((const uint16_t *)p)[i]);
    default: return (double)((const int64_t *)p)[i];
    }
}

static void write_at(void *p, size_t i, int type, double v)
{
    switch (type) {
    case ncclInt8: ((int8_t *)p)[i] = (int8_t)(int64_t)v; break;
    case ncclUint8: ((uint8_t *)p)[i] = (uint8_t)(int64_t)v; break;
    case ncclInt32: ((int32_t *)p)[i] = (int32_t)(int64_t)v; break;
    case ncclUint32: ((uint32_t *)p)[i] = (uint32_t)(int64_t)v; break;
    case ncclFloat16: ((uint16_t *)p)[i] = to_half(v); break;
    case ncclFloat32: ((float *)p)[i] = (float)v; break;
    case ncclFloat64: ((double *)p)[i] = v; break;
    case ncclBfloat16: ((uint16_t *)p)[i] = to_brain(v); break;
    default: ((int64_t *)p)[i] = (int64_t)v;
    }
}

static double joined(double a, double b, int op)
{
    return op == ncclProd ? a * b : op == ncclMax ? (b > a ? b : a) : op == ncclMin ? (b < a ? b : a) : a + b;
}

/* out[i] of parts[rank][i], each rounded as its type is. */
static void reduce(const call *k, char *const *parts, int ranks, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = read_at(parts[0], i, k->type);
        for (int r = 1; r < ranks; r++) {
            write_at(out, i, k->type, joined(x, read_at(parts[r], i, k->type), k->op));
            x = read_at(out, i, k->type);
        }
        write_at(out, i, k->type, k->op == ncclAvg ? x / ranks : x);
    }
}

/* ---- what goes between ranks ---- */

typedef struct part { /* what goes to another rank and comes from it */
    struct ncclComm *comm;
    int peer;
    char *out, *in;      /* in one piece, though it may be several messages */
    size_t outs, ins, sent, got;
} part;

/* As NCCL, it goes on waiting until somebody who looks for errors aborts it. */
static void fail(struct ncclComm *c, int error)
{
    if (!c->error) c->error = error;
    while (!c->aborted) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* As much as goes without waiting. */
static void move(part *p, int events)
{
    const int fd = p->comm->fd[p->peer];
    ssize_t n;
    if (events & POLLOUT && (n = send(fd, p->out + p->sent, p->outs - p->sent, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0) p->sent += (size_t)n;
    if (!(events & (POLLIN | POLLHUP)) || p->got == p->ins) return;
    n = recv(fd, p->in + p->got, p->ins - p->got, MSG_DONTWAIT);
    if (n > 0) p->got += (size_t)n;
    else if (n && (errno == EAGAIN || errno == EINTR)) return;
    else if (n <= 0 && getenv("STAND_IN_NCCL_SILENT")) nanosleep(&(struct timespec){0, 5000000}, NULL); /* as a network that tells nothing */
    else fail(p->comm, REMOTE);
}

/* All of it at once, as the others are ready. -1: aborted, or a rank is gone. */
static int exchange(part *p, int parts)
{
    for (;;) {
        struct pollfd fds[2 * MOST];
        int n = 0, who[2 * MOST];
        for (int i = 0; i < parts; i++) {
            const short events = (short)((p[i].sent < p[i].outs ? POLLOUT : 0) | (p[i].got < p[i].ins ? POLLIN : 0));
            if (p[i].comm->aborted) return -1;
            if (events) fds[n] = (struct pollfd){p[i].comm->fd[p[i].peer], events, 0}, who[n++] = i;
        }
        if (!n) return 0;
        poll(fds, (nfds_t)n, 20);
        for (int i = 0; i < n; i++) move(&p[who[i]], fds[i].revents);
    }
}

/* Everybody's `bytes` from `in` to everybody. */
static int gather(struct ncclComm *c, char *in, size_t bytes, char **parts)
{
    part p[MOST];
    int n = 0;
    for (int r = 0; r < c->size; r++) {
        parts[r] = malloc(bytes + 1);
        if (r == c->rank) memcpy(parts[r], in, bytes);
        else p[n++] = (part){c, r, in, parts[r], bytes, bytes, 0, 0};
    }
    return exchange(p, n);
}

static void run_collective(const call *k)
{
    struct ncclComm *c = k->comm;
    const size_t item = size_of(k->type), bytes = k->n * item, given = k->kind == REDUCE_SCATTER ? bytes * (size_t)c->size : bytes;
    char *parts[MOST] = {0}, *in = malloc(given + 1);
    memcpy(in, k->in, given);
    if (k->factor != 1)
        for (size_t i = 0; i < given / item; i++) write_at(in, i, k->type, read_at(in, i, k->type) * k->factor);
    if (!gather(c, in, given, parts)) {
        if (k->kind == ALL_REDUCE || (k->kind == REDUCE && c->rank == k->root)) reduce(k, parts, c->size, k->out, k->n);
        if (k->kind == BROADCAST) memcpy(k->out, parts[k->root], bytes);
        for (int r = 0; r < c->size && k->kind == ALL_GATHER; r++) memcpy((char *)k->out + (size_t)r * bytes, parts[r], bytes);
        if (k->kind == REDUCE_SCATTER) {
            char *own[MOST];
            for (int r = 0; r < c->size; r++) own[r] = parts[r] + (size_t)c->rank * bytes;
            reduce(k, own, c->size, k->out, k->n);
        }
    }
    for (int r = 0; r < c->size; r++) free(parts[r]);
    free(in);
}

/* All ranks of one process have come to the same call. */
static void run_together(struct ncclComm *const *mates, int size)
{
    const call *first = mates[0]->now;
    const size_t bytes = first->n * size_of(first->type), given = first->kind == REDUCE_SCATTER ? bytes * (size_t)size : bytes;
    char *parts[MOST];
    for (int r = 0; r < size; r++) memcpy(parts[r] = malloc(given + 1), mates[r]->now->in, given);
    for (int r = 0; r < size; r++) {
        const call *k = mates[r]->now;
        char *own[MOST];
        for (int i = 0; i < size; i++) own[i] = parts[i] + (k->kind == REDUCE_SCATTER ? (size_t)r * bytes : 0);
        if (k->kind == ALL_REDUCE || k->kind == REDUCE_SCATTER || (k->kind == REDUCE && r == k->root)) reduce(k, own, size, k->out, k->n);
        if (k->kind == BROADCAST) memcpy(k->out, parts[k->root], bytes);
        for (int i = 0; i < size && k->kind == ALL_GATHER; i++) memcpy((char *)k->out + (size_t)i * bytes, parts[i], bytes);
    }
    for (int r = 0; r < size; r++) free(parts[r]), mates[r]->now = NULL;
}

static void *emulator(const char *name);

/* A stream of one of them has come to its part: the others' streams run until they have, and the last one does it for all. */
static void meet(void *arg)
{
    static void (*run_stream)(int device, cudaStream_t);
    call *k = arg;
    struct ncclComm *c = k->comm, *const *mates = c->mates;
    if (!run_stream) *(void **)&run_stream = emulator("rush_emulator_run");
    c->now = k;
    for (int r = 0; r < c->size && c->now; r++)
        if (!mates[r]->now) run_stream(mates[r]->device, mates[r]->stream);
    if (c->now) run_together(mates, c->size);
    c->refs--;
    free(k);
}

static void drop(struct ncclComm *c)
{
    if (--c->refs) return;
    for (int r = 0; r < c->size; r++)
        if (c->fd[r] >= 0) close(c->fd[r]);
    free(c);
    stand_in_nccl_live--;
}

static part *part_of(part *p, int *n, const call *k)
{
    for (int i = 0; i < *n; i++)
        if (p[i].comm == k->comm && p[i].peer == k->root) return &p[i];
    if (*n == 2 * MOST) abort();
    p[*n] = (part){k->comm, k->root, NULL, NULL, 0, 0, 0, 0};
    return &p[(*n)++];
}

/* Messages of a step, all at once; those to this rank itself are copies. Between two ranks they come in the order in which they go. */
static void run_messages(const call *first)
{
    part p[2 * MOST];
    int n = 0, failed;
    for (const call *k = first; k; k = k->next) {
        if (k->kind < SEND) continue;
        part *q = part_of(p, &n, k);
        if (k->kind == RECEIVE) q->ins += k->n;
        else q->out = realloc(q->out, q->outs + k->n + 1), memcpy(q->out + q->outs, k->in, k->n), q->outs += k->n;
    }
    for (int i = 0; i < n; i++) {
        part *q = &p[i];
        q->in = malloc(q->ins + 1);
        if (q->peer == q->comm->rank) memcpy(q->in, q->out, q->ins), q->got = q->ins, q->sent = q->outs;
    }
    failed = exchange(p, n);
    for (int i = 0; i < n; i++) p[i].got = 0;
    for (const call *k = first; k && !failed; k = k->next) {
        if (k->kind != RECEIVE) continue;
        part *q = part_of(p, &n, k);
        memcpy(k->out, q->in + q->got, k->n), q->got += k->n;
    }
    for (int i = 0; i < n; i++) free(p[i].in), free(p[i].out);
}

static void run(void *arg)
{
    for (const call *k = arg; k; k = k->next)
        if (k->kind < SEND) run_collective(k);
    run_messages(arg);
    for (call *k = arg, *next; k; k = next) {
        next = k->next;
        drop(k->comm);
        free(k);
    }
}

/* ---- NCCL's functions ---- */

static int find_emulator(struct dl_phdr_info *one, size_t bytes, void *part)
{
    return strstr(one->dlpi_name, "librushlight_cuda.so") && (*(void **)part = dlopen(one->dlpi_name, RTLD_NOW | RTLD_NOLOAD));
}

static void *emulator(const char *name)
{
    void *part = NULL, *found = dl_iterate_phdr(find_emulator, &part) ? dlsym(part, name) : NULL;
    if (!found) abort();
    return found;
}

static ncclResult_t queue(call *k, cudaStream_t s)
{
    static int (*put)(cudaStream_t, void (*)(void *), void *);
    if (!put) *(void **)&put = emulator("rush_emulator_queue");
    stand_in_nccl_steps++;
    return put(s, k->comm->mates ? meet : run, k) ? SYSTEM : ncclSuccess;
}

static ncclResult_t add(call given, cudaStream_t s)
{
    struct ncclComm *c = given.comm;
    if (!c || c->aborted || (given.kind != ALL_REDUCE && given.kind != ALL_GATHER && given.kind != REDUCE_SCATTER && (given.root < 0 || given.root >= c->size))) return INVALID;
    given.factor = 1;
    if (given.op > ncclAvg) given.factor = c->made[given.op].factor, given.op = ncclSum;
    call *k = malloc(sizeof *k);
    *k = given;
    c->refs++;
    stand_in_nccl_calls++;
    if (c->mates) return c->stream = s, queue(k, s);
    if (!depth) return queue(k, s);
    if (step && s != step_stream) abort(); /* it does not order streams */
    step_stream = s;
    if (!step) step_end = &step;
    *step_end = k;
    step_end = &k->next;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) { return depth++, ncclSuccess; }
ncclResult_t ncclGroupEnd(void)
{
    call *first = step;
    if (--depth || !first) return ncclSuccess;
    step = NULL;
    return queue(first, step_stream);
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) { return add((call){ALL_REDUCE, in, out, n, type, op, 0, 1, c, NULL}, s); }
ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type, int root, ncclComm_t c, cudaStream_t s) { return add((call){BROADCAST, in, out, n, type, 0, root, 1, c, NULL}, s); }
ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s) { return add((call){REDUCE, in, out, n, type, op, root, 1, c, NULL}, s); }
ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type, ncclComm_t c, cudaStream_t s) { return add((call){ALL_GATHER, in, out, n, type, 0, 0, 1, c, NULL}, s); }
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) { return add((call){REDUCE_SCATTER, in, out, n, type, op, 0, 1, c, NULL}, s); }
ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t type, int to, ncclComm_t c, cudaStream_t s) { return add((call){SEND, in, NULL, n * size_of(type), ncclUint8, 0, to, 1, c, NULL}, s); }
ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t type, int from, ncclComm_t c, cudaStream_t s) { return add((call){RECEIVE, NULL, out, n * size_of(type), ncclUint8, 0, from, 1, c, NULL}, s); }

ncclResult_t ncclGetVersion(int *version) { return *version = 22803, ncclSuccess; }
const char *ncclGetErrorString(ncclResult_t code) { return code == REMOTE ? "remote process exited or there was a network error" : code == INVALID ? "invalid argument" : code == SYSTEM ? "unhandled system error" : "no error"; }
const char *ncclGetLastError(ncclComm_t c) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) { return getrandom(id->internal, sizeof id->internal, 0) < 0 ? SYSTEM : ncclSuccess; }

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t where, ncclComm_t c)
{
    for (*op = 5; c->made[*op].type; ++*op)
        if (*op == OPS - 1) return SYSTEM;
    c->made[*op].type = 1;
    c->made[*op].factor = read_at(scalar, 0, type);
    return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t c) { return c->made[op].type = 0, ncclSuccess; }

static struct sockaddr_un name_of(ncclUniqueId id, int rank, socklen_t *n)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    *n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "rushlight-nccl-%llx-%d", *(unsigned long long *)id.internal, rank) + 1);
    return a;
}

/* The lower ranks are called, the higher ones call. */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
    struct ncclComm *c = calloc(1, sizeof *c);
    socklen_t n;
    struct sockaddr_un own = name_of(id, rank, &n);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (size > MOST || bind(listener, (struct sockaddr *)&own, n) || listen(listener, MOST)) return SYSTEM;
    c->rank = rank, c->size = size, c->refs = 1;
    for (int r = 0; r < MOST; r++) c->fd[r] = -1;
    for (int r = 0; r < rank; r++) {
        struct sockaddr_un other = name_of(id, r, &n);
        c->fd[r] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        for (int tries = 0; connect(c->fd[r], (struct sockaddr *)&other, n); tries++)
            if (tries == 3000) return SYSTEM;
            else nanosleep(&(struct timespec){0, 10000000}, NULL);
        if (write(c->fd[r], &rank, sizeof rank) != sizeof rank) return SYSTEM;
    }
    for (int left = size - rank - 1; left; left--) {
        struct pollfd wait = {listener, POLLIN, 0};
        if (poll(&wait, 1, 30000) != 1) return SYSTEM;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), r;
        if (fd < 0 || read(fd, &r, sizeof r) != sizeof r) return SYSTEM;
        c->fd[r] = fd;
    }
    close(listener);
    stand_in_nccl_live++;
    return *comm = c, ncclSuccess;
}

/* Ranks tell one another their color, their key and a number, that of the first of each color for its new communicator. */
ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *made, ncclConfig_t *config)
{
    struct { int color, key; ncclUniqueId id; } own = {color, key, {{0}}}, all[MOST];
    char *parts[MOST];
    int size = 0, rank = 0, first = c->rank;
    if (c->refs != 1) abort(); /* calls are under way */
    *made = NULL;
    stand_in_nccl_splits++;
    if (ncclGetUniqueId(&own.id) || gather(c, (char *)&own, sizeof own, parts)) return SYSTEM;
    for (int r = 0; r < c->size; r++) memcpy(&all[r], parts[r], sizeof own), free(parts[r]);
    for (int r = 0; r < c->size; r++) {
        if (all[r].color != color) continue;
        size++;
        rank += all[r].key < key || (all[r].key == key && r < c->rank);
        if (all[r].key < all[first].key || (all[r].key == all[first].key && r < first)) first = r;
    }
    return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : ncclCommInitRank(made, size, all[first].id, rank);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int size, const int *devices)
{
    if (size > MOST) return INVALID;
    struct ncclComm **mates = calloc((size_t)size, sizeof *mates);
    for (int r = 0; r < size; r++) {
        comm[r] = mates[r] = calloc(1, sizeof **mates);
        mates[r]->rank = r, mates[r]->size = size, mates[r]->refs = 1, mates[r]->mates = mates, mates[r]->device = devices[r];
        stand_in_nccl_live++;
    }
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) { return drop(c), ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t c)
{
    stand_in_nccl_aborted++;
    c->aborted = 1;
    return drop(c), ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error) { return *error = c->error, ncclSuccess; }
