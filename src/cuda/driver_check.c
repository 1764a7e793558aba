/* driver_check.c - types and functions of driver.h and cupti.h against NVIDIA's headers: it only has to compile, and is empty where they are not installed. */
#if __has_include(<cuda.h>)
#include <cuda.h>
#define RUSH_CUDA_HEADER
#include "cuda/driver.h"

#define SAME(member, symbol, args) _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), CUresult args), #symbol " has another type");
RUSH_CUDA_SPAN_FUNCTIONS(SAME)
#define IS(name, value) _Static_assert((int)name == value, #name " is another number");
RUSH_CUDA_NUMBERS(IS)
#endif

#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#define RUSH_CUPTI_HEADER
#include <cupti.h>
#include <stddef.h>
#include "cuda/cupti.h"

#undef SAME
#define SAME(member, symbol, result, args) _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), result args), #symbol " has another type");
RUSH_CUPTI_FUNCTIONS(SAME)
#undef IS
#define IS(name, value) _Static_assert((int)name == value, #name " is another number");
RUSH_CUPTI_NUMBERS(IS)
#define AT(own, member, theirs, field) \
    _Static_assert(offsetof(own, member) == offsetof(theirs, field) && sizeof((own){0}.member) == sizeof((theirs){0}.field), #theirs "." #field " lies elsewhere");
#define KERNEL(member, field) AT(cupti_kernel, member, CUpti_ActivityKernel10, field)
KERNEL(kind, kind) KERNEL(registers, registersPerThread) KERNEL(start, start) KERNEL(end, end) KERNEL(device, deviceId) KERNEL(stream, streamId) KERNEL(shared, dynamicSharedMemory)
KERNEL(fixed_shared, staticSharedMemory) KERNEL(correlation, correlationId) KERNEL(name, name) KERNEL(grid[0], gridX) KERNEL(grid[2], gridZ) KERNEL(block[0], blockX) KERNEL(block[2], blockZ)
#define COPY(member, field) AT(cupti_copy, member, CUpti_ActivityMemcpy6, field)
COPY(kind, kind) COPY(how, copyKind) COPY(bytes, bytes) COPY(start, start) COPY(end, end) COPY(device, deviceId) COPY(stream, streamId) COPY(correlation, correlationId)
#define SET(member, field) AT(cupti_copy, member, CUpti_ActivityMemset4, field)
SET(kind, kind) SET(bytes, bytes) SET(start, start) SET(end, end) SET(device, deviceId) SET(stream, streamId) SET(correlation, correlationId)
#define PEER(member, field) AT(cupti_copy2, member, CUpti_ActivityMemcpyPtoP4, field)
PEER(begin.kind, kind) PEER(begin.how, copyKind) PEER(begin.bytes, bytes) PEER(begin.start, start) PEER(begin.end, end) PEER(begin.device, deviceId) PEER(begin.stream, streamId)
PEER(correlation, correlationId)
#define CALL(member, field) AT(cupti_call, member, CUpti_ActivityAPI, field)
CALL(kind, kind) CALL(function, cbid) CALL(start, start) CALL(end, end) CALL(thread, threadId) CALL(correlation, correlationId)
#endif
