/* driver.h - the CUDA driver as a table of functions: libcuda, opened when it is asked for, or an emulator on the CPU.
 *
 * Both have the driver's own prototypes, so the table needs no header of NVIDIA's and the build no toolkit. RUSHLIGHT_CUDA
 * chooses: "driver" (what is tried first), "emulated", "off".
 */
#ifndef RUSH_CUDA_DRIVER_H
#define RUSH_CUDA_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
#define _Static_assert static_assert
extern "C" {
#endif

#define RUSH_CUDA_NUMBERS(N) \
    N(CU_MEM_ALLOCATION_TYPE_PINNED, 1) N(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1) N(CU_MEM_LOCATION_TYPE_DEVICE, 1) N(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3) \
    N(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1) N(CU_EVENT_INTERPROCESS, 4) N(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)

#ifndef RUSH_CUDA_HEADER /* cuda.h, which driver_check.c compares with this */
typedef int CUresult, CUdevice; /* CUresult 0: all is well */
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

typedef unsigned long long CUmemGenericAllocationHandle;
typedef int CUmemAllocationHandleType, CUmemAllocationGranularity_flags;
typedef struct CUmemLocation_st { int type, id; } CUmemLocation;
typedef struct CUmemAllocationProp_st {
    int type, requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct { unsigned char compressionType, gpuDirectRDMACapable; unsigned short usage; unsigned char reserved[4]; } allocFlags;
} CUmemAllocationProp;
typedef struct CUmemAccessDesc_st { CUmemLocation location; int flags; } CUmemAccessDesc;
typedef struct CUipcEventHandle_st { char reserved[64]; } CUipcEventHandle;
typedef struct CUipcMemHandle_st { char reserved[64]; } CUipcMemHandle;

enum { /* of cuda.h, the few that are looked at */
#define DRIVER_NUMBER(name, value) name = value,
    RUSH_CUDA_NUMBERS(DRIVER_NUMBER)
#undef DRIVER_NUMBER
    CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NOT_INITIALIZED = 3, CUDA_ERROR_NO_DEVICE = 100, CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_ILLEGAL_STATE = 401, CUDA_ERROR_NOT_FOUND = 500, CUDA_ERROR_NOT_READY = 600, CUDA_ERROR_ILLEGAL_ADDRESS = 700, CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_CAPTURE_UNSUPPORTED = 900, CUDA_ERROR_CAPTURE_INVALIDATED = 901, CUDA_ERROR_CAPTURE_MERGE = 902, CUDA_ERROR_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_CAPTURE_UNJOINED = 904, CUDA_ERROR_CAPTURE_ISOLATION = 905, CUDA_ERROR_CAPTURE_IMPLICIT = 906, CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_CAPTURE_WRONG_THREAD = 908,
    CU_CAPTURE_NONE = 0, CU_CAPTURE_ACTIVE = 1, CU_CAPTURE_INVALIDATED = 2,           /* the state of a stream */
    CU_CAPTURE_GLOBAL = 0, CU_CAPTURE_THREAD_LOCAL = 1, CU_CAPTURE_RELAXED = 2,       /* whose calls that are not safe are refused meanwhile */
    CU_GRAPH_AUTO_FREE = 1, CU_GRAPH_NODE_PRIORITY = 8, CU_GRAPH_DOT_VERBOSE = 1, CU_POINTER_MEMORY_TYPE = 2, CU_MEMORY_HOST = 1,
    CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DISABLE_TIMING = 2,
    CU_ATTRIBUTE_THREADS_PER_BLOCK = 1, CU_ATTRIBUTE_WARP_SIZE = 10, CU_ATTRIBUTE_CLOCK_RATE = 13, CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    CU_ATTRIBUTE_INTEGRATED = 18, CU_ATTRIBUTE_L2_CACHE = 38, CU_ATTRIBUTE_THREADS_PER_MULTIPROCESSOR = 39, CU_ATTRIBUTE_MAJOR = 75,
    CU_ATTRIBUTE_MINOR = 76, CU_ATTRIBUTE_SHARED_MEMORY_AT_MOST = 97, CU_FUNCTION_SHARED_MEMORY_AT_MOST = 8
};
#endif
_Static_assert(sizeof(CUmemAllocationProp) == 32 && offsetof(CUmemAllocationProp, requestedHandleTypes) == 4 && offsetof(CUmemAllocationProp, location) == 8 &&
               offsetof(CUmemAllocationProp, win32HandleMetaData) == 16 && offsetof(CUmemAllocationProp, allocFlags) == 24, "CUmemAllocationProp");
_Static_assert(sizeof(CUmemAccessDesc) == 12 && offsetof(CUmemAccessDesc, flags) == 8 && sizeof(CUmemLocation) == 8 && offsetof(CUmemLocation, id) == 4, "CUmemAccessDesc");
_Static_assert(sizeof(CUipcMemHandle) == 64 && sizeof(CUipcEventHandle) == 64, "CUipcMemHandle");

/* Memory apart from the addresses where it is seen, and what processes give one another, with cuda.h's own types. */
#define RUSH_CUDA_SPAN_FUNCTIONS(F)                                                                         \
    F(address_reserve, cuMemAddressReserve, (CUdeviceptr *, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags)) \
    F(address_free, cuMemAddressFree, (CUdeviceptr, size_t bytes))                                          \
    F(physical_create, cuMemCreate, (CUmemGenericAllocationHandle *, size_t bytes, const CUmemAllocationProp *, unsigned long long flags)) \
    F(physical_release, cuMemRelease, (CUmemGenericAllocationHandle))                                       \
    F(physical_map, cuMemMap, (CUdeviceptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle, unsigned long long flags)) \
    F(physical_unmap, cuMemUnmap, (CUdeviceptr, size_t bytes))                                              \
    F(physical_access, cuMemSetAccess, (CUdeviceptr, size_t bytes, const CUmemAccessDesc *, size_t count))  \
    F(physical_grain, cuMemGetAllocationGranularity, (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)) \
    F(physical_export, cuMemExportToShareableHandle, (void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long flags)) \
    F(physical_import, cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType)) \
    F(event_export, cuIpcGetEventHandle, (CUipcEventHandle *, CUevent))                                     \
    F(event_import, cuIpcOpenEventHandle, (CUevent *, CUipcEventHandle))                                    \
    F(memory_export, cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr))                                    \
    F(memory_import, cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned flags))                \
    F(memory_unimport, cuIpcCloseMemHandle, (CUdeviceptr))

