/* stream.c - queues of work on a device, points in them, and memory of the host that devices reach by themselves.
 *
 * What they are is the backend's; here is which stream each thread gives its work to. A device whose backend has no streams
 * has one, number 0, and its events wait for the whole device.
 */
#include "tensor/backend.h"
#include <pthread.h>

typedef uint16_t streams[RUSH_DEVICES][8]; /* of a thread; indices beyond have stream 0 */

struct rush_event {
    rush_device device;
    void *own; /* the backend's */
    bool timing, recorded;
};

/* The backend of a device that is there; d gets its index. */
static rush_backend *backend_of(rush_device *d)
{
    rush_backend *b = rush_backend_of(*d);
    RUSH_CHECK_NULL(b, RUSH_NOT_IMPLEMENTED, "there is no backend for device %s", rush_device_text(*d));
    *d = rush_device_resolve(*d);
    RUSH_CHECK_NULL(d->index < b->devices, RUSH_RUNTIME_ERROR, "device %s is not there: the number of devices is %d", rush_device_text(*d), b->devices);
    return b;
}

static int need_stream(const rush_backend *b, rush_device d, int stream)
{
    RUSH_CHECK(stream == 0 || (stream > 0 && b->stream_new), RUSH_RUNTIME_ERROR, "device %s has no stream %d", rush_device_text(d), stream);
    return 0;
}

int rush_device_stream(rush_device d)
{
    d = rush_device_resolve(d);
    const streams *own = rush_of_thread(RUSH_ROOM_STREAMS, 0);
    return own && d.type < RUSH_DEVICES && d.index >= 0 && d.index < (int)RUSH_COUNT((*own)[0]) ? (*own)[d.type][d.index] : 0;
}

int rush_device_stream_set(rush_device d, int stream)
{
    streams *own;
    rush_backend *b = backend_of(&d);
    rush_later_end_waiting();
    if (!b || need_stream(b, d, stream)) return -1;
    if (d.index < 0 && stream == 0) return 0;
    RUSH_CHECK(d.index >= 0 && d.index < (int)RUSH_COUNT((*own)[0]), RUSH_NOT_IMPLEMENTED, "device %s has no streams but its first", rush_device_text(d));
    RUSH_CHECK(stream <= UINT16_MAX, RUSH_NOT_IMPLEMENTED, "stream %d: numbers end at %d", stream, UINT16_MAX);
    own = rush_of_thread(RUSH_ROOM_STREAMS, sizeof *own);
    RUSH_CHECK(own, RUSH_MEMORY_ERROR, "not enough memory for this thread's streams");
    (*own)[d.type][d.index] = (uint16_t)stream;
    return 0;
}

int rush_stream_new(rush_device d, int priority)
{
    rush_backend *b = backend_of(&d);
    return !b ? -1 : b->stream_new ? b->stream_new(d, priority) : 0;
}

int rush_stream_synchronize(rush_device d, int stream)
{
    rush_backend *b = backend_of(&d);
    rush_later_end_waiting();
    if (!b || need_stream(b, d, stream)) return -1;
    return b->stream_synchronize ? b->stream_synchronize(d, stream) : rush_device_synchronize(d);
}

int rush_stream_query(rush_device d, int stream)
{
    rush_backend *b = backend_of(&d);
    rush_later_end_waiting();
    if (!b || need_stream(b, d, stream)) return -1;
    if (b->stream_query) return b->stream_query(d, stream);
    return rush_stream_synchronize(d, stream) ? -1 : 1;
}

rush_event *rush_event_new(rush_device d, bool timing)
{
    rush_backend *b = backend_of(&d);
    rush_event *e = b ? rush_calloc(1, sizeof *e) : NULL;
    if (!e) return NULL;
    *e = (rush_event){.device = d, .timing = timing};
    if (b->event_new && !(e->own = b->event_new(d, timing))) {
        rush_free(e);
        return NULL;
    }
    return e;
}

rush_event *rush_event_of(rush_device d, void *own, bool recorded)
{
    rush_event *e = rush_calloc(1, sizeof *e);
    if (e) *e = (rush_event){.device = d, .own = own, .recorded = recorded};
    return e;
}

void *rush_event_own(const rush_event *e) { return e->own; }

void rush_event_free(rush_event *e)
{
    if (!e) return;
    rush_backend *b = rush_backend_of(e->device);
    if (e->own && b->event_free) b->event_free(e->device, e->own);
    rush_free(e);
}

