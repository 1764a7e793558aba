/* mpi.c - the engine "mpi": collectives of any MPI library that has the standard's binary interface (MPI 5.0, libmpi_abi).
 *
 * Nothing of MPI is needed for building: the few functions are looked up, handles and constants are those of the standard.
 * Every collective is begun and then asked for, so that it ends when the mesh says that a rank is gone. The mesh also carries
 * messages, barriers that name the missing, and what each rank is about to do.
 */
#define _GNU_SOURCE
#include "dist/mpi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

/* ---- the standard's binary interface ---- */

typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Group *MPI_Group;
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
typedef int64_t MPI_Count;
typedef intptr_t MPI_Aint;
typedef void reduce_c(void *in, void *inout, MPI_Count *n, MPI_Datatype *);

#define HANDLE(type, x) ((type)(uintptr_t)(x))
#define COMM_WORLD HANDLE(MPI_Comm, 0x101)
#define ERRORS_RETURN HANDLE(MPI_Errhandler, 0x143)
#define IN_PLACE ((void *)1)
#define SUM HANDLE(MPI_Op, 0x21)
enum { BYTE = 0x247, FLOAT = 0x210, DOUBLE = 0x214, UINT8 = 0x241, UINT16 = 0x249, INT32 = 0x250, UINT32 = 0x251, INT64 = 0x258, UINT64 = 0x259, ERROR_TEXT = 512,
       THREADS = 4096 /* MPI_THREAD_MULTIPLE */ };

/* name, then the types of its arguments */
#define FUNCTIONS(F)                                                                                                                  \
    F(Initialized, (int *))                                                                                                           \
    F(Finalized, (int *))                                                                                                             \
    F(Finalize, (void))                                                                                                               \
    F(Init_thread, (int *, char ***, int, int *))                                                                                     \
    F(Query_thread, (int *))                                                                                                          \
    F(Comm_rank, (MPI_Comm, int *))                                                                                                   \
    F(Comm_size, (MPI_Comm, int *))                                                                                                   \
    F(Comm_group, (MPI_Comm, MPI_Group *))                                                                                            \
    F(Group_incl, (MPI_Group, int, const int *, MPI_Group *))                                                                         \
    F(Group_free, (MPI_Group *))                                                                                                      \
    F(Comm_create_group, (MPI_Comm, MPI_Group, int, MPI_Comm *))                                                                      \
    F(Comm_free, (MPI_Comm *))                                                                                                        \
    F(Comm_set_errhandler, (MPI_Comm, MPI_Errhandler))                                                                                \
    F(Error_string, (int, char *, int *))                                                                                             \
    F(Op_create_c, (reduce_c *, int, MPI_Op *))                                                                                       \
    F(Type_dup, (MPI_Datatype, MPI_Datatype *))                                                                                       \
    F(Bcast_c, (void *, MPI_Count, MPI_Datatype, int, MPI_Comm))                                                                      \
    F(Ibcast_c, (void *, MPI_Count, MPI_Datatype, int, MPI_Comm, MPI_Request *))                                                      \
    F(Iallreduce_c, (const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *))                                 \
    F(Ireduce_c, (const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request *))                               \
    F(Ireduce_scatter_block_c, (const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *))                      \
    F(Iallgather_c, (const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, MPI_Comm, MPI_Request *))                \
    F(Igather_c, (const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm, MPI_Request *))              \
    F(Iscatter_c, (const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm, MPI_Request *))             \
    F(Ialltoall_c, (const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, MPI_Comm, MPI_Request *))                 \
    F(Ialltoallv_c, (const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *,    \
                     MPI_Datatype, MPI_Comm, MPI_Request *))                                                                          \
    F(Ibarrier, (MPI_Comm, MPI_Request *))                                                                                            \
    F(Test, (MPI_Request *, int *, void *))

#define MEMBER(name, arguments) int(*name) arguments;
static struct { FUNCTIONS(MEMBER) } mpi;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready, ours;  /* it is initialized; by us */
static bool failed_once;  /* a group has failed: ending MPI properly would wait for who is gone */
static MPI_Op ops[RUSH_REDUCE_OPS];          /* by functions of ours ... */
static MPI_Datatype types[RUSH_DTYPES];      /* ... for which each dtype has a type of its own */

static int fail_code(const char *what, int code)
{
    char text[ERROR_TEXT] = "an unknown error";
    int n;
    if (mpi.Error_string) mpi.Error_string(code, text, &n);
    return rush_fail(RUSH_DIST_BACKEND_ERROR, "MPI_%s: %s", what, text);
}

