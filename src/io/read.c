/* read.c - bytes of files by position, and files as memory.
 *
 * Much at once is copied out of a mapping of the file, checksum and all in one pass, since the system's own copying
 * reads and writes each byte once more. A file that is cut off by somebody else in that moment raises SIGBUS, which
 * is caught around the copying and becomes an error like any other short file.
 */
#define _GNU_SOURCE
#include "io/file.h"
#include "io/crc32.h"
#include "ops/create/factory.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK ((size_t)512 << 10)
#define MUCH ((size_t)1 << 20)
#define THREAD_FROM ((int64_t)8 << 20) /* bytes that are worth waking a thread for: memory is the limit, not processors */

static int trouble(const char *what, const char *path)
{
    return rush_fail(RUSH_IO_ERROR, "%s '%s': %s", what, path, strerror(errno));
}

static int cut_off(const rush_source *s, uint64_t at, uint64_t n)
{
    return rush_fail(RUSH_IO_ERROR, "'%s' ends at byte %llu, but %llu bytes at %llu are wanted: it is cut off, or was while it was read", s->name,
                     (unsigned long long)s->size, (unsigned long long)n, (unsigned long long)at);
}

/* ---- SIGBUS becomes a return value ---- */

static int guards;
static struct sigaction before;
static _Thread_local sigjmp_buf *escape;
static _Thread_local const char *guarded_from, *guarded_to;

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    const char *at = info->si_addr;
    if (escape && at >= guarded_from && at < guarded_to) siglongjmp(*escape, 1);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal_number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal_number);
    } else { /* not ours: it comes again, and does what it would have done */
        signal(SIGBUS, SIG_DFL);
    }
}

static void guard_begins(void)
{
    rush_lock(RUSH_LOCK_GUARD);
    struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    if (!guards++) sigaction(SIGBUS, &ours, &before);
    rush_unlock(RUSH_LOCK_GUARD);
}

static void guard_ends(void)
{
    rush_lock(RUSH_LOCK_GUARD);
    if (!--guards) sigaction(SIGBUS, &before, NULL);
    rush_unlock(RUSH_LOCK_GUARD);
}

typedef struct copying {
    char *to;
    const char *from;
    size_t n;
    uint32_t *crc; /* one per block, or NULL */
    atomic_bool failed;
} copying;

static void copy_blocks(void *arg, int64_t begin, int64_t end)
{
    copying *c = arg;
    sigjmp_buf here;
    guarded_from = c->from;
    guarded_to = c->from + c->n;
    if (!sigsetjmp(here, 1)) {
        escape = &here;
        for (int64_t i = begin; i < end; i++) {
            size_t at = (size_t)i * BLOCK, step = RUSH_MIN(BLOCK, c->n - at);
            if (c->crc) c->crc[i] = rush_crc32_copy(0, c->to + at, c->from + at, step);
            else memcpy(c->to + at, c->from + at, step);
        }
    } else {
        atomic_store(&c->failed, true);
    }
    escape = NULL;
}

static int copy(const rush_source *s, uint64_t at, const char *from, void *to, size_t n, uint32_t *crc)
{
    size_t blocks = (n + BLOCK - 1) / BLOCK;
    copying c = {.to = to, .from = from, .n = n, .crc = crc ? rush_malloc(blocks * sizeof *crc) : NULL};
    if (crc && !c.crc) return -1;
    bool guard = s->fd >= 0;
    if (guard) guard_begins();
    rush_parallel_for((int64_t)blocks, THREAD_FROM / (int64_t)BLOCK, copy_blocks, &c);
    if (guard) guard_ends();
    if (crc) *crc = c.crc[0];
    for (size_t i = 1; crc && i < blocks; i++) *crc = rush_crc32_join(*crc, c.crc[i], RUSH_MIN(BLOCK, n - i * BLOCK));
    rush_free(c.crc);
    return atomic_load(&c.failed) ? cut_off(s, at, n) : 0;
}

/* ---- sources ---- */

int rush_source_open(rush_source *s, const char *path)
{
    *s = (rush_source){.fd = open(path, O_RDONLY | O_CLOEXEC), .name = path};
    struct stat st;
    if (s->fd < 0 || fstat(s->fd, &st)) {
        trouble("can't read", path);
        rush_source_close(s);
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        rush_source_close(s);
        return rush_fail(RUSH_IO_ERROR, "can't read '%s': it is no regular file", path);
    }
    s->size = (uint64_t)st.st_size;
    return 0;
}

void rush_source_close(rush_source *s)
{
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    s->size = 0;
}

int rush_source_read(const rush_source *s, uint64_t at, void *to, size_t n)
{
    if (at > s->size || n > s->size - at) return cut_off(s, at, n);
    if (s->fd < 0) {
        if (n) memcpy(to, s->mem + at, n);
        return 0;
    }
    for (size_t got = 0; got < n;) {
        ssize_t step = pread(s->fd, (char *)to + got, n - got, (off_t)(s->start + at + got));
        if (step < 0 && errno == EINTR) continue;
        if (step < 0) return trouble("can't read", s->name);
        if (!step) return cut_off(s, at, n);
        got += (size_t)step;
    }
    return 0;
}

