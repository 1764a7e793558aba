/* nccl_devices.c - collectives between the devices of one process, by NCCL: torch.cuda.nccl. The tensors of a call are on one device each. */
#include "dist/group.h"
#include "cuda/libraries.h"
#include "tensor/cuda.h"

enum { MOST = 64 };

/* The communicators of some devices, in that order; made once, and kept. */
typedef struct set {
    int n;
    int device[MOST];
    ncclComm_t comm[MOST];
    struct set *next;
} set;

static set *sets;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int check(const rush_nccl_library *nccl, ncclResult_t code)
{
    return code == ncclSuccess ? 0 : rush_fail(RUSH_RUNTIME_ERROR, "NCCL Error %d: %s", (int)code, nccl->error_text(code));
}

static const set *set_of(const rush_nccl_library *nccl, int n, const int *device)
{
    set *s = sets;
    while (s && (s->n != n || memcmp(s->device, device, (size_t)n * sizeof *device))) s = s->next;
    if (s || !(s = rush_calloc(1, sizeof *s))) return s;
    s->n = n;
    memcpy(s->device, device, (size_t)n * sizeof *device);
    if (check(nccl, nccl->init_all(s->comm, n, device))) return rush_free(s), NULL;
    s->next = sets;
    return sets = s;
}

/* One tensor for each of different devices; the elements and dtype of the first, `times` as many. */
static int agree(int n, rush_tensor *const *t, const rush_tensor *first, int64_t times, int64_t of, int *device)
{
    for (int i = 0; i < n; i++) {
        if (!t[i]) continue; /* of a reduction, which has one output */
        RUSH_CHECK(t[i]->layout == RUSH_STRIDED && t[i]->device.type == RUSH_CUDA, RUSH_RUNTIME_ERROR, "expected dense CUDA tensors");
        RUSH_CHECK(t[i]->dtype == first->dtype, RUSH_RUNTIME_ERROR, "all inputs and outputs must have the same type");
        RUSH_CHECK(rush_is_contiguous(t[i]), RUSH_RUNTIME_ERROR, "tensors must be contiguous");
        RUSH_CHECK(t[i]->numel * of == first->numel * times, RUSH_RUNTIME_ERROR, "all inputs must have same number of elements, and outputs as many as the call makes of them");
        RUSH_CHECK(device[i] < 0 || device[i] == t[i]->device.index, RUSH_RUNTIME_ERROR, "input and output must be on the same device");
        device[i] = t[i]->device.index;
        for (int k = 0; k < i; k++) RUSH_CHECK(device[k] != device[i], RUSH_RUNTIME_ERROR, "inputs must be on unique devices");
    }
    return 0;
}

static ncclResult_t call(const rush_nccl_library *nccl, const rush_nccl_call *c, int i, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
    const void *in = rush_data(c->in[i]);
    void *out = c->out[i] ? rush_data(c->out[i]) : NULL;
    const size_t n = (size_t)c->in[i]->numel;
    switch (c->kind) {
    case RUSH_NCCL_ALL_REDUCE: return nccl->all_reduce(in, out, n, type, op, comm, s);
    case RUSH_NCCL_BROADCAST: return nccl->broadcast(out, out, n, type, c->root, comm, s);
    case RUSH_NCCL_REDUCE: return nccl->reduce(in, out, n, type, op, c->root, comm, s);
    case RUSH_NCCL_ALL_GATHER: return nccl->all_gather(in, out, n, type, comm, s);
    default: return nccl->reduce_scatter(in, out, (size_t)c->out[i]->numel, type, op, comm, s);
    }
}

int rush_nccl_devices(const rush_nccl_call *c)
{
    const char *why;
    const rush_cuda_interface *cuda = rush_cuda(&why);
    RUSH_CHECK(cuda, RUSH_RUNTIME_ERROR, "there are no CUDA devices: %s", why);
    const rush_nccl_library *nccl = cuda->nccl();
    static const rush_reduce reduces[] = {RUSH_REDUCE_SUM, RUSH_REDUCE_PRODUCT, RUSH_REDUCE_MAX, RUSH_REDUCE_MIN, RUSH_REDUCE_AVG}; /* ORDER: ncclRedOp_t */
    ncclDataType_t type;
    ncclRedOp_t op;
    int device[MOST];
    if (!nccl) return -1;
    RUSH_CHECK(c->n > 0 && c->n <= MOST, RUSH_RUNTIME_ERROR, "input sequence can't be empty");
    RUSH_CHECK(c->root >= 0 && c->root < c->n, RUSH_RUNTIME_ERROR, "invalid root");
    RUSH_CHECK(c->op >= 0 && c->op < (int)RUSH_COUNT(reduces), RUSH_RUNTIME_ERROR, "there is no reduction %d", c->op);
    for (int i = 0; i < c->n; i++) device[i] = -1;
    if (agree(c->n, c->in, c->in[0], 1, 1, device) ||
        agree(c->n, c->out, c->in[0], c->kind == RUSH_NCCL_ALL_GATHER ? c->n : 1, c->kind == RUSH_NCCL_REDUCE_SCATTER ? c->n : 1, device) ||
        rush_nccl_numbers("nccl", c->in[0]->dtype, reduces[c->op], &type, &op)) return -1;
    pthread_mutex_lock(&lock);
    const set *s = set_of(nccl, c->n, device);
    int failed = !s || check(nccl, nccl->group_start());
    if (!failed) {
        for (int i = 0; i < c->n && !failed; i++) {
            const rush_device d = c->in[i]->device;
            failed = check(nccl, call(nccl, c, i, type, op, s->comm[i], cuda->stream(d, c->stream ? c->stream[i] : rush_device_stream(d))));
        }
        failed = check(nccl, nccl->group_end()) || failed;
    }
    pthread_mutex_unlock(&lock);
    return failed ? -1 : 0;
}
