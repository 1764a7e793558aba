/* backend.c - the kinds of devices: names, numbers, memory, and the ways between them and the host.
 *
 * One array, by device.type. Whoever has a tensor of another device than the CPU comes here: storage.c for bytes, copy.c for
 * elements, src/op/column.c for kernels. Registered once, before threads start calling; read without a lock.
 */
#define _GNU_SOURCE
#include "tensor/backend.h"
#include "tensor/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* Types that PyTorch knows: they parse, print and compare whether this process has them or not. */
static const char *names[RUSH_DEVICES] = {"cpu", "meta", "cuda", "mps", "xpu", "xla", "hpu", "mtia", "privateuseone", "ipu", "ve",
                                          "lazy", "vulkan", "hip", "fpga", "maia", "opengl", "opencl", "ideep", "mkldnn"};
#define RESERVED 20

static rush_backend cpu = {.name = "cpu", .devices = 1, .type = RUSH_CPU}, meta = {.name = "meta", .devices = 1, .type = RUSH_META};
static rush_backend *backends[RUSH_DEVICES] = {&cpu, &meta};

typedef struct counts {
    atomic_size_t live_bytes, peak_bytes, live_blocks, peak_blocks;
    atomic_uint_least64_t allocations, frees;
} counts;
static counts *counted[RUSH_DEVICES]; /* per index */

static rush_generator **generators[RUSH_DEVICES]; /* the default ones, per index; made when they are asked for */
static uint64_t default_seed = 67280421310721u;   /* PyTorch's of who was given none, or that of all devices */

static _Thread_local int8_t current[RUSH_DEVICES];

/* ---- names and numbers ---- */

const char *rush_device_name(int type) { return type >= 0 && type < RUSH_DEVICES && names[type] ? names[type] : "?"; }

int rush_device_from_name(const char *name)
{
    for (int type = 0; type < RUSH_DEVICES; ++type)
        if (name && names[type] && !strcmp(names[type], name)) return type;
    return -1;
}

const char *rush_device_text(rush_device d)
{
    if (d.index < 0) return rush_device_name(d.type);
    char *text = rush_words();
    snprintf(text, RUSH_WORDS, "%s:%d", rush_device_name(d.type), d.index);
    return text;
}

static char *copy_of(const char *name)
{
    char *text = rush_malloc(strlen(name) + 1);
    return text ? strcpy(text, name) : NULL;
}

int rush_device_rename(int type, const char *name)
{
    static char *renamed; /* stays: names are read without a lock */
    RUSH_CHECK(type == RUSH_PRIVATEUSEONE, RUSH_RUNTIME_ERROR, "only the device type privateuseone has a name of one's own");
    if (!strcmp(names[type], name)) return 0;
    RUSH_CHECK(!renamed, RUSH_RUNTIME_ERROR, "torch.register_privateuse1_backend() has already been set! Current backend: %s", names[type]);
    RUSH_CHECK(rush_device_from_name(name) < 0, RUSH_RUNTIME_ERROR, "Cannot register %s as the name of a device type: it is one already", name);
    if (!(renamed = copy_of(name))) return -1;
    names[type] = renamed;
    return 0;
}

/* The number that a backend of this name gets; -1 and an error. */
static int number_for(const char *name)
{
    int type = rush_device_from_name(name);
    if (type >= 0) return type;
    if (!backends[RUSH_PRIVATEUSEONE] && !strcmp(names[RUSH_PRIVATEUSEONE], "privateuseone"))
        return rush_device_rename(RUSH_PRIVATEUSEONE, name) ? -1 : RUSH_PRIVATEUSEONE;
    for (type = RESERVED; type < RUSH_DEVICES; ++type)
        if (!names[type]) return (names[type] = copy_of(name)) ? type : -1;
    return rush_fail(RUSH_RUNTIME_ERROR, "there are %d device types already", RUSH_DEVICES);
}

