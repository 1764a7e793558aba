/* stage.h - tensors of devices for engines that know only memory of the host. */
#ifndef RUSH_DIST_STAGE_H
#define RUSH_DIST_STAGE_H

#include "tensor/backend.h"
#include <rushlight/backend.h>

typedef struct rush_stage { /* of a group, whose calls are done one after the other */
    rush_device device;      /* that it has the stream of: as the last call's tensors */
    int stream;
    rush_backend *backend;   /* of which the memory is */
    void *memory;            /* of the host, page-locked where there is such */
    size_t bytes;
} rush_stage;

struct rush_work;
/* In the caller's thread: from here on the call may read and write its tensors. 0, or -1 and an error. */
int rush_stage_mark(struct rush_work *);
/* Calls run(work) with copies on the host in the place of tensors of devices; results are on the device when it returns. */
int rush_stage_run(struct rush_work *, int (*run)(struct rush_work *));
void rush_stage_free(rush_stage *);

#endif
