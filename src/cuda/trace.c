/* trace.c - when kernels and copies ran on devices, and which call of the driver asked for them: for torch.profiler, by CUPTI.
 *
 * CUPTI gives records in buffers, on a thread of its own, and is told to take the library's clock: so its times are those of
 * the operations. An emulated device writes the same records of itself; its times are the CPU's that runs the kernels.
 */
#define _GNU_SOURCE
#include "cuda/cupti.h"
#include "cuda/cuda.h"
#include "tensor/cuda.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER = 1 << 20 };
static const int kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_DRIVER,
                            CUPTI_ACTIVITY_KIND_RUNTIME};

static const rush_cupti *cupti; /* when it was first asked for */
static rush_cuda_record *records;
static size_t count, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool on;
static atomic_bool with_memory;

char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status); /* of the C++ library, which the emulator needs */

/* ---- records, on CUPTI's thread ---- */

static char *name_of(const char *mangled)
{
    int status;
    char *name = mangled ? __cxa_demangle(mangled, NULL, NULL, &status) : NULL;
    return name ? name : strdup(mangled ? mangled : "(no name)");
}

static const char *place(unsigned kind)
{
    static const char *const names[] = {"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"};
    return names[kind < RUSH_COUNT(names) ? kind : 0];
}

static char *copy_name(const cupti_copy *c)
{
    static const char *const ways[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    char *name;
    return asprintf(&name, "Memcpy %s (%s -> %s)", ways[c->how < RUSH_COUNT(ways) ? c->how : 0], place(c->from), place(c->to)) < 0 ? NULL : name;
}

static rush_cuda_record of_kernel(const cupti_kernel *k)
{
    return (rush_cuda_record){.kind = RUSH_RECORD_KERNEL, .name = name_of(k->name), .device = (int)k->device, .stream = (int)k->stream, .correlation = k->correlation, .start = k->start,
                              .end = k->end, .grid = {k->grid[0], k->grid[1], k->grid[2]}, .block = {k->block[0], k->block[1], k->block[2]},
                              .shared = k->fixed_shared + k->shared, .registers = k->registers};
}

static rush_cuda_record of_copy(const cupti_copy *c, enum rush_cuda_record_kind kind, uint32_t correlation)
{
    return (rush_cuda_record){.kind = kind, .name = kind == RUSH_RECORD_SET ? strdup("Memset (Device)") : copy_name(c), .device = (int)c->device, .stream = (int)c->stream,
                              .correlation = correlation, .start = c->start, .end = c->end, .bytes = (int64_t)c->bytes};
}

static rush_cuda_record of_call(const cupti_call *c)
{
    const char *name = NULL;
    if (cupti->function_name(c->kind == CUPTI_ACTIVITY_KIND_DRIVER ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, c->function, &name)) name = NULL;
    return (rush_cuda_record){.kind = RUSH_RECORD_CALL, .name = strdup(name ? name : "(a call)"), .correlation = c->correlation, .thread = c->thread, .start = c->start, .end = c->end};
}

/* What could not be kept is missing. */
static void keep(rush_cuda_record r)
{
    if (count == room) {
        const size_t more = room ? 2 * room : 4096;
        rush_cuda_record *all = realloc(records, more * sizeof *all);
        if (!all) {
            free(r.name);
            return;
        }
        records = all, room = more;
    }
    records[count++] = r;
}

static void give_buffer(uint8_t **buffer, size_t *size, size_t *most)
{
    *buffer = aligned_alloc(8, BUFFER);
    *size = *buffer ? BUFFER : 0;
    *most = 0;
}

static void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    CUpti_Activity *a = NULL;
    pthread_mutex_lock(&lock);
    while (on && valid && !cupti->next(buffer, valid, &a)) {
        const uint32_t kind = (uint32_t)a->kind;
        if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) keep(of_kernel((const void *)a));
        else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) keep(of_copy((const void *)a, RUSH_RECORD_COPY, ((const cupti_copy *)a)->correlation));
        else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY2) keep(of_copy((const void *)a, RUSH_RECORD_COPY, ((const cupti_copy2 *)a)->correlation));
        else if (kind == CUPTI_ACTIVITY_KIND_MEMSET) keep(of_copy((const void *)a, RUSH_RECORD_SET, ((const cupti_copy *)a)->correlation));
        else if (kind == CUPTI_ACTIVITY_KIND_DRIVER || kind == CUPTI_ACTIVITY_KIND_RUNTIME) keep(of_call((const void *)a));
    }
    pthread_mutex_unlock(&lock);
    free(buffer);
}

/* ---- memory, on the thread that has it ---- */

static uint32_t this_thread(void) { return (uint32_t)(uintptr_t)pthread_self(); } /* as CUPTI numbers threads */

void cuda_trace_memory(rush_device d, int64_t bytes, size_t active, size_t reserved)
{
    if (!atomic_load_explicit(&with_memory, memory_order_relaxed)) return;
    const uint64_t now = rush_clock();
    pthread_mutex_lock(&lock);
    if (on) keep((rush_cuda_record){.kind = RUSH_RECORD_MEMORY, .device = d.index, .thread = this_thread(), .start = now, .end = now, .bytes = bytes, .active = active, .reserved = reserved});
    pthread_mutex_unlock(&lock);
}

/* ---- from begin to end ---- */

static int check(CUptiResult code, const char *what)
{
    const char *text = NULL;
    if (!code) return 0;
    if (cupti->text(code, &text) || !text) text = "unknown error";
    return rush_fail(RUSH_RUNTIME_ERROR, "CUPTI error: %s (%s, code %d)", text, what, (int)code);
}

static int synchronize(void)
{
    for (int i = 0; i < cuda_backend.devices; i++)
        if (cuda_devices[i].context && cuda_backend.synchronize((rush_device){RUSH_CUDA, (int8_t)i})) return -1;
    return 0;
}

static int switch_off(void)
{
    int failed = 0;
    for (size_t i = 0; i < RUSH_COUNT(kinds); i++) failed = check(cupti->disable(kinds[i]), "cuptiActivityDisable") || failed;
    return failed;
}

int cuda_trace_begin(bool memory, uint32_t *thread)
{
    RUSH_CHECK(!on, RUSH_RUNTIME_ERROR, "the devices' times are recorded already");
    if (!cupti) {
        if (!(cupti = cuda_emulated ? &rush_cupti_emulator : cuda_cupti())) return -1;
        if (check(cupti->clock(rush_clock), "cuptiActivityRegisterTimestampCallback") || check(cupti->callbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks")) return cupti = NULL, -1;
    }
    if (synchronize()) return -1; /* what was asked before is not part of it */
    for (size_t i = 0; i < RUSH_COUNT(kinds); i++)
        if (check(cupti->enable(kinds[i]), "cuptiActivityEnable")) return switch_off(), -1;
    *thread = this_thread();
    pthread_mutex_lock(&lock);
    on = true;
    with_memory = memory;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuda_trace_end(rush_cuda_record **to, size_t *n)
{
    RUSH_CHECK(on, RUSH_RUNTIME_ERROR, "the devices' times are not recorded");
    int failed = synchronize();
    failed = check(cupti->flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll") || failed;
    failed = switch_off() || failed;
    pthread_mutex_lock(&lock);
    on = with_memory = false;
    *to = records, *n = count;
    records = NULL, count = room = 0;
    pthread_mutex_unlock(&lock);
    return -failed; /* what there is is given all the same */
}
