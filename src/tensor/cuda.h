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
    size_t cached, largest_free;    /* of it: not in use     */
    size_t segments, retries, out_of_memory;
    double fraction;                /* of the device's memory, that may be taken */
} rush_cuda_memory;

typedef struct rush_cuda_interface {
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
} rush_cuda_interface;

/* Switches that a program may turn before there is a device: those of torch.backends.cudnn, torch.use_deterministic_algorithms,
 * and whether float32 products may be of TF32. */
enum rush_cuda_switches { RUSH_CUDNN_ENABLED, RUSH_CUDNN_BENCHMARK, RUSH_CUDNN_BENCHMARK_LIMIT, RUSH_CUDNN_DETERMINISTIC, RUSH_CUDNN_TF32, RUSH_DETERMINISTIC, RUSH_PRODUCT_TF32, RUSH_CUDA_SWITCHES };
RUSH_PY int rush_cuda_switch(enum rush_cuda_switches, int value); /* what it was; a negative value only asks */

/* The answers; NULL: there is no CUDA device, and `why` says why (without an error). */
RUSH_PY const rush_cuda_interface *rush_cuda(const char **why);
/* What the shared object calls its one function, rush_cuda_open: it registers the backend; NULL and why not. */
typedef const rush_cuda_interface *(*rush_cuda_opener)(const char **why);

#endif
