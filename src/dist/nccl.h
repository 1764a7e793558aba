/* nccl.h - the backend "nccl": collectives between devices, by NVIDIA's library. */
#ifndef RUSH_DIST_NCCL_H
#define RUSH_DIST_NCCL_H

#include "tensor/backend.h"
#include <rushlight/backend.h>
#include <rushlight/dist.h>

typedef struct rush_nccl rush_nccl; /* the communicators of a group, each made when a call first needs it */

/* Are they emulated by what serves the host's memory? So it is on emulated devices without a library to take NCCL's place. *why: there are no devices. */
bool rush_nccl_is_emulated(const char **why);
rush_nccl *rush_nccl_new(void);     /* NULL and an error: NCCL is not there */
int rush_nccl_open(rush_group *, rush_device); /* the communicator of all ranks, now */
/* The same, split off that of the parent, all of whose ranks call this at once; the ranks that say the same part are a group. `to`: NULL, this rank is in none. */
int rush_nccl_split(rush_group *parent, rush_group *to, int part);
rush_device rush_nccl_device(rush_nccl *); /* the one that was used first, else the thread's current one */
void rush_nccl_free(rush_nccl *, bool broken);
/* Has NCCL this reduction, of this dtype? 0, or -1 and an error. */
int rush_nccl_reduces(const char *what, rush_dtype, rush_reduce);
int rush_nccl_numbers(const char *what, rush_dtype, rush_reduce, int *type, int *op); /* and which numbers are these? */

/* Gives the works, of this thread's devices, to the devices, several of them as one step, and to the group's thread, which waits for them. 0, or -1 and an error. */
int rush_nccl_launch(rush_work **, int n);
/* In the group's thread: until a work is done. 0, or -1 and an error: the communicators are aborted then. */
int rush_nccl_watch(rush_work *);

/* Between devices of this process: of torch.cuda.nccl. */
typedef enum rush_nccl_kind { RUSH_NCCL_ALL_REDUCE, RUSH_NCCL_BROADCAST, RUSH_NCCL_REDUCE, RUSH_NCCL_ALL_GATHER, RUSH_NCCL_REDUCE_SCATTER } rush_nccl_kind;
typedef struct rush_nccl_call {
    rush_nccl_kind kind;
    int n, root, op;              /* op: NCCL's number */
    rush_tensor *const *in, *const *out; /* out: NULL, where a reduction has none */
    const int *stream;            /* numbers of streams, of each tensor's device; NULL: the current ones */
} rush_nccl_call;
RUSH_PY int rush_nccl_devices(const rush_nccl_call *);

#endif
