/* shared.h - memory that all ranks of a group on one machine share: the engine "shared", faster than TCP. */
#ifndef RUSH_DIST_SHARED_H
#define RUSH_DIST_SHARED_H

#include "dist/engine.h"
#include "dist/mesh.h"

typedef struct rush_shared rush_shared;

/* What this rank offers to a group of `size`. Rank 0 makes the memory, which *made keeps until rush_shared_join() or _free(). */
rush_offer rush_shared_offer(int rank, int size, rush_shared **made);
/* Maps what rank 0 offers, and asks all others over the mesh whether they could: NULL without an error where not all can. */
rush_shared *rush_shared_join(rush_shared *made, rush_mesh *, int rank, int size, const rush_offer *of_first, double seconds);
void rush_shared_free(rush_shared *);

extern const rush_engine rush_engine_shared; /* run() on a rush_shared, close() frees it; open() is rush_shared_join() */

#endif
