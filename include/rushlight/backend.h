/* backend.h - a kind of device: where the memory of tensors is and what computes on it. The page is docs/backends.md.
 *
 *     static rush_backend ghost = {.name = "ghost", .devices = 1, .alloc = ..., .free = ..., .copy = ..., ...};
 *     int type = rush_backend_register(&ghost);
 *     rush_backend_kernel(&ghost, "add.Tensor", add_on_ghost);
 *
 * From then on "ghost:0" is a device. cpu and meta are backends as well, but what they do is part of the library.
 */
#ifndef RUSHLIGHT_BACKEND_H
#define RUSHLIGHT_BACKEND_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that return int return -1 and leave an error when they fail. `copy`, `convert` and `fill` run after all work that
 * the thread's current stream of their device was given before; so do kernels and the fallback. */
typedef struct rush_backend {
    const char *name; /* "cuda", as in torch.device("cuda") */
    int devices;      /* their indices are 0 ... devices - 1, 127 at most */

    void *(*alloc)(rush_device, size_t bytes); /* never 0 bytes; NULL and an error when there are none */
    void (*free)(rush_device, void *, size_t bytes);
    /* Between two devices of this backend, or one and the CPU. On return the host may use its side again. */
    int (*copy)(void *to, rush_device to_device, const void *from, rush_device from_device, size_t bytes);
    /* Elements of any dtypes and strides, lazily conjugated or not, on one device; `from` is broadcast. */
    int (*convert)(rush_tensor *to, const rush_tensor *from);
    int (*fill)(rush_tensor *, rush_value number);
    /* Waits for all work; reports what went wrong in it. */
    int (*synchronize)(rush_device);

    /* Called for an operation that has no kernel here, after its shape rule; NULL: a NotImplementedError. */
    int (*fallback)(rush_device, const rush_op *, const rush_value *in, rush_value *out);

    /* Streams: queues of work that run side by side. Each device has stream 0; without stream_new there is no other. */
    int (*stream_new)(rush_device, int priority); /* its number */
    int (*stream_query)(rush_device, int stream); /* 1: all is done, 0: not yet; an error of its work is reported */
    int (*stream_synchronize)(rush_device, int stream);

    /* Events: points in a stream. One that was never recorded is done, and nothing waits for it. */
    void *(*event_new)(rush_device, bool timing);
    void (*event_free)(rush_device, void *event);
    int (*event_record)(rush_device, int stream, void *event);
    int (*event_wait)(rush_device, int stream, void *event); /* the stream's further work waits */
    int (*event_query)(rush_device, void *event);            /* as stream_query */
    int (*event_synchronize)(rush_device, void *event);
    int (*event_elapsed)(rush_device, void *begin, void *end, double *milliseconds);

    /* Memory of the host that copies from and to its devices reach by themselves (page-locked). */
    void *(*pin)(size_t bytes); /* never 0 bytes; NULL and an error */
    void (*unpin)(void *, size_t bytes);

    uint8_t type;         /* the rest is filled by rush_backend_register() and rush_backend_kernel() */
    rush_kernel *kernels; /* by rush_op.index */
    uint32_t nkernels;
} rush_backend;

/* The number of the backend's device type, -1 and an error. The structure is the caller's and must remain. A name that
 * PyTorch does not reserve becomes that of RUSH_PRIVATEUSEONE while this is free. Register before threads start calling. */
RUSH_API int rush_backend_register(rush_backend *);
/* The kernel of an operation on that backend's devices; for a composite operation it takes the place of its function. */
RUSH_API int rush_backend_kernel(rush_backend *, const char *op, rush_kernel);
RUSH_API rush_backend *rush_backend_of(rush_device); /* NULL when this process has no such type */

RUSH_API const char *rush_device_name(int type);        /* "cuda"; of numbers that nobody has "?" */
RUSH_API int rush_device_from_name(const char *name);   /* -1 (no error is set) */
RUSH_API int rush_device_rename(int type, const char *name); /* of RUSH_PRIVATEUSEONE, once */
RUSH_API const char *rush_device_text(rush_device);     /* "cuda:0", "cpu"; the text lives until the eighth call from now */
RUSH_API int rush_device_count(int type);               /* 0 when this process has no such type */
RUSH_API int rush_device_current(int type);             /* the index that stands for -1 in this thread */
RUSH_API int rush_device_set_current(rush_device);
RUSH_API int rush_device_synchronize(rush_device);

/* The stream that gets what this thread gives a device from now on; 0 at first. */
RUSH_API int rush_device_stream(rush_device);
RUSH_API int rush_device_stream_set(rush_device, int stream);
RUSH_API int rush_stream_new(rush_device, int priority); /* its number, -1 and an error */
RUSH_API int rush_stream_query(rush_device, int stream); /* 1: all its work is done, 0: not yet, -1 and an error */
RUSH_API int rush_stream_synchronize(rush_device, int stream);

typedef struct rush_event rush_event;
RUSH_API rush_event *rush_event_new(rush_device, bool timing); /* given back with rush_event_free(); NULL and an error */
RUSH_API void rush_event_free(rush_event *);
RUSH_API int rush_event_record(rush_event *, int stream); /* of the event's device */
RUSH_API int rush_event_wait(rush_event *, int stream);
RUSH_API int rush_event_query(rush_event *);              /* as rush_stream_query */
RUSH_API int rush_event_synchronize(rush_event *);
RUSH_API int rush_event_elapsed(rush_event *begin, rush_event *end, double *milliseconds);

/* t in page-locked memory that this type's devices reach by themselves: t itself if it is, else a copy. */
RUSH_API rush_tensor *rush_pin(rush_tensor *t, int type);
RUSH_API bool rush_is_pinned(const rush_tensor *t);

/* The generator from which operations on that device draw when they are given none: a reference of the library's. What its
 * numbers are is the backend's; the library seeds it, and saves and restores its state. */
RUSH_API rush_generator *rush_device_generator(rush_device);
RUSH_API int rush_device_manual_seed(uint64_t seed); /* of all devices of all backends; the CPU has rush_manual_seed() */

typedef struct rush_device_stats {
    size_t live_bytes, peak_bytes, live_blocks, peak_blocks;
    uint64_t allocations, frees; /* so far */
} rush_device_stats;
RUSH_API int rush_device_stats_read(rush_device, rush_device_stats *);
RUSH_API int rush_device_stats_reset_peak(rush_device);

/* The same memory as a tensor of the CPU: for backends whose memory the host can reach at times. NULL passes through. */
RUSH_API rush_tensor *rush_host_view(const rush_tensor *);

#ifdef __cplusplus
}
#endif
#endif
