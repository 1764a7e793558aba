/* meet.h - how the ranks of a group find each other: each leaves its address in the store and connects to the others. */
#ifndef RUSH_DIST_MEET_H
#define RUSH_DIST_MEET_H

#include "dist/store.h"

typedef struct rush_met { /* one other rank */
    int fd;               /* the connection to it; that to oneself: -1 */
    char *host;           /* its name: rush_free()                     */
    bool ours;            /* it is a process of this library           */
} rush_met;

/* Fills met, which has `size` entries; -1 and an error that says who is missing, and nothing is open. */
int rush_meet(rush_store *, int rank, int size, double seconds, rush_met *met);

#endif
