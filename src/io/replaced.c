/* replaced.c - files that others have taken the place of, until the system has their blocks back.
 *
 * Giving back the blocks of a large file can keep the disk busy for long (some file systems tell the device at
 * once), and what is written meanwhile waits for it. So they are kept open until nothing has been written for a
 * moment; not when they are many, or large beside the room that is left, and never when the disk is full.
 */
#define _GNU_SOURCE
#include "io/file.h"

#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define QUIET 200                 /* milliseconds without a write */
#define MUCH ((uint64_t)2 << 30)  /* bytes that may wait */
#define MANY 16                   /* files that may */

static struct { int fd; uint64_t bytes; } old[MANY];
static int waiting, closing;
static pthread_cond_t closed = PTHREAD_COND_INITIALIZER;
static bool urgent, running; /* running: the thread that closes them is there */
static atomic_llong last_write;

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

void rush_disk_is_busy(void)
{
    atomic_store_explicit(&last_write, now(), memory_order_relaxed);
}

/* Closes the one that waits longest; called with the lock, which it leaves for the time that takes. */
static void close_one(void)
{
    int fd = old[0].fd;
    memmove(old, old + 1, (size_t)--waiting * sizeof *old);
    closing++;
    rush_unlock(RUSH_LOCK_REPLACED);
    close(fd);
    rush_lock(RUSH_LOCK_REPLACED);
    closing--;
    pthread_cond_broadcast(&closed);
}

static void *close_when_quiet(void *unused)
{
    (void)unused;
    rush_lock(RUSH_LOCK_REPLACED);
    while (waiting) {
        long long left = atomic_load_explicit(&last_write, memory_order_relaxed) + QUIET - now();
        if (left > 0 && !urgent) {
            rush_unlock(RUSH_LOCK_REPLACED);
            usleep((useconds_t)RUSH_MIN(left, 20) * 1000);
            rush_lock(RUSH_LOCK_REPLACED);
        } else {
            close_one();
        }
    }
    urgent = running = false;
    rush_unlock(RUSH_LOCK_REPLACED);
    return NULL;
}

/* A child has the files, but not the thread. */
static void child_begins(void)
{
    while (waiting) close(old[--waiting].fd);
    urgent = running = false;
    closing = 0;
    closed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, child_begins);
}

static bool start_thread(void)
{
    pthread_t t;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&small, RUSH_MAX((size_t)PTHREAD_STACK_MIN, (size_t)64 << 10));
    bool started = !pthread_create(&t, &small, close_when_quiet, NULL);
    pthread_attr_destroy(&small);
    return started;
}

void rush_close_later(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    struct stat s;
    struct statvfs disk;
    uint64_t bytes = fstat(fd, &s) ? 0 : (uint64_t)s.st_blocks * 512;
    uint64_t room = fstatvfs(fd, &disk) ? 0 : (uint64_t)disk.f_bavail * disk.f_frsize;
    rush_lock(RUSH_LOCK_REPLACED);
    running = running || start_thread();
    if (running && waiting < MANY) {
        old[waiting].fd = fd;
        old[waiting++].bytes = bytes;
        uint64_t all = 0;
        for (int i = 0; i < waiting; i++) all += old[i].bytes;
        urgent = urgent || waiting == MANY || all > RUSH_MIN(MUCH, room / 4);
        fd = -1;
    }
    rush_unlock(RUSH_LOCK_REPLACED);
    if (fd >= 0) close(fd);
}

bool rush_close_now(void)
{
    rush_lock(RUSH_LOCK_REPLACED);
    bool any = waiting || closing;
    while (waiting) close_one();
    while (closing) pthread_cond_wait(&closed, &rush_locks[RUSH_LOCK_REPLACED]);
    rush_unlock(RUSH_LOCK_REPLACED);
    return any;
}
