/* reducer.h - gradients of several processes become their mean, while the backward pass is still going on. */
#ifndef RUSH_DIST_REDUCER_H
#define RUSH_DIST_REDUCER_H

#include "dist/group.h"

typedef struct rush_reducer_options {
    double first_bucket, bucket;   /* bytes; 0: 1 MiB, 25 MiB */
    int nbuckets;                  /* if there are any: so many buckets, */
    const int *counts, *order;     /* of so many parameters, whose numbers follow each other here; else they are dealt by their bytes, the last ones first */
    bool find_unused;              /* parameters may have no part in a pass: rush_reducer_prepare() is told the results */
    /* In place of the all_reduce of a bucket: begins it, and waits for it. The sum's division is theirs, too. -1: an error is pending. */
    int (*begin)(void *arg, int bucket);
    int (*finish)(void *arg, int bucket);
    void *arg;
} rush_reducer_options;

/* Keeps the parameters, which require gradients. */
RUSH_PY rush_reducer *rush_reducer_new(rush_group *, int n, rush_tensor *const *parameters, const rush_reducer_options *);
RUSH_PY int rush_reducer_prepare(rush_reducer *, int n, rush_tensor *const *results); /* a pass begins that will be followed by a backward pass */
RUSH_PY void rush_reducer_sync(rush_reducer *, bool on);                             /* false: gradients stay with their process */
RUSH_PY void rush_reducer_hooks(rush_reducer *, int (*begin)(void *, int), int (*finish)(void *, int), void *arg);
RUSH_PY int rush_reducer_buckets(const rush_reducer *);
RUSH_PY rush_tensor *rush_reducer_bucket(const rush_reducer *, int i);               /* all gradients of it, 1-d */
RUSH_PY int rush_reducer_parameters(const rush_reducer *, int bucket, const int **numbers); /* how many, and which */
RUSH_PY int rush_reducer_came(const rush_reducer *, const int **numbers);           /* the parameters, in the order of their first gradients */

#endif
