/* walk.h - a plain walk over a box of up to four operands, in row-major order.
 *
 * The iterator of src/tensor reorders dimensions and moves operands through buffers. Indexing needs neither: what is
 * put to one place has to come in order, and a base that offsets are added to must stay where it is.
 */
#ifndef RUSH_OPS_WALK_H
#define RUSH_OPS_WALK_H

#include "op/op.h"

#define RUSH_WALKERS 4

typedef struct rush_walk {
    int nop, ndim;
    int64_t size[RUSH_MAXDIM], stride[RUSH_WALKERS][RUSH_MAXDIM]; /* bytes */
    char *data[RUSH_WALKERS];
} rush_walk;

void rush_walk_start(rush_walk *, int ndim, const int64_t *size);
/* One more operand; strides in elements of `item` bytes. */
void rush_walk_add(rush_walk *, const void *data, const int64_t *stride, int64_t item);
/* Runs fn over rows. Threads share out one dimension, never one whose bit is set in `ordered`. */
void rush_walk_run(const rush_walk *, uint64_t ordered, rush_loop fn, const void *arg);

#endif
