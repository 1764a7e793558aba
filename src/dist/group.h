/* group.h - what the files of process groups share. */
#ifndef RUSH_DIST_GROUP_H
#define RUSH_DIST_GROUP_H

#include "dist/engine.h"
#include "dist/mesh.h"
#include "dist/nccl.h"
#include "dist/shared.h"
#include "dist/stage.h"

struct rush_group {
    atomic_int refs, alive;      /* who uses it; one for those and one per work */
    rush_store *store;           /* kept: in one rank it serves the others      */
    char *name;
    const char *backend, *device_backend; /* of tensors of the CPU, of devices: "gloo", "mpi", "nccl", "fake"; NULL: none */
    int rank, size, forks;
    double timeout;
    rush_mesh *mesh;             /* NULL: fake */
    const rush_engine *engine;   /* of the host's memory; NULL: fake */
    void *opened;                /* the engine's */
    rush_stage stage;
    rush_device bound;           /* the one that it was made for; of type RUSH_CPU: none */
    bool urgent;                 /* its streams of devices come before others */
    rush_nccl *nccl;             /* NULL: nobody's, or emulated: tensors of devices are staged on the host */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stop, interrupted, detail; /* detail: each call is told, not only the first of its kind */
    rush_work *first, **last;    /* the queue */
    rush_work *finished;         /* to be dropped */
    rush_work *now;              /* being done */
    uint32_t tag;                /* of the next collective: PyTorch's count, too */
    int64_t number;              /* collectives begun */
    uint64_t *seen;              /* what was called before: hashes */
    int nseen, room;
};

struct rush_work {
    atomic_int refs;
    rush_work *next;
    rush_group *group;
    rush_collective call;         /* its tensors are kept, its arrays copied */
    rush_device device;          /* of its tensors */
    const rush_engine *engine;   /* that does it; NULL: fake */
    void *opened;                /* the engine's */
    rush_event *ready, *end;     /* on a device: when it may begin; when it is through, where the device does it itself */
    int64_t number;              /* of the collective; -1: a message to or from one rank */
    uint32_t tag;
    char what[192];              /* "all_reduce(SUM) of float32, 20 numbers, shape [4, 5]" */
    bool told, done;
    bool direct;                 /* its caller's thread does it */
    int64_t record;              /* of the flight recorder, from 1; 0: none */
    rush_error_state error;      /* RUSH_OK: it went well */
    int source;                  /* of a message: whose it was */
    rush_mesh_buffer *message;
    rush_tensor *dense;          /* what a message is sent from or received into, when that is not the tensor itself; of a barrier of devices */
};

void rush_group_enqueue(rush_work *); /* of devices: the group's thread looks after it from now on */
static inline bool rush_work_is_message(const rush_work *w) { return w->call.kind == RUSH_DIST_SEND || w->call.kind == RUSH_DIST_RECEIVE; }
const char *rush_group_name(const rush_group *);
const char *rush_group_backend(const rush_group *);
RUSH_PY bool rush_group_foreign(const rush_group *); /* is a rank not ours? */
uint64_t rush_work_number(const rush_work *);
RUSH_PY const rush_engine *rush_engine_load(const char *name);
RUSH_PY int rush_nccl_available(void); /* 0, or -1 and an error that says what is missing */
RUSH_PY int rush_nccl_version(void);   /* -1 and an error */

rush_reduction rush_reduction_of(rush_dtype, rush_reduce); /* NULL: there is none */
void rush_average(void *data, rush_dtype, size_t n, int ranks);
void rush_scale(void *data, rush_dtype, size_t n, double factor); /* of floating types */
const char *rush_collective_name(rush_dist_kind);
/* Does a collective; called by the group's thread, in a scope of its own. */
int rush_collective_run(rush_work *);
/* Checks a call's ranks, numbers of tensors, shapes and dtypes, and says in words what it is. */
int rush_collective_check(rush_group *, const rush_collective *, char *what, size_t room);

#endif
