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
rush_device rush_nccl_device(rush_nccl *); /* the one that was used first, else the thread's current one */
void rush_nccl_free(rush_nccl *, bool broken);
/* Has NCCL this reduction, of this dtype? 0, or -1 and an error. */
int rush_nccl_reduces(const char *what, rush_dtype, rush_reduce);

/* Gives the works, of this thread's devices, to the devices, several of them as one step, and to the group's thread, which waits for them. 0, or -1 and an error. */
int rush_nccl_launch(rush_work **, int n);
/* In the group's thread: until a work is done. 0, or -1 and an error: the communicators are aborted then. */
int rush_nccl_watch(rush_work *);

#endif