int rush_backend_register(rush_backend *b)
{
    RUSH_CHECK(b->name && b->devices >= 1 && b->devices <= 127 && b->alloc && b->free && b->copy && b->convert && b->fill, RUSH_VALUE_ERROR,
               "a backend needs a name, 1 to 127 devices, alloc, free, copy, convert and fill");
    int type = number_for(b->name);
    if (type < 0) return -1;
    RUSH_CHECK(!backends[type], RUSH_RUNTIME_ERROR, "there is a backend for device type %s already", names[type]);
    if (!counted[type] && !(counted[type] = rush_calloc((size_t)b->devices, sizeof *counted[type]))) return -1;
    if (!(generators[type] = rush_calloc((size_t)b->devices, sizeof *generators[type]))) return -1;
    b->type = (uint8_t)type;
    backends[type] = b;
    return type;
}

/* ---- CUDA: a shared object of its own, beside the library, or where RUSHLIGHT_CUDA_LIBRARY says ---- */

static const rush_cuda_interface *open_cuda(const char **why)
{
    static char said[512];
    char beside[4096];
    const char *told = getenv("RUSHLIGHT_CUDA_LIBRARY");
    rush_beside_library(beside, sizeof beside, "librushlight_cuda.so");
    const char *how = getenv("RUSHLIGHT_CUDA");
    *why = "libcuda.so.1 is not there: NVIDIA's driver is not installed";
    if ((!how || strcmp(how, "emulated")) && !dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) return NULL; /* the common case, quickly */
    void *so = dlopen(told ? told : beside, RTLD_NOW | RTLD_LOCAL);
    rush_cuda_opener opener = NULL;
    if (so) *(void **)&opener = dlsym(so, "rush_cuda_open");
    if (opener) return opener(why);
    snprintf(said, sizeof said, "this installation has no CUDA part (%s)", dlerror());
    *why = said;
    return NULL;
}

int rush_cuda_switch(enum rush_cuda_switches which, int value)
{
    static atomic_int switches[RUSH_CUDA_SWITCHES] = {[RUSH_CUDNN_ENABLED] = 1, [RUSH_CUDNN_BENCHMARK_LIMIT] = 10, [RUSH_CUDNN_TF32] = 1};
    return value < 0 ? atomic_load_explicit(&switches[which], memory_order_relaxed) : atomic_exchange(&switches[which], value);
}

const rush_cuda_interface *rush_cuda(const char **why)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const rush_cuda_interface *opened;
    static const char *reason;
    pthread_mutex_lock(&lock);
    if (!opened && !reason) {
        opened = open_cuda(&reason);
        if (opened) reason = NULL;
        rush_error_clear();
    }
    if (why) *why = reason;
    pthread_mutex_unlock(&lock);
    return opened;
}

/* Is there a backend, after the one of CUDA has been looked for? */
static rush_backend *look_for(int type)
{
    if (type == RUSH_CUDA && !backends[type]) rush_cuda(NULL);
    return backends[type];
}

rush_backend *rush_backend_of(rush_device d) { return d.type < RUSH_DEVICES ? backends[d.type] : NULL; }
int rush_device_count(int type) { return type >= 0 && type < RUSH_DEVICES && look_for(type) ? backends[type]->devices : 0; }
int rush_device_current(int type) { return type > RUSH_META && type < RUSH_DEVICES ? current[type] : -1; }

static rush_backend *need(rush_device d)
{
    rush_backend *b = d.type < RUSH_DEVICES ? look_for(d.type) : NULL;
    const char *why;
    RUSH_CHECK_NULL(b || d.type != RUSH_CUDA || rush_cuda(&why), RUSH_RUNTIME_ERROR, "there is no CUDA device: %s", why);
    RUSH_CHECK_NULL(b, RUSH_NOT_IMPLEMENTED, "there is no backend for device %s", rush_device_text(d));
    RUSH_CHECK_NULL(d.index < b->devices, RUSH_RUNTIME_ERROR, "device %s is not there: the number of devices is %d", rush_device_text(d), b->devices);
    return b;
}

