/* dist.h - several processes, on one machine or many: stores to meet in, groups to compute in.
 *
 *     rush_group *world = rush_dist_init(NULL);             // of RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them
 *     rush_dist_all_reduce(world, t, RUSH_REDUCE_SUM);
 *     rush_group_drop(world);
 *
 * Stores speak the protocol of PyTorch's TCPStore and write the files of its FileStore; ranks of both libraries meet in one job.
 * Not part of rushlight.h: a program that communicates includes this header, too.
 */
#ifndef RUSHLIGHT_DIST_H
#define RUSHLIGHT_DIST_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- stores: bytes under names, seen by all processes that opened the same one ---- */

typedef struct rush_store rush_store;
typedef struct rush_bytes { void *data; size_t n; } rush_bytes; /* what a call returns in one is freed with rush_bytes_free() */
RUSH_API void rush_bytes_free(rush_bytes *);

typedef struct rush_store_tcp_options {
    int world_size RUSH_ZERO;      /* with `wait`: so many clients are waited for; 0: not known        */
    bool server RUSH_ZERO;         /* this process serves the others                                   */
    bool wait RUSH_ZERO;
    double timeout RUSH_ZERO;      /* seconds; 0: 300                                                  */
    int listen_fd RUSH_ZERO;       /* a socket that listens already (with `server`); 0: none           */
    bool share RUSH_ZERO;          /* with `server`: one that this process has at the port already serves, too */
} rush_store_tcp_options;

/* Each returns one reference that is the caller's: rush_store_drop(). */
RUSH_API rush_store *rush_store_hash(void);                                     /* within this process */
RUSH_API rush_store *rush_store_prefix(const char *prefix, rush_store *);       /* keeps the other     */
RUSH_API rush_store *rush_store_file(const char *path, int world_size);         /* the last of world_size to drop it removes the file; -1: nobody */
RUSH_API rush_store *rush_store_tcp_with(const char *host, int port, const rush_store_tcp_options *); /* port 0: a free one, of the server */
#ifndef __cplusplus
#define rush_store_tcp(host, port, ...) rush_store_tcp_with(host, port, &(rush_store_tcp_options){__VA_ARGS__})
#endif
RUSH_API rush_store *rush_store_keep(rush_store *);
RUSH_API void rush_store_drop(rush_store *);
RUSH_API rush_store *rush_store_clone(rush_store *);                            /* a connection of its own; elsewhere another reference */
RUSH_API int rush_store_port(const rush_store *);                               /* of a TCP store, else -1 */
RUSH_API double rush_store_timeout(const rush_store *);
RUSH_API void rush_store_timeout_set(rush_store *, double seconds);

/* All of these return -1 and an error where the store cannot be reached or a wait takes longer than its timeout. */
RUSH_API int rush_store_set(rush_store *, const char *key, const void *data, size_t n);
RUSH_API int rush_store_get(rush_store *, const char *key, rush_bytes *);              /* waits until it is set */
RUSH_API int rush_store_add(rush_store *, const char *key, int64_t amount, int64_t *total);
RUSH_API int rush_store_append(rush_store *, const char *key, const void *data, size_t n);
RUSH_API int rush_store_compare_set(rush_store *, const char *key, rush_bytes expected, rush_bytes desired, rush_bytes *now);
RUSH_API int rush_store_wait(rush_store *, int n, const char *const *keys, double seconds);
RUSH_API int rush_store_check(rush_store *, int n, const char *const *keys);           /* 1: all are there; 0 */
RUSH_API int rush_store_delete(rush_store *, const char *key);                         /* 1: it was there; 0 */
RUSH_API int64_t rush_store_count(rush_store *);
RUSH_API int rush_store_list(rush_store *, rush_bytes **keys, int *n);                 /* each and the array: rush_bytes_free, free with rush_store_list_free */
RUSH_API void rush_store_list_free(rush_bytes *, int n);
RUSH_API int rush_store_set_all(rush_store *, int n, const char *const *keys, const rush_bytes *values);
RUSH_API int rush_store_get_all(rush_store *, int n, const char *const *keys, rush_bytes *values); /* waits */
RUSH_API int rush_store_push(rush_store *, const char *queue, const void *data, size_t n);
RUSH_API int rush_store_pop(rush_store *, const char *queue, bool wait, rush_bytes *);
RUSH_API int64_t rush_store_queued(rush_store *, const char *queue);
RUSH_API int rush_store_barrier(rush_store *, const char *key, int world_size, double seconds);

/* ---- groups: processes that compute together, numbered 0 to size - 1 ---- */

typedef struct rush_group rush_group;
typedef struct rush_work rush_work;

