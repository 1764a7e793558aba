/* mesh.h - a connection between each two ranks of a group, and messages over them, in the wire format of gloo's TCP transport.
 *
 * A message has a slot (what it is about) and is sent when its receiver has made room: the sender announces it, the receiver
 * says that it waits, the sender sends. So nothing unexpected is ever stored. Where both ends are ours they also tell each
 * other what they are about to do, that they are alive, and that they leave: see enum opcode in frames.h.
 */
#ifndef RUSH_DIST_MESH_H
#define RUSH_DIST_MESH_H

#include "dist/meet.h"

typedef struct rush_mesh rush_mesh;
typedef struct rush_mesh_buffer rush_mesh_buffer; /* bytes of the caller's that messages come from or go to */

/* Connects to the others, which are found in the store. Where `parent` breaks meanwhile, so does this. `mine` is told to the
 * others; *first becomes what rank 0 offers, where all ranks are on its machine, else zeros. */
rush_mesh *rush_mesh_new(rush_store *, int rank, int size, double seconds, rush_mesh *parent, const rush_offer *mine, rush_offer *first);
void rush_mesh_close(rush_mesh *);                                          /* says goodbye; waits fail from now on */
void rush_mesh_free(rush_mesh *);                                           /* once it is closed and has no buffers */
void rush_mesh_break(rush_mesh *, const char *format, ...) RUSH_PRINTF(2, 3); /* every wait and call fails with this from now on */
bool rush_mesh_broken(rush_mesh *);
const char *rush_mesh_host(const rush_mesh *, int rank);
bool rush_mesh_foreign(const rush_mesh *); /* is a rank not ours? */

/* For who waits by other means than buffers: says so (1, then -1), as silence counts only then; asks whether that rank is gone
 * or the mesh broken; gives up. These return -1 with an error, and break the mesh. */
void rush_mesh_waiting(rush_mesh *, int more);
bool rush_mesh_gone(rush_mesh *, int rank);
int rush_mesh_fail_gone(rush_mesh *, int rank);
int rush_mesh_fail_late(rush_mesh *, int rank, double seconds); /* rank -1: not known which */
int rush_mesh_same(rush_mesh *, int ago, const char *mine, int rank, const char *its); /* did both do the same, so many calls ago? 0, or -1 */
int rush_mesh_fail_history(rush_mesh *, int rank); /* they did not, longer ago; -1 */

/* This rank begins its collective number `number`; `what` says which, with which shapes. The others compare when they are
 * told, which is for `tell` only. Fails when a rank has left that would be needed. */
int rush_mesh_begin(rush_mesh *, int64_t number, const char *what, bool tell);
int64_t rush_mesh_reached(rush_mesh *, int rank); /* the last collective that a rank is known to have begun; -1: not known */

/* NULL and an error without memory. release(), if there is one, is called when nothing of
 * the buffer is on its way any more, in a later call by whoever calls; without it, the buffer must not be dropped before. */
rush_mesh_buffer *rush_mesh_buffer_new(rush_mesh *, void *data, size_t n, void (*release)(void *), void *arg);
void rush_mesh_buffer_drop(rush_mesh_buffer *);
int rush_mesh_send(rush_mesh_buffer *, int to, uint64_t slot, size_t offset, size_t n);
int rush_mesh_receive(rush_mesh_buffer *, int nfrom, const int *from, uint64_t slot, size_t offset, size_t n);
/* Until one more send (receive) of this buffer is through: 0, and whose it was; -1 and an error. Too late breaks the mesh. */
int rush_mesh_wait(rush_mesh_buffer *, bool receives, double seconds, int *rank);
int rush_mesh_done(rush_mesh_buffer *, bool receives); /* 1: a wait would return at once; 0 */

#endif
