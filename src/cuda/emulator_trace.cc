/* emulator_trace.cc - CUPTI's functions for emulated devices: what they ran and when, by the clock of the CPU that did it. */
#include "cuda/emulator.h"
#include "cuda/cupti.h"
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace emulated {

bool tracing;
static uint64_t kinds; /* that are asked for, as bits */
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_TimestampCallbackFunc now;
static std::vector<std::string> records; /* each the bytes of one */
static std::mutex lock;
static uint32_t calls;

uint64_t trace_clock() { return now ? now() : 0; }

template <class T> static void keep(int kind, const T &record)
{
    std::lock_guard<std::mutex> held(lock);
    if (kinds >> kind & 1) records.emplace_back((const char *)&record, sizeof record);
}

uint32_t trace_call(unsigned function, uint64_t start)
{
    cupti_call c = {};
    c.kind = CUPTI_ACTIVITY_KIND_DRIVER, c.function = function, c.start = start, c.end = trace_clock(), c.process = (uint32_t)getpid(), c.thread = (uint32_t)(uintptr_t)pthread_self();
    c.correlation = ++calls;
    keep(CUPTI_ACTIVITY_KIND_DRIVER, c);
    return c.correlation;
}

void trace_kernel(uint32_t call, place at, const char *name, const unsigned size[3], uint64_t start)
{
    cupti_kernel k = {};
    k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, k.start = start, k.end = trace_clock(), k.device = (uint32_t)at.device, k.stream = (uint32_t)at.stream, k.correlation = call, k.name = name;
    for (int i = 0; i < 3; i++) k.grid[i] = k.block[i] = 1;
    k.grid[0] = (int)size[0], k.block[0] = (int)size[1], k.shared = (int)size[2];
    keep(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, k);
}

void trace_copy(uint32_t call, place at, int kind, const unsigned char how[3], size_t bytes, uint64_t start)
{
    cupti_copy2 c = {};
    c.begin.kind = (uint32_t)kind, c.begin.how = how[0], c.begin.from = how[1], c.begin.to = how[2], c.begin.bytes = bytes, c.begin.start = start, c.begin.end = trace_clock();
    c.begin.device = (uint32_t)at.device, c.begin.stream = (uint32_t)at.stream, c.correlation = call;
    if (kind == CUPTI_ACTIVITY_KIND_MEMCPY2) return keep(kind, c);
    c.begin.correlation = call;
    keep(kind, c.begin);
}

}

using namespace emulated;

static CUptiResult callbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) { return request = r, complete = c, 0; }
static CUptiResult clock_is(CUpti_TimestampCallbackFunc f) { return now = f, 0; }
static CUptiResult enable(CUpti_ActivityKind kind)
{
    kinds |= (uint64_t)1 << kind, tracing = true;
    return 0;
}
static CUptiResult disable(CUpti_ActivityKind kind)
{
    kinds &= ~((uint64_t)1 << kind), tracing = kinds != 0;
    return 0;
}

static size_t padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static size_t size_of(uint32_t kind)
{
    return kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? sizeof(cupti_kernel) : kind == CUPTI_ACTIVITY_KIND_DRIVER ? sizeof(cupti_call)
           : kind == CUPTI_ACTIVITY_KIND_MEMCPY2 ? sizeof(cupti_copy2) : sizeof(cupti_copy);
}

static CUptiResult next(uint8_t *buffer, size_t valid, CUpti_Activity **a)
{
    uint8_t *at = *a ? (uint8_t *)*a + padded(size_of((uint32_t)(*a)->kind)) : buffer;
    if (at >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *a = (CUpti_Activity *)at;
    return 0;
}

/* In as many buffers as it takes, on this thread. */
static CUptiResult flush(uint32_t)
{
    std::vector<std::string> all;
    {
        std::lock_guard<std::mutex> held(lock);
        all.swap(records);
    }
    for (size_t i = 0; i < all.size();) {
        uint8_t *buffer;
        size_t size, most, used = 0;
        request(&buffer, &size, &most);
        if (size < 1024) return CUPTI_ERROR_MAX_LIMIT_REACHED;
        for (; i < all.size() && used + all[i].size() <= size; i++) {
            memcpy(buffer + used, all[i].data(), all[i].size());
            used += padded(all[i].size());
        }
        complete(nullptr, 0, buffer, size, used);
    }
    return 0;
}

static CUptiResult function_name(CUpti_CallbackDomain, uint32_t id, const char **name)
{
    static const struct { uint32_t id; const char *name; } names[] = {
        {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel"}, {CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync_v2"},
        {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2"}, {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2"},
        {CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync, "cuMemcpyPeerAsync"}, {CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, "cuMemsetD8Async"}, {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, "cuGraphLaunch"}};
    for (auto &n : names)
        if (n.id == id) return *name = n.name, 0;
    return 1;
}

static CUptiResult text(CUptiResult code, const char **words) { return *words = code ? "an error of the emulator" : "no error", 0; }

extern const rush_cupti rush_cupti_emulator = {callbacks, clock_is, enable, disable, flush, next, function_name, text};