/* F(member, the driver's symbol, its arguments) */
#define RUSH_CUDA_FUNCTIONS(F)                                                                              \
    F(init, cuInit, (unsigned flags))                                                                       \
    F(version, cuDriverGetVersion, (int *version))                                                          \
    F(error_text, cuGetErrorString, (CUresult, const char **text))                                          \
    F(device_count, cuDeviceGetCount, (int *count))                                                         \
    F(device_get, cuDeviceGet, (CUdevice *, int index))                                                     \
    F(device_name, cuDeviceGetName, (char *name, int room, CUdevice))                                       \
    F(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice))                        \
    F(device_memory, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice))                                        \
    F(device_peer, cuDeviceCanAccessPeer, (int *can, CUdevice, CUdevice peer))                              \
    F(context_retain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                    \
    F(context_set, cuCtxSetCurrent, (CUcontext))                                                            \
    F(context_synchronize, cuCtxSynchronize, (void))                                                        \
    F(memory_info, cuMemGetInfo_v2, (size_t *free, size_t *total))                                          \
    F(memory_alloc, cuMemAlloc_v2, (CUdeviceptr *, size_t bytes))                                           \
    F(memory_free, cuMemFree_v2, (CUdeviceptr))                                                             \
    F(host_alloc, cuMemAllocHost_v2, (void **, size_t bytes))                                               \
    F(host_free, cuMemFreeHost, (void *))                                                                   \
    F(copy_to_device, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream))     \
    F(copy_to_host, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream))             \
    F(copy_within, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream))        \
    F(copy_peer, cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream)) \
    F(set_bytes, cuMemsetD8Async, (CUdeviceptr, unsigned char byte, size_t bytes, CUstream))                \
    F(stream_create, cuStreamCreateWithPriority, (CUstream *, unsigned flags, int priority))                \
    F(stream_synchronize, cuStreamSynchronize, (CUstream))                                                  \
    F(stream_query, cuStreamQuery, (CUstream))                                                              \
    F(stream_wait, cuStreamWaitEvent, (CUstream, CUevent, unsigned flags))                                  \
    F(event_create, cuEventCreate, (CUevent *, unsigned flags))                                             \
    F(event_destroy, cuEventDestroy_v2, (CUevent))                                                          \
    F(event_record, cuEventRecord, (CUevent, CUstream))                                                     \
    F(event_query, cuEventQuery, (CUevent))                                                                 \
    F(event_synchronize, cuEventSynchronize, (CUevent))                                                     \
    F(event_elapsed, cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))                 \
    F(pointer_attribute, cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr))                  \
    F(capture_begin, cuStreamBeginCapture_v2, (CUstream, int mode))                                         \
    F(capture_end, cuStreamEndCapture, (CUstream, CUgraph *))                                               \
    F(capture_info, cuStreamGetCaptureInfo_v2, (CUstream, int *state, unsigned long long *id, CUgraph *, const CUgraphNode **, size_t *)) \
    F(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                                         \
    F(graph_nodes, cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *count))                                \
    F(graph_dot, cuGraphDebugDotPrint, (CUgraph, const char *path, unsigned flags))                         \
    F(graph_destroy, cuGraphDestroy, (CUgraph))                                                             \
    F(graph_instantiate, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long flags))   \
    F(graph_launch, cuGraphLaunch, (CUgraphExec, CUstream))                                                 \
    F(exec_destroy, cuGraphExecDestroy, (CUgraphExec))                                                      \
    F(module_load, cuModuleLoadData, (CUmodule *, const void *image))                                       \
    F(module_function, cuModuleGetFunction, (CUfunction *, CUmodule, const char *name))                     \
    F(function_set, cuFuncSetAttribute, (CUfunction, int attribute, int value))                              \
    F(launch, cuLaunchKernel, (CUfunction, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
                               unsigned shared, CUstream, void **params, void **extra))                     \
    RUSH_CUDA_SPAN_FUNCTIONS(F)

