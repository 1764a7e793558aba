/* api.h - the steps of rush_call that are switched on by a mode: autocast (profiling is in op/profile.h). */
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

#pragma GCC visibility pop
#endif
