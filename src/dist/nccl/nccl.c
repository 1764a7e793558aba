/* nccl.c - the engine "nccl": NVIDIA's collectives between GPUs, a shared object that is opened when it is asked for.
 *
 * It is compiled against nccl.h, so that every call has the types of the header, but neither NCCL nor CUDA is linked: both are
 * looked up when a group is made, and an error says what is missing. Numbers lie in memory of the device. A collective is
 * put on a stream of the group and then asked for, so that it ends when the mesh says that a rank is gone.
 */
#define _GNU_SOURCE
#include "dist/engine.h"
#include <rushlight.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OF_NCCL(F)                                                                                                              \
    F(ncclGetUniqueId) F(ncclCommInitRank) F(ncclCommDestroy) F(ncclCommAbort) F(ncclCommGetAsyncError) F(ncclGetErrorString)   \
    F(ncclAllReduce) F(ncclBroadcast) F(ncclReduce) F(ncclAllGather) F(ncclReduceScatter) F(ncclSend) F(ncclRecv)               \
    F(ncclGroupStart) F(ncclGroupEnd)
#define OF_CUDA(F) F(cudaGetDeviceCount) F(cudaSetDevice) F(cudaStreamCreate) F(cudaStreamDestroy) F(cudaStreamQuery) F(cudaMalloc) F(cudaFree)

#define MEMBER(name) __typeof__(name) *name;
static struct { OF_NCCL(MEMBER) OF_CUDA(MEMBER) } the;

typedef struct opened {
    const rush_wire *wire;
    void *mesh;
    ncclComm_t comm;
    cudaStream_t stream;
    void *spot;          /* a number on the device: barriers */
    int rank, size;
    bool failed;
} opened;

static int look_up(char *why, size_t room)
{
    void *cuda = dlopen("libcudart.so", RTLD_NOW | RTLD_GLOBAL), *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
    for (int v = 13; !cuda && v >= 11; v--) {
        char name[32];
        snprintf(name, sizeof name, "libcudart.so.%d", v);
        cuda = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!cuda || !nccl) return snprintf(why, room, "the backend 'nccl' needs %s, which is not there", cuda ? "libnccl.so.2" : "libcudart"), -1;
#define FIND(so, symbol) if (!(the.symbol = (__typeof__(the.symbol))dlsym(so, #symbol))) return snprintf(why, room, "the library has no " #symbol), -1;
#define FIND_NCCL(symbol) FIND(nccl, symbol)
#define FIND_CUDA(symbol) FIND(cuda, symbol)
    OF_NCCL(FIND_NCCL)
    OF_CUDA(FIND_CUDA)
    int devices = 0;
    if (the.cudaGetDeviceCount(&devices) != cudaSuccess || !devices) return snprintf(why, room, "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"), -1;
    const char *local = getenv("LOCAL_RANK");
    if (local && the.cudaSetDevice(atoi(local) % devices) != cudaSuccess) return snprintf(why, room, "GPU %s cannot be used", local), -1;
    return 0;
}

static int failed(ncclResult_t code, const char *what, char *why, size_t room)
{
    if (code == ncclSuccess) return 0;
    snprintf(why, room, "%s: %s", what, the.ncclGetErrorString(code));
    return -1;
}

/* The id of rank 0, which all others need. */
static int share_id(opened *o, ncclUniqueId *id, double seconds)
{
    enum { SLOT = 0x7ffffff2 };
    void *b = o->wire->buffer(o->mesh, id, sizeof *id);
    int bad = !b;
    if (!bad && o->rank) bad = o->wire->receive(b, 1, &(int){0}, SLOT, 0, sizeof *id) || o->wire->wait(b, 1, seconds, NULL);
    for (int i = 1; i < o->size && !bad && !o->rank; i++) bad = o->wire->send(b, i, SLOT, 0, sizeof *id) || o->wire->wait(b, 0, seconds, NULL);
    if (b) o->wire->drop(b);
    return bad;
}

static void nccl_close(void *x)
{
    opened *o = x;
    if (o->comm && o->failed) the.ncclCommAbort(o->comm);
    else if (o->comm) the.ncclCommDestroy(o->comm);
    if (o->spot) the.cudaFree(o->spot);
    if (o->stream) the.cudaStreamDestroy(o->stream);
    free(o);
}

static void *nccl_open(const rush_wire *wire, void *mesh, int rank, int size, double seconds, char *why, size_t room)
{
    ncclUniqueId id;
    why[0] = 0;
    if (look_up(why, room)) return NULL;
    opened *o = calloc(1, sizeof *o);
    if (!o) return snprintf(why, room, "not enough memory"), NULL;
    *o = (opened){.wire = wire, .mesh = mesh, .rank = rank, .size = size, .failed = true};
    int bad = !rank && failed(the.ncclGetUniqueId(&id), "ncclGetUniqueId", why, room);
    bad = bad || share_id(o, &id, seconds) || failed(the.ncclCommInitRank(&o->comm, size, id, rank), "ncclCommInitRank", why, room);
    if (!bad && (the.cudaStreamCreate(&o->stream) != cudaSuccess || the.cudaMalloc(&o->spot, 8) != cudaSuccess))
        bad = 1, snprintf(why, room, "CUDA has no stream, or no memory");
    o->failed = bad;
    if (!bad) return o;
    if (!why[0]) snprintf(why, room, "a rank is gone");
    return nccl_close(o), NULL;
}