#define MEMBER(member, symbol, args) CUresult (*member) args;
typedef struct rush_cuda_driver {
    RUSH_CUDA_FUNCTIONS(MEMBER)
} rush_cuda_driver;
#undef MEMBER

/* The driver that was chosen, initialised; NULL and the reason: there is none. `emulated` says which it is. */
const rush_cuda_driver *rush_cuda_driver_open(const char **why, int *emulated);

extern const rush_cuda_driver rush_cuda_emulator;
/* Of the emulator: calls f(arg) with the memory of all devices open to the host, after all that was queued. -1: that failed. */
__attribute__((visibility("default"))) int rush_emulator_host(int (*f)(void *arg), void *arg);
/* Puts a call of f(arg) into a stream, with that memory open: of stand-ins for libraries. What else uses devices waits meanwhile. */
__attribute__((visibility("default"))) int rush_emulator_queue(CUstream, void (*f)(void *arg), void *arg);
/* Runs what a stream was given: of stand-ins, when it is waited for inside of such a call. */
__attribute__((visibility("default"))) void rush_emulator_run(CUdevice, CUstream);
/* The file of src/cuda, without its end, that has the kernel with this name; NULL: none has. The same for NVIDIA's devices. */
const char *rush_emulator_file(const char *kernel);

#ifdef __cplusplus
}
#endif
#endif
