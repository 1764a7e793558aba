/* busy.c - do other programs want the processors that this process computes on?
 *
 * At the end of a parallel loop libgomp's threads spin for some milliseconds before they sleep. That is the fastest way
 * where each has a processor of its own. Where other programs want the processors, the thread that spins keeps the one
 * it waits for from running, and a program of small loops takes twenty times as long. So while the kernel's accounts say
 * that the calling thread is kept waiting for a processor, our loops run on it alone. For libraries that use OpenMP by
 * themselves a second team, which sleeps, makes libgomp's threads outnumber the processors: then they wait briefly (see
 * GOMP_SPINCOUNT in its manual).
 *
 * Threads that sleep wait long to be woken beside other programs, and then the accounts look as if the machine were
 * busy. So they are read only while loops run as on a free machine: a busy time ends by itself, and the next one, if the
 * accounts show at once that it is needed, lasts twice as long. The first needs two accounts in a row: a single one may tell
 * of a thread of ours, which the kernel has not yet given a processor of its own, or of what passes.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>

enum { LOOK_MS = 20, BUSY_MS = 125, BUSY_MS_MOST = 4000 }; /* how long the accounts run; how long a busy time lasts */

static _Atomic int64_t busy_until, busy_for; /* milliseconds of the clock; the last busy time's */
static atomic_bool there; /* the second team */
static sem_t end;

/* What the thread spent running and waiting for a processor at its last look. */
static __thread struct {
    int64_t at, waited;
    bool suspect; /* it waited long */
} last;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Nanoseconds that this thread has waited for a processor while it could run, or -1. */
static int64_t waited(void)
{
    char text[96];
    unsigned long long ran, delay;
    int f = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (f < 0) return -1;
    ssize_t n = read(f, text, sizeof text - 1);
    close(f);
    if (n <= 0) return -1;
    text[n] = 0;
    return sscanf(text, "%llu %llu", &ran, &delay) == 2 ? (int64_t)delay : -1;
}

__attribute__((constructor)) static void start(void) { sem_init(&end, 0, 0); }

static void *outnumber(void *arg)
{
#pragma omp parallel num_threads(2)
    {
        rush_now.in_parallel = 1; /* a statement, so that the team is not optimised away */
    }
    while (sem_wait(&end) && errno == EINTR) {}
    return NULL;
}

static void second_team(bool wanted)
{
    bool otherwise = !wanted;
    pthread_t thread;
    if (!atomic_compare_exchange_strong(&there, &otherwise, wanted)) return;
    if (!wanted) sem_post(&end);
    else if (pthread_create(&thread, NULL, outnumber, NULL)) atomic_store(&there, false);
    else pthread_detach(thread);
}

bool rush_busy(void)
{
    int64_t now = now_ms(), until = atomic_load_explicit(&busy_until, memory_order_relaxed), since = now - last.at;
    if (now < until) return last.at = 0, true;
    if (last.at && since < LOOK_MS) return false;
    int64_t delay = waited();
    bool late = last.at && delay >= 0 && (delay - last.waited) / 1000000 > since / 4, again = until && now - until < 10 * LOOK_MS, busy = late && (again || last.suspect);
    last.at = busy ? 0 : now;
    last.waited = delay;
    last.suspect = late && !busy;
    if (busy) {
        atomic_store(&busy_for, again ? RUSH_MIN(2 * atomic_load(&busy_for), BUSY_MS_MOST) : BUSY_MS);
        atomic_store(&busy_until, now + atomic_load(&busy_for));
    }
    if (busy || atomic_load_explicit(&there, memory_order_relaxed)) second_team(busy);
    return busy;
}
#else
bool rush_busy(void) { return false; }
#endif
