/* emulator.cc - the CUDA driver's functions on the CPU, honestly called so: the same kernels, run by fibres.
 *
 * Memory of a device is an arena without access rights, opened while queued work runs, so that a host which reads or writes an
 * element is stopped. Streams are queues that run late: at a synchronisation, the youngest stream first, and only events put
 * streams in order. A stream that is captured keeps its work as nodes of a graph, whose order is that of the threads, as far as what
 * they wait for allows. RUSHLIGHT_CUDA_ORDER is the order of the threads of a block and of the blocks: forward, reverse, random or
 * random:SEED. RUSHLIGHT_CUDA_DEVICES, RUSHLIGHT_CUDA_MEMORY (bytes) and RUSHLIGHT_CUDA_MAJOR (of the compute capability) say
 * what is there.
 */
#include "cuda/cupti.h"
#include "cuda/driver.h"
#include "cuda/emulator.h"
#include <map>
#include <memory>
#include "cuda/emulate.h" /* its words for __noinline__ and the like would be theirs, too */
#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define FIBRE_LEAVES(save, bottom, size) __sanitizer_start_switch_fiber(save, bottom, size)
#define FIBRE_COMES(saved, bottom, size) __sanitizer_finish_switch_fiber(saved, bottom, size)
#else
#define FIBRE_LEAVES(save, bottom, size) (void)0
#define FIBRE_COMES(saved, bottom, size) (void)0
#endif