int rush_device_set_current(rush_device d)
{
    if (!need(d)) return -1;
    if (d.type > RUSH_META && d.index >= 0) current[d.type] = d.index;
    return 0;
}

rush_device rush_device_resolve(rush_device d)
{
    if (d.type <= RUSH_META) d.index = -1;
    else if (d.index < 0 && d.type < RUSH_DEVICES) d.index = current[d.type];
    return d;
}

int rush_device_synchronize(rush_device d)
{
    rush_backend *b = need(d);
    rush_later_end_waiting();
    return !b ? -1 : b->synchronize ? b->synchronize(rush_device_resolve(d)) : 0;
}

/* ---- memory ---- */

static void raise_to(atomic_size_t *peak, size_t value)
{
    size_t seen = atomic_load(peak);
    while (value > seen && !atomic_compare_exchange_weak(peak, &seen, value)) {}
}

void *rush_device_alloc(rush_device d, size_t bytes)
{
    rush_backend *b = need(d);
    void *p = b ? b->alloc(d, bytes) : NULL;
    if (!p) {
        if (!rush_failed()) rush_fail(RUSH_MEMORY_ERROR, "%s has no memory for %zu bytes", rush_device_text(d), bytes);
        return NULL;
    }
    counts *c = &counted[d.type][d.index];
    atomic_fetch_add(&c->allocations, 1);
    raise_to(&c->peak_blocks, atomic_fetch_add(&c->live_blocks, 1) + 1);
    raise_to(&c->peak_bytes, atomic_fetch_add(&c->live_bytes, bytes) + bytes);
    return p;
}

void rush_device_free(rush_device d, void *p, size_t bytes)
{
    counts *c = &counted[d.type][d.index];
    backends[d.type]->free(d, p, bytes);
    atomic_fetch_add(&c->frees, 1);
    atomic_fetch_sub(&c->live_blocks, 1);
    atomic_fetch_sub(&c->live_bytes, bytes);
}

int rush_device_stats_read(rush_device d, rush_device_stats *s)
{
    RUSH_CHECK(s, RUSH_TYPE_ERROR, "there is no room for the statistics");
    *s = (rush_device_stats){0};
    if (!need(d)) return -1;
    if (d.type == RUSH_CPU) {
        rush_memory_stats all;
        rush_memory_stats_read(&all);
        *s = (rush_device_stats){.live_bytes = all.live_bytes, .peak_bytes = all.peak_bytes, .live_blocks = all.live_blocks};
    } else if (d.type != RUSH_META) {
        counts *c = &counted[d.type][rush_device_resolve(d).index];
        *s = (rush_device_stats){c->live_bytes, c->peak_bytes, c->live_blocks, c->peak_blocks, c->allocations, c->frees};
    }
    return 0;
}

int rush_device_stats_reset_peak(rush_device d)
{
    if (!need(d)) return -1;
    if (d.type <= RUSH_META) return 0;
    counts *c = &counted[d.type][rush_device_resolve(d).index];
    atomic_store(&c->peak_bytes, atomic_load(&c->live_bytes));
    atomic_store(&c->peak_blocks, atomic_load(&c->live_blocks));
    return 0;
}

/* ---- random numbers ---- */

rush_generator *rush_device_generator(rush_device d)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!need(d)) return NULL;
    if (d.type <= RUSH_META) return rush_default_generator();
    d = rush_device_resolve(d);
    pthread_mutex_lock(&lock);
    rush_generator **g = &generators[d.type][d.index];
    if (!*g && (*g = rush_generator_new(default_seed))) (*g)->device = d;
    pthread_mutex_unlock(&lock);
    return *g;
}

int rush_device_manual_seed(uint64_t seed)
{
    default_seed = seed; /* for those that are not there yet */
    for (int type = RUSH_META + 1; type < RUSH_DEVICES; ++type)
        for (int i = 0; backends[type] && i < backends[type]->devices; ++i) {
            rush_generator *g = rush_device_generator((rush_device){(uint8_t)type, (int8_t)i});
            if (!g) return -1;
            rush_generator_lock(g);
            rush_generator_seed(g, seed);
            rush_generator_unlock(g);
        }
    return 0;
}

