/* profile.h - the one hook that sees every call, every node of a backward, and every range that a program marks.
 *
 * It belongs to the thread that sets it and is asked when RUSH_MODE_PROFILE is on, which costs nothing otherwise.
 */
#ifndef RUSH_PROFILE_H
#define RUSH_PROFILE_H

#include "op/op.h"

_Static_assert((int)RUSH_PROFILE_INPLACE == (int)RUSH_FORM_INPLACE && (int)RUSH_PROFILE_OUT == (int)RUSH_FORM_OUT, "events say the form");
extern _Thread_local struct rush_profile {
    rush_profile_fn fn;
    void *arg;
} rush_profile_now;

static inline void rush_profile_tell(const rush_profile_event *e, bool begins)
{
    if (rush_profile_now.fn) rush_profile_now.fn(rush_profile_now.arg, e, begins);
}

#endif