namespace emulated {

dim grid, block, block_index, thread_index;
uint64_t lanes[1024][2];
alignas(128) unsigned char shared_memory[MOST_SHARED];

/* ---- the registry of kernels ---- */

static registration *registered;
registration::registration(const char *name, const char *file, kernel run, size_t bytes) : name(name), file(file), run(run), bytes(bytes), next(registered) { registered = this; }

static registration *find(const char *name)
{
    for (registration *r = registered; r; r = r->next)
        if (!strcmp(r->name, name)) return r;
    return nullptr;
}

/* ---- fibres ---- */

enum { STACK = 128 << 10, MOST_THREADS = 1024 };
enum state : uint8_t { READY, AT_BLOCK, AT_WARP, ENDED };

struct fibre {
    void *stack_pointer, *fake;
    char *stack;
    unsigned thread;
};

static fibre fibres[MOST_THREADS];
static unsigned nfibres; /* that have a stack */
static fibre *running;
static void *scheduler, *scheduler_fake;
static const void *scheduler_bottom;
static size_t scheduler_size;
static state states[MOST_THREADS];
static unsigned threads, started, order[MOST_THREADS];
static kernel body;
static const void *arguments;
static const char *running_kernel, *failure;
static std::mt19937 shuffler;
static enum { FORWARD, REVERSE, RANDOM } how;

extern "C" void rush_emulator_switch(void **from, void *to);
#if defined(__x86_64__)
asm(".text\n.globl rush_emulator_switch\n.hidden rush_emulator_switch\n.type rush_emulator_switch,@function\nrush_emulator_switch:\n"
    " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp,(%rdi)\n mov %rsi,%rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
#else
#error "the emulator's fibres are written for x86-64"
#endif

static void to_scheduler(bool ended)
{
    fibre *me = running;
    FIBRE_LEAVES(ended ? nullptr : &me->fake, scheduler_bottom, scheduler_size);
    rush_emulator_switch(&me->stack_pointer, scheduler);
    FIBRE_COMES(me->fake, &scheduler_bottom, &scheduler_size);
}

/* A fibre runs one thread after the other as long as none of them waits: most kernels have no barrier. */
static void fibre_main()
{
    FIBRE_COMES(nullptr, &scheduler_bottom, &scheduler_size);
    for (;;) {
        body(arguments);
        states[running->thread] = ENDED;
        if (started == threads) break;
        running->thread = order[started++];
        thread_index = {running->thread, 0, 0};
    }
    to_scheduler(true);
    abort();
}

static void wait_at(state where)
{
    unsigned me = thread_index.x;
    states[me] = where;
    to_scheduler(false);
    thread_index = {me, 0, 0};
}
void meet_block() { wait_at(AT_BLOCK); }
void meet_warp() { wait_at(AT_WARP); }

static void resume(fibre *f)
{
    running = f;
    thread_index = {f->thread, 0, 0};
    FIBRE_LEAVES(&scheduler_fake, f->stack, STACK);
    rush_emulator_switch(&scheduler, f->stack_pointer);
    FIBRE_COMES(scheduler_fake, nullptr, nullptr);
}

static bool fibre_new(fibre *f)
{
    if (!f->stack) f->stack = (char *)aligned_alloc(4096, STACK);
    if (!f->stack) return false;
    void **sp = (void **)(f->stack + STACK);
    *--sp = nullptr;
    *--sp = (void *)fibre_main;
    for (int k = 0; k < 6; k++) *--sp = nullptr;
    f->stack_pointer = sp;
    f->fake = nullptr;
    f->thread = order[started++];
    return true;
}

static void put_in_order(unsigned *list, unsigned n)
{
    for (unsigned i = 0; i < n; i++) list[i] = how == REVERSE ? n - 1 - i : i;
    if (how == RANDOM) std::shuffle(list, list + n, shuffler);
}

/* Lets go those whose barrier all have reached; false: nobody may go, though not all have ended. */
static bool release()
{
    bool any = false;
    unsigned waiting = 0, live = 0;
    for (unsigned w = 0; w < threads; w += 32) {
        unsigned end = std::min(w + 32, threads), here = 0, alive = 0;
        for (unsigned t = w; t < end; t++) {
            alive += states[t] != ENDED;
            here += states[t] == AT_WARP;
            waiting += states[t] == AT_BLOCK;
        }
        live += alive;
        if (!here || here < alive) continue;
        any = true;
        for (unsigned t = w; t < end; t++)
            if (states[t] == AT_WARP) states[t] = READY;
    }
    if (waiting && waiting == live) {
        any = true;
        for (unsigned t = 0; t < threads; t++)
            if (states[t] == AT_BLOCK) states[t] = READY;
    }
    return any || !live;
}

/* A warp goes on by itself as far as it comes, or what it needs from other warps would be there without a barrier. In random order all go in turn. */
static void run_warp(unsigned first)
{
    const unsigned end = std::min(first + 32, threads);
    while (how != RANDOM) {
        for (unsigned t = first; t < end; t++)
            if (states[t] != AT_WARP && states[t] != ENDED) return;
        unsigned any = 0, which[32];
        for (unsigned i = 0; i < nfibres; i++)
            if (fibres[i].thread - first < end - first && states[fibres[i].thread] == AT_WARP) states[fibres[i].thread] = READY, which[any++] = i;
        for (unsigned i = 0; i < any; i++) resume(&fibres[which[i]]);
        if (!any) return;
    }
}

static bool run_block()
{
    memset(states, READY, threads);
    put_in_order(order, threads);
    nfibres = started = 0;
    while (started < threads) {
        if (!fibre_new(&fibres[nfibres])) return failure = "no memory for the stacks of threads", false;
        fibre *f = &fibres[nfibres++];
        resume(f);
        run_warp(f->thread & ~31u);
    }
    for (;;) {
        bool left = false;
        if (!release()) return failure = "threads of a block wait at different barriers", false;
        for (unsigned i = 0; i < nfibres; i++) {
            if (states[fibres[i].thread] == READY) {
                resume(&fibres[i]);
                run_warp(fibres[i].thread & ~31u);
            }
            left |= states[fibres[i].thread] != ENDED;
        }
        if (!left) return true;
    }
}

static bool run_grid(const registration *r, const void *params, unsigned blocks, unsigned threads_each, unsigned shared)
{
    std::vector<unsigned> which(blocks);
    put_in_order(which.data(), blocks);
    body = r->run, arguments = params, running_kernel = r->name, threads = threads_each;
    grid = {blocks, 1, 1}, block = {threads_each, 1, 1};
    bool fine = true;
    for (unsigned i = 0; i < blocks && fine; i++) {
        block_index = {which[i], 0, 0};
        memset(shared_memory, 0xff, shared); /* as new memory of a device */
        fine = run_block();
    }
    running_kernel = nullptr;
    return fine;
}

/* ---- memory ---- */

#define ARENA ((size_t)1 << 35) /* addresses of a device; pages come as they are written */
#define CLASSES 36
enum { MOST_DEVICES = 8, STREAMS = 96 };
enum : unsigned char { PAGEABLE = 1, PINNED, DEVICE }; /* kinds of memory, as CUPTI counts them */

static char *arenas; /* of all devices, one after the other */
static int devices = 2, open_now;
static size_t capacity = (size_t)4 << 30;
static struct device_memory { size_t top, live; std::vector<void *> idle[CLASSES]; } memory[MOST_DEVICES];
static std::recursive_mutex lock;
static struct sigaction before;
static thread_local int current;

/* Memory apart from addresses: a file without a name, which other processes may be given. */
struct physical { int fd, device, uses; size_t bytes; };
struct mapping { size_t bytes; physical *of; bool accessible; };
static std::map<char *, size_t> reserved; /* addresses, PROT_NONE where nothing is mapped */
static std::map<char *, mapping> mapped;

static void protect(int how)
{
    mprotect(arenas, ARENA * devices, how);
    for (auto &m : mapped)
        if (m.second.accessible) mprotect(m.first, m.second.bytes, how);
}
static void open_memory()
{
    if (open_now++ == 0) protect(PROT_READ | PROT_WRITE);
}
static void close_memory()
{
    if (--open_now == 0) protect(PROT_NONE);
}

/* Those that were asked for and hold an address; NULL: none. */
template <class T> static typename std::map<char *, T>::iterator holder(std::map<char *, T> &of, const void *p)
{
    auto behind = of.upper_bound((char *)p);
    return behind == of.begin() ? of.end() : std::prev(behind);
}
static bool is_reserved(const void *p, size_t bytes = 1)
{
    auto at = holder(reserved, p);
    return at != reserved.end() && (char *)p + bytes <= at->first + at->second;
}

static void touched(int sig, siginfo_t *info, void *context)
{
    char *at = (char *)info->si_addr, text[256];
    int n = 0;
    if (running_kernel)
        n = snprintf(text, sizeof text, "cuda (emulated): thread %u of block %u of kernel %s has no memory at %p\n", thread_index.x, block_index.x, running_kernel, (void *)at);
    else if (open_now)
        n = snprintf(text, sizeof text, "cuda (emulated): what a stream was given has no memory at %p\n", (void *)at);
    else if ((at >= arenas && at < arenas + ARENA * devices) || is_reserved(at))
        n = snprintf(text, sizeof text, "cuda (emulated): the host touched device memory at %p\n", (void *)at);
    if (n > 0 && write(2, text, (size_t)n) < n) n = 0;
    sigaction(SIGSEGV, &before, nullptr); /* the access comes again, and is dealt with as ever */
}

static int class_of(size_t bytes)
{
    int c = 0;
    while (((size_t)512 << c) < bytes) c++;
    return c;
}

static CUresult memory_alloc(CUdeviceptr *p, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    device_memory &m = memory[current];
    int c = class_of(bytes);
    size_t room = (size_t)512 << c;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (m.live + bytes > capacity) return CUDA_ERROR_OUT_OF_MEMORY;
    if (room >= 4096) m.top = (m.top + 4095) & ~(size_t)4095; /* whole pages, which another process may be given */
    if (!m.idle[c].empty()) {
        *p = (CUdeviceptr)m.idle[c].back();
        m.idle[c].pop_back();
    } else if (m.top + room <= ARENA) {
        *p = (CUdeviceptr)(arenas + ARENA * current + m.top);
        m.top += room;
    } else {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m.live += bytes;
    return 0;
}

struct block_size { CUdeviceptr p; size_t bytes; };
static std::vector<block_size> sizes; /* of blocks in use: few, since an allocator stands above */
static std::map<char *, size_t> pinned; /* memory of the host that was asked for here */

static CUresult unsafe();
static bool any_capture();

static CUresult memory_alloc_noted(CUdeviceptr *p, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    CUresult failed = unsafe();
    if (failed || (failed = memory_alloc(p, bytes))) return failed;
    sizes.push_back({*p, bytes});
    if (any_capture()) { /* a graph does not fill it: what it reads before it writes shows all the same */
        open_memory();
        memset((void *)*p, 0xff, bytes);
        close_memory();
    }
    return 0;
}

static void unexport(char *);

static CUresult memory_free(CUdeviceptr p)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe()) return failed;
    for (size_t i = 0; i < sizes.size(); i++) {
        if (sizes[i].p != p) continue;
        device_memory &m = memory[((char *)p - arenas) / ARENA];
        m.live -= sizes[i].bytes;
        unexport((char *)p);
        madvise((void *)((p + 4095) & ~(CUdeviceptr)4095), sizes[i].bytes & ~(size_t)4095, MADV_DONTNEED);
        m.idle[class_of(sizes[i].bytes)].push_back((void *)p);
        sizes[i] = sizes.back();
        sizes.pop_back();
        return 0;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult memory_info(size_t *free, size_t *total)
{
    *free = capacity - memory[current].live;
    *total = capacity;
    return 0;
}

static CUresult host_alloc(void **p, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe()) return failed;
    if (!(*p = malloc(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
    pinned[(char *)*p] = bytes;
    return 0;
}
static CUresult host_free(void *p)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe()) return failed;
    pinned.erase((char *)p);
    free(p);
    return 0;
}
static bool is_pinned(const void *p)
{
    auto behind = pinned.upper_bound((char *)p);
    return behind != pinned.begin() && (char *)p < std::prev(behind)->first + std::prev(behind)->second;
}
static CUresult pointer_attribute(void *value, int attribute, CUdeviceptr p)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (attribute != CU_POINTER_MEMORY_TYPE || !is_pinned((void *)p)) return CUDA_ERROR_INVALID_VALUE;
    *(unsigned *)value = CU_MEMORY_HOST;
    return 0;
}

/* ---- memory apart from addresses ---- */

enum : size_t { PIECE = 2 << 20 };
static bool is_pieces(size_t bytes) { return bytes && bytes % PIECE == 0; }

static CUresult physical_grain(size_t *bytes, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)
{
    *bytes = PIECE;
    return 0;
}

static CUresult address_reserve(CUdeviceptr *p, size_t bytes, size_t, CUdeviceptr, unsigned long long)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (!is_pieces(bytes)) return CUDA_ERROR_INVALID_VALUE;
    char *all = (char *)mmap(nullptr, bytes + PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    const size_t before = -(size_t)all % PIECE;
    if (before) munmap(all, before);
    munmap(all + before + bytes, PIECE - before);
    reserved[all + before] = bytes;
    *p = (CUdeviceptr)(all + before);
    return 0;
}

static CUresult address_free(CUdeviceptr p, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    auto at = reserved.find((char *)p);
    auto inside = mapped.lower_bound((char *)p);
    if (at == reserved.end() || at->second != bytes || (inside != mapped.end() && inside->first < (char *)p + bytes)) return CUDA_ERROR_INVALID_VALUE;
    munmap((void *)p, bytes);
    reserved.erase(at);
    return 0;
}

static CUresult physical_new(CUmemGenericAllocationHandle *h, int fd, int device, size_t bytes)
{
    *h = (CUmemGenericAllocationHandle)new physical{fd, device, 1, bytes};
    return 0;
}

static CUresult physical_create(CUmemGenericAllocationHandle *h, size_t bytes, const CUmemAllocationProp *prop, unsigned long long)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (!is_pieces(bytes) || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id < 0 || prop->location.id >= devices)
        return CUDA_ERROR_INVALID_VALUE;
    device_memory &m = memory[prop->location.id];
    const int fd = m.live + bytes > capacity ? -1 : memfd_create("emulated device", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) return fd < 0 || close(fd), CUDA_ERROR_OUT_OF_MEMORY;
    m.live += bytes;
    return physical_new(h, fd, prop->location.id, bytes);
}

static void physical_drop(physical *of)
{
    if (--of->uses) return;
    if (of->device >= 0) memory[of->device].live -= of->bytes; /* of another process: it counts there */
    close(of->fd);
    delete of;
}

static CUresult physical_release(CUmemGenericAllocationHandle h)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    physical_drop((physical *)h);
    return 0;
}

