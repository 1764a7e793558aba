/* write.c - files written whole or not at all.
 *
 * A new file is made without a name, in the folder of the old one; when everything is written and on the disk it
 * is given a name beside the old one and renamed over it, so that at any moment the old or the new file is there.
 * Large pieces go from the caller's memory to the disk directly: copying them to the page cache, and from there,
 * takes twice the time, and pushes out what other programs had in it. Everything else is gathered in a buffer.
 */
#define _GNU_SOURCE
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((size_t)4096)             /* what direct writes are aligned to: place, memory, length */
#define BUFFER ((size_t)4 << 20)
#define DIRECT_FROM ((size_t)256 << 10) /* smaller pieces are gathered */
#define ONE_WRITE ((size_t)64 << 20)

static int trouble(rush_writing *w)
{
    const char *kept = w->replaces ? "; the old file is as it was" : "";
    if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)
        return rush_fail(RUSH_IO_ERROR, "can't write '%s': %s after %llu bytes%s", w->path, strerror(errno), (unsigned long long)w->at, kept);
    return rush_fail(RUSH_IO_ERROR, "can't write '%s': %s%s", w->path, strerror(errno), kept);
}

/* "folder/.name.XXXXXX.draft" */
static char *draft_name(const char *path, uint64_t salt)
{
    const char *base = strrchr(path, '/');
    size_t folder = base ? (size_t)(base - path) + 1 : 0, n = strlen(path) + 32;
    char *name = rush_malloc(n);
    if (name) snprintf(name, n, "%.*s.%.200s.%06llx.draft", (int)folder, path, path + folder, (unsigned long long)(salt & 0xffffff));
    return name;
}

static uint64_t salt(void)
{
    static atomic_uint count;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_nsec ^ (uint64_t)getpid() << 8 ^ (uint64_t)atomic_fetch_add(&count, 1) * 7919;
}