#define MPI(name, ...)                                                  \
    do {                                                                \
        int code_ = mpi.name(__VA_ARGS__);                              \
        if (code_) return fail_code(#name, code_);                      \
    } while (0)

static void at_exit(void)
{
    int over = 1;
    if (ours && !failed_once && !mpi.Finalized(&over) && !over) mpi.Finalize();
}

static void reduce_with(rush_reduce op, void *in, void *inout, MPI_Count n, MPI_Datatype type)
{
    for (int d = 0; d < RUSH_DTYPES; d++)
        if (types[d] == type) return rush_reduction_of((rush_dtype)d, op)(inout, in, inout, (size_t)n);
}

/* MPI gives a function nothing that says what for, so there is one per operation. */
#define REDUCE(op) \
    static void reduce_##op(void *in, void *inout, MPI_Count *n, MPI_Datatype *type) { reduce_with(RUSH_REDUCE_##op, in, inout, *n, *type); }
REDUCE(SUM)
REDUCE(PRODUCT)
REDUCE(MIN)
REDUCE(MAX)
REDUCE(BAND)
REDUCE(BOR)
REDUCE(BXOR)
static reduce_c *const functions[RUSH_REDUCE_OPS] = {reduce_SUM, reduce_SUM, reduce_PRODUCT, reduce_MIN, reduce_MAX, reduce_BAND, reduce_BOR, reduce_BXOR};

static MPI_Datatype type_of_size(size_t size) { return HANDLE(MPI_Datatype, size == 1 ? UINT8 : size == 2 ? UINT16 : size == 4 ? UINT32 : UINT64); }

/* The library that RUSHLIGHT_MPI names, else libmpi_abi where the loader looks. */
static int look_up(void)
{
    static const char *const names[] = {"libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"};
    const char *told = getenv("RUSHLIGHT_MPI");
    void *so = told && *told ? dlopen(told, RTLD_NOW | RTLD_GLOBAL) : NULL;
    for (size_t i = 0; !told && !so && i < RUSH_COUNT(names); i++) so = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    RUSH_CHECK(so, RUSH_DIST_BACKEND_ERROR, "the backend 'mpi' needs a library of the MPI ABI, libmpi_abi.so.1 (MPICH 5, Open MPI 6), or RUSHLIGHT_MPI=path: %s", dlerror());
#define LOOK_UP(name, arguments)                                                                                                              \
    mpi.name = (int(*) arguments)dlsym(so, "MPI_" #name);                                                                                     \
    RUSH_CHECK(mpi.name, RUSH_DIST_BACKEND_ERROR, "%s has no MPI_" #name ": it is not of the MPI ABI (version 5)", told ? told : "libmpi_abi");
    FUNCTIONS(LOOK_UP)
    return 0;
}

static int make_ready(void)
{
    if (ready) return 0;
    int begun = 0, provided = 0;
    if (look_up()) return -1;
    MPI(Initialized, &begun);
    if (!begun) MPI(Init_thread, NULL, NULL, THREADS, &provided);
    ours = !begun;
    atexit(at_exit);
    MPI(Query_thread, &provided);
    RUSH_CHECK(provided >= THREADS, RUSH_DIST_BACKEND_ERROR, "MPI was initialized without MPI_THREAD_MULTIPLE, which groups need: each has a thread");
    MPI(Comm_set_errhandler, COMM_WORLD, ERRORS_RETURN);
    for (int k = 0; k < RUSH_REDUCE_OPS; k++) MPI(Op_create_c, functions[k], 1, &ops[k]);
    for (int d = 0; d < RUSH_DTYPES; d++)
        if (rush_reduction_of((rush_dtype)d, RUSH_REDUCE_SUM) || d == RUSH_BOOL) MPI(Type_dup, type_of_size(rush_dtype_size((rush_dtype)d)), &types[d]);
    ready = true;
    return 0;
}

static int prepare(void)
{
    pthread_mutex_lock(&lock);
    int failed = make_ready();
    pthread_mutex_unlock(&lock);
    return failed;
}

bool rush_mpi_available(void)
{
    pthread_mutex_lock(&lock);
    bool there = ready || !look_up();
    pthread_mutex_unlock(&lock);
    return there;
}

rush_store *rush_mpi_meet(int *rank, int *size, double seconds)
{
    char host[256] = "";
    int32_t port = 0, n;
    rush_store *s = NULL;
    if (prepare()) return NULL;
    if (mpi.Comm_rank(COMM_WORLD, rank) || mpi.Comm_size(COMM_WORLD, size)) return rush_fail(RUSH_DIST_BACKEND_ERROR, "MPI does not say which rank this is"), NULL;
    gethostname(host, sizeof host - 1);
    if (!*rank && (s = rush_store_tcp(host, 0, .server = true, .timeout = seconds))) port = rush_store_port(s);
    int code = mpi.Bcast_c(host, sizeof host, HANDLE(MPI_Datatype, BYTE), 0, COMM_WORLD);
    code = code ? code : mpi.Bcast_c(&port, sizeof port, HANDLE(MPI_Datatype, BYTE), 0, COMM_WORLD);
    n = code ? fail_code("Bcast", code) : 0;
    if (!n && !port && *rank) rush_fail(RUSH_DIST_BACKEND_ERROR, "rank 0 on host %s has no store", host);
    if (!rush_failed() && *rank) s = rush_store_tcp(host, port, .timeout = seconds);
    if (!rush_failed()) return s;
    rush_store_drop(s);
    return NULL;
}

/* ---- a group ---- */

typedef struct opened {
    rush_mesh *mesh;
    MPI_Comm comm;
    int size;
} opened;

typedef struct member { int32_t rank, tag; } member; /* in MPI's world; the next tag that is free there */
static int next_tag;

/* Each tells all others its number in MPI's world. */
static int tell_all(const rush_wire *wire, void *mesh, int rank, int size, double seconds, member *all)
{
    enum { SLOT = 0x7ffffff1 };
    void *out = wire->buffer(mesh, &all[rank], sizeof *all), *in = out ? wire->buffer(mesh, all, (size_t)size * sizeof *all) : NULL;
    int failed = !in;
    for (int i = 0; i < size && !failed; i++)
        if (i != rank) failed = wire->receive(in, 1, &i, SLOT, (size_t)i * sizeof *all, sizeof *all) || wire->send(out, i, SLOT, 0, sizeof *all);
    for (int i = 1; i < size && !failed; i++) failed = wire->wait(in, 1, seconds, NULL) || wire->wait(out, 0, seconds, NULL);
    if (in) wire->drop(in);
    if (out) wire->drop(out);
    return failed ? -1 : 0;
}

static int make_comm(opened *o, member *all, int size)
{
    MPI_Group world, members;
    int tag = 0, *numbers = rush_malloc((size_t)size * sizeof *numbers);
    if (!numbers) return -1;
    for (int i = 0; i < size; i++) {
        numbers[i] = all[i].rank;
        tag = RUSH_MAX(tag, all[i].tag);
    }
    next_tag = (tag + 1) % 32000;
    int code = mpi.Comm_group(COMM_WORLD, &world);
    if (!code) {
        code = mpi.Group_incl(world, size, numbers, &members);
        mpi.Group_free(&world);
    }
    rush_free(numbers);
    if (!code) {
        code = mpi.Comm_create_group(COMM_WORLD, members, tag, &o->comm);
        mpi.Group_free(&members);
    }
    code = code ? code : mpi.Comm_set_errhandler(o->comm, ERRORS_RETURN);
    return code ? fail_code("Comm_create_group", code) : 0;
}

static int open_on(opened *o, const rush_wire *wire, void *mesh, int rank, int size, double seconds)
{
    if (prepare()) return -1;
    member *all = rush_calloc((size_t)size, sizeof *all);
    if (!all) return -1;
    *o = (opened){.mesh = mesh, .size = size};
    all[rank].tag = next_tag;
    int code = mpi.Comm_rank(COMM_WORLD, &all[rank].rank);
    int failed = code ? fail_code("Comm_rank", code) : 0;
    failed = failed || tell_all(wire, mesh, rank, size, seconds, all) || make_comm(o, all, size);
    rush_free(all);
    return failed;
}

static void *mpi_open(const rush_wire *wire, void *mesh, int rank, int size, double seconds, char *why, size_t room)
{
    opened *o = rush_calloc(1, sizeof *o);
    if (o && !open_on(o, wire, mesh, rank, size, seconds)) return o;
    snprintf(why, room, "%s", rush_error() ? rush_error() : "not enough memory");
    rush_error_clear();
    rush_free(o);
    return NULL;
}

static void mpi_close(void *x)
{
    opened *o = x;
    int over = 1;
    if (!rush_mesh_broken(o->mesh) && !mpi.Finalized(&over) && !over) mpi.Comm_free(&o->comm); /* else it would wait for who is gone */
    rush_free(o);
}

/* ---- collectives ---- */

/* What MPI reduces by itself, perhaps in the network: sums of the usual numbers. All else is reduced by functions of ours. */
static MPI_Op op_of(const rush_engine_call *c, MPI_Datatype *type)
{
    static const int known[RUSH_DTYPES] = {[RUSH_F32] = FLOAT, [RUSH_F64] = DOUBLE, [RUSH_I32] = INT32, [RUSH_I64] = INT64};
    bool sum = c->reduce == RUSH_REDUCE_SUM || c->reduce == RUSH_REDUCE_AVG;
    *type = sum && known[c->dtype] ? HANDLE(MPI_Datatype, known[c->dtype]) : types[c->dtype];
    return sum && known[c->dtype] ? SUM : ops[c->reduce];
}

static int begin_all_to_all_v(opened *o, const rush_engine_call *c, MPI_Aint *at, MPI_Request *r)
{
    for (int i = 1; i < o->size; i++) {
        at[i] = at[i - 1] + c->in_counts[i - 1];
        at[o->size + i] = at[o->size + i - 1] + c->out_counts[i - 1];
    }
    MPI_Datatype type = type_of_size(c->size);
    return mpi.Ialltoallv_c(c->in, c->in_counts, at, type, c->out, c->out_counts, at + o->size, type, o->comm, r);
}

static int begin(opened *o, const rush_engine_call *c, MPI_Aint *at, MPI_Request *r)
{
    MPI_Datatype type = type_of_size(c->size);
    MPI_Count n = (MPI_Count)c->n;
    MPI_Op op = c->reduction ? op_of(c, &type) : SUM;
    switch (c->kind) {
    case RUSH_ENGINE_ALL_REDUCE: return mpi.Iallreduce_c(IN_PLACE, c->out, n, type, op, o->comm, r);
    case RUSH_ENGINE_REDUCE: return mpi.Ireduce_c(c->in, c->out, n, type, op, c->root, o->comm, r);
    case RUSH_ENGINE_REDUCE_SCATTER: return mpi.Ireduce_scatter_block_c(c->in, c->out, n, type, op, o->comm, r);
    case RUSH_ENGINE_BROADCAST: return mpi.Ibcast_c(c->out, n, type, c->root, o->comm, r);
    case RUSH_ENGINE_ALL_GATHER: return mpi.Iallgather_c(c->in, n, type, c->out, n, type, o->comm, r);
    case RUSH_ENGINE_GATHER: return mpi.Igather_c(c->in, n, type, c->out, n, type, c->root, o->comm, r);
    case RUSH_ENGINE_SCATTER: return mpi.Iscatter_c(c->in, n, type, c->out, n, type, c->root, o->comm, r);
    case RUSH_ENGINE_ALL_TO_ALL: return mpi.Ialltoall_c(c->in, n / o->size, type, c->out, n / o->size, type, o->comm, r);
    case RUSH_ENGINE_ALL_TO_ALL_V: return begin_all_to_all_v(o, c, at, r);
    case RUSH_ENGINE_BARRIER: return mpi.Ibarrier(o->comm, r);
    }
    return -1;
}

/* Until it is done, or the mesh is broken: then the request is left alone, and the group is at its end, as is MPI: it is asked for
 * nothing more, so that it does not write where the call's memory was. */
static int finish(opened *o, const rush_engine_call *c, MPI_Request *r)
{
    double until = rush_seconds() + c->seconds;
    for (int64_t turn = 0;; turn++) {
        int done = 0;
        MPI(Test, r, &done, NULL);
        if (done) return 0;
        if (turn < 2000) continue;
        rush_nap(turn < 4000 ? 20e-6 : 200e-6);
        if (turn % 64) continue;
        if (rush_mesh_broken(o->mesh)) return failed_once = true, rush_mesh_fail_gone(o->mesh, 0);
        if (rush_seconds() > until) return failed_once = true, rush_mesh_fail_late(o->mesh, -1, c->seconds);
    }
}

static int mpi_run(void *x, const rush_engine_call *c, char *why, size_t room)
{
    opened *o = x;
    MPI_Request r;
    MPI_Aint *at = c->kind == RUSH_ENGINE_ALL_TO_ALL_V ? rush_calloc(2 * (size_t)o->size, sizeof *at) : NULL;
    why[0] = 0;
    if (c->kind == RUSH_ENGINE_ALL_TO_ALL_V && !at) return -1;
    rush_mesh_waiting(o->mesh, 1);
    int code = begin(o, c, at, &r), failed = code ? fail_code(c->what, code) : finish(o, c, &r);
    rush_mesh_waiting(o->mesh, -1);
    rush_free(at);
    return failed ? -1 : 0;
}

const rush_engine rush_engine_mpi = {"mpi", mpi_open, mpi_close, mpi_run, true, false, 0, false};