static CUresult physical_map(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle h, unsigned long long)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    physical *of = (physical *)h;
    auto before = holder(mapped, (char *)p + bytes - 1);
    if (!is_pieces(bytes) || p % PIECE || offset || bytes != of->bytes || !is_reserved((void *)p, bytes) ||
        (before != mapped.end() && before->first + before->second.bytes > (char *)p)) return CUDA_ERROR_INVALID_VALUE;
    if (mmap((void *)p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, of->fd, 0) == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    of->uses++;
    mapped[(char *)p] = {bytes, of, false};
    return 0;
}

/* All mappings that lie wholly in a piece of addresses, which they fill; false: they do not. */
static bool filling(char *p, size_t bytes, std::vector<char *> &found)
{
    char *const end = p + bytes;
    for (auto at = mapped.find(p); p < end && at != mapped.end() && at->first == p; at++) {
        found.push_back(p);
        p += at->second.bytes;
    }
    return p == end;
}

static CUresult physical_unmap(CUdeviceptr p, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    std::vector<char *> found;
    if (!filling((char *)p, bytes, found)) return CUDA_ERROR_INVALID_VALUE;
    mmap((void *)p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (char *at : found) {
        physical_drop(mapped[at].of);
        mapped.erase(at);
    }
    return 0;
}

static CUresult physical_access(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *desc, size_t n)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    std::vector<char *> found;
    if (!n || desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || !filling((char *)p, bytes, found)) return CUDA_ERROR_INVALID_VALUE;
    for (char *at : found) {
        mapping &m = mapped[at];
        m.accessible = true;
        if (open_now) mprotect(at, m.bytes, PROT_READ | PROT_WRITE);
    }
    if (any_capture()) {
        open_memory();
        memset((void *)p, 0xff, bytes);
        close_memory();
    }
    return 0;
}

static CUresult physical_export(void *fd, CUmemGenericAllocationHandle h, CUmemAllocationHandleType type, unsigned long long)
{
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    *(int *)fd = fcntl(((physical *)h)->fd, F_DUPFD_CLOEXEC, 0);
    return *(int *)fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : 0;
}

static CUresult physical_import(CUmemGenericAllocationHandle *h, void *fd, CUmemAllocationHandleType type)
{
    struct stat file;
    const int own = fcntl((int)(size_t)fd, F_DUPFD_CLOEXEC, 0);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || own < 0 || fstat(own, &file)) return CUDA_ERROR_INVALID_VALUE;
    return physical_new(h, own, -1, (size_t)file.st_size);
}

/* ---- queues ---- */