/* Is all of a mapping in the page cache? Faulting in what is not, page by page, would be slow. */
static bool is_resident(char *map, size_t n)
{
    unsigned char in[2048];
    for (size_t at = 0, step; at < n; at += step) {
        step = RUSH_MIN(n - at, sizeof in * 4096);
        if (mincore(map + at, step, in)) return false;
        for (size_t i = 0; i < (step + 4095) / 4096; i++)
            if (!(in[i] & 1)) return false;
    }
    return true;
}

int rush_source_read_much(const rush_source *s, uint64_t at, void *to, size_t n, uint32_t *crc)
{
    if (at > s->size || n > s->size - at) return cut_off(s, at, n);
    if (n >= MUCH && s->fd < 0) return copy(s, at, s->mem + at, to, n, crc);
    if (n >= MUCH) {
        uint64_t place = s->start + at, page = place & 4095;
        char *map = mmap(NULL, n + page, PROT_READ, MAP_PRIVATE, s->fd, (off_t)(place - page));
        if (map != MAP_FAILED) {
            bool resident = is_resident(map, n + page);
            int failed = resident ? copy(s, at, map + page, to, n, crc) : 0;
            munmap(map, n + page);
            if (resident) return failed;
        }
    }
    if (crc) *crc = 0;
    for (size_t done = 0, step; done < n; done += step) { /* the system reads ahead meanwhile */
        step = RUSH_MIN(n - done, MUCH);
        if (rush_source_read(s, at + done, (char *)to + done, step)) return -1;
        if (crc) *crc = rush_crc32(*crc, (char *)to + done, step);
    }
    return 0;
}

/* ---- mappings ---- */

rush_mapping *rush_map_fd(int fd, size_t size, bool shared)
{
    rush_mapping *m = rush_calloc(1, sizeof *m);
    if (!m) return NULL;
    atomic_init(&m->refs, 1);
    m->size = size;
    m->shared = shared;
    m->data = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0) : NULL;
    if (m->data == MAP_FAILED) {
        rush_fail(RUSH_IO_ERROR, "can't map %zu bytes: %s", size, strerror(errno));
        rush_free(m);
        return NULL;
    }
    return m;
}

rush_mapping *rush_map(const char *path)
{
    rush_source s;
    if (rush_source_open(&s, path)) return NULL;
    rush_mapping *m = rush_map_fd(s.fd, (size_t)s.size, false);
    rush_source_close(&s);
    return m;
}

/* Of less than this, large pages save nothing that is felt. */
#define HELD_FROM ((size_t)32 << 20)

rush_mapping *rush_map_held(const char *path)
{
    rush_source s;
    if (rush_source_open(&s, path)) return NULL;
    bool held = s.size >= HELD_FROM && (double)s.size <= rush_granted_memory() / 2;
    rush_mapping *m = held ? rush_calloc(1, sizeof *m) : rush_map_fd(s.fd, (size_t)s.size, false);
    if (m && held) {
        atomic_init(&m->refs, 1);
        m->data = rush_block_alloc((size_t)s.size, &m->held);
        bool failed = !m->data;
        for (size_t n; m->size < s.size && !failed; m->size += n) { /* in steps: what is mapped to be copied counts as held, too */
            n = RUSH_MIN((size_t)s.size - m->size, HELD_FROM);
            failed = rush_source_read_much(&s, m->size, m->data + m->size, n, NULL);
        }
        if (failed) rush_unmap(m), m = NULL;
    }
    rush_source_close(&s);
    return m;
}

int rush_open_to_map(const char *path, bool shared, int64_t *n)
{
    int fd = open(path, shared ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0600), error = 0;
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        rush_fail(RUSH_RUNTIME_ERROR, "unable to open file <%s> in %s mode: %s (%d)", path, shared ? "read-write" : "read-only", strerror(errno), errno);
    } else if (*n < 0) {
        rush_fail(RUSH_RUNTIME_ERROR, "unable to mmap %lld bytes from file <%s>: %s (%d)", (long long)*n, path, strerror(ENOMEM), ENOMEM);
    } else if (!shared && st.st_size < *n) {
        rush_fail(RUSH_RUNTIME_ERROR, "file <%s> size <%lld> is smaller than the required mapping size <%lld>", path, (long long)st.st_size, (long long)*n);
    } else if (st.st_size < *n && ftruncate(fd, *n)) {
        error = errno;
        rush_fail(RUSH_RUNTIME_ERROR, "unable to stretch file <%s> to the right size: %s (%d)", path, strerror(error), error);
    } else {
        if (!*n) *n = st.st_size;
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

void rush_unmap(void *mapping)
{
    rush_mapping *m = mapping;
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1) return;
    if (m->held) rush_block_free(m->data, m->held);
    else if (m->data) munmap(m->data, m->size);
    rush_free(m);
}

