/* cuda.h - what torch.cuda asks beyond what every backend has. The answers are those of the CUDA part, a shared object of its own
 * (src/cuda) that is opened when a CUDA device is asked for.
 */
#ifndef RUSH_TENSOR_CUDA_H
#define RUSH_TENSOR_CUDA_H

#include "base/base.h"

typedef struct rush_cuda_properties {
    char name[256];
    int major, minor, processors, threads_per_processor, integrated, l2_cache, clock;
    size_t memory;
    int emulated;
} rush_cuda_properties;

typedef struct rush_cuda_memory {
    size_t reserved, peak_reserved; /* taken from the driver */
    size_t active, peak_active;     /* of it: in use, as blocks are large */
    size_t cached, largest_free;    /* of it: not in use     */
    size_t segments, retries, out_of_memory;
    double fraction;                /* of the device's memory, that may be taken */
} rush_cuda_memory;

/* Of a pool of memory, as PyTorch numbers them: those that graphs make for themselves, and others; both 0: none. */
typedef struct rush_pool_id {
    uint64_t graph, user;
} rush_pool_id;

/* A piece of memory that the allocator has; pieces of a segment lie one behind the other. */
typedef struct rush_cuda_block {
    const void *p;
    size_t bytes;
    bool busy, first; /* of its segment */
    bool small;       /* the segment is for requests up to 1 MiB */
    bool expandable;  /* the segment is a part of addresses that are kept for more */
    int stream;
    rush_pool_id pool;
    const char *op;   /* that asked for it; NULL: it is free */
} rush_cuda_block;

typedef struct rush_cuda_graph rush_cuda_graph;
enum rush_capture_mode { RUSH_CAPTURE_GLOBAL, RUSH_CAPTURE_THREAD_LOCAL, RUSH_CAPTURE_RELAXED }; /* the driver's */

/* torch.cuda.CUDAGraph's methods; all but the first two return -1 and leave an error when they fail. */
typedef struct rush_cuda_graphs {
    rush_cuda_graph *(*make)(bool keep); /* keep: instantiate() is the program's to call */
    void (*drop)(rush_cuda_graph *);
    int (*begin)(rush_cuda_graph *, rush_pool_id, enum rush_capture_mode);
    int (*end)(rush_cuda_graph *);
    int (*instantiate)(rush_cuda_graph *);
    int (*replay)(rush_cuda_graph *);
    int (*reset)(rush_cuda_graph *);
    int (*pool)(rush_cuda_graph *, rush_pool_id *);
    int (*draws)(rush_cuda_graph *, rush_generator *); /* it may draw from this one, too */
    int (*dump)(rush_cuda_graph *, const char *path);
    void (*debug)(void); /* graphs are kept for dump() from now on */
    int (*raw)(rush_cuda_graph *, bool exec, void **);
    int (*is_capturing)(rush_device, int stream);
} rush_cuda_graphs;

/* Memory of a device as another process opens it. */
typedef struct rush_cuda_shared {
    unsigned char *handle; /* whoever was given it frees it */
    size_t handle_bytes, offset;
    char counter[64];      /* where that process says that it is done, */
    int slot;              /* at this place */
    unsigned char event[64];
    bool waits;            /* for the event */
} rush_cuda_shared;

/* -1 or NULL, and an error. */
typedef struct rush_cuda_sharing {
    int (*give)(rush_device, void *p, rush_cuda_shared *); /* memory that a storage has: it stays until the other is done */
    rush_storage *(*take)(rush_device, const rush_cuda_shared *, size_t bytes);
    bool (*is_taken)(const rush_storage *);
    int (*back)(const char *counter, int slot); /* it was not needed: the storage was there already */
    void (*collect)(void);
    void *(*event_new)(rush_device);
    int (*event_export)(rush_device, void *, unsigned char *handle); /* of 64 bytes */
    void *(*event_import)(rush_device, const unsigned char *handle);
} rush_cuda_sharing;

/* What a device did, a call that asked for it, or memory that a thread took or gave back, by rush_clock(). */
enum rush_cuda_record_kind { RUSH_RECORD_KERNEL, RUSH_RECORD_COPY, RUSH_RECORD_SET, RUSH_RECORD_CALL, RUSH_RECORD_MEMORY };
typedef struct rush_cuda_record {
    enum rush_cuda_record_kind kind;
    char *name;           /* freed by whoever was given the record */
    int device, stream;
    uint32_t correlation; /* of a call and of what it asked for */
    uint32_t thread;      /* of a call, or of memory */
    uint64_t start, end;
    int64_t bytes;        /* of memory that is given back: below 0 */
    size_t active, reserved; /* of memory: what the device has then */
    int grid[3], block[3], shared, registers;
} rush_cuda_record;