struct capture;
struct node;
typedef std::vector<unsigned> places; /* of nodes, in order */
struct shared_event { std::atomic<unsigned> recorded, done; }; /* how often it was, by any process */

}

struct CUevent_st {
    int refs;
    bool recorded;
    std::atomic<bool> done;
    bool ended;
    unsigned at; /* a later record is another point */
    double ms;
    CUstream stream;
    std::shared_ptr<emulated::capture> in; /* it was recorded in that one, behind these nodes */
    emulated::places after;
    emulated::shared_event *shared; /* with other processes, by a file; NULL: it is this one's */
    int file, owner;
};

namespace emulated {

struct work {
    enum { LAUNCH, COPY, SET, RECORD, WAIT, GRAPH, HOST } kind;
    const registration *r;
    unsigned blocks, threads, shared, at;
    std::string bytes; /* parameters, or what the host gave to copy */
    void *to;
    const void *from; /* of a copy; NULL: bytes */
    size_t n;
    unsigned char byte;
    CUevent event;
    std::shared_ptr<const std::vector<node>> graph;
    void (*call)(void *); /* with `to` */
    uint32_t asked;       /* the number of the driver's call, if what is done is recorded */
    unsigned char way[3]; /* of a copy, as CUPTI counts: how, from, to */
};

struct node {
    work what;
    places after;
};

/* What is recorded between capture_begin and capture_end, from one stream and those that wait for its events. */
struct capture {
    unsigned long long id;
    int mode, device;
    const void *thread;
    CUstream begun_by;
    bool broken, over;
    std::vector<node> nodes;
};

}

struct CUstream_st {
    int device;
    std::vector<emulated::work> queue;
    size_t begun; /* of the queue */
    std::shared_ptr<emulated::capture> in; /* what it is given now is recorded there, behind these nodes */
    emulated::places after;
};
struct CUgraph_st { std::shared_ptr<const std::vector<emulated::node>> nodes; };
struct CUgraphExec_st {
    std::shared_ptr<const std::vector<emulated::node>> nodes;
    CUevent last; /* launches wait for the one before */
};

namespace emulated {

static CUstream_st streams[MOST_DEVICES][STREAMS];
static int nstreams[MOST_DEVICES];
static CUresult sticky;

static CUstream stream_of(CUstream s) { return s ? s : &streams[current][0]; }

static double now_ms()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void event_drop(CUevent e)
{
    if (--e->refs) return;
    if (e->shared) munmap((void *)e->shared, sizeof *e->shared), close(e->file);
    delete e;
}

static void pass(shared_event *e, unsigned times)
{
    for (unsigned n = e->done; n < times && !e->done.compare_exchange_weak(n, times);) {}
}

/* A process that has ended, or will be gone once its parent looks, does nothing more. */
static bool is_alive(int process)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    if (f) fclose(f);
    return state != 'Z' && state != 'X';
}

static void drain(CUstream s, CUevent until, unsigned at);

/* Until some process has done what came before that record. */
static void await(CUevent e, unsigned times)
{
    if (e->stream && !e->done) drain(e->stream, e, e->at);
    while (e->shared->done < times && is_alive(e->owner)) usleep(500);
}

/* Another process cannot run what is queued here: that is done soon, without being asked for. */
static void run_soon(CUstream s, CUevent e)
{
    static const bool once = (atexit([] { lock.lock(); }), true); /* no thread goes on where things are taken down */
    (void)once;
    std::thread([s, e, at = e->at] {
        usleep(100000);
        std::lock_guard<std::recursive_mutex> held(lock);
        drain(s, e, at);
        event_drop(e);
    }).detach();
}

static void run_graph(const std::vector<node> &);

static place running_on;    /* device and stream of what runs */
static uint32_t launched_by; /* the call that launched the graph of what runs; 0: none */

static void trace(const work &w, uint64_t start)
{
    const uint32_t call = launched_by ? launched_by : w.asked;
    const unsigned size[] = {w.blocks, w.threads, w.shared};
    const int copy = w.way[0] == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP ? CUPTI_ACTIVITY_KIND_MEMCPY2 : CUPTI_ACTIVITY_KIND_MEMCPY;
    if (w.kind == work::LAUNCH) trace_kernel(call, running_on, w.r->name, size, start);
    else if (w.kind == work::COPY || w.kind == work::SET) trace_copy(call, running_on, w.kind == work::SET ? CUPTI_ACTIVITY_KIND_MEMSET : copy, w.way, w.n, start);
}

static void run(const work &w);
static void run_traced(const work &w)
{
    const uint64_t start = tracing ? trace_clock() : 0;
    run(w);
    if (start && tracing) trace(w, start);
}

static void run(const work &w)
{
    switch (w.kind) {
    case work::LAUNCH:
        if (!run_grid(w.r, w.bytes.data(), w.blocks, w.threads, w.shared)) sticky = CUDA_ERROR_LAUNCH_FAILED;
        break;
    case work::COPY: memmove(w.to, w.from ? w.from : w.bytes.data(), w.n); break;
    case work::SET: memset(w.to, w.byte, w.n); break;
    case work::RECORD:
        if (w.event->at == w.at) w.event->done = true, w.event->ms = now_ms();
        if (w.event->shared) pass(w.event->shared, (unsigned)w.n);
        event_drop(w.event);
        break;
    case work::WAIT:
        if (w.event->shared) await(w.event, (unsigned)w.n);
        else if (!w.event->done && w.event->at == w.at) drain(w.event->stream, w.event, w.at);
        event_drop(w.event);
        break;
    case work::GRAPH:
        launched_by = w.asked;
        run_graph(*w.graph);
        launched_by = 0;
        break;
    case work::HOST: w.call(w.to); break;
    }
}

/* Of the nodes that wait for nothing any more one after the other runs: the first, the last or any. */
static void run_graph(const std::vector<node> &nodes)
{
    std::vector<size_t> left(nodes.size());
    std::vector<places> then(nodes.size());
    places ready;
    for (unsigned i = 0; i < nodes.size(); i++) {
        for (unsigned k : nodes[i].after) then[k].push_back(i);
        if (!(left[i] = nodes[i].after.size())) ready.push_back(i);
    }
    while (!ready.empty()) {
        const size_t k = how == FORWARD ? 0 : how == REVERSE ? ready.size() - 1 : shuffler() % ready.size();
        const unsigned i = ready[k];
        ready.erase(ready.begin() + (ptrdiff_t)k);
        run_traced(nodes[i].what);
        for (unsigned next : then[i])
            if (!--left[next]) ready.insert(std::upper_bound(ready.begin(), ready.end(), next), next);
    }
}