typedef struct rush_group_options {
    const char *backend RUSH_ZERO;  /* of tensors of the CPU: "gloo" (NULL), "mpi", or "fake": one process plays a rank, nobody else is asked; "none" */
    const char *device_backend RUSH_ZERO; /* of tensors of devices: "nccl", or as above. NULL: the same; "nccl" as `backend` means devices only */
    const char *name RUSH_ZERO;     /* NULL: "0", PyTorch's name of the first group; each group of a job has another one */
    int rank RUSH_ZERO, size RUSH_ZERO;
    double timeout RUSH_ZERO;       /* seconds for each call; 0: 1800                                */
    rush_device device RUSH_ZERO;   /* of "nccl": the one device that this process uses; the ranks' devices meet at once then. Type RUSH_CPU: none */
    bool urgent RUSH_ZERO;          /* of "nccl": its streams come before others                     */
    rush_group *parent RUSH_ZERO;   /* a group that all these ranks are in: when it fails, so does the meeting; NULL: none */
    int part RUSH_ZERO;             /* of "nccl", with a parent for the same `device`: all ranks of the parent come at once, and their meeting is split by these
                                       numbers from 1 on; those that are in no part call rush_group_in_no_part(). 0: it is not split  */
} rush_group_options;

/* Meets the others in the store. An error names the ranks that did not come. */
RUSH_API rush_group *rush_group_new_with(rush_store *, const rush_group_options *);
#ifndef __cplusplus
#define rush_group_new(store, ...) rush_group_new_with(store, &(rush_group_options){__VA_ARGS__})
#endif
RUSH_API int rush_group_in_no_part(rush_group *parent);
RUSH_API rush_group *rush_group_keep(rush_group *);
RUSH_API void rush_group_drop(rush_group *);  /* the last one: finishes what was begun, then says goodbye to the others */
RUSH_API void rush_group_abort(rush_group *, const char *why); /* all calls fail, here and on the others */
RUSH_API int rush_group_rank(const rush_group *);
RUSH_API int rush_group_size(const rush_group *);

typedef struct rush_dist_init_options {
    const char *backend RUSH_ZERO, *init_method RUSH_ZERO; /* init_method: "env://" (NULL), "tcp://host:port", "file:///path" */
    int rank RUSH_ZERO, world_size RUSH_ZERO;              /* for env:// those of RANK and WORLD_SIZE, where world_size is 0 */
    double timeout RUSH_ZERO;
} rush_dist_init_options;
/* All processes of a job as one group. NULL: of the environment. */
RUSH_API rush_group *rush_dist_init(const rush_dist_init_options *);
/* The store of such an address; *rank and *world_size are filled where the environment or the address says them. */
RUSH_API rush_store *rush_dist_meet(const char *init_method, int *rank, int *world_size, double timeout);

typedef enum rush_reduce { /* ORDER: PyTorch's */
    RUSH_REDUCE_SUM, RUSH_REDUCE_AVG, RUSH_REDUCE_PRODUCT, RUSH_REDUCE_MIN, RUSH_REDUCE_MAX, RUSH_REDUCE_BAND, RUSH_REDUCE_BOR,
    RUSH_REDUCE_BXOR, RUSH_REDUCE_OPS, RUSH_REDUCE_PREMUL_SUM = RUSH_REDUCE_OPS /* NCCL's: a sum of products */
} rush_reduce;

typedef enum rush_dist_kind {
    RUSH_DIST_ALL_REDUCE, RUSH_DIST_BROADCAST, RUSH_DIST_REDUCE, RUSH_DIST_ALL_GATHER, RUSH_DIST_GATHER, RUSH_DIST_SCATTER,
    RUSH_DIST_REDUCE_SCATTER, RUSH_DIST_ALL_TO_ALL, RUSH_DIST_BARRIER, RUSH_DIST_MONITORED_BARRIER, RUSH_DIST_SEND, RUSH_DIST_RECEIVE,
    RUSH_DIST_KINDS
} rush_dist_kind;

/* One call. Several tensors where one is expected are taken as if they lay behind each other. */
typedef struct rush_collective {
    rush_dist_kind kind;
    int nin, nout;
    rush_tensor **in, **out;   /* ALL_REDUCE, BROADCAST, REDUCE: out only; ALL_GATHER, GATHER: one in, out one per rank, or one for all;
                                  SCATTER, REDUCE_SCATTER the other way round; ALL_TO_ALL: one per rank or one for all, twice;
                                  SEND: in, RECEIVE: out */
    int root;                  /* of the group; SEND, RECEIVE: the other rank, of RECEIVE -1: any */
    rush_reduce reduce;
    const int64_t *in_splits, *out_splits; /* ALL_TO_ALL of one tensor each: rows per rank; NULL: equal parts */
    uint32_t tag;              /* SEND, RECEIVE */
    double timeout;            /* 0: the group's */
    bool wait_all;             /* MONITORED_BARRIER: names all who are missing, not only the first */
    rush_device device;        /* BARRIER: of the devices whose backend is to do it */
    double factor;             /* of PREMUL_SUM, which NCCL has: what this rank's numbers are multiplied by before */
} rush_collective;