/* A file without a name in the folder of w->path; else one under its draft's name. */
static int open_draft(rush_writing *w)
{
#ifdef O_TMPFILE
    char *copy = rush_malloc(strlen(w->path) + 1);
    if (!copy) return -1;
    int fd = open(dirname(strcpy(copy, w->path)), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    rush_free(copy);
    if (fd >= 0) {
        char self[64]; /* it is by this path that it gets its name */
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        if (!access(self, F_OK)) return fd;
        close(fd);
    }
#endif
    for (int tries = 0; tries < 100; tries++) {
        rush_free(w->draft);
        if (!(w->draft = draft_name(w->path, salt()))) return -1;
        int named = open(w->draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        w->named = named >= 0;
        if (w->named || errno != EEXIST) return named;
    }
    return -1;
}

int rush_write_begin(rush_writing *w, const char *path)
{
    *w = (rush_writing){.fd = -1};
    char *real = realpath(path, NULL);
    w->path = rush_malloc(strlen(real ? real : path) + 1);
    if (w->path) strcpy(w->path, real ? real : path);
    free(real);
    if (!w->path) return rush_write_end(w, false), -1;
    struct stat old;
    bool there = !stat(w->path, &old);
    w->mode = there ? (int)(old.st_mode & 07777) : -1;
    w->replaces = !there || S_ISREG(old.st_mode);
    if (w->replaces) {
        w->fd = open_draft(w);
        w->replaces = there;
    } else { /* a device or a pipe */
        w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
        w->mode = -2;
    }
    if (w->fd >= 0) w->f = fdopen(w->fd, "wb");
    if (!w->f) {
        if (!rush_failed()) trouble(w);
        return rush_write_end(w, false), -1;
    }
    return 0;
}

/* Both pieces to the end of the file, in one call where that goes. */
static int put(rush_writing *w, const char *a, size_t na, const char *b, size_t nb)
{
    while (na || nb) {
        struct iovec piece[2] = {{(void *)a, na}, {(void *)b, RUSH_MIN(nb, ONE_WRITE)}};
        ssize_t n = w->mode == -2 ? writev(w->fd, piece, 2) : pwritev(w->fd, piece, 2, (off_t)w->at);
        rush_disk_is_busy();
        if (n < 0 && (errno == EINTR || (errno == ENOSPC && rush_close_now()))) continue;
        if (w->direct && (n < 0 ? errno == EINVAL : (size_t)n < na + piece[1].iov_len)) { /* not here, or no further */
            fcntl(w->fd, F_SETFL, fcntl(w->fd, F_GETFL) & ~O_DIRECT);
            w->direct = false;
            if (n < 0) continue;
        }
        if (n < 0) return trouble(w);
        w->at += (uint64_t)n;
        size_t done = RUSH_MIN((size_t)n, na);
        a += done, na -= done;
        if (nb) b += (size_t)n - done, nb -= (size_t)n - done;
    }
    return 0;
}

static void go_direct(rush_writing *w)
{
    if (!w->tried && w->mode != -2) w->direct = !fcntl(w->fd, F_SETFL, fcntl(w->fd, F_GETFL) | O_DIRECT);
    w->tried = true;
}

int rush_write(rush_writing *w, const void *data, size_t n)
{
    const char *p = data;
    if (n && !w->buffer && !(w->buffer = aligned_alloc(PAGE, BUFFER))) return rush_fail(RUSH_MEMORY_ERROR, "not enough memory to write '%s'", w->path);
    while (n) {
        bool aligned = (((uintptr_t)p | w->waiting) & (PAGE - 1)) == 0;
        if (n >= DIRECT_FROM) go_direct(w);
        if (n >= DIRECT_FROM && (aligned || !w->direct)) { /* from where it is */
            size_t whole = w->direct ? n & ~(PAGE - 1) : n;
            if (put(w, w->buffer, w->waiting, p, whole)) return -1;
            w->waiting = 0;
            p += whole, n -= whole;
            continue;
        }
        if (w->waiting == BUFFER) {
            go_direct(w);
            if (put(w, w->buffer, BUFFER, NULL, 0)) return -1;
            w->waiting = 0;
        }
        size_t step = RUSH_MIN(n, BUFFER - w->waiting);
        memcpy(w->buffer + w->waiting, p, step);
        w->waiting += step;
        p += step, n -= step;
    }
    return 0;
}

/* The end of a file seldom fills a page: it is written through the cache. */
static int put_rest(rush_writing *w)
{
    size_t whole = w->direct ? w->waiting & ~(PAGE - 1) : w->waiting;
    if (put(w, w->buffer, whole, NULL, 0)) return -1;
    if (w->direct) fcntl(w->fd, F_SETFL, fcntl(w->fd, F_GETFL) & ~O_DIRECT);
    w->direct = false;
    return put(w, w->buffer + whole, w->waiting - whole, NULL, 0);
}

/* Gives the nameless file its draft's name. */
static int name_draft(rush_writing *w)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", w->fd);
    for (int tries = 0; tries < 100; tries++) {
        rush_free(w->draft);
        if (!(w->draft = draft_name(w->path, salt()))) return -1;
        w->named = !linkat(AT_FDCWD, self, AT_FDCWD, w->draft, AT_SYMLINK_FOLLOW);
        if (w->named || errno != EEXIST) break;
    }
    return w->named ? 0 : trouble(w);
}

static int take_place(rush_writing *w)
{
    if (w->mode >= 0) (void)!fchmod(w->fd, (mode_t)w->mode);
    if (fsync(w->fd)) return trouble(w);
    if (!w->named && name_draft(w)) return -1;
    int old = w->replaces && w->at >= (uint64_t)16 << 20 ? open(w->path, O_RDONLY | O_CLOEXEC) : -1;
    int failed = rename(w->draft, w->path) ? trouble(w) : 0;
    if (old >= 0) rush_close_later(old);
    if (failed) return -1;
    w->named = false;
    char *slash = strrchr(w->draft, '/');
    if (slash) slash[slash == w->draft] = 0;
    int folder = open(slash ? w->draft : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* where the new name is */
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
    return 0;
}

const char *rush_write_draft(rush_writing *w)
{
    if (put_rest(w)) return NULL;
    w->waiting = 0;
    if (fflush(w->f)) trouble(w);
    else if (w->named || !name_draft(w)) return w->draft;
    return NULL;
}

int rush_write_end(rush_writing *w, bool keep)
{
    int failed = 0;
    if (w->f) {
        if (keep && w->waiting) failed = put_rest(w);
        if (keep && !failed && fflush(w->f)) failed = trouble(w);
        if (keep && !failed && w->mode != -2) failed = take_place(w);
        if (fclose(w->f) && keep && !failed) failed = trouble(w);
    } else if (w->fd >= 0) {
        close(w->fd);
    }
    if (w->named) unlink(w->draft);
    free(w->buffer);
    rush_free(w->path);
    rush_free(w->draft);
    *w = (rush_writing){.fd = -1};
    return failed;
}
