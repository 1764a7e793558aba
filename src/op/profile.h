/* profile.h - the one hook that sees every call, every node of a backward, and every range that a program marks.
 *
 * It belongs to the thread that sets it and is asked when RUSH_MODE_PROFILE is on, which costs nothing otherwise.
 */
#ifndef RUSH_PROFILE_H
#define RUSH_PROFILE_H

#include "op/op.h"

#pragma GCC visibility push(default)

typedef enum rush_profile_how {
    RUSH_PROFILE_CALL = RUSH_FORM_CALL,       /* op, as it is                        */
    RUSH_PROFILE_INPLACE = RUSH_FORM_INPLACE, /* its form name_                      */
    RUSH_PROFILE_OUT = RUSH_FORM_OUT,         /* with results that were given: out   */
    RUSH_PROFILE_EVALUATE, /* the engine's work for a node: name              */
    RUSH_PROFILE_NODE,     /* inside that, the derivative itself              */
    RUSH_PROFILE_RANGE     /* what a program marked                           */
} rush_profile_how;

typedef struct rush_profile_event {
    rush_profile_how how;
    const rush_op *op;     /* of calls                                        */
    const rush_value *in, *out;
    const char *name;      /* of nodes and ranges                             */
    int64_t sequence;      /* of the node that is recorded or run; -1: none   */
} rush_profile_event;

typedef void (*rush_profile_fn)(void *arg, const rush_profile_event *, bool begins);
extern _Thread_local struct rush_profile {
    rush_profile_fn fn;
    void *arg;
} rush_profile_now;
void rush_profile_to(rush_profile_fn, void *arg); /* of this thread; NULL ends */
uint64_t rush_clock(void);                        /* ns */

static inline void rush_profile_tell(const rush_profile_event *e, bool begins)
{
    if (rush_profile_now.fn) rush_profile_now.fn(rush_profile_now.arg, e, begins);
}

#pragma GCC visibility pop
#endif
