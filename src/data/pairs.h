/* pairs.h - which two neighbouring tokens become one, and which do so first. */
#ifndef RUSH_DATA_PAIRS_H
#define RUSH_DATA_PAIRS_H

#include "base/base.h"

typedef struct rush_pair {
    int32_t left, right, into, rank; /* the smaller the rank, the earlier */
} rush_pair;

typedef struct rush_pairs {
    rush_pair *pair;     /* in the order in which they came */
    size_t n, room;
    int32_t *slot;       /* 2 * room of an open hash table of indices; -1: free */
    uint64_t key;        /* of the hash: files may not know which of their pairs meet */
} rush_pairs;

int rush_pairs_add(rush_pairs *, rush_pair);                        /* unless those two are there; -1 and an error without memory */
const rush_pair *rush_pairs_find(const rush_pairs *, int32_t left, int32_t right); /* NULL: they stay apart */
/* Merges neighbours among n tokens in place, of several that are as early the leftmost; how many are left, -1 and an error without memory. */
int64_t rush_pairs_merge(const rush_pairs *, int32_t *tokens, int64_t n);
void rush_pairs_drop(rush_pairs *);

#endif