/* Begins a call; the work is the caller's. Tensors are read and written until it is done. */
RUSH_API rush_work *rush_dist_start(rush_group *, const rush_collective *);
RUSH_API int rush_work_wait(rush_work *, double seconds);  /* 0: it is done; -1 and the error that it ended with, or that it is not done after so long (0: endless) */
RUSH_API bool rush_work_done(rush_work *);
RUSH_API int rush_work_source(const rush_work *);          /* of RECEIVE: whose message it was */
RUSH_API rush_work *rush_work_keep(rush_work *);
RUSH_API void rush_work_drop(rush_work *);
/* Calls that this thread begins on devices between the two are given to these as one step, where the backend has such steps: so messages
 * in both directions do not wait for one another. End: 0, or -1 and an error; the works exist already. */
RUSH_API int rush_dist_step_begin(void);
RUSH_API int rush_dist_step_end(void);
RUSH_API int rush_dist_run(rush_group *, const rush_collective *); /* begins it and waits */
RUSH_API rush_work *rush_dist_do(rush_group *, const rush_collective *); /* the same, and the work; it may have failed */

static inline rush_collective rush_collective_of(rush_dist_kind kind) { rush_collective c = {kind, 0, 0, NULL, NULL, 0, RUSH_REDUCE_SUM, NULL, NULL, 0, 0, false, {RUSH_CPU, -1}, 1}; return c; }
static inline int rush_dist_all_reduce(rush_group *g, rush_tensor *t, rush_reduce op) { rush_collective c = rush_collective_of(RUSH_DIST_ALL_REDUCE); c.out = &t; c.nout = 1; c.reduce = op; return rush_dist_run(g, &c); }
static inline int rush_dist_broadcast(rush_group *g, rush_tensor *t, int root) { rush_collective c = rush_collective_of(RUSH_DIST_BROADCAST); c.out = &t; c.nout = 1; c.root = root; return rush_dist_run(g, &c); }
static inline int rush_dist_reduce(rush_group *g, rush_tensor *t, int root, rush_reduce op) { rush_collective c = rush_collective_of(RUSH_DIST_REDUCE); c.out = &t; c.nout = 1; c.root = root; c.reduce = op; return rush_dist_run(g, &c); }
static inline int rush_dist_all_gather(rush_group *g, rush_tensor *all, rush_tensor *t) { rush_collective c = rush_collective_of(RUSH_DIST_ALL_GATHER); c.in = &t; c.out = &all; c.nin = c.nout = 1; return rush_dist_run(g, &c); }
static inline int rush_dist_reduce_scatter(rush_group *g, rush_tensor *t, rush_tensor *all, rush_reduce op) { rush_collective c = rush_collective_of(RUSH_DIST_REDUCE_SCATTER); c.in = &all; c.out = &t; c.nin = c.nout = 1; c.reduce = op; return rush_dist_run(g, &c); }
static inline int rush_dist_all_to_all(rush_group *g, rush_tensor *out, rush_tensor *in) { rush_collective c = rush_collective_of(RUSH_DIST_ALL_TO_ALL); c.in = &in; c.out = &out; c.nin = c.nout = 1; return rush_dist_run(g, &c); }
static inline int rush_dist_send(rush_group *g, rush_tensor *t, int to, uint32_t tag) { rush_collective c = rush_collective_of(RUSH_DIST_SEND); c.in = &t; c.nin = 1; c.root = to; c.tag = tag; return rush_dist_run(g, &c); }
static inline int rush_dist_receive(rush_group *g, rush_tensor *t, int from, uint32_t tag) { rush_collective c = rush_collective_of(RUSH_DIST_RECEIVE); c.out = &t; c.nout = 1; c.root = from; c.tag = tag; return rush_dist_run(g, &c); }
static inline int rush_dist_barrier(rush_group *g) { rush_collective c = rush_collective_of(RUSH_DIST_BARRIER); return rush_dist_run(g, &c); }

/* ---- training on several processes ---- */

typedef struct rush_reducer rush_reducer;
/* From now on the gradients of a module's parameters are the means over the group's ranks: each backward pass, in which all of them
 * must have a part, averages them while it goes on. Parameters and buffers become those of rank 0. */
RUSH_API rush_reducer *rush_ddp(rush_group *, rush_module *);
RUSH_API void rush_reducer_drop(rush_reducer *); /* gradients stay with their process again */

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
inline rush_store *rush_store_tcp(const char *host, int port, const rush_store_tcp_options &options = {}) { return rush_store_tcp_with(host, port, &options); }
inline rush_group *rush_group_new(rush_store *store, const rush_group_options &options = {}) { return rush_group_new_with(store, &options); }
#endif
#endif
