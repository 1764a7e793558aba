/* ipc.c - memory and events of devices that other processes of the machine are given, and when memory that was given comes back.
 *
 * Whoever gives memory makes a ticket for it: a number in pages that both processes see, SENT until the other has opened it, TAKEN
 * until it is done, and then BACK. Memory whose tensors are gone waits for its tickets (memory.c). A process that has taken a ticket
 * keeps a lock on its place in the file of those pages, which ends with the process: what it had is back, too, when it was killed.
 */
#define _GNU_SOURCE
#include "cuda/cuda.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLOTS = 4096 };
enum { BACK, SENT, TAKEN };
#define PAGES (SLOTS * sizeof(atomic_uint))

/* Numbers of tickets: of this process, or of another one that gave some. */
typedef struct book {
    char name[64]; /* where others find it while this process lives */
    int fd;
    atomic_uint *state;
    bool used[SLOTS]; /* of this process */
    struct book *next;
} book;

struct cuda_ticket {
    book *in;
    int slot;
    CUevent ready; /* what had been asked of the stream when the memory was given */
    cuda_ticket *next;
};

static book *own, *others;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- tickets ---- */

static book *book_open(int fd, const char *name)
{
    book *b = fd < 0 ? NULL : rush_calloc(1, sizeof *b);
    void *pages = b ? mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (pages == MAP_FAILED) {
        if (fd >= 0) close(fd);
        rush_free(b);
        return rush_fail(RUSH_RUNTIME_ERROR, "CUDA tensors of another process: %s cannot be opened", name), NULL;
    }
    b->fd = fd, b->state = pages;
    snprintf(b->name, sizeof b->name, "%s", name);
    return b;
}

/* Memory that is lent when the process ends is gone, or not, as the driver likes. */
static void warn(void)
{
    for (const book *b = own; b; b = b->next)
        for (int i = 0; i < SLOTS; i++)
            if (b->used[i] && b->state[i] != BACK) {
                fprintf(stderr, "Producer process has been terminated before all shared CUDA tensors released. See Note [Sharing CUDA tensors]\n");
                return;
            }
}

static book *book_new(void)
{
    char name[64];
    int fd = memfd_create("rushlight tickets", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, PAGES)) close(fd), fd = -1;
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), fd);
    book *b = book_open(fd, name);
    if (!b) return NULL;
    if (!own) atexit(warn);
    b->next = own;
    return own = b;
}

static cuda_ticket *ticket_new(void)
{
    cuda_ticket *t = rush_calloc(1, sizeof *t);
    if (!t) return NULL;
    pthread_mutex_lock(&lock);
    int slot = SLOTS;
    book *b = own;
    for (; b; b = b->next) {
        for (slot = 0; slot < SLOTS && b->used[slot]; slot++);
        if (slot < SLOTS) break;
    }
    if (b || (b = book_new())) {
        *t = (cuda_ticket){.in = b, .slot = slot % SLOTS};
        b->used[t->slot] = true;
        b->state[t->slot] = SENT;
    }
    pthread_mutex_unlock(&lock);
    if (!b) rush_free(t);
    return b ? t : NULL;
}

static void ticket_end(cuda_ticket *t)
{
    if (t->ready) cuda_driver->event_destroy(t->ready);
    pthread_mutex_lock(&lock);
    t->in->used[t->slot] = false;
    pthread_mutex_unlock(&lock);
    rush_free(t);
}

static bool is_locked(const book *b, int slot)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return !fcntl(b->fd, F_OFD_GETLK, &f) && f.l_type != F_UNLCK;
}

/* The one who took it has come to its end without giving it back. */
static bool is_lost(const cuda_ticket *t) { return t->in->state[t->slot] == TAKEN && !is_locked(t->in, t->slot); }

