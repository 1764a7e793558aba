/* api.h - the steps of rush_call that are switched on by a mode: autocast, profiling, tracing. */
#ifndef RUSH_API_ROOM_H
#define RUSH_API_ROOM_H

#include "autograd/autograd.h"

#pragma GCC visibility push(default)

/* Autocast, per thread and device type. */
bool rush_autocast_on(int device_type);
void rush_autocast_set(int device_type, bool on);
rush_dtype rush_autocast_dtype(int device_type);
void rush_autocast_dtype_set(int device_type, rush_dtype);
bool rush_autocast_cache(bool set, bool on);
/* The arguments as autocast wants them for this operation; may be `in` itself. */
const rush_value *rush_autocast_args(const rush_op *, const rush_value *in, rush_value *room);

/* One hook sees every call: the profiler and tracers. Called with end = 0 before and the time after, in ns. */
typedef void (*rush_profile_fn)(void *arg, const rush_op *, const rush_value *in, const rush_value *out, uint64_t begin, uint64_t end);
extern _Thread_local struct rush_profile {
    rush_profile_fn fn;
    void *arg;
} rush_profile_now;
void rush_profile_to(rush_profile_fn, void *arg); /* of this thread; NULL ends */
uint64_t rush_clock(void);

#pragma GCC visibility pop
#endif
