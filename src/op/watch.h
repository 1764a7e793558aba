/* watch.h - the one place, below autograd, where somebody may take over what an operation does.
 *
 * Modes that see every operation (RUSH_MODE_WATCH, per thread) and tensors that answer for themselves (RUSH_T_WATCHED)
 * are asked by the road instead of the kernel. Above it autocast and autograd have done their part, composites that
 * PyTorch opens have been opened; so what is seen are PyTorch's own calls, those of backward too.
 */
#ifndef RUSH_WATCH_H
#define RUSH_WATCH_H

#include "op/op.h"

/* Fills out[] (parked) and returns 0; -1 and an error; 1: nobody wants it, the operation runs as usual. Results of in-place
 * and out= forms are those that were given, whatever it leaves there. */
typedef int (*rush_watch_fn)(rush_form, const rush_op *, const rush_value *in, rush_value *out);
extern RUSH_PY rush_watch_fn rush_watcher; /* set once, by Python */

/* Programs have given operations of ours kernels of their own: all calls, of all threads, are asked about, first of all here, above
 * autograd; what it fills is the call's result as it is. Where only other namespaces' were given some (rush_op.given), theirs are:
 * nothing of ours consists of those. */
extern RUSH_PY bool rush_watch_all;
extern RUSH_PY rush_watch_fn rush_taken_above;

/* Would a call with this tensor be asked about? */
static inline bool rush_is_watched(const rush_tensor *t)
{
    return RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_WATCH || t->flags & RUSH_T_WATCHED) && !(rush_now.mode & RUSH_MODE_UNWATCHED);
}

#endif