/* ---- elements ---- */

/* Bytes from place to place; backends know the host and themselves, so between two of them the host lies in between. */
static int move(rush_tensor *to, const rush_tensor *from)
{
    rush_device a = to->device, b = from->device;
    size_t bytes = (size_t)to->numel * rush_dtypes[to->dtype].size;
    if (bytes == 0) return 0;
    if (a.type == b.type || b.type == RUSH_CPU) return backends[a.type]->copy(rush_ptr(to), a, rush_ptr(from), b, bytes);
    if (a.type == RUSH_CPU) return backends[b.type]->copy(rush_ptr(to), a, rush_ptr(from), b, bytes);
    rush_tensor *between = rush_tensor_new(to->dtype, (rush_device){RUSH_CPU, -1}, to->ndim, to->size);
    return between && !move(between, from) ? move(to, between) : -1;
}

/* Between devices: made contiguous and of the right dtype at home, moved, spread at its place. */
int rush_device_copy(rush_tensor *dst, const rush_tensor *src)
{
    if (rush_same_device(dst->device, src->device)) return dst->numel ? backends[dst->device.type]->convert(dst, src) : 0;
    const rush_tensor *packed = rush_cast_copy(src, dst->dtype);
    if (!packed) return -1;
    if (rush_contiguous(dst) && !(dst->flags & (RUSH_T_CONJ | RUSH_T_NEG)) && rush_same_sizes(dst, packed)) return move(dst, packed);
    rush_tensor *there = rush_tensor_new(dst->dtype, dst->device, packed->ndim, packed->size);
    return there && !move(there, packed) ? rush_copy_into(dst, there) : -1;
}

int rush_device_fill(rush_tensor *t, rush_value number)
{
    return t->device.type == RUSH_META || !t->numel ? 0 : backends[t->device.type]->fill(t, number);
}

const void *rush_first_element(const rush_tensor *t, void *room)
{
    RUSH_CHECK_NULL(!rush_lacks_data(t), RUSH_NOT_IMPLEMENTED, "the tensor has no elements of its own: its object was not asked");
    if (RUSH_LIKELY(t->device.type == RUSH_CPU)) return rush_ptr(t);
    RUSH_CHECK_NULL(t->device.type != RUSH_META, RUSH_RUNTIME_ERROR, "Tensor.item() cannot be called on meta tensors");
    if (backends[t->device.type]->copy(room, (rush_device){RUSH_CPU, -1}, rush_ptr(t), t->device, rush_dtypes[t->dtype].size)) return NULL;
    return room;
}

const rush_tensor *rush_on_host(const rush_tensor *t)
{
    if (!t || t->device.type == RUSH_CPU) return t;
    rush_tensor *host = rush_tensor_new_like(t, t->dtype, (rush_device){RUSH_CPU, -1}, RUSH_PRESERVE);
    return host && !rush_copy_into(host, t) ? host : NULL;
}

static void drop_storage(void *storage) { rush_storage_drop(storage); }

rush_tensor *rush_host_view(const rush_tensor *t)
{
    if (!rush_tensor_given(t)) return NULL;
    if (t->device.type <= RUSH_META || t->layout != RUSH_STRIDED) return (rush_tensor *)t;
    rush_tensor *view = rush_tensor_shape_only(t);
    if (!view) return NULL;
    view->flags |= t->flags & (RUSH_T_CONJ | RUSH_T_NEG);
    view->device = (rush_device){RUSH_CPU, -1};
    if (!t->storage) return view;
    view->storage = rush_storage_over(t->storage->data, t->storage->nbytes, drop_storage, t->storage);
    if (view->storage) rush_storage_keep(t->storage);
    return view->storage ? view : NULL;
}
