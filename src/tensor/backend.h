/* backend.h - what the library itself asks of devices other than the CPU. */
#ifndef RUSH_TENSOR_BACKEND_H
#define RUSH_TENSOR_BACKEND_H

#include "tensor/tensor.h"

static inline bool rush_same_device(rush_device a, rush_device b)
{
    return RUSH_LIKELY(!memcmp(&a, &b, sizeof a)) || (a.type == b.type && a.type <= RUSH_META);
}
/* Does the tensor have elements, wherever they are? */
static inline bool rush_has_data(const rush_tensor *t) { return t->device.type != RUSH_META; }

RUSH_PY rush_device rush_device_resolve(rush_device); /* with an index where there are several */
void *rush_device_alloc(rush_device, size_t bytes); /* counted; NULL and an error */
void rush_device_free(rush_device, void *, size_t bytes);
/* What rush_copy_into() does when one of the two is not on the CPU; neither is on meta. */
int rush_device_copy(rush_tensor *dst, const rush_tensor *src);
RUSH_PY int rush_device_fill(rush_tensor *, rush_value number);
/* Where the host can read the first element: in the tensor or, from a device, in `room` of 16 bytes. NULL and an error. */
RUSH_PY const void *rush_first_element(const rush_tensor *, void *room);
/* An event of the backend's own, which goes with it; and what it is to the backend. */
RUSH_PY rush_event *rush_event_of(rush_device, void *own, bool recorded);
RUSH_PY void *rush_event_own(const rush_event *);
/* t itself on the CPU, else a copy there. */
RUSH_PY const rush_tensor *rush_on_host(const rush_tensor *);

#endif
