/* profile.c - the hook of a thread, and the clock it reads. */
#include "op/profile.h"
#include <time.h>

_Thread_local struct rush_profile rush_profile_now;

void rush_profile_to(rush_profile_fn fn, void *arg)
{
    rush_profile_now.fn = fn;
    rush_profile_now.arg = arg;
    if (fn) rush_now.mode |= RUSH_MODE_PROFILE;
    else rush_now.mode &= ~RUSH_MODE_PROFILE;
}

uint64_t rush_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