/* Of our dtypes and reductions those that NCCL has. */
static int numbers_of(const rush_engine_call *c, ncclDataType_t *type, ncclRedOp_t *op)
{
    static const ncclDataType_t by_size[] = {[1] = ncclUint8, [2] = ncclFloat16, [4] = ncclUint32, [8] = ncclUint64};
    static const struct { int ours; ncclDataType_t its; } dtypes[] = {
        {RUSH_I8, ncclInt8}, {RUSH_U8, ncclUint8}, {RUSH_BOOL, ncclUint8}, {RUSH_I32, ncclInt32}, {RUSH_U32, ncclUint32}, {RUSH_I64, ncclInt64}, {RUSH_U64, ncclUint64},
        {RUSH_F16, ncclFloat16}, {RUSH_BF16, ncclBfloat16}, {RUSH_F32, ncclFloat32}, {RUSH_F64, ncclFloat64}};
    static const ncclRedOp_t ops[] = {ncclSum, ncclAvg, ncclProd, ncclMin, ncclMax}; /* ORDER: rush_reduce */
    *op = ncclSum;
    *type = by_size[c->size];
    if (!c->reduction) return 0;
    if (c->reduce >= (int)(sizeof ops / sizeof *ops)) return -1;
    *op = ops[c->reduce] == ncclAvg ? ncclSum : ops[c->reduce]; /* who calls divides */
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].ours == c->dtype) return *type = dtypes[i].its, 0;
    return -1;
}

/* What NCCL has no function for: messages between each two, all at once. */
static ncclResult_t messages(opened *o, const rush_engine_call *c, ncclDataType_t type)
{
    ncclResult_t code = the.ncclGroupStart();
    size_t each = c->kind == RUSH_ENGINE_ALL_TO_ALL ? c->n / (size_t)o->size : c->n, in_at = 0, out_at = 0;
    for (int i = 0; i < o->size && code == ncclSuccess; i++) {
        size_t in = c->kind == RUSH_ENGINE_ALL_TO_ALL_V ? (size_t)c->in_counts[i] : each, out = c->kind == RUSH_ENGINE_ALL_TO_ALL_V ? (size_t)c->out_counts[i] : each;
        bool sends = c->kind == RUSH_ENGINE_GATHER ? i == c->root : c->kind == RUSH_ENGINE_SCATTER ? o->rank == c->root : true;
        bool gets = c->kind == RUSH_ENGINE_GATHER ? o->rank == c->root : c->kind == RUSH_ENGINE_SCATTER ? i == c->root : true;
        const char *from = (const char *)c->in + (c->kind == RUSH_ENGINE_GATHER ? 0 : in_at * c->size);
        char *to = (char *)c->out + (c->kind == RUSH_ENGINE_SCATTER ? 0 : out_at * c->size);
        if (sends) code = the.ncclSend(from, in, type, i, o->comm, o->stream);
        if (gets && code == ncclSuccess) code = the.ncclRecv(to, out, type, i, o->comm, o->stream);
        in_at += in;
        out_at += out;
    }
    ncclResult_t end = the.ncclGroupEnd();
    return code == ncclSuccess ? end : code;
}

static ncclResult_t begin(opened *o, const rush_engine_call *c, ncclDataType_t type, ncclRedOp_t op)
{
    switch (c->kind) {
    case RUSH_ENGINE_ALL_REDUCE: return the.ncclAllReduce(c->out, c->out, c->n, type, op, o->comm, o->stream);
    case RUSH_ENGINE_REDUCE: return the.ncclReduce(c->in, c->out, c->n, type, op, c->root, o->comm, o->stream);
    case RUSH_ENGINE_REDUCE_SCATTER: return the.ncclReduceScatter(c->in, c->out, c->n, type, op, o->comm, o->stream);
    case RUSH_ENGINE_BROADCAST: return the.ncclBroadcast(c->out, c->out, c->n, type, c->root, o->comm, o->stream);
    case RUSH_ENGINE_ALL_GATHER: return the.ncclAllGather(c->in, c->out, c->n, type, o->comm, o->stream);
    case RUSH_ENGINE_BARRIER: return the.ncclAllReduce(o->spot, o->spot, 1, ncclInt32, ncclSum, o->comm, o->stream);
    default: return messages(o, c, type);
    }
}

/* Until the stream has done it; -1 where it fails, or a rank is gone, or it is too late. */
static int finish(opened *o, const rush_engine_call *c, char *why, size_t room)
{
    struct timespec nap = {0, 20000};
    for (double waited = 0;; waited += 20e-6) {
        ncclResult_t async = ncclSuccess;
        cudaError_t code = the.cudaStreamQuery(o->stream);
        if (code == cudaSuccess) return 0;
        if (code != cudaErrorNotReady) return snprintf(why, room, "%s: CUDA error %d", c->what, (int)code), -1;
        if (failed(the.ncclCommGetAsyncError(o->comm, &async), c->what, why, room) || failed(async, c->what, why, room)) return -1;
        if (o->wire->broken(o->mesh)) return -1;
        if (waited > c->seconds) return snprintf(why, room, "%s is not done after %.1f s", c->what, c->seconds), -1;
        nanosleep(&nap, NULL);
    }
}

static int nccl_run(void *x, const rush_engine_call *c, char *why, size_t room)
{
    opened *o = x;
    ncclDataType_t type = ncclUint8;
    ncclRedOp_t op = ncclSum;
    why[0] = 0;
    if (numbers_of(c, &type, &op)) return snprintf(why, room, "NCCL cannot do %s", c->what), -1;
    if (!failed(begin(o, c, type, op), c->what, why, room) && !finish(o, c, why, room)) return 0;
    return o->failed = true, -1;
}

__attribute__((visibility("default"))) extern const rush_engine rush_engine_nccl;
const rush_engine rush_engine_nccl = {"nccl", nccl_open, nccl_close, nccl_run, true, true, false};