rush_tensor *rush_map_tensor(rush_mapping *m, size_t offset, rush_dtype d, int ndim, const int64_t *size, const int64_t *stride)
{
    size_t item = rush_dtypes[d].size, align = RUSH_MIN(item, (size_t)8);
    int64_t numel = rush_numel_of(ndim, size);
    if (numel < 0) return NULL;
    if (numel && offset % align == 0) {
        rush_tensor *t = rush_from_blob(m->data + offset, d, ndim, size, stride, rush_unmap, m);
        if (t) atomic_fetch_add(&m->refs, 1);
        return t;
    }
    rush_tensor *t = stride ? rush_tensor_new_strided(d, (rush_device){RUSH_CPU, -1}, ndim, size, stride)
                            : rush_tensor_new(d, (rush_device){RUSH_CPU, -1}, ndim, size);
    if (t && numel) memcpy(rush_ptr(t), m->data + offset, (size_t)numel * item);
    return t;
}

rush_storage *rush_map_storage(rush_mapping *m, size_t offset, size_t n)
{
    if (offset > m->size || n > m->size - offset) return rush_fail(RUSH_VALUE_ERROR, "%zu bytes at %zu of a file of %zu", n, offset, m->size), NULL;
    rush_storage *s = rush_storage_over(m->data + offset, n, rush_unmap, m);
    if (s) atomic_fetch_add(&m->refs, 1);
    return s;
}

/* ---- what is the same in every format ---- */

const rush_tensor *rush_as_in_files(const rush_tensor *t)
{
    if (!rush_tensor_given(t)) return NULL;
    RUSH_CHECK_NULL(t->device.type == RUSH_CPU && t->layout == RUSH_STRIDED, RUSH_NOT_IMPLEMENTED, "only strided tensors on the CPU are written");
    return rush_contiguous_copy(t);
}

void rush_clean_bools(void *data, size_t n)
{
    uint8_t *p = data;
    for (size_t at = 0, step; at < n; at += step) {
        uint8_t any = 0;
        step = RUSH_MIN(n - at, (size_t)4096);
        for (size_t i = 0; i < step; i++) any |= p[at + i];
        for (size_t i = 0; any > 1 && i < step; i++) p[at + i] = p[at + i] != 0;
    }
}

void rush_swap_bytes(void *data, rush_dtype d, size_t n)
{
    bool pair = rush_dtypes[d].category == 3;
    size_t size = rush_dtypes[d].size / (pair ? 2 : 1);
    char *p = data;
    for (size_t i = 0, all = n * (pair ? 2 : 1); size > 1 && i < all; i++, p += size)
        for (size_t k = 0; k < size / 2; k++) {
            char c = p[k];
            p[k] = p[size - 1 - k];
            p[size - 1 - k] = c;
        }
}

const char *rush_source_kind(const rush_source *s)
{
    uint8_t head[9];
    if (s->size < sizeof head || rush_source_read(s, 0, head, sizeof head)) return NULL;
    uint64_t header = 0; /* of safetensors: its length, then JSON */
    for (int i = 7; i >= 0; i--) header = header << 8 | head[i];
    if (!memcmp(head, "\x93NUMPY", 6)) return "an array of NumPy's (.npy)";
    if (!memcmp(head, "GGUF", 4)) return "a GGUF file";
    return head[8] == '{' && header <= s->size - 8 ? "a safetensors file" : NULL;
}

/* ---- as an operation ---- */

static int from_file_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    if (rush_factory_read(&f, in + 3, rush_default_dtype(), NULL)) return -1;
    if (HAS(in[6]) && I_(in[6])) return rush_fail(RUSH_RUNTIME_ERROR, "tensors constructed from a file cannot be pinned");
    if (f.device.type != RUSH_CPU) return rush_fail(RUSH_NOT_IMPLEMENTED, "from_file: files are mapped into the memory of the CPU only");
    bool shared = HAS(in[1]) && I_(in[1]);
    int64_t size = HAS(in[2]) ? I_(in[2]) : 0, bytes;
    if (__builtin_mul_overflow(size, (int64_t)rush_dtypes[f.dtype].size, &bytes)) return rush_fail(RUSH_RUNTIME_ERROR, "from_file: %lld elements are too many", (long long)size);
    int fd = rush_open_to_map(in[0].s, shared, &bytes);
    if (fd < 0) return -1;
    rush_mapping *m = rush_map_fd(fd, (size_t)bytes, shared);
    close(fd);
    rush_storage *s = m ? rush_map_storage(m, 0, (size_t)bytes) : NULL;
    rush_unmap(m);
    if (!s) return -1;
    rush_tensor *t = rush_tensor_over(s, f.dtype, 1, &size, (int64_t[]){1}, 0);
    rush_storage_drop(s);
    return rush_result(out, t);
}

static rush_op op_from_file = {
    .schema = "from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    .doc = "A vector of `size` elements in a file's memory; what is written to it goes to the file if it is shared.",
    .run = from_file_run, .flags = RUSH_NO_GRAD,
};

RUSH_FAMILY(read, &op_from_file)