bool cuda_tickets_back(cuda_ticket **tickets)
{
    for (cuda_ticket **at = tickets, *t; (t = *at);) {
        if (t->in->state[t->slot] != BACK && !is_lost(t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->in->state[t->slot] = BACK;
        ticket_end(t);
    }
    return !*tickets;
}

void cuda_tickets_add(cuda_ticket **tickets, cuda_ticket *t)
{
    t->next = *tickets;
    *tickets = t;
}

static book *book_of(const char *name)
{
    pthread_mutex_lock(&lock);
    book *b = others;
    while (b && strcmp(b->name, name)) b = b->next;
    if (!b) b = own;
    while (b && strcmp(b->name, name)) b = b->next;
    if (!b && (b = book_open(open(name, O_RDWR | O_CLOEXEC), name))) b->next = others, others = b;
    pthread_mutex_unlock(&lock);
    return b;
}

static int mark(book *b, int slot, short lock_type, unsigned state)
{
    struct flock f = {.l_type = lock_type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    RUSH_CHECK(slot >= 0 && slot < SLOTS, RUSH_VALUE_ERROR, "there is no ticket %d", slot);
    if (lock_type == F_RDLCK) fcntl(b->fd, F_OFD_SETLK, &f); /* before anybody can look whether it is there */
    b->state[slot] = state;
    if (lock_type == F_UNLCK) fcntl(b->fd, F_OFD_SETLK, &f);
    return 0;
}

static int give_back(const char *name, int slot)
{
    book *b = book_of(name);
    return b ? mark(b, slot, F_UNLCK, BACK) : -1;
}

/* ---- giving ---- */

/* Memory as another process opens it: 'c' and the driver's handle of an allocation; or 'e' and descriptors of the pieces of one that grows. */
typedef struct pieces {
    char kind;
    int pid, n;
    size_t piece;
    int fd[];
} pieces;

static int export_plain(const cuda_home *home, rush_cuda_shared *to)
{
    CUipcMemHandle driver;
    if (cuda_check(cuda_driver->memory_export(&driver, (CUdeviceptr)(size_t)home->segment), "cuIpcGetMemHandle") || !(to->handle = rush_malloc(to->handle_bytes = 1 + sizeof driver))) return -1;
    to->handle[0] = 'c';
    memcpy(to->handle + 1, &driver, sizeof driver);
    to->offset = (size_t)(home->p - home->segment);
    return 0;
}

static int export_pieces(const cuda_home *home, rush_cuda_shared *to)
{
    const size_t piece = cuda_span_piece(home->span), from = (size_t)(home->p - cuda_span_base(home->span)), first = from / piece, n = (from + home->bytes + piece - 1) / piece - first;
    pieces *all = rush_calloc(1, to->handle_bytes = sizeof *all + n * sizeof *all->fd);
    if (!all) return -1;
    to->handle = (unsigned char *)all;
    all->kind = 'e', all->pid = (int)getpid(), all->n = (int)n, all->piece = piece;
    to->offset = from - first * piece;
    return cuda_span_export(home->span, first, n, all->fd);
}

static int give(rush_device d, void *p, rush_cuda_shared *to)
{
    cuda_ticket *t;
    cuda_home home;
    CUipcEventHandle ready;
    *to = (rush_cuda_shared){0};
    if (!cuda_enter(d) || !(t = ticket_new())) return -1;
    if (cuda_check(cuda_driver->event_create(&t->ready, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), "cuEventCreate") ||
        cuda_check(cuda_driver->event_record(t->ready, cuda_stream(d)), "cuEventRecord") || cuda_check(cuda_driver->event_export(&ready, t->ready), "cuIpcGetEventHandle") ||
        cuda_memory_home(d, p, &home) || (home.span ? export_pieces(&home, to) : export_plain(&home, to))) {
        t->in->state[t->slot] = BACK;
        ticket_end(t);
        rush_free(to->handle);
        return -1;
    }
    to->offset += (size_t)((char *)p - home.p);
    memcpy(to->counter, t->in->name, sizeof to->counter);
    memcpy(to->event, &ready, sizeof ready);
    to->slot = t->slot;
    cuda_memory_lend(&home, t);
    return 0;
}

/* ---- taking ---- */

typedef struct opened {
    unsigned char *handle;
    size_t n, room; /* room: of pieces side by side; 0: an allocation */
    rush_device device;
    CUdeviceptr base;
    int uses;
    struct opened *next;
} opened;
static opened *all;

typedef struct taken {
    opened *of;
    book *in;
    int slot;
} taken;

/* Descriptors of another process as ones of this. */
static int fetch(int pid, int n, const int *theirs, int *mine)
{
    const int process = (int)syscall(SYS_pidfd_open, pid, 0);
    int i = 0;
    for (; process >= 0 && i < n; i++)
        if ((mine[i] = (int)syscall(SYS_pidfd_getfd, process, theirs[i], 0)) < 0) break;
    if (process >= 0) close(process);
    if (i == n && process >= 0) return 0;
    while (i-- > 0) close(mine[i]);
    return rush_fail(RUSH_RUNTIME_ERROR, "CUDA tensors of process %d: its memory of an expandable segment cannot be had; has it ended, or may this process not trace it?", pid);
}

static int import_pieces(const pieces *p, opened *o)
{
    int *mine = rush_calloc((size_t)p->n, sizeof *mine);
    CUdeviceptr base;
    if (!mine || fetch(p->pid, p->n, p->fd, mine)) return rush_free(mine), -1;
    o->room = (size_t)p->n * p->piece;
    int failed = cuda_check(cuda_driver->address_reserve(&base, o->room, 0, 0, 0), "cuMemAddressReserve"), mapped = 0;
    if (!failed) o->base = base;
    for (int i = 0; i < p->n; i++) {
        CUmemGenericAllocationHandle h = 0;
        failed = failed || cuda_check(cuda_driver->physical_import(&h, (void *)(size_t)mine[i], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), "cuMemImportFromShareableHandle");
        failed = failed || cuda_check(cuda_driver->physical_map(base + (size_t)i * p->piece, p->piece, 0, h, 0), "cuMemMap");
        mapped += !failed;
        if (h) cuda_driver->physical_release(h);
        close(mine[i]);
    }
    failed = failed || cuda_check(cuda_span_access(o->device, base, o->room), "cuMemSetAccess");
    if (failed && mapped) cuda_driver->physical_unmap(base, (size_t)mapped * p->piece);
    if (failed && o->base) cuda_driver->address_free(base, o->room);
    return rush_free(mine), -failed;
}

static int import(opened *o)
{
    CUipcMemHandle driver;
    const pieces *p = (const pieces *)o->handle;
    if (o->handle[0] == 'e' && o->n >= sizeof *p && p->n > 0 && o->n == sizeof *p + (size_t)p->n * sizeof *p->fd) return import_pieces(p, o);
    RUSH_CHECK(o->handle[0] == 'c' && o->n == 1 + sizeof driver, RUSH_RUNTIME_ERROR, "not a handle of CUDA memory");
    memcpy(&driver, o->handle + 1, sizeof driver);
    return cuda_check(cuda_driver->memory_import(&o->base, driver, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "cuIpcOpenMemHandle");
}

static void unimport(opened *o)
{
    if (o->room) {
        cuda_driver->physical_unmap(o->base, o->room);
        cuda_driver->address_free(o->base, o->room);
    } else {
        cuda_driver->memory_unimport(o->base);
    }
}

static void opened_end(opened *o)
{
    rush_free(o->handle);
    rush_free(o);
}

/* The memory of a handle, opened once however many tensors lie in it. */
static opened *opened_of(rush_device d, const unsigned char *handle, size_t n)
{
    pthread_mutex_lock(&lock);
    opened *o = all;
    while (o && (o->n != n || !rush_same_device(o->device, d) || memcmp(o->handle, handle, n))) o = o->next;
    if (!o && (o = rush_calloc(1, sizeof *o))) {
        *o = (opened){.handle = rush_malloc(n), .n = n, .device = d, .next = all};
        if (o->handle && !import((memcpy(o->handle, handle, n), o))) all = o;
        else opened_end(o), o = NULL;
    }
    if (o) o->uses++;
    pthread_mutex_unlock(&lock);
    return o;
}

static void opened_drop(opened *o)
{
    pthread_mutex_lock(&lock);
    if (--o->uses == 0) {
        opened **at = &all;
        while (*at != o) at = &(*at)->next;
        *at = o->next;
        unimport(o);
        opened_end(o);
    }
    pthread_mutex_unlock(&lock);
}

/* With all that was asked of the memory done, but while a graph is captured, which that would end. */
static void release(void *owner)
{
    taken *t = owner;
    if (cuda_enter(t->of->device) && !cuda_captures()) cuda_driver->context_synchronize();
    opened_drop(t->of);
    mark(t->in, t->slot, F_UNLCK, BACK);
    rush_free(t);
}

/* What the current stream is asked next waits for what the giver's was asked before. */
static int wait(rush_device d, const void *handle)
{
    CUipcEventHandle driver;
    CUevent ready;
    memcpy(&driver, handle, sizeof driver);
    if (cuda_check(cuda_driver->event_import(&ready, driver), "cuIpcOpenEventHandle")) return -1;
    const int failed = cuda_check(cuda_driver->stream_wait(cuda_stream(d), ready, 0), "cuStreamWaitEvent");
    cuda_driver->event_destroy(ready);
    return failed;
}

static rush_storage *take(rush_device d, const rush_cuda_shared *from, size_t bytes)
{
    book *b = cuda_enter(d) ? book_of(from->counter) : NULL;
    taken *t = b ? rush_calloc(1, sizeof *t) : NULL;
    if (!t || mark(b, from->slot, F_RDLCK, TAKEN)) return rush_free(t), NULL;
    opened *o = from->waits && wait(d, from->event) ? NULL : opened_of(d, from->handle, from->handle_bytes);
    *t = (taken){o, b, from->slot};
    rush_storage *s = o ? rush_storage_over((char *)(size_t)o->base + from->offset, bytes, release, t) : NULL;
    if (s) {
        s->device = d;
        return s;
    }
    if (o) opened_drop(o);
    mark(b, from->slot, F_UNLCK, BACK);
    rush_free(t);
    return NULL;
}

static bool is_taken(const rush_storage *s) { return s->release == release; }

/* ---- events ---- */

static void *event_new(rush_device d)
{
    CUevent e;
    return !cuda_enter(d) || cuda_check(cuda_driver->event_create(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), "cuEventCreate") ? NULL : e;
}
static int event_export(rush_device d, void *e, unsigned char *handle)
{
    CUipcEventHandle driver;
    if (!cuda_enter(d) || cuda_check(cuda_driver->event_export(&driver, e), "cuIpcGetEventHandle")) return -1;
    memcpy(handle, &driver, sizeof driver);
    return 0;
}
static void *event_import(rush_device d, const unsigned char *handle)
{
    CUipcEventHandle driver;
    CUevent e;
    memcpy(&driver, handle, sizeof driver);
    return !cuda_enter(d) || cuda_check(cuda_driver->event_import(&e, driver), "cuIpcOpenEventHandle") ? NULL : e;
}

const rush_cuda_sharing cuda_sharing = {.give = give, .take = take, .is_taken = is_taken, .back = give_back, .collect = cuda_memory_collect, .event_new = event_new,
                                        .event_export = event_export, .event_import = event_import};