/* Runs what is queued, up to the event if one is given. */
static void drain(CUstream s, CUevent until, unsigned at)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (s->begun == s->queue.size()) return;
    open_memory();
    while (s->begun < s->queue.size() && !(until && (until->done || until->at != at))) {
        work w = std::move(s->queue[s->begun++]);
        const place before = running_on;
        running_on = {s->device, (int)(s - streams[s->device])};
        run_traced(w);
        running_on = before;
    }
    if (s->begun == s->queue.size()) s->queue.clear(), s->begun = 0;
    close_memory();
}

static void drain_device(int device)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    for (int i = nstreams[device] - 1; i >= 0; i--) drain(&streams[device][i], nullptr, 0);
}

/* ---- captures ---- */

static std::vector<std::shared_ptr<capture>> captures; /* those underway */
static thread_local int thread_mode = CU_CAPTURE_GLOBAL;

static CUresult break_off(const std::shared_ptr<capture> &c, CUresult why)
{
    c->broken = true;
    return why;
}
static bool any_capture() { return !captures.empty(); }

/* Calls that no stream sees, such as cuMemAlloc, end captures that forbid them; with the lock held. */
static CUresult unsafe()
{
    CUresult refused = 0;
    for (auto &c : captures)
        if (thread_mode != CU_CAPTURE_RELAXED && (c->thread == &thread_mode ? c->mode != CU_CAPTURE_RELAXED : thread_mode == CU_CAPTURE_GLOBAL && c->mode == CU_CAPTURE_GLOBAL))
            refused = break_off(c, CUDA_ERROR_CAPTURE_UNSUPPORTED);
    return refused;
}

/* What a host may not ask of a stream that is captured, or of any meanwhile. */
static CUresult unsafe_for(CUstream s) { return s->in ? break_off(s->in, CUDA_ERROR_CAPTURE_UNSUPPORTED) : unsafe(); }
static CUresult unsafe_for(CUevent e) { return e->in ? break_off(e->in, CUDA_ERROR_CAPTURED_EVENT) : unsafe(); }

static void join(places &to, const places &more)
{
    places all;
    std::set_union(to.begin(), to.end(), more.begin(), more.end(), std::back_inserter(all));
    to = std::move(all);
}

static CUresult record(CUstream s, work &&w)
{
    capture &c = *s->in;
    if (c.broken) return CUDA_ERROR_CAPTURE_INVALIDATED;
    c.nodes.push_back({std::move(w), s->after});
    s->after = {(unsigned)c.nodes.size() - 1};
    return 0;
}

static CUresult capture_begin(CUstream s, int mode)
{
    static unsigned long long id;
    std::lock_guard<std::recursive_mutex> held(lock);
    if (!s || s == &streams[s->device][0]) return CUDA_ERROR_CAPTURE_UNSUPPORTED;
    if (s->in) return CUDA_ERROR_ILLEGAL_STATE;
    if (mode < CU_CAPTURE_GLOBAL || mode > CU_CAPTURE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    s->in.reset(new capture{++id, mode, s->device, &thread_mode, s, false, false, {}});
    s->after.clear();
    captures.push_back(s->in);
    return 0;
}

/* Does all that was recorded come before the end of the stream where it began? */
static bool is_joined(const capture &c, const places &end)
{
    std::vector<bool> seen(c.nodes.size());
    for (unsigned k : end) seen[k] = true;
    for (size_t i = seen.size(); i-- > 0;) {
        if (!seen[i]) return false;
        for (unsigned k : c.nodes[i].after) seen[k] = true;
    }
    return true;
}

static CUresult capture_end(CUstream s, CUgraph *graph)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    std::shared_ptr<capture> c = stream_of(s)->in;
    *graph = nullptr;
    if (!c) return CUDA_ERROR_ILLEGAL_STATE;
    if (c->begun_by != s) return break_off(c, CUDA_ERROR_CAPTURE_UNMATCHED);
    if (c->mode != CU_CAPTURE_RELAXED && c->thread != &thread_mode) return break_off(c, CUDA_ERROR_CAPTURE_WRONG_THREAD);
    const CUresult failed = c->broken ? CUDA_ERROR_CAPTURE_INVALIDATED : !is_joined(*c, s->after) ? CUDA_ERROR_CAPTURE_UNJOINED : 0;
    if (!failed) *graph = new CUgraph_st{std::make_shared<const std::vector<node>>(std::move(c->nodes))};
    for (int d = 0; d < devices; d++)
        for (int i = 0; i < nstreams[d]; i++)
            if (streams[d][i].in == c) streams[d][i].in.reset();
    c->over = c->broken = true;
    captures.erase(std::find(captures.begin(), captures.end(), c));
    return failed;
}

static CUresult capture_info(CUstream s, int *state, unsigned long long *id, CUgraph *, const CUgraphNode **, size_t *)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    const capture *c = stream_of(s)->in.get();
    *state = !c ? CU_CAPTURE_NONE : c->broken ? CU_CAPTURE_INVALIDATED : CU_CAPTURE_ACTIVE;
    if (c && !c->broken && id) *id = c->id;
    return 0;
}

static CUresult capture_mode(int *mode)
{
    std::swap(*mode, thread_mode);
    return 0;
}

/* ---- what streams are given ---- */

static CUresult add(CUstream s, work &&w)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    s = stream_of(s);
    if (s->in) return record(s, std::move(w));
    s->queue.push_back(std::move(w));
    if (s->queue.size() - s->begun >= 512) drain(s, nullptr, 0); /* such a queue is long enough */
    return sticky;
}

/* Notes the call, if what is done is recorded. */
static CUresult add_asked(unsigned function, CUstream s, work &&w)
{
    if (tracing) w.asked = trace_call(function, trace_clock());
    return add(s, std::move(w));
}

