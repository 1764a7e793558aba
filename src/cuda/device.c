/* device.c - CUDA devices as a backend: contexts, launches, streams, events, copies. */
#define _GNU_SOURCE
#include "cuda/libraries.h"
#include "base/kept.h"
#include "cuda/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const rush_cuda_driver *cuda_driver;
cuda_device cuda_devices[CUDA_DEVICES];
int cuda_emulated;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what is made when it is first asked for */
static _Thread_local int8_t entered = -1;                /* the device whose context is this thread's */

int cuda_check(CUresult code, const char *what)
{
    const char *text = "unknown error";
    if (!code) return 0;
    if (cuda_driver->error_text(code, &text)) text = "unknown error";
    return rush_fail(code == CUDA_ERROR_OUT_OF_MEMORY ? RUSH_MEMORY_ERROR : RUSH_RUNTIME_ERROR, "CUDA error: %s (%s, code %d)", text, what, code);
}

cuda_device *cuda_enter(rush_device d)
{
    cuda_device *device = &cuda_devices[d.index];
    if (entered == d.index) return device;
    pthread_mutex_lock(&lock);
    int failed = 0;
    if (!device->context) {
        failed = cuda_check(cuda_driver->context_retain(&device->context, device->number), "cuDevicePrimaryCtxRetain");
        failed = failed || cuda_check(cuda_driver->context_set(device->context), "cuCtxSetCurrent");
        void *page = NULL;
        failed = failed || cuda_check(cuda_driver->host_alloc(&page, sizeof *device->fault), "cuMemAllocHost");
        if (!failed) device->fault = memset(page, 0, sizeof *device->fault);
        else device->context = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (failed || cuda_check(cuda_driver->context_set(device->context), "cuCtxSetCurrent")) return NULL;
    entered = d.index;
    return device;
}

CUstream cuda_stream(rush_device d)
{
    int stream = rush_device_stream(d);
    const cuda_device *device = &cuda_devices[d.index];
    return stream < CUDA_STREAMS ? device->streams[stream] : NULL;
}

/* ---- kernels by name ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    if (!f) return rush_fail(RUSH_RUNTIME_ERROR, "kernels for CUDA devices are not in this installation (%s); build with nvcc", path), NULL;
    long n = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    rewind(f);
    if (n > 0 && (text = rush_malloc((size_t)n)) && fread(text, 1, (size_t)n, f) != (size_t)n) rush_free(text), text = NULL;
    fclose(f);
    if (!text && !rush_failed()) rush_fail(RUSH_RUNTIME_ERROR, "%s cannot be read", path);
    return text;
}

/* The kernels of a file of src/cuda as nvcc left them: installed in a folder beside the library, built beside the library itself. */
static CUmodule module_of(cuda_device *device, const char *file)
{
    Dl_info own;
    char path[4096];
    cuda_module *m = device->modules;
    while (m && strcmp(m->file, file)) m = m->next;
    if (m) return m->module;
    if (!(m = rush_calloc(1, sizeof *m))) return NULL;
    const char *slash = dladdr((void *)cuda_enter, &own) ? strrchr(own.dli_fname, '/') : NULL;
    const int folder = slash ? (int)(slash - own.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*s/rushlight_cuda/%s.fatbin", folder, slash ? own.dli_fname : "", file);
    if (access(path, R_OK)) snprintf(path, sizeof path, "%.*s/%s.fatbin", folder, slash ? own.dli_fname : "", file);
    char *image = cuda_emulated ? NULL : read_file(path);
    int failed = (!cuda_emulated && !image) || cuda_check(cuda_driver->module_load(&m->module, image), file);
    rush_free(image);
    if (failed) {
        rush_free(m);
        return NULL;
    }
    *m = (cuda_module){.file = file, .module = m->module, .next = device->modules};
    device->modules = m;
    return m->module;
}

typedef struct found {
    const char *name;
    CUfunction function[CUDA_DEVICES];
} found;
static found *table; /* open addressing; grows by doubling */
static size_t room, used;

static found *place(found *in, size_t n, const char *name)
{
    size_t i = (size_t)rush_hash_text(RUSH_HASH_NOTHING, name) & (n - 1);
    while (in[i].name && strcmp(in[i].name, name)) i = (i + 1) & (n - 1);
    return &in[i];
}

static found *entry(const char *name)
{
    found *f = room ? place(table, room, name) : NULL;
    if (f && f->name) return f;
    if (2 * used >= room) {
        size_t more = room ? 2 * room : 1024;
        found *next = rush_calloc(more, sizeof *next);
        if (!next) return NULL;
        for (size_t i = 0; i < room; i++)
            if (table[i].name) *place(next, more, table[i].name) = table[i];
        rush_free(table);
        table = next, room = more;
        f = place(table, room, name);
    }
    char *copy = rush_malloc(strlen(name) + 1);
    if (!copy) return NULL;
    f->name = strcpy(copy, name);
    used++;
    return f;
}

static CUfunction function_of(rush_device d, cuda_device *device, const char *name)
{
    CUfunction function = NULL;
    pthread_mutex_lock(&lock);
    found *f = entry(name);
    if (f) function = f->function[d.index];
    const char *file = f && !function ? rush_emulator_file(name) : NULL;
    const int mode = file ? cuda_relaxed(d) : -1; /* what is loaded is no part of a graph */
    CUmodule m = file ? module_of(device, file) : NULL;
    if (m && !cuda_check(cuda_driver->module_function(&function, m, name), name)) f->function[d.index] = function;
    cuda_strict(mode);
    pthread_mutex_unlock(&lock);
    if (!function && !rush_failed())
        rush_fail(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' on device 'cuda': there is no kernel %s.", rush_now.op ? rush_now.op->name : "(none)", name);
    return function;
}

/* CUDA_LAUNCH_BLOCKING=1: each launch is waited for, so that what a kernel finds is the error of the operation that started it. */
static bool waits(void)
{
    static atomic_int known; /* 1: no, 2: yes */
    if (!known) {
        const char *how = getenv("CUDA_LAUNCH_BLOCKING");
        known = 1 + (how && *how && strcmp(how, "0"));
    }
    return known == 2;
}

static int launch_function(rush_device d, CUstream s, CUfunction f, const char *kernel, const void *params, int64_t blocks, int threads, int shared)
{
    void *given[] = {(void *)params};
    if (shared > 48 << 10 && cuda_check(cuda_driver->function_set(f, CU_FUNCTION_SHARED_MEMORY_AT_MOST, shared), kernel)) return -1;
    if (cuda_check(cuda_driver->launch(f, (unsigned)RUSH_MAX(1, blocks), 1, 1, (unsigned)threads, 1, 1, (unsigned)shared, s, given, NULL), kernel)) return -1;
    return cuda_launched(d, kernel);
}

static int launch(rush_device d, const char *kernel, const void *params, int64_t blocks, int threads, int shared)
{
    cuda_device *device = cuda_enter(d);
    CUfunction f = device ? function_of(d, device, kernel) : NULL;
    return f ? launch_function(d, cuda_stream(d), f, kernel, params, blocks, threads, shared) : -1;
}

int cuda_launched(rush_device d, const char *what)
{
    return !waits() || cuda_capture(d) ? 0 : cuda_check(cuda_driver->stream_synchronize(cuda_stream(d)), what) ? -1 : cuda_fault_check(d);
}

static int64_t most_blocks(rush_device d) { return cuda_emulated ? 3 : cuda_devices[d.index].processors * 16; } /* loops do the rest */

int cuda_launch_blocks(rush_device d, const char *kernel, const void *params, int64_t blocks)
{
    return launch(d, kernel, params, RUSH_MIN(blocks, most_blocks(d)), CUDA_THREADS, 0);
}

int cuda_launch_function(rush_device d, int stream, CUfunction f, const char *name, const void *params, int64_t work)
{
    return !cuda_enter(d) ? -1 : launch_function(d, cuda_devices[d.index].streams[stream], f, name, params, RUSH_MIN(cuda_blocks_of(work, 1), most_blocks(d)), CUDA_THREADS, 0);
}

int cuda_launch_shared(rush_device d, const char *kernel, const void *params, int64_t blocks, int threads, int shared)
{
    return blocks ? launch(d, kernel, params, blocks, threads, shared) : 0;
}

int cuda_launch(rush_device d, const char *kernel, const void *params, int64_t work)
{
    return work ? cuda_launch_blocks(d, kernel, params, cuda_blocks_of(work, 1)) : 0;
}

static _Thread_local bool untold; /* errors that are other threads' */

int cuda_fault_check(rush_device d)
{
    cuda_fault *fault = cuda_devices[d.index].fault, was;
    char *spoiled = cuda_devices[d.index].spoiled && !untold ? atomic_exchange(&cuda_devices[d.index].spoiled, NULL) : NULL;
    if (spoiled) {
        rush_fail(cuda_devices[d.index].spoiled_kind, "%s: %s", rush_device_text(d), spoiled);
        return free(spoiled), -1;
    }
    if (!fault || !fault->code) return 0;
    was = *fault;
    memset(fault, 0, sizeof *fault);
    if (was.code == CUDA_FAULT_DIVISION) return rush_fail(RUSH_RUNTIME_ERROR, "ZeroDivisionError: found on %s when it was waited for", rush_device_text(d));
    if (was.code == CUDA_FAULT_ASSERTION) return rush_fail(RUSH_RUNTIME_ERROR, "CUDA error: device-side assert triggered: found on %s when it was waited for", rush_device_text(d));
    return rush_fail(RUSH_INDEX_ERROR, "index %lld is out of bounds for dimension with size %lld: found on %s when it was waited for", was.value, was.limit, rush_device_text(d));
}

void cuda_spoil(rush_device d, rush_error_kind kind, const char *why)
{
    if (!why) {
        untold = true;
        return;
    }
    cuda_devices[d.index].spoiled_kind = kind;
    free(atomic_exchange(&cuda_devices[d.index].spoiled, strdup(why)));
}

/* ---- streams and events ---- */

static int cuda_synchronize(rush_device d)
{
    return !cuda_enter(d) || cuda_check(cuda_driver->context_synchronize(), "cuCtxSynchronize") ? -1 : cuda_fault_check(d);
}

/* One of a pool, in turn, as PyTorch gives them out: a program that makes them in a loop does not make ever more. Threads read the
 * numbers that they were given while others are made. */
static int stream_new(rush_device d, int priority)
{
    cuda_device *device = cuda_enter(d);
    if (!device) return -1;
    pthread_mutex_lock(&lock);
    const int pool = priority < 0, number = 1 + pool * CUDA_POOL + (int)(device->asked[pool]++ % CUDA_POOL);
    CUstream *s = &device->streams[number];
    int failed = !*s && cuda_check(cuda_driver->stream_create(s, CU_STREAM_NON_BLOCKING, priority), "cuStreamCreate");
    pthread_mutex_unlock(&lock);
    return failed ? -1 : number;
}

static int stream_of(rush_device d, int stream, CUstream *s)
{
    cuda_device *device = cuda_enter(d);
    RUSH_CHECK(device && stream >= 0 && stream < CUDA_STREAMS && (!stream || device->streams[stream]), RUSH_RUNTIME_ERROR, "%s has no stream %d", rush_device_text(d), stream);
    *s = device->streams[stream];
    return 0;
}

/* 1: done, 0: not yet, -1 and an error. */
static int answer(CUresult code, const char *what) { return code == CUDA_ERROR_NOT_READY ? 0 : cuda_check(code, what) ? -1 : 1; }

static int stream_query(rush_device d, int stream)
{
    CUstream s = NULL;
    return stream_of(d, stream, &s) ? -1 : answer(cuda_driver->stream_query(s), "cuStreamQuery");
}
static int stream_synchronize(rush_device d, int stream)
{
    CUstream s = NULL;
    return stream_of(d, stream, &s) || cuda_check(cuda_driver->stream_synchronize(s), "cuStreamSynchronize") ? -1 : cuda_fault_check(d);
}

static void *raw_stream(rush_device d, int stream)
{
    CUstream s = NULL;
    return stream_of(d, stream, &s) ? NULL : s;
}

static void *event_new(rush_device d, bool timing)
{
    CUevent e;
    return !cuda_enter(d) || cuda_check(cuda_driver->event_create(&e, timing ? 0 : CU_EVENT_DISABLE_TIMING), "cuEventCreate") ? NULL : e;
}
static void event_free(rush_device d, void *e)
{
    if (cuda_enter(d)) cuda_check(cuda_driver->event_destroy(e), "cuEventDestroy");
}
static int event_record(rush_device d, int stream, void *e)
{
    CUstream s = NULL;
    return stream_of(d, stream, &s) ? -1 : cuda_check(cuda_driver->event_record(e, s), "cuEventRecord");
}
static int event_wait(rush_device d, int stream, void *e)
{
    CUstream s = NULL;
    return stream_of(d, stream, &s) ? -1 : cuda_check(cuda_driver->stream_wait(s, e, 0), "cuStreamWaitEvent");
}
static int event_query(rush_device d, void *e) { return !cuda_enter(d) ? -1 : answer(cuda_driver->event_query(e), "cuEventQuery"); }
static int event_synchronize(rush_device d, void *e)
{
    return !cuda_enter(d) || cuda_check(cuda_driver->event_synchronize(e), "cuEventSynchronize") ? -1 : cuda_fault_check(d);
}
static int event_elapsed(rush_device d, void *begin, void *end, double *ms)
{
    float f;
    if (event_synchronize(d, end) || cuda_check(cuda_driver->event_elapsed(&f, begin, end), "cuEventElapsedTime")) return -1;
    *ms = f;
    return 0;
}

/* ---- bytes ---- */

static bool is_pinned(const void *p)
{
    unsigned type = 0;
    return !cuda_driver->pointer_attribute(&type, CU_POINTER_MEMORY_TYPE, (CUdeviceptr)(size_t)p) && type == CU_MEMORY_HOST;
}

/* To and from the host it waits: the host may use its side again. What is captured uses it at each launch, and so it has to be page-locked. */
static int cuda_copy(void *to, rush_device td, const void *from, rush_device fd, size_t bytes)
{
    rush_device d = td.type == RUSH_CUDA ? td : fd;
    cuda_device *device = cuda_enter(d);
    if (!device) return -1;
    CUstream s = cuda_stream(d);
    if (td.type == RUSH_CPU) {
        const bool captured = cuda_capture(d) && is_pinned(to);
        if (cuda_check(cuda_driver->copy_to_host(to, (CUdeviceptr)(size_t)from, bytes, s), "cuMemcpyDtoH")) return -1;
        return captured ? 0 : cuda_check(cuda_driver->stream_synchronize(s), "cuStreamSynchronize") ? -1 : cuda_fault_check(d);
    }
    if (fd.type == RUSH_CPU) {
        const bool captured = cuda_capture(d);
        RUSH_CHECK(!captured || is_pinned(from), RUSH_RUNTIME_ERROR, "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
                   "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.");
        if (cuda_check(cuda_driver->copy_to_device((CUdeviceptr)(size_t)to, from, bytes, s), "cuMemcpyHtoD")) return -1;
        return cuda_emulated || captured ? 0 : cuda_check(cuda_driver->stream_synchronize(s), "cuStreamSynchronize"); /* the emulator has taken the bytes */
    }
    if (td.index == fd.index) return cuda_check(cuda_driver->copy_within((CUdeviceptr)(size_t)to, (CUdeviceptr)(size_t)from, bytes, s), "cuMemcpyDtoD");
    if (cuda_synchronize(fd) || !(device = cuda_enter(td))) return -1;
    cuda_device *other = &cuda_devices[fd.index];
    return cuda_check(cuda_driver->copy_peer((CUdeviceptr)(size_t)to, device->context, (CUdeviceptr)(size_t)from, other->context, bytes, cuda_stream(td)), "cuMemcpyPeer") ||
                   cuda_check(cuda_driver->stream_synchronize(cuda_stream(td)), "cuStreamSynchronize") ? -1 : 0;
}

static void *pin(size_t bytes)
{
    void *p;
    rush_device d = {RUSH_CUDA, (int8_t)rush_device_current(RUSH_CUDA)};
    if (!cuda_enter(d)) return NULL;
    const int mode = cuda_relaxed(d), failed = cuda_check(cuda_driver->host_alloc(&p, bytes), "cuMemAllocHost");
    cuda_strict(mode);
    return failed ? NULL : p;
}
static void unpin(void *p, size_t bytes)
{
    rush_device d = {RUSH_CUDA, (int8_t)rush_device_current(RUSH_CUDA)};
    if (!cuda_enter(d)) return;
    const int mode = cuda_relaxed(d);
    cuda_check(cuda_driver->host_free(p), "cuMemFreeHost");
    cuda_strict(mode);
}

/* ---- what a device is ---- */

static int properties(rush_device d, rush_cuda_properties *p)
{
    const struct { int attribute; int *to; } ask[] = {
        {CU_ATTRIBUTE_MAJOR, &p->major}, {CU_ATTRIBUTE_MINOR, &p->minor}, {CU_ATTRIBUTE_MULTIPROCESSORS, &p->processors}, {CU_ATTRIBUTE_INTEGRATED, &p->integrated},
        {CU_ATTRIBUTE_THREADS_PER_MULTIPROCESSOR, &p->threads_per_processor}, {CU_ATTRIBUTE_L2_CACHE, &p->l2_cache}, {CU_ATTRIBUTE_CLOCK_RATE, &p->clock}};
    CUdevice n = cuda_devices[d.index].number;
    p->emulated = cuda_emulated;
    for (size_t i = 0; i < RUSH_COUNT(ask); i++)
        if (cuda_check(cuda_driver->device_attribute(ask[i].to, ask[i].attribute, n), "cuDeviceGetAttribute")) return -1;
    return cuda_check(cuda_driver->device_name(p->name, sizeof p->name, n), "cuDeviceGetName") || cuda_check(cuda_driver->device_memory(&p->memory, n), "cuDeviceTotalMem") ? -1 : 0;
}

static int memory_info(rush_device d, size_t *free, size_t *total) { return !cuda_enter(d) ? -1 : cuda_check(cuda_driver->memory_info(free, total), "cuMemGetInfo"); }

static int peer(rush_device d, rush_device other)
{
    int can;
    return cuda_check(cuda_driver->device_peer(&can, cuda_devices[d.index].number, cuda_devices[other.index].number), "cuDeviceCanAccessPeer") ? -1 : can;
}

rush_backend cuda_backend = {
    .name = "cuda", .alloc = cuda_alloc, .free = cuda_free, .copy = cuda_copy, .convert = cuda_convert, .fill = cuda_fill, .synchronize = cuda_synchronize,
    .stream_new = stream_new, .stream_query = stream_query, .stream_synchronize = stream_synchronize, .event_new = event_new, .event_free = event_free,
    .event_record = event_record, .event_wait = event_wait, .event_query = event_query, .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed, .pin = pin, .unpin = unpin};

static bool in_use(void)
{
    for (int i = 0; i < cuda_backend.devices; i++)
        if (cuda_devices[i].context) return true;
    return false;
}

static const rush_cuda_interface interface = {.used = in_use, .trace_begin = cuda_trace_begin, .trace_end = cuda_trace_end, .sharing = &cuda_sharing, .properties = properties, .memory = cuda_memory_read, .memory_info = memory_info, .memory_empty = cuda_memory_empty,
                                              .memory_fraction = cuda_memory_fraction, .memory_reset_peak = cuda_memory_reset_peak, .peer = peer,
                                              .library = cuda_library, .host = cuda_host, .cudnn_version = cuda_cudnn_version, .graphs = &cuda_graphs, .pool_id = cuda_pool_id,
                                              .pool_new = cuda_pool_new, .pool_free = cuda_pool_free, .pool_users = cuda_pool_users, .pool_begin = cuda_pool_begin,
                                              .pool_end = cuda_pool_end, .memory_blocks = cuda_memory_blocks, .libraries = cuda_has_libraries, .nccl = cuda_nccl,
                                              .stream = raw_stream, .spoil = cuda_spoil};

RUSH_API const rush_cuda_interface *rush_cuda_open(const char **why);
const rush_cuda_interface *rush_cuda_open(const char **why)
{
    int n = 0;
    cuda_driver = rush_cuda_driver_open(why, &cuda_emulated);
    if (!cuda_driver) return NULL;
    *why = "the driver finds no device";
    if (cuda_driver->device_count(&n) || n == 0) return NULL;
    cuda_backend.devices = n = RUSH_MIN(n, CUDA_DEVICES);
    *why = "a device does not answer";
    for (int i = 0; i < n; i++) {
        cuda_device *d = &cuda_devices[i];
        if (cuda_driver->device_get(&d->number, i) || cuda_driver->device_attribute(&d->processors, CU_ATTRIBUTE_MULTIPROCESSORS, d->number) ||
            cuda_driver->device_attribute(&d->major, CU_ATTRIBUTE_MAJOR, d->number) || cuda_driver->device_attribute(&d->shared, CU_ATTRIBUTE_SHARED_MEMORY_AT_MOST, d->number)) return NULL;
    }
    if (rush_backend_register(&cuda_backend) < 0 || cuda_column()) {
        static char said[256];
        snprintf(said, sizeof said, "%s", rush_error());
        *why = said;
        return NULL;
    }
    rush_tables_of[RUSH_CUDA] = &cuda_tables;
    return &interface;
}
