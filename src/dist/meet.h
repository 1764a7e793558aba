/* meet.h - how the ranks of a group find each other: each leaves its address in the store and connects to the others. */
#ifndef RUSH_DIST_MEET_H
#define RUSH_DIST_MEET_H

#include "dist/store.h"

typedef struct rush_offer { /* what a rank says of itself when it meets the others */
    uint64_t machine;        /* the same for processes that can reach each other's memory; 0: this rank does not want to */
    int64_t pid, fd;         /* of rank 0: where the memory is; fd -1: there is none */
    uint64_t token;          /* stands at its beginning */
} rush_offer;

typedef struct rush_met { /* one other rank */
    int fd;               /* the connection to it; that to oneself: -1 */
    char *host;           /* its name: rush_free()                     */
    bool ours;            /* it is a process of this library           */
    rush_offer offer;
} rush_met;

/* Fills met, which has `size` entries; -1 and an error that says who is missing, and nothing is open. */
int rush_meet(rush_store *, int rank, int size, double seconds, const rush_offer *mine, rush_met *met);

#endif