/* A graph reads memory of the host each time that it runs, wherever that is then. */
static CUresult copy_to_device(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    work w = {};
    w.kind = work::COPY, w.to = (void *)to, w.n = n;
    w.way[0] = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, w.way[1] = is_pinned(from) ? PINNED : PAGEABLE, w.way[2] = DEVICE;
    if (stream_of(s)->in) w.from = from;
    else w.bytes.assign((const char *)from, n);
    return add_asked(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, s, std::move(w));
}
static CUresult copy(void *to, const void *from, size_t n, CUstream s, unsigned function, unsigned char how, unsigned char where)
{
    work w = {};
    w.kind = work::COPY, w.to = to, w.from = from, w.n = n;
    w.way[0] = how, w.way[1] = DEVICE, w.way[2] = where;
    return add_asked(function, s, std::move(w));
}
static CUresult copy_to_host(void *to, CUdeviceptr from, size_t n, CUstream s)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    return copy(to, (const void *)from, n, s, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, is_pinned(to) ? PINNED : PAGEABLE);
}
static CUresult copy_within(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    return copy((void *)to, (const void *)from, n, s, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, DEVICE);
}
static CUresult copy_peer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n, CUstream s)
{
    return copy((void *)to, (const void *)from, n, s, CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, DEVICE);
}
static CUresult set_bytes(CUdeviceptr to, unsigned char byte, size_t n, CUstream s)
{
    work w = {};
    w.kind = work::SET, w.to = (void *)to, w.byte = byte, w.n = n;
    return add_asked(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, s, std::move(w));
}

static CUresult function_set(CUfunction, int, int value) { return value > MOST_SHARED ? CUDA_ERROR_INVALID_VALUE : 0; }
static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **params, void **extra)
{
    const registration *r = (const registration *)f;
    if (!gx || gy != 1 || gz != 1 || !bx || bx > MOST_THREADS || by != 1 || bz != 1 || shared > MOST_SHARED || extra) return CUDA_ERROR_INVALID_VALUE;
    work w = {};
    w.kind = work::LAUNCH, w.r = r, w.blocks = gx, w.threads = bx, w.shared = shared, w.bytes.assign((const char *)params[0], r->bytes);
    return add_asked(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, s, std::move(w));
}

static CUresult stream_create(CUstream *s, unsigned flags, int priority)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (nstreams[current] == STREAMS) return CUDA_ERROR_OUT_OF_MEMORY;
    *s = &streams[current][nstreams[current]++];
    (*s)->device = current;
    return 0;
}
static CUresult stream_synchronize(CUstream s)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe_for(stream_of(s))) return failed;
    drain(stream_of(s), nullptr, 0);
    return sticky;
}
/* Who asks does not wait: while another thread runs what was queued, the answer is no. */
static CUresult stream_query(CUstream s)
{
    std::unique_lock<std::recursive_mutex> held(lock, std::try_to_lock);
    if (!held) return CUDA_ERROR_NOT_READY;
    s = stream_of(s);
    if (CUresult failed = unsafe_for(s)) return failed;
    return sticky ? sticky : s->begun < s->queue.size() ? CUDA_ERROR_NOT_READY : 0;
}

static bool share(CUevent e, int file, int owner)
{
    void *p = mmap(nullptr, sizeof(shared_event), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED) return false;
    e->shared = (shared_event *)p, e->file = file, e->owner = owner;
    return true;
}

static CUresult event_create(CUevent *e, unsigned flags)
{
    *e = new CUevent_st{1, false, false, false, 0, 0, nullptr, nullptr, {}, nullptr, -1, 0};
    if (!(flags & CU_EVENT_INTERPROCESS)) return 0;
    const int file = flags & CU_EVENT_DISABLE_TIMING ? memfd_create("emulated event", MFD_CLOEXEC) : -1;
    if (file >= 0 && !ftruncate(file, sizeof(shared_event)) && share(*e, file, getpid())) return 0;
    if (file >= 0) close(file);
    delete *e;
    return CUDA_ERROR_INVALID_VALUE;
}
static CUresult event_destroy(CUevent e)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    event_drop(e);
    return 0;
}
static CUresult event_record(CUevent e, CUstream s)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    work w = {};
    s = stream_of(s);
    if (s->in && s->in->broken) return CUDA_ERROR_CAPTURE_INVALIDATED;
    e->in = s->in, e->recorded = true;
    if (e->in) {
        e->after = s->after, e->done = false, e->at++;
        return 0;
    }
    w.kind = work::RECORD, w.event = e, w.at = ++e->at;
    if (e->shared) w.n = ++e->shared->recorded;
    e->refs++;
    e->stream = s;
    if ((e->done = s->begun == s->queue.size())) {
        e->ms = now_ms();
        if (e->shared) pass(e->shared, (unsigned)w.n);
        event_drop(e);
        return sticky;
    }
    if (e->shared) e->refs++, run_soon(s, e);
    return add(s, std::move(w));
}
static bool is_passed(CUevent e) { return e->shared->done >= e->shared->recorded || (e->owner != getpid() && !is_alive(e->owner)); }

static CUresult stream_wait(CUstream s, CUevent e, unsigned flags)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (!e->recorded && !e->shared) return sticky;
    s = stream_of(s);
    if (e->in) { /* the stream belongs to that capture from now on */
        if (e->in->broken) return e->in->over ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_CAPTURE_INVALIDATED;
        if (s == &streams[s->device][0]) return break_off(e->in, CUDA_ERROR_CAPTURE_IMPLICIT);
        if (s->in && s->in != e->in) return break_off(s->in, break_off(e->in, CUDA_ERROR_CAPTURE_MERGE));
        if (!s->in) s->after.clear();
        s->in = e->in;
        join(s->after, e->after);
        return 0;
    }
    if (s->in) return break_off(s->in, CUDA_ERROR_CAPTURE_ISOLATION);
    if (e->shared ? is_passed(e) : e->done.load()) return sticky;
    work w = {};
    w.kind = work::WAIT, w.event = e, w.at = e->at;
    if (e->shared) w.n = e->shared->recorded;
    e->refs++;
    return add(s, std::move(w));
}
static CUresult event_query(CUevent e)
{
    std::unique_lock<std::recursive_mutex> held(lock, std::try_to_lock);
    if (!held) return (e->shared ? is_passed(e) : e->done.load()) ? 0 : CUDA_ERROR_NOT_READY;
    if (CUresult failed = unsafe_for(e)) return failed;
    if (e->shared) return sticky ? sticky : is_passed(e) ? 0 : CUDA_ERROR_NOT_READY;
    return sticky ? sticky : !e->recorded || e->done ? 0 : CUDA_ERROR_NOT_READY;
}
static CUresult event_synchronize(CUevent e)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe_for(e)) return failed;
    if (e->shared) await(e, e->shared->recorded);
    else if (e->recorded && !e->done) drain(e->stream, e, e->at);
    return sticky;
}
static CUresult event_elapsed(float *ms, CUevent begin, CUevent end)
{
    if (!begin->done || !end->done) return CUDA_ERROR_NOT_READY;
    *ms = (float)(end->ms - begin->ms);
    return 0;
}

