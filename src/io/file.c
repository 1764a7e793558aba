/* file.c - files written whole or not at all, and files as memory. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int trouble(const char *what, const char *path)
{
    return rush_fail(RUSH_IO_ERROR, "%s '%s': %s", what, path, strerror(errno));
}

int rush_write_begin(rush_writing *w, const char *path)
{
    size_t n = strlen(path);
    *w = (rush_writing){.path = rush_malloc(n + 1), .draft = rush_malloc(n + 8)};
    if (!w->path || !w->draft) return rush_write_end(w, false), -1;
    memcpy(w->path, path, n + 1);
    memcpy(w->draft, path, n);
    memcpy(w->draft + n, ".XXXXXX", 8);
    int fd = mkstemp(w->draft);
    if (fd >= 0) {
        mode_t mask = umask(0);
        umask(mask);
        (void)!fchmod(fd, 0666 & ~mask); /* mkstemp's files are private, those of programs are not */
        w->f = fdopen(fd, "wb");
    }
    if (!w->f) {
        trouble("can't write", path);
        return rush_write_end(w, false), -1;
    }
    return 0;
}

int rush_write(rush_writing *w, const void *p, size_t n)
{
    if (n && fwrite(p, 1, n, w->f) != n) return trouble("can't write", w->path);
    return 0;
}

int rush_write_end(rush_writing *w, bool keep)
{
    int failed = 0;
    if (w->f) {
        if (fflush(w->f) && keep) failed = trouble("can't write", w->path);
        if (keep && !failed) fsync(fileno(w->f));
        if (fclose(w->f) && keep && !failed) failed = trouble("can't write", w->path);
        if (keep && !failed && rename(w->draft, w->path)) failed = trouble("can't write", w->path);
        if (!keep || failed) unlink(w->draft);
    }
    rush_free(w->path);
    rush_free(w->draft);
    *w = (rush_writing){0};
    return failed;
}

rush_mapping *rush_map(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat s;
    if (fd < 0 || fstat(fd, &s)) {
        trouble("can't read", path);
        if (fd >= 0) close(fd);
        return NULL;
    }
    rush_mapping *m = rush_calloc(1, sizeof *m);
    if (m) {
        atomic_init(&m->refs, 1);
        m->size = (size_t)s.st_size;
        m->data = m->size ? mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : NULL;
        if (m->data == MAP_FAILED) {
            trouble("can't map", path);
            rush_free(m);
            m = NULL;
        }
    }
    close(fd);
    return m;
}

void rush_unmap(void *mapping)
{
    rush_mapping *m = mapping;
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1) return;
    if (m->data) munmap(m->data, m->size);
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

const rush_tensor *rush_as_in_files(const rush_tensor *t)
{
    RUSH_CHECK_NULL(t, RUSH_TYPE_ERROR, "there is no tensor to write");
    RUSH_CHECK_NULL(t->device.type == RUSH_CPU && t->layout == RUSH_STRIDED, RUSH_NOT_IMPLEMENTED, "only strided tensors on the CPU are written");
    return rush_contiguous_copy(t);
}