int rush_event_record(rush_event *e, int stream)
{
    RUSH_CHECK(e, RUSH_TYPE_ERROR, "there is no event");
    rush_later_end_waiting();
    rush_backend *b = rush_backend_of(e->device);
    if (need_stream(b, e->device, stream)) return -1;
    e->recorded = true;
    return e->own && b->event_record ? b->event_record(e->device, stream, e->own) : rush_device_synchronize(e->device);
}

int rush_event_wait(rush_event *e, int stream)
{
    RUSH_CHECK(e, RUSH_TYPE_ERROR, "there is no event");
    rush_later_end_waiting();
    rush_backend *b = rush_backend_of(e->device);
    if (need_stream(b, e->device, stream)) return -1;
    return e->recorded && e->own && b->event_wait ? b->event_wait(e->device, stream, e->own) : 0;
}

int rush_event_query(rush_event *e)
{
    RUSH_CHECK(e, RUSH_TYPE_ERROR, "there is no event");
    rush_later_end_waiting();
    rush_backend *b = rush_backend_of(e->device);
    return e->recorded && e->own && b->event_query ? b->event_query(e->device, e->own) : 1;
}

int rush_event_synchronize(rush_event *e)
{
    RUSH_CHECK(e, RUSH_TYPE_ERROR, "there is no event");
    rush_later_end_waiting();
    rush_backend *b = rush_backend_of(e->device);
    return e->recorded && e->own && b->event_synchronize ? b->event_synchronize(e->device, e->own) : 0;
}

int rush_event_elapsed(rush_event *begin, rush_event *end, double *milliseconds)
{
    RUSH_CHECK(begin && end && milliseconds, RUSH_TYPE_ERROR, "an event is missing, or the room for its time");
    RUSH_CHECK(begin->timing && end->timing, RUSH_VALUE_ERROR, "Both events must be created with argument 'enable_timing=True'.");
    RUSH_CHECK(begin->recorded && end->recorded, RUSH_VALUE_ERROR, "Both events must be recorded before calculating elapsed time.");
    RUSH_CHECK(rush_same_device(begin->device, end->device), RUSH_RUNTIME_ERROR, "events of %s and %s have no time between them", rush_device_text(begin->device),
               rush_device_text(end->device));
    rush_backend *b = rush_backend_of(begin->device);
    RUSH_CHECK(begin->own && b->event_elapsed, RUSH_NOT_IMPLEMENTED, "events of %s have no time", rush_device_text(begin->device));
    return b->event_elapsed(begin->device, begin->own, end->own, milliseconds);
}

/* ---- page-locked memory ---- */

typedef struct pinned {
    rush_backend *backend;
    void *data;
    size_t bytes;
} pinned;

static void unpin(void *owner)
{
    pinned *p = owner;
    p->backend->unpin(p->data, p->bytes);
    rush_free(p);
}

bool rush_is_pinned(const rush_tensor *t) { return rush_tensor_given(t) && t->storage && t->storage->release == unpin; }

rush_tensor *rush_pin(rush_tensor *t, int type)
{
    if (!rush_tensor_given(t)) return NULL;
    RUSH_CHECK_NULL(t->device.type == RUSH_CPU && t->layout == RUSH_STRIDED, RUSH_RUNTIME_ERROR, "cannot pin a tensor of %s: only dense CPU tensors can be pinned",
                    rush_device_text(t->device));
    rush_device d = {(uint8_t)type, -1};
    rush_backend *b = rush_backend_of(d);
    RUSH_CHECK_NULL(b && b->pin && b->unpin, RUSH_NOT_IMPLEMENTED, "device '%s' has no page-locked memory", rush_device_name(type));
    if (rush_is_pinned(t) || !t->numel) return t;
    pinned *p = rush_calloc(1, sizeof *p);
    if (!p) return NULL;
    *p = (pinned){b, NULL, (size_t)t->numel * rush_dtypes[t->dtype].size};
    if (!(p->data = b->pin(p->bytes))) return rush_free(p), NULL;
    rush_storage *memory = rush_storage_over(p->data, p->bytes, unpin, p);
    if (!memory) return unpin(p), NULL;
    rush_tensor *copy = rush_tensor_shape_only(t);
    int64_t stride[RUSH_MAXDIM];
    if (!copy) return rush_storage_drop(memory), NULL;
    copy->storage = memory;
    if (t->flags & RUSH_T_DENSE) memcpy(stride, t->stride, sizeof *stride * t->ndim);
    else rush_strides_for(RUSH_CONTIGUOUS, t->ndim, t->size, stride);
    if (rush_tensor_reshape_inplace(copy, t->ndim, t->size, stride, 0)) return NULL;
    return rush_copy_into(copy, t) ? NULL : copy;
}