/* ---- what processes give one another: files of this one, which the other opens ---- */

struct file_handle { int process, file; size_t bytes; };
static std::map<char *, int> exported; /* allocations that are in files now */

static int open_file(const file_handle &h)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h.process, h.file);
    return h.process == getpid() ? -1 : open(path, O_RDWR | O_CLOEXEC);
}

static CUresult event_export(CUipcEventHandle *to, CUevent e)
{
    if (!e->shared) return CUDA_ERROR_INVALID_VALUE;
    const file_handle h = {e->owner, e->file, sizeof *e->shared};
    memcpy(memset(to, 0, sizeof *to), &h, sizeof h);
    return e->owner == getpid() ? 0 : CUDA_ERROR_INVALID_VALUE;
}

static CUresult event_import(CUevent *e, CUipcEventHandle from)
{
    file_handle h;
    memcpy(&h, &from, sizeof h);
    const int file = open_file(h);
    *e = new CUevent_st{1, false, false, false, 0, 0, nullptr, nullptr, {}, nullptr, -1, 0};
    if (file >= 0 && share(*e, file, h.process)) return 0;
    if (file >= 0) close(file);
    delete *e;
    return CUDA_ERROR_INVALID_VALUE;
}

/* The allocation moves into a file, at its place. */
static CUresult memory_export(CUipcMemHandle *to, CUdeviceptr p)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    auto is_of = [p](const block_size &b) { return p >= b.p && p < b.p + b.bytes; };
    auto of = std::find_if(sizes.begin(), sizes.end(), is_of);
    if (of == sizes.end() || of->bytes < 4096) return CUDA_ERROR_INVALID_VALUE;
    char *const at = (char *)of->p;
    const size_t bytes = (of->bytes + 4095) & ~(size_t)4095;
    if (!exported.count(at)) {
        const int file = memfd_create("emulated device", MFD_CLOEXEC);
        void *copy = file >= 0 && !ftruncate(file, (off_t)bytes) ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
        if (copy == MAP_FAILED) return file < 0 || close(file), CUDA_ERROR_OUT_OF_MEMORY;
        open_memory();
        memcpy(copy, at, bytes);
        munmap(copy, bytes);
        const bool fine = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
        close_memory();
        if (!fine) return close(file), CUDA_ERROR_OUT_OF_MEMORY;
        exported[at] = file;
    }
    const file_handle h = {getpid(), exported[at], bytes};
    memcpy(memset(to, 0, sizeof *to), &h, sizeof h);
    return 0;
}

static CUresult memory_import(CUdeviceptr *p, CUipcMemHandle from, unsigned)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    file_handle h;
    memcpy(&h, &from, sizeof h);
    const int file = open_file(h);
    char *at = file < 0 ? (char *)MAP_FAILED : (char *)mmap(nullptr, h.bytes, open_now ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return file < 0 || close(file), CUDA_ERROR_INVALID_VALUE;
    reserved[at] = h.bytes;
    mapped[at] = {h.bytes, new physical{file, -1, 1, h.bytes}, true};
    *p = (CUdeviceptr)at;
    return 0;
}

static CUresult memory_unimport(CUdeviceptr p)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    auto at = mapped.find((char *)p);
    if (at == mapped.end() || reserved[(char *)p] != at->second.bytes) return CUDA_ERROR_INVALID_VALUE;
    munmap((void *)p, at->second.bytes);
    physical_drop(at->second.of);
    mapped.erase(at);
    reserved.erase((char *)p);
    return 0;
}

static void unexport(char *p)
{
    auto at = exported.find(p);
    struct stat file;
    if (at == exported.end()) return;
    if (!fstat(at->second, &file)) mmap(p, (size_t)file.st_size, open_now ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    close(at->second);
    exported.erase(at);
}

/* ---- graphs ---- */

static CUresult graph_nodes(CUgraph g, CUgraphNode *, size_t *n)
{
    *n = g->nodes->size();
    return 0;
}

static CUresult graph_dot(CUgraph g, const char *path, unsigned flags)
{
    static const char *const kinds[] = {"", "copy", "set", "", "", "graph", "host"};
    FILE *f = fopen(path, "w");
    if (!f) return CUDA_ERROR_INVALID_VALUE;
    fprintf(f, "digraph graph_1 {\n");
    for (size_t i = 0; i < g->nodes->size(); i++) {
        const node &n = (*g->nodes)[i];
        fprintf(f, "    node_%zu [label=\"%zu %s\"];\n", i, i, n.what.kind == work::LAUNCH ? n.what.r->name : kinds[n.what.kind]);
        for (unsigned k : n.after) fprintf(f, "    node_%u -> node_%zu;\n", k, i);
    }
    fprintf(f, "}\n");
    return fclose(f) ? CUDA_ERROR_INVALID_VALUE : 0;
}

static CUresult graph_destroy(CUgraph g)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe()) return failed;
    delete g;
    return 0;
}

static CUresult graph_instantiate(CUgraphExec *e, CUgraph g, unsigned long long flags)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe()) return failed;
    *e = new CUgraphExec_st{g->nodes, nullptr};
    return event_create(&(*e)->last, 0);
}

static CUresult graph_launch(CUgraphExec e, CUstream s)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    const bool recorded = stream_of(s)->in != nullptr;
    CUresult failed = recorded ? 0 : stream_wait(s, e->last, 0);
    work w = {};
    w.kind = work::GRAPH, w.graph = e->nodes;
    if (!failed) failed = add_asked(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, s, std::move(w));
    return failed || recorded ? failed : event_record(e->last, s);
}

/* Launches that have not run yet keep the nodes. */
static CUresult exec_destroy(CUgraphExec e)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe()) return failed;
    event_drop(e->last);
    delete e;
    return 0;
}

/* ---- devices and modules ---- */

static void read_order(const char *text)
{
    if (!text || !strcmp(text, "forward")) how = FORWARD;
    else if (!strcmp(text, "reverse")) how = REVERSE;
    else if (!strncmp(text, "random", 6)) how = RANDOM, shuffler.seed(text[6] == ':' ? (unsigned)atol(text + 7) : 1);
}

