/* dataset.h - what a dataset is inside. */
#ifndef RUSH_DATA_DATASET_H
#define RUSH_DATA_DATASET_H

#include "op/op.h"
#include <rushlight/data.h>

struct rush_dataset {
    const rush_dataset_kind *kind; /* first: not NULL until its end */
    atomic_int refs;
    void *arg;       /* the kind's */
    int64_t size;
    int columns;     /* tensors of a sample, at most RUSH_MAXCOLUMNS */
};

#define RUSH_MAXCOLUMNS 16

/* The samples of these numbers as tensors with a first dimension more; parked. 0 or -1, *at is then the sample. */
int rush_dataset_batch(rush_dataset *, int64_t n, const int64_t *index, rush_tensor **batch, int64_t *at);
int rush_dataset_filled(const rush_dataset *, rush_tensor *const *); /* one for each column? 0 or -1 */

#endif