typedef struct rush_cuda_interface {
    int (*trace_begin)(bool memory, uint32_t *thread); /* all devices, with their memory or without; this thread's number in records */
    int (*trace_end)(rush_cuda_record **, size_t *n); /* freed by the caller, with their names */
    const rush_cuda_sharing *sharing;
    bool (*used)(void); /* is there a device that work or memory was asked of? */
    int (*properties)(rush_device, rush_cuda_properties *);
    int (*memory)(rush_device, rush_cuda_memory *);
    int (*memory_info)(rush_device, size_t *free, size_t *total);
    int (*memory_empty)(rush_device); /* gives what is not in use back to the driver */
    int (*memory_fraction)(rush_device, double);
    int (*memory_reset_peak)(rush_device);
    int (*peer)(rush_device, rush_device other);
    const char *(*library)(void); /* the operations that NVIDIA's libraries do, where they are there, separated by blanks */
    const char *(*host)(void);    /* those that the host computes, between copies */
    size_t (*cudnn_version)(void); /* 0: it is not used */
    const rush_cuda_graphs *graphs;
    rush_pool_id (*pool_id)(bool of_a_graph);
    int (*pool_new)(rush_pool_id, bool whole, bool last_resort); /* whole: segments are not cut; last_resort: others take from it when there is no memory */
    int (*pool_free)(rush_pool_id);
    int (*pool_users)(rush_pool_id);
    int (*pool_begin)(rush_device, rush_pool_id); /* the thread's allocations come from it */
    int (*pool_end)(rush_device, rush_pool_id);
    size_t (*memory_blocks)(rush_device, rush_cuda_block *, size_t room); /* how many there are */
    bool (*libraries)(void);                       /* are NVIDIA's asked? Not on emulated devices, but for stand-ins */
    const struct rush_nccl_library *(*nccl)(void); /* NULL and an error: it is not there */
    void *(*stream)(rush_device, int number);      /* the driver's */
    void (*spoil)(rush_device, rush_error_kind, const char *why); /* what it computed cannot be relied on: who next waits for it is told why. NULL: this thread is not to be told */
} rush_cuda_interface;

/* Switches that a program may turn before there is a device: those of torch.backends.cudnn, torch.use_deterministic_algorithms,
 * and whether float32 products may be of TF32. */
enum rush_cuda_switches { RUSH_CUDNN_ENABLED, RUSH_CUDNN_BENCHMARK, RUSH_CUDNN_BENCHMARK_LIMIT, RUSH_CUDNN_DETERMINISTIC, RUSH_CUDNN_TF32, RUSH_DETERMINISTIC, RUSH_PRODUCT_TF32, RUSH_CUDA_SWITCHES };
RUSH_PY int rush_cuda_switch(enum rush_cuda_switches, int value); /* what it was; a negative value only asks */

/* What PYTORCH_ALLOC_CONF says, as text, or torch.cuda.memory._set_allocator_settings. */
enum { RUSH_CUDA_DIVISIONS = 16 };
typedef struct rush_cuda_settings {
    bool expandable;     /* segments grow: addresses are kept for all of a stream's memory */
    size_t max_split;    /* larger blocks are not cut, and serve requests that are smaller by max_rounding at the most */
    size_t max_rounding, large_segment;
    double collect;      /* part of the memory that may be taken from which on blocks are given back, the oldest first; 0: none */
    double fraction;     /* of the device's memory, that may be taken; 0: all */
    size_t divisions[RUSH_CUDA_DIVISIONS]; /* steps between powers of two, to which sizes are rounded up: below 2 MiB, 4 MiB and so on. 0: 512 bytes */
} rush_cuda_settings;
RUSH_PY int rush_cuda_set(const char *text); /* names that are not in it stay as they are */
RUSH_PY const rush_cuda_settings *rush_cuda_settings_now(void); /* NULL and an error: the environment says what cannot be */

/* The answers; NULL: there is no CUDA device, and `why` says why (without an error). */
RUSH_PY const rush_cuda_interface *rush_cuda(const char **why);
/* What the shared object calls its one function, rush_cuda_open: it registers the backend; NULL and why not. */
typedef const rush_cuda_interface *(*rush_cuda_opener)(const char **why);

#endif