static CUresult init(unsigned flags)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (arenas) return 0;
    const char *n = getenv("RUSHLIGHT_CUDA_DEVICES"), *bytes = getenv("RUSHLIGHT_CUDA_MEMORY");
    if (n) devices = std::max(1, std::min(atoi(n), (int)MOST_DEVICES));
    if (bytes) capacity = (size_t)atoll(bytes);
    read_order(getenv("RUSHLIGHT_CUDA_ORDER"));
    void *p = mmap(nullptr, ARENA * devices, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    arenas = (char *)p;
    for (int d = 0; d < devices; d++) nstreams[d] = 1, streams[d][0].device = d;
    struct sigaction action = {};
    action.sa_sigaction = touched;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &before);
    return 0;
}

static CUresult version(int *v)
{
    *v = 13000;
    return 0;
}
static CUresult error_text(CUresult code, const char **text)
{
    static const char *const of_captures[] = {
        "operation not permitted when stream is capturing", "operation failed due to a previous error during capture",
        "operation would result in a merge of separate capture sequences", "capture was not ended in the same stream as it began", "capturing stream has unjoined work",
        "dependency created on uncaptured work in another stream", "operation would make the legacy stream depend on a capturing blocking stream",
        "operation not permitted on an event last recorded in a capturing stream", "attempt to terminate a thread-local capture sequence from another thread"};
    if (code >= CUDA_ERROR_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_CAPTURE_WRONG_THREAD) return *text = of_captures[code - CUDA_ERROR_CAPTURE_UNSUPPORTED], 0;
    if (code == CUDA_ERROR_ILLEGAL_STATE) return *text = "the operation cannot be performed in the present state", 0;
    *text = code == 0 ? "no error" : code == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : code == CUDA_ERROR_LAUNCH_FAILED && failure ? failure
            : code == CUDA_ERROR_NOT_READY ? "device not ready" : code == CUDA_ERROR_NOT_FOUND ? "named symbol not found" : "invalid argument";
    return 0;
}
static CUresult device_count(int *n)
{
    *n = devices;
    return 0;
}
static CUresult device_get(CUdevice *d, int index)
{
    *d = index;
    return index < 0 || index >= devices ? CUDA_ERROR_INVALID_DEVICE : 0;
}
static CUresult device_name(char *name, int room, CUdevice)
{
    snprintf(name, (size_t)room, "emulated on the CPU");
    return 0;
}
static CUresult device_attribute(int *value, int attribute, CUdevice)
{
    switch (attribute) {
    case CU_ATTRIBUTE_THREADS_PER_BLOCK: *value = MOST_THREADS; break;
    case CU_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_ATTRIBUTE_MULTIPROCESSORS: *value = 1; break;
    case CU_ATTRIBUTE_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case CU_ATTRIBUTE_MAJOR: *value = getenv("RUSHLIGHT_CUDA_MAJOR") ? atoi(getenv("RUSHLIGHT_CUDA_MAJOR")) : 9; break;
    case CU_ATTRIBUTE_INTEGRATED: *value = 1; break;
    case CU_ATTRIBUTE_SHARED_MEMORY_AT_MOST: *value = MOST_SHARED; break;
    default: *value = 0;
    }
    return 0;
}
static CUresult device_memory_size(size_t *bytes, CUdevice)
{
    *bytes = capacity;
    return 0;
}
static CUresult device_peer(int *can, CUdevice a, CUdevice b)
{
    *can = a != b;
    return 0;
}
static CUresult context_retain(CUcontext *c, CUdevice d)
{
    *c = (CUcontext)(size_t)(d + 1);
    return 0;
}
static CUresult context_set(CUcontext c)
{
    current = (int)(size_t)c - 1;
    return 0;
}
static CUresult context_synchronize(void)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    CUresult failed = unsafe();
    for (auto &c : captures)
        if (c->device == current) failed = break_off(c, CUDA_ERROR_CAPTURE_UNSUPPORTED);
    if (failed) return failed;
    drain_device(current);
    return sticky;
}
static CUresult module_load(CUmodule *m, const void *image)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (CUresult failed = unsafe()) return failed;
    *m = (CUmodule)&registered;
    if (!image || dlopen((const char *)image, RTLD_NOW | RTLD_LOCAL)) return 0; /* a shared object's kernels register themselves */
    fprintf(stderr, "%s\n", dlerror());
    return CUDA_ERROR_NOT_FOUND;
}
static CUresult module_function(CUfunction *f, CUmodule, const char *name)
{
    return (*f = (CUfunction)find(name)) ? 0 : CUDA_ERROR_NOT_FOUND;
}

}

using namespace emulated;

extern const rush_cuda_driver rush_cuda_emulator = {
    init, version, error_text, device_count, device_get, device_name, device_attribute, device_memory_size, device_peer, context_retain,
    context_set, context_synchronize, memory_info, memory_alloc_noted, memory_free, host_alloc, host_free, copy_to_device, copy_to_host,
    copy_within, copy_peer, set_bytes, stream_create, stream_synchronize, stream_query, stream_wait, event_create, event_destroy, event_record,
    event_query, event_synchronize, event_elapsed, pointer_attribute, capture_begin, capture_end, capture_info, capture_mode, graph_nodes, graph_dot,
    graph_destroy, graph_instantiate, graph_launch, exec_destroy, module_load, module_function, function_set, launch,
    address_reserve, address_free, physical_create, physical_release, physical_map, physical_unmap, physical_access, physical_grain, physical_export, physical_import,
    event_export, event_import, memory_export, memory_import, memory_unimport};

int rush_emulator_queue(CUstream s, void (*f)(void *arg), void *arg)
{
    work w = {};
    w.kind = work::HOST, w.call = f, w.to = arg;
    return add(s, std::move(w)) ? -1 : 0;
}

void rush_emulator_run(CUdevice d, CUstream s) { drain(s ? s : &streams[d][0], nullptr, 0); }

int rush_emulator_host(int (*f)(void *arg), void *arg)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    for (int d = 0; d < devices; d++) drain_device(d);
    if (sticky) return -1;
    open_memory();
    int failed = f(arg);
    close_memory();
    return failed;
}

const char *rush_emulator_file(const char *name)
{
    const registration *r = find(name);
    return r ? r->file : nullptr;
}
