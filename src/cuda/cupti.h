/* cupti.h - CUPTI as a table of functions, as much of it as tells when kernels and copies ran: NVIDIA's, or the emulator's. */
#ifndef RUSH_CUDA_CUPTI_H
#define RUSH_CUDA_CUPTI_H

#include "cuda/driver.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUSH_CUPTI_NUMBERS(N) \
    N(CUPTI_ACTIVITY_KIND_MEMCPY, 1) N(CUPTI_ACTIVITY_KIND_MEMSET, 2) N(CUPTI_ACTIVITY_KIND_DRIVER, 4) N(CUPTI_ACTIVITY_KIND_RUNTIME, 5) N(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 10) \
    N(CUPTI_ACTIVITY_KIND_MEMCPY2, 22) N(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, 1) N(CUPTI_CB_DOMAIN_DRIVER_API, 1) N(CUPTI_CB_DOMAIN_RUNTIME_API, 2) N(CUPTI_ERROR_MAX_LIMIT_REACHED, 12) \
    N(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 1) N(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 2) N(CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, 8) N(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, 10) \
    N(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, 216) N(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, 277) N(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, 279) \
    N(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, 281) N(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, 307) N(CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync, 319) N(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, 514)

#ifndef RUSH_CUPTI_HEADER /* cupti.h of NVIDIA's, which driver_check.c compares with this */
typedef int CUptiResult, CUpti_ActivityKind, CUpti_CallbackDomain;
typedef struct { int kind; } CUpti_Activity;
typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef uint64_t (*CUpti_TimestampCallbackFunc)(void);
enum {
#define CUPTI_NUMBER(name, value) name = value,
    RUSH_CUPTI_NUMBERS(CUPTI_NUMBER)
#undef CUPTI_NUMBER
};
#endif

/* F(member, symbol, what it returns, its arguments) */
#define RUSH_CUPTI_FUNCTIONS(F)                                                                             \
    F(callbacks, cuptiActivityRegisterCallbacks, CUptiResult, (CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc)) \
    F(clock, cuptiActivityRegisterTimestampCallback, CUptiResult, (CUpti_TimestampCallbackFunc))            \
    F(enable, cuptiActivityEnable, CUptiResult, (CUpti_ActivityKind))                                       \
    F(disable, cuptiActivityDisable, CUptiResult, (CUpti_ActivityKind))                                     \
    F(flush, cuptiActivityFlushAll, CUptiResult, (uint32_t flags))                                          \
    F(next, cuptiActivityGetNextRecord, CUptiResult, (uint8_t *buffer, size_t valid, CUpti_Activity **))    \
    F(function_name, cuptiGetCallbackName, CUptiResult, (CUpti_CallbackDomain, uint32_t id, const char **)) \
    F(text, cuptiGetResultString, CUptiResult, (CUptiResult, const char **))

#define MEMBER(member, symbol, result, args) result (*member) args;
typedef struct rush_cupti {
    RUSH_CUPTI_FUNCTIONS(MEMBER)
} rush_cupti;
#undef MEMBER

const rush_cupti *cuda_cupti(void); /* NVIDIA's; NULL and an error */
extern const rush_cupti rush_cupti_emulator;

/* How records begin, in all versions since CUDA 11; newer ones have more behind it. Numbers of devices and streams are CUPTI's. */
typedef struct cupti_kernel {
    uint32_t kind;
    uint8_t cache, banks;
    uint16_t registers;
    uint32_t asked, had;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], fixed_shared, shared;
    uint32_t local, local_all, correlation;
    int64_t id;
    const char *name;
} cupti_kernel;
typedef struct cupti_copy { /* of MEMCPY and MEMSET; of MEMCPY2, between devices, the correlation is another field */
    uint32_t kind;
    uint8_t how, from, to, flags; /* of MEMSET: the value */
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
} cupti_copy;
typedef struct cupti_copy2 {
    cupti_copy begin; /* but for `correlation`, which is the device that it comes from */
    uint32_t context, to_device, to_context, correlation;
} cupti_copy2;
typedef struct cupti_call {
    uint32_t kind, function;
    uint64_t start, end;
    uint32_t process, thread, correlation, returned;
} cupti_call;

#ifdef __cplusplus
}
#endif
#endif
